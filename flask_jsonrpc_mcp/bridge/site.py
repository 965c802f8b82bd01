"""The remote site: its address and credentials, requests to it, and its responses.

A read is sent up to three times: again after a broken connection, or a 502, 503 or 504. A write is sent once. Each
request has a connection of its own: a site may close an idle one at the moment it is reused, and then nothing shows
whether the site received the request.

The timeouts of httpx are for each read of a socket, so a response that arrives byte by byte never exceeds them. A
request therefore runs on an event loop, where one deadline cancels all of it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from ..call import BRIDGE_HEADER
from ..config import AS_DECLARED
from ..errors import ParseError, RpcError
from ..origins import Origin, is_loopback, read_origin
from ..problems import one_line
from ..strict_json import MAX_RESULT_DEPTH, read
from ..version import __version__

try:
    import httpx  # from the ``bridge`` extra
except ModuleNotFoundError:
    httpx = None  # type: ignore[assignment]

CONNECT_TIMEOUT = 10.0
MAX_RESPONSE = 16 * 1024 * 1024
"""Maximum bytes of a response body, as sent and as decoded."""

RETRY_DELAYS = (0.1, 0.5)
UNAVAILABLE = (502, 503, 504)

_PARAMETER = re.compile(r'(resource_metadata|scope)="([^"]*)"')

# A result, and what a response puts around it: the response object, an error object, a page of tools.
_MAX_DEPTH = MAX_RESULT_DEPTH + 4

Cancelled = Callable[[float], bool]
"""Waits for a cancellation, for some seconds, and returns whether there was one, like `threading.Event.wait`."""

logger = logging.getLogger(__name__)


class SiteFailure(RpcError):
    """The site cannot be reached, or its response is not what the protocol allows. Clients see the text."""


@dataclass(frozen=True)
class SiteResponse:
    """A response of the site, whatever its status."""

    status: int
    headers: httpx.Headers
    body: bytes

    def json(self) -> Any:
        """Decode and parse the body.

        :raises SiteFailure: if it is not JSON, or too long.
        """
        try:
            return read(self._decode(), max_depth=_MAX_DEPTH)
        except ParseError as error:
            kind = one_line(self.headers.get("Content-Type", "nothing"), 50)
            raise SiteFailure(f"The site answered with something that is not JSON ({kind})") from error

    def require_success(self) -> None:
        """Raise `SiteFailure` for a status other than 2xx."""
        if 200 <= self.status < 300:
            return
        if 300 <= self.status < 400:
            # Without the path and query, which may hold secrets.
            origin = _origin_of(self.headers.get("Location", ""))
            target = "" if origin is None else f" to {origin[0]}://{one_line(origin[1], 100)}"
            raise SiteFailure(f"The site redirects{target} ({self.status}), which the bridge does not follow")
        problem = f"The site answered with {self.status} {httpx.codes.get_reason_phrase(self.status)}".rstrip()
        if self.status == 401:
            problem += ": check MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD, or MCP_BRIDGE_TOKEN"
        problem += self._explain_oauth()
        seconds = self.headers.get("Retry-After", "")
        raise SiteFailure(f"{problem}; try again in {seconds} seconds" if seconds.isdecimal() else problem)

    @property
    def lacks_scope(self) -> bool:
        """Whether the access token is good, but lacks a scope."""
        return self.status == 403 and 'error="insufficient_scope"' in self.headers.get("WWW-Authenticate", "")

    def _explain_oauth(self) -> str:
        """Explain a challenge of OAuth. The bridge opens no browser; it sends the token that it was given."""
        parameters = dict(_PARAMETER.findall(self.headers.get("WWW-Authenticate", "")))
        if "resource_metadata" not in parameters:
            return ""
        scopes = f" with the scope {one_line(parameters['scope'], 200)}" if "scope" in parameters else ""
        metadata = one_line(parameters["resource_metadata"], 200)
        return f"; MCP_BRIDGE_TOKEN can be an access token{scopes} of the authorization server in {metadata}"

    def _decode(self) -> bytes:
        encoding = self.headers.get("Content-Encoding", "").strip().lower()
        if encoding in ("", "identity"):
            return self.body
        if encoding not in ("gzip", "x-gzip"):  # the only one in Accept-Encoding
            raise SiteFailure(f"The site answered with the content encoding {one_line(encoding, 50)!r}, not with gzip")
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            body = decoder.decompress(self.body, MAX_RESPONSE + 1)
        except zlib.error as error:
            raise SiteFailure("The site answered with something that is not gzip") from error
        _check_length(body)
        if not decoder.eof:
            raise SiteFailure("The site answered with incomplete gzip")
        return body


@dataclass(frozen=True)
class Site:
    """An HTTP client for one origin. It follows no redirects; any thread may use it.

    :param url: The URL below which the site has ``/mcp/tools/list``. The URL of its MCP endpoint works too.
    :param method: ``GET`` to call read-only tools by GET, which caches can answer; ``POST`` to call all tools by POST.
    :param endpoint: The path below ``url`` that calls tools: a JSON-RPC endpoint, one with ``{name}`` in it for each
        tool, or one that ends with ``/mcp/tools/invoke``. ``None`` to use ``/.well-known/mcp.json``, else ``/jsonrpc``.
    :param scopes: The scopes of the token, if known.
    :param timeout: Seconds for one request, with its retries, from connecting to the last byte of the response.
    :param lifetime: Seconds after which the bridge fetches the list of tools again.
    :param tool_name_style: ``as-declared``, or ``no-dots`` for clients that refuse dots in tool names.
    :param allow_http: Allow plain HTTP to other machines.
    :param for_person: A person calls the tools, and not an MCP client.
    :raises ValueError: if an option is invalid or unsafe.
    :raises RuntimeError: without httpx.
    """

    url: str
    method: str = "GET"
    endpoint: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] | None = None
    timeout: float = 60.0
    lifetime: float = 300.0
    tool_name_style: str = AS_DECLARED
    allow_http: bool = False
    for_person: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _checked_url(self.url, self.allow_http))
        if self.endpoint is not None and (not self.endpoint.startswith("/") or self.endpoint.startswith("//")):
            raise ValueError("the endpoint must be a path of the site, such as /jsonrpc")
        if self.token is not None and self.user is not None:
            raise ValueError("set a user or a token, not both")
        if (self.user is None) != (self.password is None):
            raise ValueError("set the user and the password together")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise ValueError("the token must consist of printable ASCII characters")
        if not all(0 < seconds < threading.TIMEOUT_MAX for seconds in (self.timeout, self.lifetime)):
            raise ValueError("the timeout and the lifetime must be more than 0 seconds, and finite")
        if httpx is None:
            raise RuntimeError("this needs httpx: pip install 'flask-jsonrpc-mcp[bridge]'")

    @property
    def authorization(self) -> str | None:
        """The value of the Authorization header; ``None`` without credentials."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is not None:
            return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
        return None

    def is_same_origin(self, url: str) -> bool:
        """Return whether a URL has the scheme, host and port of the site."""
        return _origin_of(url) == _origin_of(self.url)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"flask-jsonrpc-mcp/{__version__}",
        }
        if not self.for_person:
            headers[BRIDGE_HEADER] = __version__
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        # An HTTP proxy from the environment would see credentials that are sent without TLS.
        trust_env = self.url.startswith("https:")
        return {
            "headers": headers,
            # The deadline is longer, so that a failure to connect is reported as such.
            "timeout": httpx.Timeout(None, connect=min(CONNECT_TIMEOUT, self.timeout / 2)),
            "verify": httpx.create_ssl_context(trust_env=trust_env),  # loaded once, because that is slow
            "trust_env": trust_env,
            "follow_redirects": False,
        }

    def send(self, url: str, body: Any = None, *, is_read: bool, cancelled: Cancelled) -> SiteResponse:
        """Send a request, and retry it if it is a read.

        :param body: JSON to POST; ``None`` for a GET.
        :param is_read: The request changes nothing, so it may be sent again.
        :raises SiteFailure: if there is no response.
        """
        if not self.is_same_origin(url):
            raise SiteFailure("The bridge sends requests to its own site only")
        deadline = time.monotonic() + self.timeout
        delays = iter(RETRY_DELAYS if is_read else ())
        while not cancelled(0):
            delay = next(delays, None)
            try:
                response = self._exchange(url, body, deadline - time.monotonic())
                if delay is None or response.status not in UNAVAILABLE:
                    return response
            except httpx.RequestError as error:
                if delay is None or time.monotonic() >= deadline:
                    raise SiteFailure(self._explain(error, is_read)) from error
                logger.info("retrying after %s", type(error).__name__, extra={"reason": type(error).__name__})
            cancelled(delay)
        raise SiteFailure("Cancelled")

    def _exchange(self, url: str, body: Any, seconds: float) -> SiteResponse:
        # Not asyncio.run(), which would wait for the name lookup of a request that was given up.
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(asyncio.wait_for(self._request(url, body), seconds))
        except asyncio.TimeoutError as error:
            raise httpx.ReadTimeout("the deadline has passed") from error
        except OSError as error:  # httpx does not convert the errors of TLS after the handshake
            raise httpx.ReadError(str(error)) from error
        except httpx.InvalidURL as error:  # from the site's list or cursor
            raise SiteFailure(f"The site sent a URL that cannot be requested: {error}") from error
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _request(self, url: str, body: Any) -> SiteResponse:
        async with (
            httpx.AsyncClient(**self._settings) as client,
            client.stream("GET" if body is None else "POST", url, json=body) as response,
        ):
            received = bytearray()
            async for chunk in response.aiter_raw():
                received += chunk
                _check_length(received)
            return SiteResponse(response.status_code, response.headers, bytes(received))

    def _explain(self, error: httpx.RequestError, is_read: bool) -> str:
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            return f"The site {self.url} cannot be reached: {one_line(str(error), 200) or 'no answer'}"
        if isinstance(error, httpx.TimeoutException):
            problem = f"The site has not answered within {self.timeout:g} seconds"
        else:
            problem = "The connection to the site broke"
        if not is_read:
            problem += "; the call was not sent again, and may or may not have been carried out"
        return problem


def _check_length(body: bytes | bytearray) -> None:
    if len(body) > MAX_RESPONSE:
        raise SiteFailure(f"The answer of the site is longer than {MAX_RESPONSE // 1024 // 1024} MiB")


def _origin_of(url: str) -> Origin | None:
    """Return the scheme, host and port of a URL; ``None`` if it is relative or invalid."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return read_origin(f"{parts.scheme}://{parts.netloc}")


def _checked_url(url: str, allow_http: bool) -> str:
    try:
        address = urlsplit(url.strip())
        _ = address.port
    except ValueError as error:
        raise ValueError("the URL of the site is invalid") from error
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("the URL of the site must begin with https:// (or http:// for one on this machine)")
    if "@" in address.netloc:
        raise ValueError("the URL of the site must be without credentials; set MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD")
    if address.query or address.fragment:
        raise ValueError("the URL of the site must be without a query and a fragment")
    if address.scheme == "http" and not allow_http and not is_loopback(address.hostname):
        raise ValueError("the URL of the site must begin with https://; --allow-http sends everything unencrypted")
    return f"{address.scheme}://{address.netloc}{address.path.rstrip('/').removesuffix('/mcp')}"
