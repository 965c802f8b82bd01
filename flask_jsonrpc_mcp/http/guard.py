"""Protect the server from web pages of other sites: check ``Host`` and ``Origin``, and send CORS headers.

A page whose name was rebound to our address is same-origin for the browser, and its GETs have no ``Origin``: hence the
check of ``Host``. A page of another site sends its ``Origin``, and the browser may add cached credentials.
"""

from __future__ import annotations

from flask import Request, Response, current_app
from werkzeug.sansio.utils import host_is_trusted

from ..config import PREFIX
from ..errors import Forbidden
from ..origins import is_dns_name, is_private, read_origin

EXPOSED_HEADERS = ("Mcp-Session-Id", "WWW-Authenticate", "ETag", "Retry-After")
"""The response headers that a page's script may read."""


def check_host(request: Request) -> None:
    """Reject requests whose ``Host`` is not a name of this server.

    A page can be rebound to any address that its browser reaches and its author does not, so without settings the peers
    of this machine and of private networks are checked. A page has a DNS name; addresses and localhost are not rebound.

    :raises Forbidden: naming the setting that would allow it.
    """
    config, host = current_app.config, request.host.lower()
    trusted = config["JSONRPC_MCP_ALLOWED_HOSTS"]
    if trusted:
        if not host_is_trusted(host, trusted):
            raise Forbidden(f"Host not allowed: add it to {PREFIX}ALLOWED_HOSTS if this is a name of this server")
        return
    if "werkzeug.proxy_fix.orig" in request.environ or config["TRUSTED_HOSTS"]:
        return  # behind a proxy that sets the headers, or checked by Flask
    if is_private(request.remote_addr or "") and is_dns_name(host):
        own = config["SERVER_NAME"]
        if not own or not host_is_trusted(host, [f".{own}"]):
            raise Forbidden(
                f"Host not allowed: set {PREFIX}ALLOWED_HOSTS to the names of this server, such as ['site.example']."
                " Without it, requests from a private network must use its IP address, localhost or SERVER_NAME,"
                " unless werkzeug's ProxyFix is in front"
            )


def check_origin(request: Request, origin: str) -> None:
    """Reject requests from pages of other sites.

    :raises Forbidden: naming the setting that would allow it.
    """
    if not _is_own_origin(origin, request) and not _is_allowed_origin(origin):
        raise Forbidden(f"Origin not allowed: add it to {PREFIX}ALLOWED_ORIGINS to let its pages in")


def allow_origin(request: Request, origin: str, response: Response) -> None:
    """Add CORS headers for pages of the allowed origins."""
    if not _is_allowed_origin(origin):
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = ", ".join(EXPOSED_HEADERS)
    response.vary.add("Origin")
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        response.headers["Access-Control-Allow-Methods"] = response.headers.get("Allow", "")
        response.headers["Access-Control-Max-Age"] = "600"
        requested = request.headers.get("Access-Control-Request-Headers")
        if requested is not None:
            # All of them: the app chooses the names of Mcp-Param-... headers, and the origin is allowed.
            response.headers["Access-Control-Allow-Headers"] = requested


def _is_own_origin(origin: str, request: Request) -> bool:
    parsed = read_origin(origin)
    return parsed is not None and parsed == read_origin(f"{request.scheme}://{request.host}")


def _is_allowed_origin(origin: str) -> bool:
    parsed = read_origin(origin)
    return parsed is not None and parsed in {
        read_origin(allowed) for allowed in current_app.config["JSONRPC_MCP_ALLOWED_ORIGINS"]
    }
