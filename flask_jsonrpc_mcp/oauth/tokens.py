"""Verify access tokens: their form, their claims (RFC 9068) and their scopes. Does not use Flask.

A `Reader` returns the claims: it verifies the signature, or asks the issuer. If that fails, the response says only that
the token is not valid, and the log says why.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from ..errors import Unauthorized
from ..problems import MAX_QUOTED, one_line

MAX_REMEMBERED = 1024
REMEMBER = 60
"""Seconds for which a verified token is cached."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # b64token of RFC 6750
# A scope of RFC 6749. A tab is allowed too, because it does not separate scopes: "a\tb" is one unknown scope.
_SCOPE = re.compile(r"[\t!#-\[\]-~]+", re.ASCII)

T = TypeVar("T")


class InvalidToken(Unauthorized):
    """An access token is not valid.

    :param reason: Why, for the log.
    :param description: The text for the client.
    """

    def __init__(
        self,
        reason: str,
        description: str = "The access token is not valid",
        facts: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(description)
        self.reason = reason
        self.facts = dict(facts or {})


@dataclass(frozen=True)
class AccessToken:
    """A verified access token. It does not contain the token's text, so no code can pass it on.

    :param subject: The authorization server's id of the user; ``None`` if a client acts for itself.
    :param scopes: The scopes of the token, and those that they imply.
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
        """The subject, or the client id if there is no subject."""
        return self.subject or self.client_id or ""

    @property
    def name(self) -> str:
        """The same as ``id``."""
        return self.id

    @property
    def is_machine(self) -> bool:
        """Whether a client acts for itself, and not for a user."""
        return self.subject is None or self.subject == self.client_id


class TokenCache(Generic[T]):
    """Caches a value per token for some seconds. Keys are digests of the tokens."""

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
    """Return the `TokenCache` key of a token, or of a token for a resource."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).digest()


class Reader(Protocol):
    """Finds the claims of a token."""

    def check_ready(self) -> float:
        """Return how many seconds ago the authorization server was reached.

        :raises Exception: of any class, if tokens cannot be verified.
        """

    def read(self, token: str, facts: dict[str, Any]) -> Mapping[str, Any]:
        """Return the claims. The audience is not checked here.

        :param facts: A dict to which this adds what to log if the token is refused.
        :raises InvalidToken: if the token is not valid.
        :raises SignInUnavailable: if the authorization server cannot be reached.
        """


class TokenVerifier(Protocol):
    """Verifies the tokens for the blueprints of an app."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers whose tokens are accepted."""

    def verify(self, token: str, resource: str) -> AccessToken:
        """Verify a token for a resource.

        :param resource: The URL of the MCP endpoint.
        :raises InvalidToken: if it is not valid.
        :raises SignInUnavailable: if the authorization server cannot be reached.
        """

    def check_ready(self) -> float:
        """Return how many seconds ago the authorization server, or the storage of grants, was reached.

        :raises Exception: of any class, if it cannot be reached.
        """


@dataclass(frozen=True, eq=False)
class Verifier:
    """Verifies tokens by their claims.

    :param issuers: The issuers whose tokens are accepted.
    :param audiences: Accepted instead of the URL of the resource.
    :param implies: The scopes that a scope implies.
    :param remember: Seconds for which a verified token is cached.
    """

    reader: Reader
    issuers: tuple[str, ...]
    audiences: frozenset[str] = frozenset()
    implies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    leeway: float = 30
    max_token: int = 16384
    remember: float = REMEMBER
    _cache: TokenCache[AccessToken] = field(default_factory=TokenCache, init=False, repr=False)

    def verify(self, token: str, resource: str) -> AccessToken:
        """See `TokenVerifier`."""
        if len(token) > self.max_token:
            raise InvalidToken("it is too long")
        key = digest(resource, token)
        known = self._cache.get(key)
        if known is not None and time.time() - self.leeway < known.expires_at:
            return known
        if not _TOKEN.fullmatch(token):
            raise InvalidToken("it has characters that are invalid in a token")
        facts: dict[str, Any] = {}
        try:
            verified = self._check(self.reader.read(token, facts), resource)
        except InvalidToken as refused:
            refused.facts = {name: one_line(str(fact), MAX_QUOTED) for name, fact in facts.items()}
            raise
        if self.remember:
            self._cache.put(key, verified, self.remember)
        return verified

    def check_ready(self) -> float:
        """See `TokenVerifier`."""
        return self.reader.check_ready()

    def _check(self, claims: Mapping[str, Any], resource: str) -> AccessToken:
        issuer = claims.get("iss")
        if issuer not in self.issuers:
            raise InvalidToken("its issuer is not accepted", "The access token comes from another issuer")
        if not self._is_for(claims.get("aud"), resource):
            raise InvalidToken(f"its audience is not {resource}", "The access token is for another audience")
        now, expires = time.time(), _seconds(claims, "exp")
        if expires is None:
            raise InvalidToken("it has no exp")
        if now - self.leeway >= expires:
            raise InvalidToken("it has expired", "The access token has expired")
        if any((_seconds(claims, name) or 0) > now + self.leeway for name in ("nbf", "iat")):
            raise InvalidToken("its nbf or iat is in the future", "The access token is not valid yet")
        if claims.get("cnf") is not None:
            raise InvalidToken("it is bound to a key (cnf), and this server cannot check the binding")
        subject, client = _name(claims, "sub"), _name(claims, "client_id")
        if subject is None and client is None:
            raise InvalidToken("it has neither sub nor client_id")
        scopes = implied(scopes_in(claims), self.implies)
        return AccessToken(subject, issuer, client, scopes, MappingProxyType(dict(claims)), int(expires))

    def _is_for(self, audience: Any, resource: str) -> bool:
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            return False
        # Some authorization servers add a slash to the resource that clients name.
        return not (self.audiences or {resource, f"{resource}/"}).isdisjoint(named)


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise InvalidToken(f"its {name} is not a number")
    return value


def _name(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidToken(f"its {name} is not a text, or is empty")
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
    """Add the scopes that some scopes imply, directly or through others."""
    found, new = set(scopes), list(scopes)
    while new:
        more = set(implies.get(new.pop(), ())) - found
        found |= more
        new += more
    return frozenset(found)
