"""Send HTTP requests to the remote site, and parse its responses.

A read is sent up to three times: again after a broken connection, a timeout, or a 502, 503 or 504. A write is sent
once, on a new connection: a site may close an idle connection at the moment it is reused, and then nothing shows
whether the site received the request.

The timeouts of httpx are for each read of a socket, so a response that arrives byte by byte never exceeds them.
Requests therefore run on an event loop in a thread, where one deadline cancels the whole exchange.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import zlib
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import httpx

from ..errors import ParseError, RpcError, one_line
from ..strict_json import MAX_RESULT_DEPTH, read, write
from ..version import __version__
from .options import Options, origin_of

CONNECT_TIMEOUT = 10.0
CLOSE_TIMEOUT = 1.0
MAX_RESPONSE = 16 * 1024 * 1024
"""Maximum bytes of a response body, as sent and as decoded."""

RETRY_DELAYS = (0.1, 0.5)
UNAVAILABLE = (502, 503, 504)

# A result, and what a response puts around it: the response object, an error object, a page of tools.
_MAX_DEPTH = MAX_RESULT_DEPTH + 4

_STATUS_MESSAGES = {
    401: "The site requires valid credentials (401): check MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD,"
    " or MCP_BRIDGE_TOKEN",
    403: "The site denies access (403)",
    404: "The site has nothing at this URL (404)",
    405: "The site does not allow this HTTP method (405)",
    413: "The request is too large for the site (413)",
    429: "The site received too many calls (429)",
}

Cancelled = Callable[[float], bool]
"""Waits up to so many seconds for a cancellation and returns whether there was one, like `threading.Event.wait`."""

logger = logging.getLogger(__name__)


class SiteFailure(RpcError):
    """The site cannot be reached, or its response is not what the protocol allows. Clients see the text."""


@dataclass(frozen=True)
class SiteResponse:
    """A response of the site; `parse_json` decodes and parses its body."""

    status: int
    body: bytes
    headers: httpx.Headers


class Site:
    """An HTTP client for one origin. It follows no redirects; any thread may use it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        # An HTTP proxy from the environment would see credentials that are sent without TLS.
        trust_env = options.url.startswith("https:")
        certificates = httpx.create_ssl_context(trust_env=trust_env)  # loaded once, because that is slow
        self._reads = self._make_client(certificates, trust_env)
        self._writes = self._make_client(certificates, trust_env, max_keepalive_connections=0)
        self._lock = threading.Lock()
        self._is_closed = False
        self._exchanges: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp-bridge-http", daemon=True)
        self._thread.start()

    def send(self, url: str, body: Any = None, *, is_read: bool, cancelled: Cancelled) -> SiteResponse:
        """Send a request, and retry it if it is a read.

        :param body: JSON to POST; ``None`` for a GET.
        :param is_read: The request changes nothing, so it may be sent again.
        :raises SiteFailure: if there is no response.
        """
        if not self.options.is_same_origin(url):
            raise SiteFailure("The bridge sends requests to its own site only")
        if cancelled(0):
            raise SiteFailure("Cancelled")
        for delay in RETRY_DELAYS if is_read else ():
            try:
                response = self._send_once(url, body, is_read)
                if response.status not in UNAVAILABLE:
                    return response
            except httpx.RequestError as error:
                logger.info("retrying after %s", type(error).__name__)
            if cancelled(delay):
                raise SiteFailure("Cancelled")
        try:
            return self._send_once(url, body, is_read)
        except httpx.RequestError as error:
            raise SiteFailure(self._explain(error, is_read)) from error

    def close(self) -> None:
        """Cancel the requests in progress, and close all connections."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        futures.wait([asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)], CLOSE_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()

    def _make_client(self, certificates: ssl.SSLContext, trust_env: bool, **limits: int) -> httpx.AsyncClient:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"flask-jsonrpc-mcp/{__version__}",
        }
        if self.options.authorization is not None:
            headers["Authorization"] = self.options.authorization
        # The deadline of the exchange is longer, so that a failure to connect is reported as such.
        timeout = httpx.Timeout(None, connect=min(CONNECT_TIMEOUT, self.options.timeout / 2))
        return httpx.AsyncClient(
            headers=headers,
            timeout=timeout,
            limits=httpx.Limits(**limits),
            verify=certificates,
            follow_redirects=False,
            trust_env=trust_env,
        )

    def _send_once(self, url: str, body: Any, is_read: bool) -> SiteResponse:
        with self._lock:
            if self._is_closed:
                raise SiteFailure("Cancelled")
            exchange = asyncio.run_coroutine_threadsafe(self._exchange_in_time(url, body, is_read), self._loop)
        try:
            return exchange.result()
        except asyncio.TimeoutError as error:
            raise httpx.ReadTimeout("the deadline has passed") from error
        except OSError as error:  # httpx does not convert the errors of TLS after the handshake
            raise httpx.ReadError(str(error)) from error
        except httpx.InvalidURL as error:  # from the site's list or cursor
            raise SiteFailure(f"The site sent a URL that cannot be requested: {error}") from error
        except futures.CancelledError as error:  # by `close`
            raise SiteFailure("Cancelled") from error

    async def _exchange_in_time(self, url: str, body: Any, is_read: bool) -> SiteResponse:
        task: Any = asyncio.current_task()
        self._exchanges.add(task)
        try:
            return await asyncio.wait_for(self._exchange(url, body, is_read), self.options.timeout)
        finally:
            self._exchanges.remove(task)

    async def _exchange(self, url: str, body: Any, is_read: bool) -> SiteResponse:
        client = self._reads if is_read else self._writes
        if body is None:
            sent = client.stream("GET", url)
        else:
            sent = client.stream("POST", url, content=write(body), headers={"Content-Type": "application/json"})
        async with sent as response:
            received = bytearray()
            async for chunk in response.aiter_raw():
                received += chunk
                _check_length(received)
            return SiteResponse(response.status_code, bytes(received), response.headers)

    async def _shut_down(self) -> None:
        # Not all tasks of the loop: httpx has some of its own, and ends them itself.
        running = list(self._exchanges)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._reads.aclose()
        await self._writes.aclose()

    def _explain(self, error: httpx.RequestError, is_read: bool) -> str:
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            return f"The site {self.options.url} cannot be reached: {one_line(str(error), 200) or 'no answer'}"
        if isinstance(error, httpx.TimeoutException):
            problem = f"The site has not answered within {self.options.timeout:g} seconds"
        else:
            problem = "The connection to the site broke"
        if not is_read:
            problem += "; the call was not sent again, and may or may not have been carried out"
        return problem


def parse_json(response: SiteResponse) -> Any:
    """Decode and parse the JSON body of a response, whatever its status.

    :raises SiteFailure: if the body is not JSON, or too long.
    """
    try:
        return read(_decode(response), max_depth=_MAX_DEPTH)
    except ParseError as error:
        kind = one_line(response.headers.get("Content-Type", "nothing"), 50)
        raise SiteFailure(f"The site answered with something that is not JSON ({kind})") from error


def check_status(response: SiteResponse) -> None:
    """Raise `SiteFailure` for a status other than 2xx."""
    status = response.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        # Without the path and query, which may hold secrets.
        origin = origin_of(response.headers.get("Location", ""))
        target = "" if origin is None else f" to {origin[0]}://{one_line(origin[1], 100)}"
        raise SiteFailure(f"The site redirects{target} ({status}), which the bridge does not follow")
    message = _STATUS_MESSAGES.get(status, f"The site failed ({status})")
    seconds = response.headers.get("Retry-After", "")
    raise SiteFailure(f"{message}; try again in {seconds} seconds" if seconds.isdecimal() else message)


def _decode(response: SiteResponse) -> bytes:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return response.body
    if encoding not in ("gzip", "x-gzip"):  # the only one in Accept-Encoding
        raise SiteFailure(f"The site answered with the content encoding {one_line(encoding, 50)!r}, not with gzip")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        body = decoder.decompress(response.body, MAX_RESPONSE + 1)
    except zlib.error as error:
        raise SiteFailure("The site answered with something that is not gzip") from error
    _check_length(body)
    if not decoder.eof:
        raise SiteFailure("The site answered with incomplete gzip")
    return body


def _check_length(body: bytes | bytearray) -> None:
    if len(body) > MAX_RESPONSE:
        raise SiteFailure(f"The answer of the site is longer than {MAX_RESPONSE // 1024 // 1024} MiB")
