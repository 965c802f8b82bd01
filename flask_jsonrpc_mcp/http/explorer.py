"""The explorer: a page to read about the tools and try them, joined from the files in ``explorer/``.

The page is the same for everyone. It contains the URLs of the blueprint and how to sign in, and is otherwise an
ordinary client. Its Content-Security-Policy allows only its own script and requests to this server.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from flask import Request, Response, current_app
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPTokenAuth
from werkzeug.datastructures import Headers

from ..auth import Caller
from ..registry import Registry
from ..strict_json import write
from .io import make_page, page_response, rest_error
from .routes import ENDPOINTS, Route, own_url

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

ENDPOINT = "explorer"

# Each file uses those before it.
_SCRIPTS = (
    "dom.js",
    "exact_json.js",
    "wire.js",
    "schemas.js",
    "values.js",
    "controls.js",
    "form.js",
    "results.js",
    "asking_back.js",
    "items.js",
    "progress.js",
    "running.js",
    "snippets.js",
    "item_view.js",
    "sign_in.js",
    "page.js",
)


@dataclass(frozen=True)
class _Page:
    """The page before and after its configuration, and its headers."""

    before: str
    after: str
    headers: Mapping[str, str]


@functools.cache
def _page() -> _Page:
    """Join the files, at the first request for the page."""
    sources = files(__package__.rpartition(".")[0]) / "explorer"

    def read(name: str) -> str:
        return (sources / name).read_text(encoding="utf-8")

    parts = {
        "style": "\n" + read("style.css"),
        "theme": "\n" + read("theme.js"),
        "script": '\n"use strict";\n(() => {\n' + "\n".join(map(read, _SCRIPTS)) + "})();\n",
    }
    page = read("page.html")
    for name, part in parts.items():
        page = page.replace(f"@{name}@", part)
    before, after = page.split("@site@")
    policy = [
        "default-src 'none'",
        f"script-src {_hash_of(parts['theme'])} {_hash_of(parts['script'])}",
        f"style-src {_hash_of(parts['style'])}",
        "connect-src 'self'",
        # For images and audio that tools return.
        "img-src data:",
        "media-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    headers = {
        "Content-Security-Policy": "; ".join(policy),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
    }
    return _Page(before, after, headers)


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def explorer(request: Request, registry: Registry, caller: Caller) -> Response:
    """Serve the page."""
    site = {
        "urls": {role: own_url(endpoint) for role, endpoint in ENDPOINTS.items()},
        "signIn": [_sign_in_form(auth) for auth in registry.auth.auths],
    }
    page = _page()
    body = page.before + html.escape(write(site).decode()) + page.after
    response = page_response(request, make_page(body.encode()), registry, caller, 0, mimetype="text/html")
    # The same object, as an instance of another class.
    _page_response_class(current_app.response_class).force_type(response)  # type: ignore[arg-type]
    return response


class PageResponse(Response):
    """Sends the headers of the page, even if an ``after_request`` function such as Flask-Talisman's has set others."""

    def get_wsgi_headers(self, environ: WSGIEnvironment) -> Headers:
        headers = super().get_wsgi_headers(environ)
        headers.update(_page().headers)
        return headers


@functools.lru_cache(maxsize=32)
def _page_response_class(response_class: type[Response]) -> type[PageResponse]:
    """Return a `PageResponse` that is a subclass of the app's response class; Flask converts any other response."""
    return type("PageResponse", (PageResponse, response_class), {})


def _sign_in_form(auth: HTTPAuth) -> dict[str, str]:
    """Describe the credentials to ask for, and the header to send them in."""
    kind = "password" if isinstance(auth, HTTPBasicAuth) else "token" if isinstance(auth, HTTPTokenAuth) else "other"
    return {"kind": kind, "scheme": auth.scheme, "header": auth.header or "Authorization"}


ROUTES = (Route("/mcp/explorer", ENDPOINT, {"GET": explorer}, rest_error, open=True),)
