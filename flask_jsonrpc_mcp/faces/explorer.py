"""The explorer: one page on which people read about tools and try them, made of the files in ``explorer/``.

It is the same for everyone, and knows nothing of the app but its URLs and how to sign in; the rest it asks for like
any other client. Nothing runs in it but its own script, and it can talk to nobody but this server.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from flask import Response
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPTokenAuth

from ..access import Caller
from ..core import Core
from ..strict_json import write
from .responses import make_page, page_response, spell_error
from .routes import Route
from .urls import ENDPOINTS, own_url

ENDPOINT = "explorer"

# In the order in which a reader would want them: each uses those before it.
_SCRIPTS = (
    "dom.js",
    "exact_json.js",
    "wire.js",
    "schemas.js",
    "controls.js",
    "form.js",
    "results.js",
    "asking_back.js",
    "items.js",
    "running.js",
    "snippets.js",
    "item_view.js",
    "sign_in.js",
    "page.js",
)


class _Page(NamedTuple):
    """The page around what it is told of its site, and the headers that it comes with."""

    before: str
    after: str
    headers: Mapping[str, str]


@functools.cache
def _page() -> _Page:
    """Join the files, for the first who looks at the page: most processes are never asked for it."""
    sources = files(__package__.rpartition(".")[0]) / "explorer"

    def read(name: str) -> str:
        return (sources / name).read_text(encoding="utf-8")

    style = "\n" + read("style.css")
    script = '\n"use strict";\n(() => {\n' + "\n".join(map(read, _SCRIPTS)) + "})();\n"
    before, after = read("page.html").replace("@style@", style).replace("@script@", script).split("@site@")
    policy = [
        "default-src 'none'",
        f"script-src {_hash_of(script)}",
        f"style-src {_hash_of(style)}",
        "connect-src 'self'",
        # The pictures and sounds that tools return.
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


def explorer(core: Core, caller: Caller) -> Response:
    """Serve the page."""
    site = {
        "urls": {role: own_url(endpoint) for role, endpoint in ENDPOINTS.items()},
        "signIn": [_way_to_sign_in(auth) for auth in core.authenticator.auths],
    }
    page = _page()
    body = page.before + html.escape(write(site).decode()) + page.after
    response = page_response(make_page(body.encode()), core, caller, 0, mimetype="text/html")
    response.headers.update(page.headers)
    return response


def _way_to_sign_in(auth: HTTPAuth) -> dict[str, str]:
    """What the page has to ask for, and where it goes."""
    kind = "password" if isinstance(auth, HTTPBasicAuth) else "token" if isinstance(auth, HTTPTokenAuth) else "other"
    return {"kind": kind, "scheme": auth.scheme, "header": auth.header or "Authorization"}


ROUTES = (Route("/mcp/explorer", ENDPOINT, {"GET": explorer}, spell_error, open=True),)
