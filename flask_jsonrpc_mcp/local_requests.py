"""A request that nobody sent: the context in which the command line runs methods and asks the app's callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flask import Flask


@contextmanager
def local_request(app: Flask, headers: Mapping[str, str] | None = None, *, path: str = "/") -> Iterator[None]:
    """Be inside a request of its own: with its own ``g``, and with the app's teardown in the end."""
    # An app context of its own, because Flask would go on with the one of the command.
    request = app.test_request_context(path, base_url=_base_url(app), method="POST", headers=headers)
    with app.app_context(), request:
        yield


def _base_url(app: Flask) -> str | None:
    """The name under which Flask would take the request for its own; ``None`` where Flask finds it by itself."""
    hosts = app.config["TRUSTED_HOSTS"]
    if not hosts or app.config["SERVER_NAME"]:
        return None
    return f"{app.config['PREFERRED_URL_SCHEME']}://{hosts[0].lstrip('.')}"
