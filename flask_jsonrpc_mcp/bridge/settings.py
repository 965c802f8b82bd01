"""What a user says about the site, checked before anything is sent."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from ..origins import Origin, is_loopback, read_origin
from ..settings import AS_DECLARED, NO_DOTS

METHODS = ("GET", "POST")
TOOL_NAME_STYLES = (AS_DECLARED, NO_DOTS)
TIMEOUT = 60.0
LIFETIME = 300.0


@dataclass(frozen=True)
class Settings:
    """Where the site is, who we are there, and how to call its tools.

    :param url: Its address, below which ``/mcp/tools/list`` is. The address of its MCP endpoint is understood too.
    :param method: ``GET`` to call tools that only read by GET, which caches can answer; ``POST`` for nothing but POST.
    :param endpoint: The path that calls tools, below ``url``: of JSON-RPC, of one tool with ``{name}`` in it, or one
        that ends with ``/mcp/tools/invoke``. ``None`` for what the site says of itself, else ``/jsonrpc``.
    :param scopes: What the token allows, where that is known.
    :param timeout: For how many seconds to wait for an answer.
    :param lifetime: After how many seconds to look for changes of the tools.
    :param tool_name_style: ``as-declared``, or ``no-dots`` for clients that refuse dots in names.
    :param allow_http: Speak plain HTTP also with other machines.
    :raises ValueError: when something cannot work or would not be safe.
    """

    url: str
    method: str = "GET"
    endpoint: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] | None = None
    timeout: float = TIMEOUT
    lifetime: float = LIFETIME
    tool_name_style: str = AS_DECLARED
    allow_http: bool = False

    def __post_init__(self) -> None:
        address = _read_address(self.url)
        path = address.path.rstrip("/").removesuffix("/mcp")
        object.__setattr__(self, "url", f"{address.scheme}://{address.netloc}{path}")
        if address.scheme == "http" and not self.allow_http and not is_loopback(address.hostname or ""):
            raise ValueError("the site must be at https://; with --allow-http all on the way can read along")
        if self.method not in METHODS:
            raise ValueError(f"the method must be {' or '.join(METHODS)}")
        if self.tool_name_style not in TOOL_NAME_STYLES:
            raise ValueError(f"the style of tool names must be {' or '.join(TOOL_NAME_STYLES)}")
        if self.endpoint is not None and (not self.endpoint.startswith("/") or self.endpoint.startswith("//")):
            raise ValueError("the endpoint must be a path of the site, such as /jsonrpc")
        if self.token is not None and self.user is not None:
            raise ValueError("there must be a user or a token, not both")
        if (self.user is None) != (self.password is None):
            raise ValueError("a user and a password must come together")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise ValueError("the token has characters that no token can have")
        if self.timeout <= 0 or self.lifetime <= 0:
            raise ValueError("the timeout and the lifetime must be more than 0 seconds")

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https:")

    @property
    def authorization(self) -> str | None:
        """The header that signs in; ``None`` for a site that asks nobody."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is not None:
            return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
        return None

    def is_ours(self, url: str) -> bool:
        """Tell whether a URL is of this very site."""
        return origin_of(url) is not None and origin_of(url) == origin_of(self.url)


def origin_of(url: str) -> Origin | None:
    """The scheme, host and port of a URL; ``None`` for anything else."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return read_origin(f"{parts.scheme}://{parts.netloc}")


def _read_address(url: str) -> SplitResult:
    try:
        address = urlsplit(url.strip())
        _ = address.port
    except ValueError as error:
        raise ValueError("the address of the site cannot be read") from error
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("the address of the site must begin with https:// (or http:// for one on this machine)")
    if "@" in address.netloc:
        raise ValueError(
            "the address of the site must be without a password; set MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD"
        )
    if address.query or address.fragment:
        raise ValueError("the address of the site must end with its path")
    return address
