"""Parse origins (scheme, host and port), and recognise loopback hosts."""

from __future__ import annotations

import functools
import ipaddress
import re
from urllib.parse import urlsplit

Origin = tuple[str, str, int | None]

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Whole labels, because a server may join two Host headers into one value that ends in ".localhost".
_LOCAL_NAME = re.compile(r"(?:[\w-]+\.)*localhost", re.ASCII | re.IGNORECASE)


def read_origin(text: str) -> Origin | None:
    """Parse an origin; ``None`` if it is malformed or has a path, query or user."""
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
    """Return a host without its port and without the brackets of an IPv6 address."""
    name, colon, port = host.rpartition(":")
    return name.strip("[]") if colon and port.isdigit() else host.strip("[]")


@functools.lru_cache(maxsize=256)
def is_loopback_host(host: str) -> bool:
    """Whether a host, with or without a port, is a loopback name or address."""
    return is_loopback(host_name(host))


@functools.lru_cache(maxsize=256)
def is_loopback(name: str) -> bool:
    """Whether a host name or address is a loopback one."""
    if _LOCAL_NAME.fullmatch(name):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # A dual-stack socket shows an IPv4 peer as ::ffff:127.0.0.1.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
