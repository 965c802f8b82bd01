"""The requests of `McpTestClient`, by Flask's test client, and the answers to what a method asks.

werkzeug's test client keeps what an app writes until the app has returned. A method that asks a client from before
2026-07-28 waits for the answer before it returns, so here each event is read as soon as the app writes it, and the
answer is sent from there.
"""

from __future__ import annotations

import itertools
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context, copy_context
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Flask, request
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers

from ..ask import ACTIONS, MAX_ROUNDS, Elicit, ListRoots, Sample
from ..config import PREFIX
from ..envelope import VERSION
from ..errors import RpcError
from ..invoke import INPUT_REQUIRED, method_called
from ..mcp.http import SESSION_HEADER
from ..mcp.protocol import (
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
    METHOD_HEADER,
    MODERN,
    NAME_HEADER,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    VERSION_HEADER,
)
from ..mcp.streams import EVENTS
from ..registry import Registry
from .results import Failure, Message, Reply

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Question = Mapping[str, Any]
"""What a method asks, as the server sends it: ``{"method": "elicitation/create", "params": {...}}``."""

Answers = Mapping[str, Any] | Callable[[str, Question], Any] | None
"""An answer for each key, or a function that gets the key and the question; ``None`` is no answer."""

CLIENT_INFO = {"name": "flask-jsonrpc-mcp-testing", "version": "1"}
FROM_A_PAGE = {"Sec-Fetch-Site": "same-origin"}
"""What a browser sends with the requests of a page of the same site, so that its cookies may sign in."""

_OBSERVED = "flask_jsonrpc_mcp.testing"

_ids = itertools.count(1)


@dataclass
class Exchange:
    """One MCP request, with everything that is sent in both directions before its response.

    :param listen: Request progress and log messages.
    :param headers: Headers that repeat arguments.
    """

    method: str
    params: Message
    answers: Answers = None
    listen: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    notifications: list[Message] = field(default_factory=list)
    questions: dict[str, Question] = field(default_factory=dict)
    unanswered: dict[str, Question] = field(default_factory=dict)

    @property
    def target(self) -> Any:
        """The name, URI or task that the request is about."""
        return next((self.params[member] for member in ("name", "uri", "taskId") if member in self.params), None)

    def key_of(self, question: Question) -> str:
        """Find the key of a question from before 2026-07-28, which has none: answers are in order of the questions."""
        for key, asked in self.questions.items():
            if asked == question:
                return key
        keys = [] if callable(self.answers) else list(self.answers or {})
        number = len(self.questions)
        return keys[number] if number < len(keys) else f"question-{number + 1}"

    def answer(self, key: str, question: Question) -> Message | None:
        """Return the result of a question, if the test has an answer."""
        was_asked = self.questions.get(key) == question
        self.questions[key] = question
        if callable(self.answers):
            answer = self.answers(key, question)
        else:
            # A question that is asked again had an unusable answer, and would be asked for ever.
            answer = None if was_asked else (self.answers or {}).get(key)
        if answer is None:
            self.unanswered[key] = question
            return None
        return answer_result(question["method"], answer)

    def failure(self) -> Failure:
        """Say which questions have no usable answer, and what the author of the test can do."""
        asked, advice = [], []
        for key, question in self.unanswered.items():
            params = question.get("params", {})
            message, form = params.get("message"), params.get("requestedSchema")
            asked.append(f"{key!r} ({question['method']}{f': {message}' if message else ''})")
            if callable(self.answers) or (self.answers or {}).get(key) is None:
                advice.append(f"answer it: answers={{{key!r}: ...}}")
            else:
                advice.append(f"the answer to {key!r} does not fit" + (f" this form: {form}" if form else ""))
        text = f"It asks for {', '.join(asked)}"
        return Failure(RpcError.code, INPUT_REQUIRED, text, advice="; ".join(advice))


@dataclass
class Conversation:
    """Sends the requests of a client to one blueprint of an app.

    An MCP client of a version with sessions initialises one before its first request.

    :param headers: Sent with every request, such as credentials.
    :param http: The test client to use; otherwise a new one for each request, without cookies.
    """

    app: Flask
    blueprint: str
    registry: Registry
    headers: Mapping[str, str]
    http: FlaskClient | None
    version: str
    capabilities: Mapping[str, Any]
    _session: dict[str, str] | None = None
    _has_log_level: bool = False

    def request(self, exchange: Exchange) -> Reply:
        """Send an MCP request, answer what is asked, and return the last response."""
        if self.version == MODERN:
            return self._request_modern(exchange)
        if self._session is None:
            response = self._initialize()
            if self._session is None:
                return response
        if exchange.listen and not self._has_log_level:
            self._send_request(Exchange("logging/setLevel", {"level": "debug"}))
            self._has_log_level = True
        return self._send_request(exchange)

    def _request_modern(self, exchange: Exchange) -> Reply:
        """Send a request, and retry it with the answers to its questions."""
        meta = {
            PROTOCOL_VERSION: self.version,
            "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
            CLIENT_CAPABILITIES: self.capabilities,
            **({LOG_LEVEL: "debug"} if exchange.listen else {}),
        }
        headers = {VERSION_HEADER: self.version, METHOD_HEADER: exchange.method, **exchange.headers}
        if exchange.target is not None:
            headers[NAME_HEADER] = header_value(exchange.target)
        params = exchange.params
        for _ in range(MAX_ROUNDS):
            reply = self._send_request(exchange, params, meta, headers)
            result = reply.body.get("result", {}) if isinstance(reply.body, dict) else {}
            if result.get("resultType") != "input_required":
                return reply
            requests = result.get("inputRequests", {})
            responses = {key: exchange.answer(key, question) for key, question in requests.items()}
            if exchange.unanswered:
                return reply
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            params = {**exchange.params, "inputResponses": responses, **state}
        raise AssertionError(f"{exchange.target} has asked {MAX_ROUNDS} times: {responses}")

    def _initialize(self) -> Reply:
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
        response = self._send_request(Exchange("initialize", params))
        if response.status == 200:
            session = response.headers.get(SESSION_HEADER)
            self._session = {} if session is None else {SESSION_HEADER: session}
            if self.version >= "2025-06-18":
                self._session[VERSION_HEADER] = self.version
            self._send_message({"method": "notifications/initialized"})
        return response

    def _send_request(
        self,
        exchange: Exchange,
        params: Message | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        number = next(_ids)
        meta = {**(meta or {}), **({PROGRESS_TOKEN: number} if exchange.listen else {})}
        params = {**(params or exchange.params), **({"_meta": meta} if meta else {})}
        message = {"id": number, "method": exchange.method, "params": params}
        return self._send_message(message, headers, on_message=partial(self._receive, exchange))

    def _receive(self, exchange: Exchange, message: Message) -> None:
        """Keep a notification, or answer a question of a server from before 2026-07-28."""
        if "id" not in message:
            exchange.notifications.append(message)
            return
        question = {name: value for name, value in message.items() if name in ("method", "params")}
        key = exchange.key_of(question)
        answer = exchange.answer(key, question)
        error = {"error": {"code": -1, "message": "The test has no answer to this"}}
        response = {"id": message["id"], **(error if answer is None else {"result": answer})}
        # With a flask.g of its own, even if the test has pushed an app context that its requests share.
        reply = Context().run(self._send_message, response, is_inner=True)
        if reply.status >= 400:  # and the method would wait for ever
            raise AssertionError(f"the app refused the answer to {key!r}: HTTP {reply.status}")

    def _send_message(self, message: Message, headers: Mapping[str, str] | None = None, **options: Any) -> Reply:
        headers = {"Accept": f"application/json, {EVENTS}", **(self._session or {}), **(headers or {})}
        return self.send("mcp", json={"jsonrpc": VERSION, **message}, headers=headers, **options)

    def send(
        self,
        endpoint: str,
        *,
        json: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        on_message: Callable[[Message], None] = lambda message: None,
        is_inner: bool = False,
    ) -> Reply:
        """GET one of the blueprint's routes, or POST JSON to it.

        :param on_message: Called with each message of an event stream before the response, as soon as it is sent.
        :param is_inner: Whether this thread is inside of another request, whose contexts an ``http`` may preserve.
        """
        observed: dict[str, Any] = {}
        responses: list[Message] = []

        def observe(app: Flask, **signal: Any) -> None:
            # Other threads may be calling the same app.
            if request.environ.get(_OBSERVED) is observed:
                observed.update(signal)

        def receive(message: Message) -> None:
            if "method" in message:
                on_message(message)
            else:
                responses.append(message)

        app = copy(self.app)  # the app itself is left as it is
        app.wsgi_app = _read_events_at_once(self.app, receive)  # type: ignore[method-assign, assignment]
        client = copy(self.http or self.app.test_client())  # with the same cookies
        client.application = app
        client.preserve_context = client.preserve_context and not is_inner
        with method_called.connected_to(observe, sender=self.app):
            response = client.open(
                self._locate(endpoint),
                method="GET" if json is None else "POST",
                json=json,
                query_string=dict(query or {}),
                headers={**(FROM_A_PAGE if self.http else {}), **self.headers, **(headers or {})},
                environ_overrides={_OBSERVED: observed},
            )
        # On an event stream the response is a message too, the last one.
        body = responses[-1] if responses else response.get_json(silent=True)
        return Reply(response.status_code, response.headers, body, observed)

    def _locate(self, endpoint: str) -> str:
        """Return the URL of a route, with a host that the app accepts."""
        config = self.app.config
        allowed = config[PREFIX + "ALLOWED_HOSTS"] or config["TRUSTED_HOSTS"] or ()
        host = next((host.lstrip(".") for host in allowed), None) or config["SERVER_NAME"] or "localhost"
        adapter = self.app.url_map.bind(host, url_scheme=config["PREFERRED_URL_SCHEME"])
        return adapter.build(f"{self.blueprint}.{endpoint}", force_external=True)


def _read_events_at_once(app: WSGIApplication, receive: Callable[[Message], None]) -> WSGIApplication:
    """Wrap a WSGI app: pass each message of an event stream to ``receive`` as soon as the app writes or yields it.

    If ``receive`` raises, the app sees a closed connection, and the exception is raised once the app has returned.
    """

    def wsgi_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_stream, rest = False, b""
        parts: list[bytes] = []
        failures: list[BaseException] = []
        outside = copy_context()  # without the app's contexts, like a client in another process

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            nonlocal is_stream
            is_stream = Headers(headers).get("Content-Type", "").startswith(EVENTS)
            start_response(status, headers, exc_info)
            return write

        def write(part: bytes) -> None:
            nonlocal rest
            if not is_stream:
                parts.append(part)
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if line.startswith(b"data:") and not failures:
                    try:
                        outside.run(receive, json.loads(line[5:]))
                    except BaseException as error:  # pytest.fail() raises one
                        failures.append(error)
            if failures:
                raise BrokenPipeError("the test has stopped reading")

        try:
            body = app(environ, start)
            try:
                for part in body:
                    write(part)
            finally:
                if hasattr(body, "close"):
                    body.close()
        finally:
            for failure in failures:
                raise failure from failure.__cause__
        return parts

    return wsgi_app


def header_value(value: Any) -> str:
    """Serialise a value for a header; in base64 if it has characters that headers may not have."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def answer_result(method: str, answer: Any) -> Message:
    """Build the result that a client would send. A test may also give the whole result."""
    if method == Elicit.method:
        if isinstance(answer, str) and answer not in ACTIONS:
            raise ValueError(f"{answer!r} is not an answer to a form; pass a dict of its fields, or one of {ACTIONS}")
        if isinstance(answer, str):
            return {"action": answer}
        is_result = set(answer) <= {"action", "content", "_meta"} and answer.get("action") in ACTIONS
        return dict(answer) if is_result else {"action": "accept", "content": dict(answer)}
    if method == Sample.method and isinstance(answer, str):
        content = {"type": "text", "text": answer}
        return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}
    if method == ListRoots.method and not isinstance(answer, Mapping):
        return {"roots": [{"uri": root} if isinstance(root, str) else dict(root) for root in answer]}
    return dict(answer)
