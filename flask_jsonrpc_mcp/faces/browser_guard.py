"""Keeps the web pages of other sites away: which hosts this server answers for, and which pages may call it.

A page that was rebound to our address is same-origin for its browser, and its GETs carry no ``Origin``: hence the
check of ``Host``. A page of another site sends its ``Origin``, and the browser adds cached credentials.
"""

from __future__ import annotations

from flask import Request, Response
from werkzeug.sansio.utils import host_is_trusted

from ..current import this_app
from ..errors import Forbidden
from ..origins import is_loopback, is_loopback_host, read_origin
from ..settings import PREFIX, setting

ORIGIN = "HTTP_ORIGIN"
"""Where WSGI has the origin of the page that sent a request."""

EXPOSED_HEADERS = ("Mcp-Session-Id", "WWW-Authenticate", "ETag", "Retry-After")
"""What a page's script may read besides the body."""


def check_browser(request: Request) -> None:
    """Refuse requests that came by way of someone else's page.

    :raises Forbidden: naming the setting that would let them in.
    """
    _check_host(request)
    origin = request.environ.get(ORIGIN)
    if origin is not None and not _is_own_origin(origin, request) and not _is_allowed_origin(origin):
        raise Forbidden(f"Origin not allowed: add it to {PREFIX}ALLOWED_ORIGINS to let its pages in")


def permit_origin(request: Request, response: Response) -> None:
    """Let pages of the allowed origins read an answer, and send what MCP clients send. Nobody else is told anything.

    :param request: One that has an ``Origin``.
    """
    origin = request.environ[ORIGIN]
    if not _is_allowed_origin(origin):
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = ", ".join(EXPOSED_HEADERS)
    response.vary.add("Origin")
    asked = request.headers.get("Access-Control-Request-Headers")
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        response.headers["Access-Control-Allow-Methods"] = response.headers.get("Allow", "")
        response.headers["Access-Control-Max-Age"] = "600"
        if asked is not None:
            # Whatever they ask for: names such as Mcp-Param-... are the app's own, and only allowed origins get here.
            response.headers["Access-Control-Allow-Headers"] = asked


def _check_host(request: Request) -> None:
    config = this_app().config
    trusted = config[PREFIX + "ALLOWED_HOSTS"]
    if trusted:
        if not host_is_trusted(request.host, trusted):
            raise Forbidden(f"Host not allowed: add it to {PREFIX}ALLOWED_HOSTS if this is a name of this server")
        return
    if "werkzeug.proxy_fix.orig" in request.environ or config["TRUSTED_HOSTS"]:
        return  # the app is told who asks, or Flask has looked already
    # The header as it came, where there is one: `request.host` takes longer than all that we do for a caller.
    host = request.environ.get("HTTP_HOST") or request.host
    if is_loopback(request.remote_addr or "") and not is_loopback_host(host):
        raise Forbidden(
            "Host not allowed: a request from this machine must name it as localhost."
            f" Behind a proxy, use werkzeug's ProxyFix or list the names of the site in {PREFIX}ALLOWED_HOSTS"
        )


def _is_own_origin(origin: str, request: Request) -> bool:
    parts = read_origin(origin)
    return parts is not None and parts == read_origin(f"{request.scheme}://{request.host}")


def _is_allowed_origin(origin: str) -> bool:
    parts = read_origin(origin)
    return parts is not None and parts in {read_origin(allowed) for allowed in setting("ALLOWED_ORIGINS")}
