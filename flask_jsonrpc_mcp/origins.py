"""Parse origins (scheme, host and port), and recognise hosts and addresses of this machine and of private networks."""

from __future__ import annotations

import functools
import ipaddress
import re
import socket
from urllib.parse import urlsplit

Origin = tuple[str, str, int | None]

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Whole labels, because a server may join two Host headers into one value that ends in ".localhost".
_LOCAL_NAME = re.compile(r"(?:[\w-]+\.)*localhost", re.ASCII | re.IGNORECASE)

_URL = re.compile(r"[!$-~]+")  # no "#", no quotes


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


def same_origin(one: str, other: str) -> bool:
    """Whether two texts are the same origin; not if one is malformed."""
    parsed = read_origin(one)
    return parsed is not None and parsed == read_origin(other)


def is_secure_url(url: str) -> bool:
    """Whether a URL is https, or http of this machine, without a user, a fragment or characters to escape."""
    try:
        parts = urlsplit(url)
        name = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if not _URL.fullmatch(url) or not name or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(name))


def host_name(host: str) -> str:
    """Return a host without its port and without the brackets of an IPv6 address."""
    name, colon, port = host.rpartition(":")
    return name.strip("[]") if colon and port.isdigit() else host.strip("[]")


@functools.lru_cache(maxsize=256)
def is_loopback(name: str) -> bool:
    """Whether a host name or address is a loopback one."""
    address = _address(name)
    return _LOCAL_NAME.fullmatch(name) is not None if address is None else address.is_loopback


@functools.lru_cache(maxsize=256)
def is_near(address: str) -> bool:
    """Whether an address belongs to this machine, even if it is public, or to a private network."""
    parsed = _address(address)
    if parsed is None or not parsed.is_global:
        return parsed is not None
    with socket.socket(socket.AF_INET if parsed.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as own:
        try:
            own.bind((str(parsed), 0))  # only an address of this machine can be bound
        except OSError:
            return False
    return True


@functools.lru_cache(maxsize=256)
def is_dns_name(host: str) -> bool:
    """Whether a host, with or without a port, is neither an address nor localhost, so that DNS resolves it."""
    name = host_name(host)
    return _address(name) is None and not is_loopback(name)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket shows an IPv4 peer as ::ffff:127.0.0.1.
    return getattr(address, "ipv4_mapped", None) or address
