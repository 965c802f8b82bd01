"""Read JSON Web Tokens, and verify their signatures. Does not use Flask.

Until the signature is verified, nothing in a token is trusted. It only selects the key to verify it with.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jws import JWSRegistry

from ..errors import ParseError
from ..strict_json import read
from .keys import KeySource
from .tokens import InvalidToken

TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
MAX_HEADER = 2048
MAX_KID = 200

_JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class JwtReader:
    """Reads JSON Web Tokens, and verifies their signatures.

    :param keys: The keys of each issuer.
    """

    def __init__(self, keys: Mapping[str, KeySource], algorithms: Collection[str]) -> None:
        self._keys = keys
        self._algorithms = frozenset(algorithms)
        self._registry = _Registry(algorithms=self._algorithms, strict_check_header=False)

    def check_ready(self) -> float:
        return max(keys.check_ready() for keys in self._keys.values())

    def read(self, token: str, facts: dict[str, Any]) -> Mapping[str, Any]:
        if not _JWS.fullmatch(token) or token.index(".") > self._registry.max_header_length:
            raise InvalidToken("it is not a signed JSON Web Token")
        header, claims = (_read_part(part) for part in token.split(".")[:2])
        kid, alg, kind = header.get("kid"), header.get("alg"), header.get("typ")
        facts.update(kid=kid, **{name: claims[name] for name in ("iss", "aud", "client_id") if name in claims})
        if not isinstance(alg, str) or alg not in self._algorithms:
            raise InvalidToken("its algorithm is not accepted")
        if (kind.lower() if isinstance(kind, str) else kind) not in TYPES:
            raise InvalidToken("its type is not that of an access token")
        if "crit" in header or "b64" in header:
            raise InvalidToken("its header has crit or b64")
        if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= MAX_KID):
            raise InvalidToken("its key id is malformed")
        key = self._keys_for(claims.get("iss")).find(kid, alg)
        if key is None and claims.get("iss") not in self._keys:
            raise InvalidToken(f"its issuer is not {next(iter(self._keys))}")
        if key is None:
            raise InvalidToken("the issuer has no such key")
        try:
            jws.deserialize_compact(token, key, registry=self._registry)
        except (JoseError, ValueError) as error:
            raise InvalidToken(f"its signature cannot be verified ({type(error).__name__})") from error
        return claims

    def _keys_for(self, issuer: Any) -> KeySource:
        """Select keys by the issuer that a token claims. The signature has to prove the claim."""
        if isinstance(issuer, str) and issuer in self._keys:
            return self._keys[issuer]
        if len(self._keys) == 1:  # so that a token of this server with another iss gets the error about its issuer
            return next(iter(self._keys.values()))
        raise InvalidToken("its issuer is not known")


class _Registry(JWSRegistry):
    max_header_length = MAX_HEADER * 4 // 3  # in base64

    def get_alg(self, name: str) -> Any:
        # joserfc warns about EdDSA, which RFC 9864 deprecates, but issuers still use it.
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


def _read_part(part: str) -> Mapping[str, Any]:
    try:
        members = read(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ParseError) as error:
        raise InvalidToken("it is not strict JSON in base64") from error
    if not isinstance(members, dict):
        raise InvalidToken("a part of it is not a JSON object")
    return members
