"""Origins of web pages: a scheme, a host and a port, compared as a whole."""

from __future__ import annotations

from urllib.parse import urlsplit

Origin = tuple[str, str, int | None]

_DEFAULT_PORTS = {"http": 80, "https": 443}


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
