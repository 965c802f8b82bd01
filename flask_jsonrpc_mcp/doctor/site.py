"""What can be wrong with a blueprint, or with the app around it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from ..methods import Method
from ..origins import host_name, is_loopback
from ..schema.reading import Function, innermost
from ..settings import GET_ALL, PREFIX
from .findings import ERROR, WARNING, AppCheck, BlueprintCheck, Place
from .gunicorn import read_gunicorn
from .sign_in import failing_sign_in, known_passwords

MAX_LAYERS = 20
MAX_NAMED = 3


def more_than_a_page(place: Place) -> Iterator[str]:
    tools, size = len(place.tools), place.setting("PAGE_SIZE")
    if tools > size:
        yield f"there are {tools} tools and {size} on a page, and many clients read the first page only"


def writes_by_get(place: Place) -> Iterator[str]:
    writing = [method.name for method in place.core.registry if not method.read_only]
    if place.setting("GET_METHODS") == GET_ALL and writing:
        yield f"whoever makes a browser follow a link can run {_named(writing)}"


def no_secret_key(app: Flask, places: list[Place]) -> Iterator[str]:
    if not app.config["SECRET_KEY"]:
        yield "session ids cannot be signed, so older clients get none, and no tool can ask its client anything"


def no_proxy_fix(app: Flask, places: list[Place]) -> Iterator[str]:
    signs = list(_signs_of_a_proxy(app))
    if signs and not any(isinstance(layer, ProxyFix) for layer in _layers(app)):
        yield (
            f"{signs[0]} tells of a site with a public name; behind a proxy, every caller would have the address"
            " of the proxy, and URLs the wrong scheme and host"
        )


def one_call_at_a_time(app: Flask, places: list[Place]) -> Iterator[str]:
    slow = [tool.name for place in places for tool in place.tools if _holds_a_worker(tool)]
    if app.config[PREFIX + "SUBSCRIPTIONS"]:
        slow.append("a subscription")
    server = read_gunicorn(Path.cwd(), os.environ)
    if slow and server is not None and server.takes_one_call_at_a_time:
        yield f"gunicorn has one worker for one call at a time, so nobody is answered while {_named(slow)} runs"


BLUEPRINT_CHECKS = (
    BlueprintCheck("many-tools", WARNING, more_than_a_page, f"raise {PREFIX}PAGE_SIZE, or offer fewer tools"),
    BlueprintCheck("get-writes", ERROR, writes_by_get, f"set {PREFIX}GET_METHODS = 'read-only'"),
    BlueprintCheck(
        "sign-in-fails", ERROR, failing_sign_in, "see that the callback has what it needs, such as its database"
    ),
    BlueprintCheck("known-password", ERROR, known_passwords, "replace it, or remove the user"),
)
APP_CHECKS = (
    AppCheck("no-secret-key", WARNING, no_secret_key, "set SECRET_KEY, the same in every process"),
    AppCheck("no-proxy-fix", WARNING, no_proxy_fix, "wrap the app: app.wsgi_app = ProxyFix(app.wsgi_app, ...)"),
    AppCheck(
        "single-worker", ERROR, one_call_at_a_time, "set worker_class = 'gthread' and threads = 8 in gunicorn.conf.py"
    ),
)


def _named(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _signs_of_a_proxy(app: Flask) -> Iterator[str]:
    for name in (PREFIX + "ALLOWED_HOSTS", "TRUSTED_HOSTS", "SERVER_NAME"):
        value = app.config[name]
        hosts: Iterable[str] = [value] if isinstance(value, str) else value or ()
        if any(not is_loopback(host_name(host.lstrip("."))) for host in hosts):
            yield name
    if app.config["PREFERRED_URL_SCHEME"] == "https":
        yield "PREFERRED_URL_SCHEME"


def _layers(app: Flask) -> Iterator[Any]:
    """List the WSGI middlewares around an app, from the outermost, as far as they say what they wrap."""
    layer: Any = app.wsgi_app
    for _ in range(MAX_LAYERS):
        if layer is None:
            return
        yield layer
        inner = (getattr(layer, name, None) for name in ("app", "_app", "wsgi_app", "application"))
        layer = next((wrapped for wrapped in inner if wrapped is not None), None)


def _holds_a_worker(tool: Method) -> bool:
    """Tell whether a call may take long, or needs a second request while it waits."""
    code = getattr(innermost(tool.func), "__code__", None)
    speaks = code is not None and "current_call" in code.co_names
    asks = bool(tool.requires) or tool.confirm is not None
    return tool.timeout is not None or asks or speaks or Function(tool.func).is_generator
