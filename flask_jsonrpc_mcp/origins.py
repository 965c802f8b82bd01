"""Origins: a scheme, a host and a port, compared as a whole; and which hosts are this machine."""

from __future__ import annotations

import functools
import ipaddress
import re
from urllib.parse import urlsplit

Origin = tuple[str, str, int | None]

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Whole labels: what a server makes of two Host headers can end in a name of this machine as well.
_LOCAL_NAME = re.compile(r"(?:[\w-]+\.)*localhost", re.ASCII | re.IGNORECASE)


def read_origin(text: str) -> Origin | None:
    """Read an origin; ``None`` for anything that is more, or less, than that."""
    try:
        url = urlsplit(text.strip().lower())
        port = url.port or _DEFAULT_PORTS.get(url.scheme)
    except ValueError:
        return None
    if not url.scheme or not url.hostname or "@" in url.netloc:
        return None
    if url.path not in ("", "/") or url.query or url.fragment:
        return None
    return url.scheme, url.hostname, port


def host_name(host: str) -> str:
    """Take the port off a host, and the brackets off an address."""
    name, colon, port = host.rpartition(":")
    return name.strip("[]") if colon and port.isdigit() else host.strip("[]")


@functools.lru_cache(maxsize=256)
def is_loopback_host(host: str) -> bool:
    """Tell whether a host, with its port or without, is this machine."""
    return is_loopback(host_name(host))


@functools.lru_cache(maxsize=256)
def is_loopback(name: str) -> bool:
    """Tell whether a host name or address is this machine."""
    if _LOCAL_NAME.fullmatch(name):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # A socket for both kinds of addresses shows an IPv4 peer as ::ffff:127.0.0.1.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
