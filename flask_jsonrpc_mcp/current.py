"""The app and the request that are being served: the objects themselves.

Each look through Flask's proxies costs as much as a small function, and one call of a method would take dozens of them.
"""

from __future__ import annotations

import functools

from flask import Flask, Request, current_app, request


def this_app() -> Flask:
    """The app behind ``current_app``."""
    return current_app._get_current_object()  # type: ignore[attr-defined, no-any-return]


def this_request() -> Request:
    """The request behind ``request``."""
    return request._get_current_object()  # type: ignore[attr-defined, no-any-return]


def header(name: str) -> str | None:
    """Read a header of the current request, as the HTTP server handed it over."""
    value: str | None = this_request().environ.get(_key_of(name))
    return value


@functools.cache
def _key_of(name: str) -> str:
    return "HTTP_" + name.upper().replace("-", "_")
