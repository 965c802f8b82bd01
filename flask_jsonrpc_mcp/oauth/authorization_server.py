"""Ask an authorization server: for its metadata (RFC 8414, OpenID Connect Discovery), or about a token (RFC 7662)."""

from __future__ import annotations

import base64
import functools
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx
from flask import current_app
from werkzeug.datastructures import ResponseCacheControl
from werkzeug.http import parse_cache_control_header

from ..errors import ParseError, SignInUnavailable
from ..origins import is_secure_url
from ..problems import MAX_QUOTED, one_line
from ..strict_json import read
from ..version import __version__
from .tokens import InvalidToken, TokenCache, digest

TIMEOUT = 5.0
"""Seconds that one request may take."""

MAX_BYTES = 256 * 1024
"""Maximum size of a response."""

REMEMBER_ACTIVE = 30
"""Seconds for which a response is cached, but not past the ``exp`` of the token."""
REMEMBER_INACTIVE = 10

PAUSE = 5
"""Seconds between two requests to a server that cannot be reached, because each holds a thread while it waits."""


class ServerFailure(Exception):
    """The authorization server cannot be reached, or its response cannot be used. The text is for the log.

    :param status: The HTTP status, if there was a response.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(one_line(reason, 2 * MAX_QUOTED))
        self.status = status


@dataclass(frozen=True)
class Document:
    """A JSON object that the server sent.

    :param max_age: For how many seconds it may be cached, if the server says so.
    """

    members: Mapping[str, Any]
    max_age: int | None


def fetch(
    url: str,
    form: Mapping[str, str] | None = None,
    authorization: str | None = None,
    *,
    address: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Document:
    """Send a request, and parse the response.

    :param form: What to POST; ``None`` for a GET.
    :param address: The IP address to connect to, so that DNS is not asked again.
    :raises ServerFailure: unless the response is 200 with a JSON object.
    """
    method = "GET" if form is None else "POST"
    headers = {} if authorization is None else {"Authorization": authorization}
    received, deadline = bytearray(), _Deadline()
    extensions: dict[str, Any] = {"trace": deadline.trace}
    try:
        target = httpx.URL(url)
        if address is not None:
            headers["Host"] = target.netloc.decode()
            extensions["sni_hostname"] = target.host  # also the name that the certificate must have
            target = target.copy_with(host=address)
        with deadline, _client().stream(method, target, data=form, headers=headers, extensions=extensions) as response:
            status = response.status_code
            if status != 200:
                raise ServerFailure(f"{url} answered with {status}", status)
            for chunk in response.iter_raw():
                received += chunk
                if len(received) > max_bytes:
                    raise ServerFailure(f"{url} answered with more than {max_bytes} bytes", status)
            if deadline.passed:  # without a Content-Length, the closed connection looks like the end of the response
                raise httpx.ReadTimeout("the response did not end")
            members = read(bytes(received))
    # UnicodeError is raised for host names that DNS does not allow.
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        problem = f"took more than {TIMEOUT:g} seconds" if deadline.passed else "cannot be reached"
        raise ServerFailure(f"{url} {problem}: {type(error).__name__}: {error}") from error
    except ParseError as error:
        raise ServerFailure(f"{url} answered with something that is not JSON", status) from error
    if not isinstance(members, dict):
        raise ServerFailure(f"{url} answered with something that is not a JSON object", status)
    # werkzeug compares the names of directives as they are, but they are case-insensitive.
    caching = response.headers.get("Cache-Control", "").lower()
    return Document(members, parse_cache_control_header(caching, cls=ResponseCacheControl).max_age)


class _Deadline:
    """Closes the connection of a request that takes too long.

    The timeout of httpx is for each read, so a server that sends byte by byte never exceeds it.
    """

    def __init__(self) -> None:
        self._timer = threading.Timer(TIMEOUT, self._close)
        self._timer.daemon = True
        self._connection: socket.socket | None = None
        self.passed = False

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """Remember the socket. httpx calls this for each step, such as connecting and starting TLS."""
        stream: Any = facts.get("return_value")
        if hasattr(stream, "get_extra_info"):
            self._connection = stream.get_extra_info("socket")

    def _close(self) -> None:
        self.passed = True
        if self._connection is not None:
            with suppress(OSError):  # it is closed already
                self._connection.shutdown(socket.SHUT_RDWR)


@functools.cache
def _client() -> httpx.Client:
    # Connections are not kept: an idle one may be closed at the moment it is reused, or belong to a parent process.
    return httpx.Client(
        timeout=TIMEOUT,
        follow_redirects=False,
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"flask-jsonrpc-mcp/{__version__}",
        },
    )


def discover(issuer: str) -> Mapping[str, Any]:
    """Return the metadata of an authorization server, from the first URL that has it.

    :raises ServerFailure: if no URL has it, or it names another issuer.
    """
    reasons = []
    for url in metadata_urls(issuer):
        try:
            metadata = fetch(url).members
        except ServerFailure as failure:
            if failure.status is None:
                raise  # the other URLs are on the same server
            reasons.append(str(failure))
            continue
        if metadata.get("issuer") == issuer:
            return metadata
        reasons.append(f"{url} is the metadata of the issuer {metadata.get('issuer')!r}, not of {issuer!r}")
    raise ServerFailure("; ".join(reasons), 200)


def metadata_urls(issuer: str) -> Iterator[str]:
    """Yield the URLs that may have the metadata: of RFC 8414, and two of OpenID Connect."""
    url = urlsplit(issuer)
    origin, path = f"{url.scheme}://{url.netloc}", url.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


def endpoint_in(metadata: Mapping[str, Any], member: str) -> str:
    """Return a URL of the metadata.

    :raises ServerFailure: if it is missing, or not https. Only an issuer on this machine may use http.
    """
    url, issuer = metadata.get(member), metadata["issuer"]
    # A remote issuer must not make us send requests to servers that only this machine can reach.
    schemes = ("https",) if urlsplit(issuer).scheme == "https" else ("https", "http")
    if not isinstance(url, str) or not is_secure_url(url) or urlsplit(url).scheme not in schemes:
        raise ServerFailure(f"the metadata of {issuer} has the {member} {url!r}, which is not https", 200)
    return url


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
