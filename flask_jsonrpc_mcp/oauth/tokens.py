"""Verify access tokens: their form, their signature, their claims (RFC 9068), their scopes. Knows no Flask.

Nothing of a token is believed before its signature is verified, except which of our own keys to verify it with. Until
then a client learns only that the token is not valid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jws import JWSRegistry

from ..errors import MAX_QUOTED, ParseError, Unauthorized, one_line
from ..strict_json import read
from .keys import KeySource

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""The algorithms that can be accepted: those with a public key."""

TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
MAX_HEADER = 2048
MAX_KID = 200
MAX_REMEMBERED = 1024
REMEMBER = 60
"""The seconds for which a verified token is not verified again."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # b64token of RFC 6750
_JWS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
# RFC 6749, and the tab: it separates nothing, so that such a text is the name of a scope that nobody has.
_SCOPE = re.compile(r"[\t!#-\[\]-~]+", re.ASCII)

T = TypeVar("T")


class InvalidToken(Unauthorized):
    """An access token is not valid.

    :param reason: Why, for the log.
    :param description: What the client may know.
    """

    def __init__(self, reason: str, description: str = "The access token is not valid") -> None:
        super().__init__(description)
        self.reason = reason
        self.facts: dict[str, str] = {}


@dataclass(frozen=True)
class AccessToken:
    """A verified access token. It does not have the token itself, so that nobody can pass it on.

    :param subject: The user, as the authorization server calls them; ``None`` if a client acts for itself.
    :param scopes: What the token allows, with the scopes that these imply.
    :param claims: All claims, or the response of the introspection endpoint.
    :param expires_at: In seconds since 1970.
    """

    subject: str | None
    issuer: str
    client_id: str | None
    scopes: frozenset[str]
    claims: Mapping[str, Any] = field(repr=False, compare=False)
    expires_at: int = field(repr=False)

    @property
    def id(self) -> str:
        """The subject, or else the client."""
        return self.subject or self.client_id or ""

    @property
    def name(self) -> str:
        """The same as ``id``."""
        return self.id

    @property
    def is_machine(self) -> bool:
        """Whether a client acts for itself, and not for a user."""
        return self.subject is None or self.subject == self.client_id


class Memory(Generic[T]):
    """Values by token for some seconds. The tokens themselves are not kept, but their digests."""

    def __init__(self) -> None:
        self._values: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> T | None:
        with self._lock:
            until, value = self._values.get(key, (0.0, None))
            if value is None or time.monotonic() >= until:
                return None
            self._values.move_to_end(key)
            return value

    def put(self, key: bytes, value: T, seconds: float) -> None:
        with self._lock:
            self._values[key] = time.monotonic() + seconds, value
            self._values.move_to_end(key)
            if len(self._values) > MAX_REMEMBERED:
                self._values.popitem(last=False)


def digest(*texts: str) -> bytes:
    """Return the key of a token, or of a token for a resource, in a `Memory`."""
    return hashlib.sha256("\0".join(texts).encode()).digest()


class Reader(Protocol):
    """Finds the claims of a token."""

    def read(self, token: str, facts: dict[str, Any]) -> Mapping[str, Any]:
        """Return the claims, whoever they are for.

        :param facts: Gets what the log should say if the token is refused.
        :raises InvalidToken: if the token is not valid.
        :raises SignInUnavailable: if that cannot be found out.
        """


class JwtReader:
    """Reads JSON Web Tokens, and verifies their signatures.

    :param keys: The keys of each issuer.
    """

    def __init__(self, keys: Mapping[str, KeySource], algorithms: Collection[str]) -> None:
        self._keys = keys
        self._algorithms = frozenset(algorithms)
        self._registry = _Registry(algorithms=self._algorithms, strict_check_header=False)

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
        if key is None:
            raise InvalidToken("the issuer has no such key")
        try:
            jws.deserialize_compact(token, key, registry=self._registry)
        except (JoseError, ValueError) as error:
            raise InvalidToken(f"its signature cannot be verified ({type(error).__name__})") from error
        return claims

    def _keys_for(self, issuer: Any) -> KeySource:
        """Choose keys by the issuer that a token claims to be from. Whether it is, its signature must prove."""
        if isinstance(issuer, str) and issuer in self._keys:
            return self._keys[issuer]
        if len(self._keys) == 1:  # to tell the client of a good token that it is from another issuer
            return next(iter(self._keys.values()))
        raise InvalidToken("its issuer is not known")


class _Registry(JWSRegistry):
    max_header_length = MAX_HEADER * 4 // 3  # in base64

    def get_alg(self, name: str) -> Any:
        # Without the warning about EdDSA, which RFC 9864 renames, and issuers use.
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


@dataclass(frozen=True, eq=False)
class Verifier:
    """Verifies the tokens for the blueprints of an app.

    :param issuers: Those whose tokens are accepted.
    :param audiences: Accepted instead of the URL of the resource.
    :param implies: The scopes that a scope implies.
    :param remember: The seconds for which a token is not verified again.
    """

    reader: Reader
    issuers: tuple[str, ...]
    audiences: frozenset[str] = frozenset()
    implies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    leeway: float = 30
    max_token: int = 16384
    remember: float = REMEMBER
    _memory: Memory[AccessToken] = field(default_factory=Memory, init=False, repr=False)

    def verify(self, token: str, resource: str) -> AccessToken:
        """Verify a token for a resource.

        :param resource: The URL of the MCP endpoint.
        :raises InvalidToken: if it is not valid.
        :raises SignInUnavailable: if that cannot be found out.
        """
        if len(token) > self.max_token or not _TOKEN.fullmatch(token):
            raise InvalidToken("it is too long, or has characters that no token has")
        key = digest(resource, token)
        known = self._memory.get(key)
        if known is not None and time.time() < known.expires_at + self.leeway:
            return known
        facts: dict[str, Any] = {}
        try:
            verified = self._check(self.reader.read(token, facts), resource)
        except InvalidToken as refused:
            refused.facts = {name: one_line(str(fact), MAX_QUOTED) for name, fact in facts.items()}
            raise
        self._memory.put(key, verified, self.remember)
        return verified

    def _check(self, claims: Mapping[str, Any], resource: str) -> AccessToken:
        issuer = claims.get("iss")
        if issuer not in self.issuers:
            raise InvalidToken("its issuer is another one", "The access token comes from another issuer")
        if not self._is_for(claims.get("aud"), resource):
            raise InvalidToken(f"its audience is not {resource}", "The access token is for another audience")
        now, expires = time.time(), _seconds(claims, "exp")
        if expires is None:
            raise InvalidToken("it has no exp")
        if now >= expires + self.leeway:
            raise InvalidToken("it has expired", "The access token has expired")
        if any((_seconds(claims, name) or 0) > now + self.leeway for name in ("nbf", "iat")):
            raise InvalidToken("its nbf or iat is in the future", "The access token is not valid yet")
        if claims.get("cnf") is not None:
            raise InvalidToken("it is bound to a key (cnf), which a bearer cannot prove to have")
        subject, client = _name(claims, "sub"), _name(claims, "client_id")
        if subject is None and client is None:
            raise InvalidToken("it has neither sub nor client_id")
        scopes = implied(scopes_in(claims), self.implies)
        return AccessToken(subject, issuer, client, scopes, MappingProxyType(dict(claims)), int(expires))

    def _is_for(self, audience: Any, resource: str) -> bool:
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            return False
        # Some authorization servers add a slash to the resource that clients ask for.
        return not (self.audiences or {resource, f"{resource}/"}).isdisjoint(named)


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise InvalidToken(f"its {name} is not a number")
    return value


def _name(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidToken(f"its {name} is not a name")
    return value


def scopes_in(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes that a token names: in ``scope``, as text or list, or else in ``scp``.

    :raises InvalidToken: if they are malformed.
    """
    named = claims.get("scope")
    if named is None:
        named = claims.get("scp", "")
    listed = [scope for scope in named.split(" ") if scope] if isinstance(named, str) else named
    if not isinstance(listed, list) or not all(isinstance(scope, str) and _SCOPE.fullmatch(scope) for scope in listed):
        raise InvalidToken("its scopes are malformed")
    return frozenset(listed)


def implied(scopes: Iterable[str], implies: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Add the scopes that some scopes imply, and that these imply, and so on."""
    found, new = set(scopes), list(scopes)
    while new:
        more = set(implies.get(new.pop(), ())) - found
        found |= more
        new += more
    return frozenset(found)
