"""Send a request to an endpoint of the app, in this process and this thread, as the caller of the running tool.

The inner request has the headers of the outer one: credentials, locale, trace. So the endpoint's own decorators decide,
as for any request of this caller. It runs in an empty ``contextvars`` context, because Flask would otherwise share the
app context, and with it ``g`` and the user that is signed in there. Teardown functions run at its end.
"""

from __future__ import annotations

import re
from contextvars import Context
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from flask import Flask, after_this_request, current_app, request, session
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException
from werkzeug.http import dump_cookie, parse_cookie
from werkzeug.routing import Rule
from werkzeug.test import EnvironBuilder, run_wsgi_app

from ..call import Call, trace_headers
from ..config import MAX_BODY
from ..errors import InvalidParams, Problem, RpcError
from ..sign_in import accepts_cookies
from .api_arguments import Sent

INNER = "flask_jsonrpc_mcp.inner"
"""The key of the WSGI environ that marks an inner request."""

MAX_RESPONSE = MAX_BODY
"""Maximum bytes of a response."""

ACCEPT = "application/json, */*;q=0.5"

# Headers about the outer request itself. The last line would make it another request than the one that was chosen.
_NOT_PASSED_ON = frozenset(
    (
        *("ACCEPT", "ACCEPT_ENCODING", "CONTENT_ENCODING", "CONTENT_LENGTH", "CONTENT_TYPE", "TRANSFER_ENCODING"),
        *("CONNECTION", "EXPECT", "KEEP_ALIVE", "TE", "TRAILER", "UPGRADE", "RANGE", "IF_RANGE", "LAST_EVENT_ID"),
        *("IF_MATCH", "IF_NONE_MATCH", "IF_MODIFIED_SINCE", "IF_UNMODIFIED_SINCE"),
        *("X_HTTP_METHOD_OVERRIDE", "X_HTTP_METHOD", "X_METHOD_OVERRIDE", "X_ORIGINAL_URL", "X_REWRITE_URL"),
    )
)
_ABOUT_OUTER = re.compile(
    r"HTTP_MCP_.*|CONTENT_(TYPE|LENGTH)|PATH_INFO|QUERY_STRING|REQUEST_METHOD|REQUEST_URI|RAW_URI"
)
_TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
_RULE_VARIABLE = re.compile(r"<[^<>]*>")
_VARIABLE = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True)
class Reply:
    """The response of an endpoint, read to its end."""

    status: int
    reason: str
    headers: Headers
    body: bytes


class Endpoint:
    """An endpoint of the app, by its HTTP method and path.

    :param paths: The paths that it may have, with variables in braces, best first.
    """

    def __init__(self, method: str, paths: list[str]) -> None:
        self.method = method
        self.paths = paths
        self._found: WeakKeyDictionary[Flask, tuple[Rule, str]] = WeakKeyDictionary()

    def find(self, app: Flask) -> tuple[Rule, str]:
        """Return the URL rule, and the path that leads to it.

        :raises LookupError: if the app has none.
        """
        found = self._found.get(app)
        if found is None:
            rules = {
                _RULE_VARIABLE.sub("{}", rule.rule): rule
                for rule in app.url_map.iter_rules()
                if self.method in (rule.methods or ())
            }
            matching = [(rules[shape], path) for path in self.paths if (shape := _VARIABLE.sub("{}", path)) in rules]
            if not matching:
                raise LookupError(f"the app has no endpoint for {self.method} {self.paths[0]}")
            found = self._found[app] = matching[0]
        return found

    @property
    def path(self) -> str:
        """The path with its variables, as the current app has it."""
        return self.find(_app())[1]

    def call(self, sent: Sent, call: Call) -> Reply:
        """Send a request, and read the response.

        :raises InvalidParams: if an argument would lead to another endpoint.
        :raises RpcError: if the running tool was called by an inner request, or the response is too large.
        """
        if INNER in request.environ:
            raise RpcError("A tool of this kind cannot call itself through an endpoint", status=400)
        app = _app()
        with_cookies = accepts_cookies(request)
        environ = self._environ(sent, call, with_cookies=with_cookies)
        reply = Context().run(self._run, app, environ)
        if with_cookies and "Set-Cookie" in reply.headers:
            cookies = reply.headers.getlist("Set-Cookie")

            @after_this_request
            def pass_on(response: Any) -> Any:
                for cookie in cookies:
                    response.headers.add("Set-Cookie", cookie)
                return response

        return reply

    def _environ(self, sent: Sent, call: Call, *, with_cookies: bool) -> dict[str, Any]:
        builder = EnvironBuilder(
            sent.path,
            method=self.method,
            query_string=urlencode(sent.query),
            headers=Headers({"Accept": ACCEPT, **sent.headers}),
            **sent.body,
        )
        try:
            environ = builder.get_environ()
        finally:
            builder.close()
        for name, value in request.environ.items():
            # CGI variables and headers; the others belong to the server, or to werkzeug.
            if not name.isupper() or _ABOUT_OUTER.fullmatch(name) or name.removeprefix("HTTP_") in _NOT_PASSED_ON:
                continue
            environ[name] = value
        environ["wsgi.url_scheme"] = request.environ["wsgi.url_scheme"]
        if not with_cookies:
            environ.pop("HTTP_COOKIE", None)
        for name, value in trace_headers(call.meta).items():
            if name in _TRACE_HEADERS:
                environ[f"HTTP_{name.upper()}"] = value
        environ[INNER] = True
        return environ

    def _run(self, app: Flask, environ: dict[str, Any]) -> Reply:
        rule, _ = self.find(app)
        self._check(app, environ, rule)
        if self.method in app.config.get("WTF_CSRF_METHODS", ()):
            _add_csrf_token(app, environ)
        chunks, status, headers = run_wsgi_app(app, environ)
        body = bytearray()
        try:
            for chunk in chunks:
                body += chunk
                if len(body) > MAX_RESPONSE:
                    raise RpcError(f"The response has more than {MAX_RESPONSE} bytes", status=502)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        code, _, reason = status.partition(" ")
        return Reply(int(code), reason, headers, bytes(body))

    def _check(self, app: Flask, environ: dict[str, Any], rule: Rule) -> None:
        """Check that a path leads to the endpoint that was chosen: an argument may contain a slash, or be empty."""
        try:
            adapter = app.create_url_adapter(app.request_class(environ))
            matched = None if adapter is None else adapter.match(return_rule=True)[0]
        except HTTPException:
            matched = None
        if matched is None or (matched.endpoint, matched.rule) != (rule.endpoint, rule.rule):
            raise InvalidParams([Problem("", f"do not fit into the path {self.paths[0]}")])


def _app() -> Flask:
    return current_app._get_current_object()  # type: ignore[attr-defined,no-any-return]


def _add_csrf_token(app: Flask, environ: dict[str, Any]) -> None:
    """Add a token of Flask-WTF, if it protects the app.

    The outer request has been checked: its body is JSON, its ``Origin`` is allowed, and without a proof of the same
    origin its cookies are not passed on. So no page of another site can use this.
    """
    if "csrf" not in app.extensions or not app.config.get("WTF_CSRF_ENABLED", True):
        return
    from flask_wtf.csrf import generate_csrf  # the app has imported it

    header = "HTTP_" + app.config["WTF_CSRF_HEADERS"][0].upper().replace("-", "_")
    response = app.response_class()
    with app.request_context(dict(environ)):
        environ[header] = generate_csrf()
        app.session_interface.save_session(app, session, response)
    cookies = dict(parse_cookie(environ.get("HTTP_COOKIE")).items(multi=False))
    for cookie in response.headers.getlist("Set-Cookie"):
        name, value = next(iter(parse_cookie(cookie.partition(";")[0]).items()))
        cookies[name] = value
    environ["HTTP_COOKIE"] = "; ".join(dump_cookie(name, value, path=None) for name, value in cookies.items())
    environ.setdefault("HTTP_REFERER", f"{environ['wsgi.url_scheme']}://{environ.get('HTTP_HOST', '')}/")
