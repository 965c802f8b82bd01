"""Keeps the web pages of other sites away: which hosts this server answers for, and which pages may call it.

A page that was rebound to our address is same-origin for its browser, and its GETs carry no ``Origin``: hence the
check of ``Host``. A page of another site sends its ``Origin``, and the browser adds cached credentials.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from flask import current_app, request
from werkzeug.sansio.utils import host_is_trusted

from ..errors import Forbidden
from ..settings import PREFIX, setting

_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_browser() -> None:
    """Refuse requests that came by way of someone else's page.

    :raises Forbidden: naming the setting that would let them in.
    """
    _check_host()
    origin = request.headers.get("Origin")
    if origin is not None and not _is_own_origin(origin) and not _is_allowed_origin(origin):
        raise Forbidden(f"Origin not allowed: add it to {PREFIX}ALLOWED_ORIGINS to let its pages in")


def _check_host() -> None:
    trusted = setting("ALLOWED_HOSTS") or current_app.config["TRUSTED_HOSTS"]
    if trusted:
        if not host_is_trusted(request.host, trusted):
            raise Forbidden(f"Host not allowed: add it to {PREFIX}ALLOWED_HOSTS if this is a name of this server")
        return
    behind_proxy = "werkzeug.proxy_fix.orig" in request.environ
    if not behind_proxy and _is_loopback(request.remote_addr or "") and not _is_loopback(_host_name(request.host)):
        raise Forbidden(
            "Host not allowed: a request from this machine must name it as localhost."
            f" Behind a proxy, use werkzeug's ProxyFix or list the names of the site in {PREFIX}ALLOWED_HOSTS"
        )


def _host_name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.strip("[]") if colon and port.isdigit() else host.strip("[]")


def _is_loopback(name: str) -> bool:
    if name.lower() == "localhost" or name.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own_origin(origin: str) -> bool:
    return _origin_parts(origin) == _origin_parts(f"{request.scheme}://{request.host}")


def _is_allowed_origin(origin: str) -> bool:
    parts = _origin_parts(origin)
    return parts is not None and parts in {_origin_parts(allowed) for allowed in setting("ALLOWED_ORIGINS")}


def _origin_parts(origin: str) -> tuple[str, str, int | None] | None:
    """Split an origin into scheme, host and port; ``None`` for anything that is more, or less, than that."""
    try:
        url = urlsplit(origin.strip().lower())
        port = url.port or _DEFAULT_PORTS.get(url.scheme)
    except ValueError:
        return None
    if not url.hostname or url.path not in ("", "/") or url.query or url.fragment or "@" in url.netloc:
        return None
    return url.scheme, url.hostname, port
