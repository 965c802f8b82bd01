"""The explorer: a page to read about the tools and try them, joined from the files in ``explorer/``.

The page is the same for everyone. It contains the URLs of the blueprint, how to sign in and how AI clients connect, and
is otherwise an ordinary client. Its Content-Security-Policy allows only its own script and requests to this server.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Request, Response, current_app
from werkzeug.datastructures import Headers

from ..auth import Caller
from ..clients import BEARER, CLIENTS, SIGNS_IN, Server
from ..config import server_name
from ..registry import Registry
from ..strict_json import write
from .io import json_response, make_page, page_response, rest_error
from .rest import OPENAPI, has_openapi
from .routes import ENDPOINTS, Route, own_url

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

ENDPOINT, CALLER = "explorer", "explorer_caller"
OWN_ENDPOINTS = {**ENDPOINTS, "tasks": "list_tasks", "caller": CALLER}
"""The endpoints that the page uses, by the names under which it knows them."""

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
    "tasks.js",
    "running.js",
    "snippets.js",
    "item_view.js",
    "oauth.js",
    "sign_in.js",
    "connect.js",
    "page.js",
)


class _Page(NamedTuple):
    """The page before and after its configuration, and its headers."""

    before: str
    after: str
    headers: Mapping[str, str]


@functools.cache
def _page() -> _Page:
    """Join the files. Called with the first request for the page."""
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
    # The credentials that the page can ask for, and the header to send them in.
    sign_ins = [
        {"kind": each.kind, "scheme": each.scheme or "", "header": each.header}
        | {name: text for name, text in (("issuer", each.issuer), ("metadata", each.metadata_path)) if text}
        for each in registry.auth.sign_ins
        if each.kind
    ]
    endpoints = {**OWN_ENDPOINTS, **({"openapi": OPENAPI} if has_openapi() else {})}
    site = {
        "urls": {role: own_url(endpoint) for role, endpoint in endpoints.items()},
        "signIn": sign_ins,
        "cookies": registry.auth.uses_cookies,
        "connect": _connect(sign_ins, required=registry.auth.mcp_required, oauth=registry.auth.grants_scopes),
    }
    page = _page()
    body = page.before + html.escape(write(site).decode()) + page.after
    response = page_response(request, make_page(body.encode()), registry, caller, 0, mimetype="text/html")
    # Changes the class of the response in place.
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


def _connect(sign_ins: list[dict[str, str]], *, required: bool, oauth: bool) -> dict[str, Any]:
    """Build the configuration for each AI client, and explain the variables in it."""
    name = server_name(current_app)
    prefix = re.sub(r"[^A-Z0-9]+", "_", f"mcp {name}".upper()).rstrip("_")
    headers, notes = ({}, [SIGNS_IN]) if oauth else _credentials(sign_ins, prefix)
    if headers and not required:
        notes.append("Leave it out, with its header, to use what is open to everyone.")
    server = Server(name, own_url("mcp", external=True).removesuffix("/mcp"), headers, oauth)
    clients = []
    for title, configure in CLIENTS.values():
        text, places = configure(server)
        clients.append({"title": title, "text": text, "notes": places})
    return {"notes": notes, "clients": clients}


def _credentials(sign_ins: list[dict[str, str]], prefix: str) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Choose an authentication method that AI clients support, tokens first; return its header, and notes."""
    known = sorted((each for each in sign_ins if each["kind"] != "other"), key=lambda each: each["kind"] != "token")
    if not known:
        return {}, [f"AI clients cannot sign in by {each['scheme']}." for each in sign_ins]
    scheme, header, is_token = known[0]["scheme"], known[0]["header"], known[0]["kind"] == "token"
    if header != "Authorization":
        start, variable, meaning = "", f"{prefix}_KEY", "your key"
    elif is_token and f"{scheme} " == BEARER:
        start, variable, meaning = BEARER, f"{prefix}_TOKEN", "your token"
    else:
        secret = "your token" if is_token else "user:password in base64"
        start, variable, meaning = "", f"{prefix}_AUTHORIZATION", f"“{scheme}”, a space and {secret}"
    return {header: (start, variable)}, [f"`{variable}` stands for {meaning}."]


def explorer_caller(request: Request, registry: Registry, caller: Caller) -> Response:
    """Return the name of the caller, for a page that cannot read the cookie it is signed in with.

    The route is open: a challenge would open the browser's own sign-in dialog.
    """
    return json_response({"name": registry.auth.identify(request).name or None})


ROUTES = (
    Route("/mcp/explorer", ENDPOINT, {"GET": explorer}, rest_error, open=True),
    Route("/mcp/explorer/caller", CALLER, {"GET": explorer_caller}, rest_error, open=True),
)
