"""Read tokens by introspection: a request to the authorization server for each token (RFC 7662)."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from flask import current_app

from ..errors import SignInUnavailable
from .authorization_server import ServerFailure, discover, endpoint_in, fetch
from .tokens import InvalidToken, TokenCache, digest

REMEMBER_ACTIVE = 30
"""Seconds for which a response is cached, but not past the ``exp`` of the token."""
REMEMBER_INACTIVE = 10

PAUSE = 5
"""Seconds between two requests to a server that cannot be reached, because each holds a thread while it waits."""


class Introspection:
    """Reads tokens by introspection.

    :param credentials: The client id and secret for the request.
    :param endpoint: By default the one in the issuer's metadata.
    """

    def __init__(self, issuer: str, credentials: tuple[str, str], endpoint: str | None = None) -> None:
        self._issuer = issuer
        # RFC 6749, section 2.3.1: both are form-encoded before they are joined.
        pair = ":".join(map(quote_plus, credentials))
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._endpoint = endpoint
        self._active: TokenCache[Mapping[str, Any]] = TokenCache()
        self._inactive: TokenCache[bool] = TokenCache()
        self._paused_until: float | None = None

    def check_ready(self) -> float:
        discover(self._issuer)
        return 0.0

    def read(self, token: str, facts: dict[str, Any]) -> Mapping[str, Any]:
        key = digest(token)
        if self._inactive.get(key) is not None:
            raise InvalidToken("it is not active")
        reply = self._active.get(key)
        if reply is None:
            reply = self._introspect(token)
            facts.update({name: reply[name] for name in ("iss", "aud", "client_id") if name in reply})
            try:
                _check(reply)
            except InvalidToken:
                self._inactive.put(key, True, REMEMBER_INACTIVE)
                raise
            self._active.put(key, reply, REMEMBER_ACTIVE)
        return {"iss": self._issuer, **reply}

    def _introspect(self, token: str) -> Mapping[str, Any]:
        if self._paused_until is not None:
            now = time.monotonic()
            if now < self._paused_until:
                raise SignInUnavailable()
            self._paused_until = now + PAUSE  # other threads keep pausing while this one tries again
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            reply = fetch(self._find_endpoint(), form, self._authorization).members
        except ServerFailure as failure:
            # Pause only if there was no response: an error response may be about this token, and anyone can send one.
            self._paused_until = time.monotonic() + PAUSE if failure.status is None else None
            facts = {"issuer": self._issuer, "reason": str(failure)}
            current_app.logger.error("%(issuer)s cannot introspect an access token: %(reason)s", facts, extra=facts)
            raise SignInUnavailable() from failure
        self._paused_until = None
        return reply

    def _find_endpoint(self) -> str:
        if self._endpoint is None:
            self._endpoint = endpoint_in(discover(self._issuer), "introspection_endpoint")
        return self._endpoint


def _check(reply: Mapping[str, Any]) -> None:
    if reply.get("active") is not True:
        raise InvalidToken("it is not active")
    kind = reply.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise InvalidToken("it is not a bearer token")
