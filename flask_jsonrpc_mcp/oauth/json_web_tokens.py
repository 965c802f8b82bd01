"""Read JSON Web Tokens, verify their signatures, and fetch the public keys of their issuers.

Until the signature is verified, nothing in a token is trusted. It only selects the key to verify it with.

Keys are fetched when first needed, refreshed, and kept through an outage. One thread at a time fetches; the others use
the known keys meanwhile. A token with an unknown key may be signed with a new one, so the keys are fetched again, but
at most every `COOLDOWN` seconds, whatever clients send. If that fails, the token is neither valid nor invalid, and the
response is 503.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

from flask import current_app
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from ..errors import ParseError, SignInUnavailable
from ..strict_json import read
from .authorization_server import ServerFailure, discover, endpoint_in, fetch
from .tokens import InvalidToken

TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
MAX_HEADER = 2048
MAX_KID = 200

MAX_KEYS = 64
MIN_RSA_BITS = 2048

MAX_AGE = 600
"""Seconds after which keys are fetched again, unless their response has a ``max-age``."""
AGES = (60, 3600)
"""The minimum and the maximum for a ``max-age``."""

MAX_STALE = 24 * 60 * 60
"""Seconds for which keys are used while they cannot be fetched."""

COOLDOWN = 30
"""Seconds between two requests for the keys."""

FIRST_COOLDOWN = 5
"""The same before any keys were fetched."""

WARN_EVERY = 60

_JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_KINDS: dict[str, type[RSAKey] | type[ECKey] | type[OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_CURVES = {
    "ES256": ("P-256",),
    "ES384": ("P-384",),
    "ES512": ("P-521",),
    "EdDSA": ("Ed25519", "Ed448"),
    "Ed25519": ("Ed25519",),
}


class JwtReader:
    """Reads JSON Web Tokens, and verifies their signatures.

    :param keys: The keys of each issuer.
    """

    def __init__(self, keys: Mapping[str, StaticKeys | FetchedKeys], algorithms: Collection[str]) -> None:
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

    def _keys_for(self, issuer: Any) -> StaticKeys | FetchedKeys:
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


def import_keys(jwks: Any) -> tuple[Key, ...]:
    """Import those keys of a JWK set that can verify signatures.

    :raises ValueError: if it is not a JWK set.
    """
    members = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(members, list):
        raise ValueError("a JWK set is an object with a list of keys")
    imported = (_import_key(member) for member in members[:MAX_KEYS])
    return tuple(key for key in imported if key is not None)


def _import_key(member: Any) -> Key | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig" or "d" in member:
        return None
    kind = _KINDS.get(member["kty"]) if isinstance(member.get("kty"), str) else None
    if kind is None or not isinstance(member.get("kid", ""), str):
        return None
    try:
        if kind is RSAKey and _bits(member["n"]) < MIN_RSA_BITS:
            return None
        key: Key = kind.import_key(member)
        key.check_key_op("verify")
    except (JoseError, ValueError, TypeError, KeyError):  # the last three are raised by cryptography
        return None
    return key


def _bits(number: str) -> int:
    """Return the length of a number in base64url."""
    return int.from_bytes(base64.urlsafe_b64decode(number + "=="), "big").bit_length()


def select_key(keys: tuple[Key, ...], kid: str | None, alg: str) -> Key | None:
    """Return the key that fits a token; ``None`` if not exactly one does."""
    fitting = [key for key in keys if (kid is None or key.kid == kid) and _fits(key, alg)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(key: Key, alg: str) -> bool:
    if key.get("alg") not in (None, alg):
        return False
    curves = _CURVES.get(alg)
    return isinstance(key, RSAKey) if curves is None else not isinstance(key, RSAKey) and key.get("crv") in curves


class StaticKeys:
    """The keys that the app passes as ``keys=``."""

    def __init__(self, jwks: Any) -> None:
        self._keys = import_keys(jwks)
        if not self._keys:
            raise ValueError("keys has no public key that can verify signatures: RSA of 2048 bits or more, EC or OKP")

    def check_ready(self) -> float:
        return 0.0

    def find(self, kid: str | None, alg: str) -> Key | None:
        return select_key(self._keys, kid, alg)


class FetchedKeys:
    """The keys of an issuer's ``jwks_uri``.

    :param jwks_uri: By default the one in the issuer's metadata.
    """

    def __init__(self, issuer: str, jwks_uri: str | None = None) -> None:
        self._issuer = issuer
        self._configured_uri = jwks_uri
        self._uri = jwks_uri
        self._keys: tuple[Key, ...] | None = None
        self._fetched = self._stale = 0.0
        self._tried: float | None = None
        self._warned: float | None = None
        self._fetching = threading.Lock()

    def find(self, kid: str | None, alg: str) -> Key | None:
        """Return the key that signed a token; ``None`` if no key fits, or several do.

        :raises SignInUnavailable: if the keys are not known.
        """
        if self._keys is None:
            self._refresh(FIRST_COOLDOWN)
        elif kid is not None and not self._knows(kid):
            self._refresh(COOLDOWN)
        elif time.monotonic() >= self._stale:
            self._refresh(COOLDOWN, wait=False)
        keys = self._keys
        if keys is None or time.monotonic() - self._fetched > MAX_STALE:
            raise SignInUnavailable()
        if kid is not None and not self._knows(kid) and self._has_failed:
            raise SignInUnavailable()  # the token may be signed with a new key
        return select_key(keys, kid, alg)

    def check_ready(self) -> float:
        """Return how many seconds ago the keys were fetched.

        :raises SignInUnavailable: if they are not known.
        """
        if self._keys is None:
            self._refresh(FIRST_COOLDOWN)
        elif time.monotonic() >= self._stale:
            self._refresh(COOLDOWN)
        age = time.monotonic() - self._fetched
        if self._keys is None or age > MAX_STALE:
            raise SignInUnavailable()
        return age

    @property
    def _has_failed(self) -> bool:
        """Whether the last try to fetch the keys failed."""
        return self._tried is not None and self._fetched < self._tried

    def _knows(self, kid: str) -> bool:
        return any(key.kid == kid for key in self._keys or ())

    def _refresh(self, cooldown: float, *, wait: bool = True) -> None:
        """Fetch the keys, unless a thread has tried within the cooldown.

        :param wait: If another thread fetches, wait for it.
        """
        if self._is_cooling(cooldown) or not self._fetching.acquire(blocking=wait):
            return
        try:
            if not self._is_cooling(cooldown):  # another thread may have fetched while this one waited
                self._fetch()
        except (ServerFailure, ValueError) as failure:
            self._warn(failure)
        finally:
            self._fetching.release()

    def _is_cooling(self, cooldown: float) -> bool:
        return self._tried is not None and time.monotonic() - self._tried < cooldown

    def _fetch(self) -> None:
        try:
            if self._uri is None:
                self._uri = endpoint_in(discover(self._issuer), "jwks_uri")
            document = fetch(self._uri)
            keys = import_keys(document.members)
        except (ServerFailure, ValueError):
            self._uri = self._configured_uri  # discover it again: it may have moved
            raise
        finally:
            self._tried = time.monotonic()
        if not keys:
            facts = {"issuer": self._issuer, "uri": self._uri}
            current_app.logger.warning("%(uri)s has no key that can verify signatures", facts, extra=facts)
        age = MAX_AGE if document.max_age is None else min(max(document.max_age, AGES[0]), AGES[1])
        self._fetched, self._stale, self._keys = self._tried, self._tried + age, keys

    def _warn(self, failure: Exception) -> None:
        now = time.monotonic()
        if self._warned is None or now - self._warned >= WARN_EVERY:
            self._warned = now
            log = current_app.logger.error if self._keys is None else current_app.logger.warning
            facts = {"issuer": self._issuer, "reason": str(failure)}
            log("the keys of %(issuer)s cannot be fetched: %(reason)s", facts, extra=facts)
