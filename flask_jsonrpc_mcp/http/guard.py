"""Protect the server from web pages of other sites: check ``Host`` and ``Origin``, and send CORS headers.

A page whose name was rebound to our address is same-origin for the browser, and its GETs have no ``Origin``: hence the
check of ``Host``. A page of another site sends its ``Origin``, and the browser may add cached credentials.
"""

from __future__ import annotations

from collections.abc import Iterable

from flask import Request, Response, current_app
from werkzeug.sansio.utils import host_is_trusted

from ..config import PREFIX
from ..errors import Forbidden
from ..origins import is_dns_name, is_near, read_origin, same_origin

EXPOSED_HEADERS = ("Mcp-Session-Id", "WWW-Authenticate", "ETag", "Retry-After")
"""The response headers that a page's script may read."""


def check_host(request: Request) -> None:
    """Reject requests whose ``Host`` is not a name of this server.

    A page can be rebound to any address that its browser reaches and its author does not, so without settings the peers
    of this machine and of private networks are checked. A page has a DNS name; addresses and localhost are not rebound.

    :raises Forbidden: naming the setting that would allow it.
    """
    config, host = current_app.config, request.host
    if config["JSONRPC_MCP_ALLOWED_HOSTS"]:
        if not _is_one_of(host, config["JSONRPC_MCP_ALLOWED_HOSTS"]):
            raise Forbidden(f"Host not allowed: add it to {PREFIX}ALLOWED_HOSTS if this is a name of this server")
        return
    if "werkzeug.proxy_fix.orig" in request.environ or config["TRUSTED_HOSTS"]:
        return  # behind a proxy that sets the headers, or checked by Flask
    if not is_dns_name(host) or (config["SERVER_NAME"] and _is_one_of(host, [f".{config['SERVER_NAME']}"])):
        return
    if is_near(request.remote_addr or ""):
        raise Forbidden(
            f"Host not allowed: set {PREFIX}ALLOWED_HOSTS to the names of this server, such as ['site.example']."
            " Without it, requests from this machine and from private networks must use an IP address, localhost or"
            " the SERVER_NAME; behind a proxy, werkzeug's ProxyFix will do"
        )


def _is_one_of(host: str, names: Iterable[str]) -> bool:
    return host_is_trusted(host.lower(), [name.lower() for name in names])


def check_origin(request: Request, origin: str) -> None:
    """Reject requests from pages of other sites.

    :raises Forbidden: naming the setting that would allow it.
    """
    if not same_origin(origin, f"{request.scheme}://{request.host}") and not _is_allowed_origin(origin):
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


def _is_allowed_origin(origin: str) -> bool:
    parsed = read_origin(origin)
    return parsed is not None and parsed in {
        read_origin(allowed) for allowed in current_app.config["JSONRPC_MCP_ALLOWED_ORIGINS"]
    }
