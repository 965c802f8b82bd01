"""The options of the bridge, checked before it sends anything."""

from __future__ import annotations

import threading
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..config import AS_DECLARED
from ..origins import Origin, is_loopback, read_origin


@dataclass(frozen=True)
class Options:
    """The site's address, the credentials for it, and how to call its tools.

    :param url: The URL below which the site has ``/mcp/tools/list``. The URL of its MCP endpoint works too.
    :param method: ``GET`` to call read-only tools by GET, which caches can answer; ``POST`` to call all tools by POST.
    :param endpoint: The path below ``url`` that calls tools: a JSON-RPC endpoint, one with ``{name}`` in it for each
        tool, or one that ends with ``/mcp/tools/invoke``. ``None`` to use ``/.well-known/mcp.json``, else ``/jsonrpc``.
    :param scopes: The scopes of the token, if known.
    :param timeout: Seconds for one request, with its retries, from connecting to the last byte of the response.
    :param lifetime: Seconds after which the list of tools is fetched again.
    :param tool_name_style: ``as-declared``, or ``no-dots`` for clients that refuse dots in tool names.
    :param allow_http: Allow plain HTTP to other machines.
    :raises ValueError: if an option is invalid or unsafe.
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
        return origin_of(url) == origin_of(self.url)


def origin_of(url: str) -> Origin | None:
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
