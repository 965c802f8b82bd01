"""Send a request to an endpoint of the app, in this process and this thread, as the caller of the running tool.

The inner request has the headers of the outer one: credentials, locale, trace. So the endpoint's own decorators decide,
as for any request of this caller. It runs in an empty ``contextvars`` context, because Flask would otherwise share the
app context, and with it ``g`` and the user that is signed in there. Teardown functions run at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

from flask import Flask, after_this_request, current_app, request, request_started, session
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException
from werkzeug.http import dump_cookie, parse_cookie
from werkzeug.routing import BaseConverter, FloatConverter, IntegerConverter, Rule
from werkzeug.routing.rules import parse_converter_args
from werkzeug.test import EnvironBuilder, run_wsgi_app

from ..authentication import accepts_cookies
from ..call import Call, trace_headers
from ..config import MAX_BODY
from ..errors import InvalidParams, RpcError
from ..problems import Problem
from .api_arguments import Arguments, as_text

INNER = "flask_jsonrpc_mcp.inner"
"""The key of the WSGI environ that marks an inner request: a list, to which the endpoint that was matched is added."""

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
_RULE_VARIABLE = re.compile(r"<(?:(?P<converter>[A-Za-z_]\w*)(?:\((?P<options>.*?)\))?:)?(?P<name>[A-Za-z_]\w*)>")
_VARIABLE = re.compile(r"\{([^{}]*)\}")


class RuleVariable(NamedTuple):
    """A variable of a URL rule.

    :param options: The positional options of its converter.
    """

    name: str
    converter: BaseConverter
    options: tuple[Any, ...]


def variables_of(rule: Rule) -> Iterator[RuleVariable]:
    """Read the variables in the path of a rule, in their order."""
    for found in _RULE_VARIABLE.finditer(rule.rule):
        args, kwargs = parse_converter_args(found["options"] or "")
        converter = rule.get_converter(found["name"], found["converter"] or "default", args, kwargs)
        yield RuleVariable(found["name"], converter, args)


def path_of(rule: Rule) -> str:
    """Return the path of a rule with its variables in braces."""
    return _RULE_VARIABLE.sub(r"{\g<name>}", rule.rule)


@dataclass(frozen=True)
class Target:
    """A URL rule that leads to an endpoint.

    :param path: Its path with the variables in braces, named as in the operation.
    :param converters: By the names in ``path``.
    """

    rule: Rule
    path: str
    converters: Mapping[str, BaseConverter]

    def fill(self, values: Mapping[str, Any]) -> str:
        """Insert the values of the variables into the path."""

        def write(found: re.Match[str]) -> str:
            return quote(_text_of(values[found[1]], self.converters[found[1]]), safe="")

        return _VARIABLE.sub(write, self.path)


@dataclass(frozen=True)
class Reply:
    """The response of an endpoint, read to its end.

    :param path: The path of the request, which becomes the URI of a file.
    """

    path: str
    status: int
    reason: str
    headers: Headers
    body: bytes


class Endpoint:
    """An endpoint of the app, by its HTTP method and path.

    :param paths: The paths that it may have, with variables in braces, best first.
    :param name: Its name in the URL map, if it is known. Without it, the path decides.
    """

    def __init__(self, method: str, paths: list[str], name: str | None = None) -> None:
        self.method = method
        self.paths = paths
        self.name = name
        self._found: WeakKeyDictionary[Flask, list[Target]] = WeakKeyDictionary()

    def find(self, app: Flask) -> list[Target]:
        """Return the URL rules that lead to it. They differ only in their converters, or in their host.

        :raises LookupError: if the app has none, or if they may be of several endpoints.
        """
        found = self._found.get(app)
        if found is None:
            rules = [
                rule
                for rule in app.url_map.iter_rules()
                if self.method in (rule.methods or ()) and self.name in (None, rule.endpoint)
            ]
            found = next(filter(None, (self._targets(path, rules) for path in self.paths)), None)
            if found is None:
                raise LookupError(f"the app has no endpoint for {self.method} {self.paths[0]}")
            request_started.connect(_note_endpoint, app)
            self._found[app] = found
        return found

    def _targets(self, path: str, rules: Iterable[Rule]) -> list[Target]:
        names, shape = _VARIABLE.findall(path), _VARIABLE.sub("{}", path)
        alike = [rule for rule in rules if _RULE_VARIABLE.sub("{}", rule.rule) == shape]
        endpoints = dict.fromkeys(rule.endpoint for rule in alike)
        if len(endpoints) > 1:
            alike = [rule for rule in alike if path_of(rule) == path]
            if not alike:
                why = "because its variables are not named as in their URL rules"
                raise LookupError(f"{self.method} {path} may be {' or '.join(endpoints)}, {why}")
        return [
            Target(rule, path, dict(zip(names, (each.converter for each in variables_of(rule)), strict=True)))
            for rule in alike
        ]

    def call(self, arguments: Arguments, given: Mapping[str, Any], call: Call) -> Reply:
        """Send a request, and read the response.

        :raises InvalidParams: if an argument would lead to another endpoint.
        :raises RpcError: if the running tool was called by an inner request, or the response is too large.
        """
        if INNER in request.environ:
            raise RpcError("A tool of this kind cannot call itself through an endpoint", status=400)
        app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
        target, path = self._choose(app, arguments.in_path(given))
        with_cookies = accepts_cookies(request)
        environ = self._environ(arguments.send_to(path, given), call, with_cookies=with_cookies)
        reply = Context().run(self._run, app, environ, path)
        if 200 <= reply.status < 300 and environ[INNER] != [target.rule.endpoint]:
            raise _does_not_fit(target.path)  # a WSGI middleware has another app there
        if with_cookies and "Set-Cookie" in reply.headers:
            cookies = reply.headers.getlist("Set-Cookie")

            @after_this_request
            def pass_on(response: Any) -> Any:
                for cookie in cookies:
                    response.headers.add("Set-Cookie", cookie)
                return response

        return reply

    def _choose(self, app: Flask, values: Mapping[str, Any]) -> tuple[Target, str]:
        """Return the rule that the app matches, and the path.

        :raises InvalidParams: if it matches none: an argument may contain a slash, be empty, or suit another rule.
        """
        targets, adapter = self.find(app), app.create_url_adapter(request)
        for target in targets:
            path = target.fill(values)
            try:
                matched = None if adapter is None else adapter.match(unquote(path), self.method, return_rule=True)[0]
            except HTTPException:
                continue
            if matched is target.rule:
                return target, path
        raise _does_not_fit(targets[0].path)

    def _environ(self, sent: Mapping[str, Any], call: Call, *, with_cookies: bool) -> dict[str, Any]:
        builder = EnvironBuilder(method=self.method, **sent)
        try:
            environ = builder.get_environ()
        finally:
            builder.close()
        for name, value in request.environ.items():
            # CGI variables and headers; the others belong to the server, or to werkzeug.
            if not name.isupper() or _ABOUT_OUTER.fullmatch(name) or name.removeprefix("HTTP_") in _NOT_PASSED_ON:
                continue
            environ[name] = value
        environ["HTTP_ACCEPT"] = ACCEPT
        environ["wsgi.url_scheme"] = request.environ["wsgi.url_scheme"]
        if not with_cookies:
            environ.pop("HTTP_COOKIE", None)
        for name, value in trace_headers(call.meta).items():
            if name in _TRACE_HEADERS:
                environ[f"HTTP_{name.upper()}"] = value
        environ[INNER] = []
        return environ

    def _run(self, app: Flask, environ: dict[str, Any], path: str) -> Reply:
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
        return Reply(path, int(code), reason, headers, bytes(body))


def _note_endpoint(app: Flask, **extra: Any) -> None:
    """Note in an inner request which endpoint the app has matched, because a WSGI middleware may lead elsewhere."""
    if INNER in request.environ:
        request.environ[INNER].append(request.endpoint)


def _does_not_fit(path: str) -> InvalidParams:
    return InvalidParams([Problem("", f"do not fit into the path {path}")])


def _text_of(value: Any, converter: BaseConverter) -> str:
    """Write a value in a path: numbers as the converter reads them, such as 5 as 5.0 for ``<float:x>``."""
    if isinstance(value, (str, bool)):
        return as_text(value)
    if isinstance(converter, IntegerConverter) and value == int(value):
        return converter.to_url(value)
    if isinstance(converter, FloatConverter):
        text = format(Decimal(str(value)), "f")  # to_url() may write an exponent, which is not matched
        return (text if "." in text else f"{text}.0").zfill(converter.fixed_digits)
    return as_text(value)


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
