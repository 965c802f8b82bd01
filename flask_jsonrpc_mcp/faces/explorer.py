"""The explorer: one page on which people read about tools and try them, made of the files in ``explorer/``.

It is the same for everyone, and knows nothing of the app but its URLs and how to sign in; the rest it asks for like
any other client. Nothing runs in it but its own script, and it can talk to nobody but this server.
"""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files

from flask import Response
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPTokenAuth

from ..access import Caller
from ..core import Core
from ..strict_json import write
from .responses import make_page, page_response, spell_error
from .routes import Route
from .urls import ENDPOINTS, own_url

ENDPOINT = "explorer"

_SOURCES = files(__package__.rpartition(".")[0]) / "explorer"
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


def _read(name: str) -> str:
    return (_SOURCES / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_style = "\n" + _read("style.css")
_script = '\n"use strict";\n(() => {\n' + "\n".join(map(_read, _SCRIPTS)) + "})();\n"
_before, _after = _read("page.html").replace("@style@", _style).replace("@script@", _script).split("@site@")

HEADERS = {
    "Content-Security-Policy": "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash_of(_script)}",
            f"style-src {_hash_of(_style)}",
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
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


def explorer(core: Core, caller: Caller) -> Response:
    """Serve the page."""
    site = {
        "urls": {role: own_url(endpoint) for role, endpoint in ENDPOINTS.items()},
        "signIn": [_way_to_sign_in(auth) for auth in core.authenticator.auths],
    }
    body = _before + html.escape(write(site).decode()) + _after
    response = page_response(make_page(body.encode()), core, caller, 0, mimetype="text/html")
    response.headers.update(HEADERS)
    return response


def _way_to_sign_in(auth: HTTPAuth) -> dict[str, str]:
    """What the page has to ask for, and where it goes."""
    kind = "password" if isinstance(auth, HTTPBasicAuth) else "token" if isinstance(auth, HTTPTokenAuth) else "other"
    return {"kind": kind, "scheme": auth.scheme, "header": auth.header or "Authorization"}


ROUTES = (Route("/mcp/explorer", ENDPOINT, {"GET": explorer}, spell_error, open=True),)
