"""The app and the request that are being served: the objects themselves.

Each look through Flask's proxies costs as much as a small function, and one call of a method would take dozens of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flask import Flask, Request, current_app, g, request

_app: Any = current_app
_request: Any = request
_g: Any = g

this_app: Callable[[], Flask] = _app._get_current_object
"""The app behind ``current_app``."""

this_request: Callable[[], Request] = _request._get_current_object
"""The request behind ``request``."""

this_g: Callable[[], Any] = _g._get_current_object
"""What is behind ``g``."""


def header(name: str) -> str | None:
    """Read a header of the current request, as the HTTP server handed it over."""
    value: str | None = this_request().environ.get(header_key(name))
    return value


@functools.cache
def header_key(name: str) -> str:
    """Where WSGI keeps a header. Of names that we write down only: each is remembered."""
    return "HTTP_" + name.upper().replace("-", "_")
