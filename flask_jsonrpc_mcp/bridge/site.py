"""The remote site over HTTP: what may be sent twice, over which connections, and within which bounds.

A read is repeated when the connection breaks or a proxy says that the site is away for the moment. A write is sent
once, whatever happens, and over a connection of its own: one that was kept open may be closed by the site at the very
moment it is used again, and nobody could tell whether the site has heard us.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from ..errors import RpcError, one_line
from ..strict_json import write
from ..version import __version__
from .settings import Settings

CONNECT_TIMEOUT = 10.0
MAX_CONNECTIONS = 32
MAX_ANSWER = 16 * 1024 * 1024
"""The most bytes of an answer."""

PAUSES = (0.1, 0.5)
"""For how many seconds to wait before a read is sent again."""

AWAY = (502, 503, 504)

Pause = Callable[[float], bool]
"""Waits for some seconds, or less; tells whether to give up."""

logger = logging.getLogger(__name__)


class SiteFailure(RpcError):
    """The site did not do its part. The text is for whoever uses the bridge, person or model."""


@dataclass(frozen=True)
class Message:
    """What is sent to the site.

    :param body: JSON to POST; ``None`` to GET.
    :param is_read: It changes nothing, so it may be sent again.
    """

    url: str
    body: Any = None
    is_read: bool = False


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: httpx.Headers = field(default_factory=httpx.Headers)


class Site:
    """The remote site. Sends to its own origin only, and follows no redirect."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # The environment may name a proxy; without encryption it would see passwords that are for this machine.
        self._trusts_environment = settings.is_encrypted
        certificates = httpx.create_ssl_context(trust_env=self._trusts_environment)  # takes a while to load
        self._reading = self._connect(certificates, httpx.Limits(max_connections=MAX_CONNECTIONS))
        self._writing = self._connect(
            certificates, httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
        )

    def send(self, message: Message, pause: Pause) -> Answer:
        """Send a message, and again if it is a read that fails.

        :raises SiteFailure: when there is no answer.
        """
        if not self._settings.is_ours(message.url):
            raise SiteFailure("The bridge speaks with its own site only")
        if pause(0):
            raise SiteFailure("Cancelled")
        for seconds in PAUSES if message.is_read else ():
            try:
                answer = self._send_once(message)
                if answer.status not in AWAY:
                    return answer
            except httpx.RequestError as error:
                logger.info("trying again: %s", type(error).__name__)
            if pause(seconds):
                raise SiteFailure("Cancelled")
        try:
            return self._send_once(message)
        except httpx.RequestError as error:
            raise SiteFailure(self._explain(error, message)) from error

    def close(self) -> None:
        """Close the connections that were kept."""
        self._reading.close()
        self._writing.close()

    def _connect(self, certificates: ssl.SSLContext, limits: httpx.Limits) -> httpx.Client:
        headers = {"Accept": "application/json", "User-Agent": f"flask-jsonrpc-mcp/{__version__}"}
        if self._settings.authorization is not None:
            headers["Authorization"] = self._settings.authorization
        return httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(self._settings.timeout, connect=min(CONNECT_TIMEOUT, self._settings.timeout)),
            limits=limits,
            verify=certificates,
            follow_redirects=False,
            trust_env=self._trusts_environment,
        )

    def _send_once(self, message: Message) -> Answer:
        client = self._reading if message.is_read else self._writing
        if message.body is None:
            request = client.build_request("GET", message.url)
        else:
            headers = {"Content-Type": "application/json"}
            request = client.build_request("POST", message.url, content=write(message.body), headers=headers)
        deadline = time.monotonic() + self._settings.timeout
        response = client.send(request, stream=True)
        try:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise SiteFailure(f"The answer of the site is longer than {MAX_ANSWER // 1024 // 1024} MiB")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer has no end", request=request)
        finally:
            response.close()
        return Answer(response.status_code, bytes(body), response.headers)

    def _explain(self, error: httpx.RequestError, message: Message) -> str:
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)):
            return f"The site {self._settings.url} cannot be reached: {one_line(str(error), 200) or 'no answer'}"
        if isinstance(error, httpx.TimeoutException):
            problem = f"The site has not answered within {self._settings.timeout:g} seconds"
        else:
            problem = "The connection to the site broke"
        unsure = "; the call was not sent again, and may or may not have been carried out"
        return problem if message.is_read else problem + unsure
