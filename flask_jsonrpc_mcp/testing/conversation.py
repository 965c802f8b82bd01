"""MCP requests in both eras, and the answers to what a method asks."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..ask import ACTIONS, Elicit, ListRoots, Sample
from ..errors import RpcError
from ..invoke import INPUT_REQUIRED
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
from .results import Failure
from .transport import EVENT_STREAM, Message, Reply, Transport

Question = Mapping[str, Any]
"""What a method asks, as the server sends it: ``{"method": "elicitation/create", "params": {...}}``."""

Answers = Mapping[str, Any] | Callable[[str, Question], Any] | None
"""An answer for each key, or a function that gets the key and the question; ``None`` is no answer."""

MAX_ROUNDS = 20
"""Maximum rounds of questions per request."""

CLIENT_INFO = {"name": "flask-jsonrpc-mcp-testing", "version": "1"}

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
        """The name or URI that the request is about."""
        return self.params.get("name", self.params.get("uri"))

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
        # A question that is asked again was not answered in a usable way, and would be asked for ever.
        again = self.questions.get(key) == question and not callable(self.answers)
        self.questions[key] = question
        answer = None if again else self._given(key, question)
        if answer is None:
            self.unanswered[key] = question
            return None
        return _answer_result(question["method"], answer)

    def _given(self, key: str, question: Question) -> Any:
        return self.answers(key, question) if callable(self.answers) else (self.answers or {}).get(key)

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
    """An MCP client, which initialises a session before its first request if its version has sessions."""

    transport: Transport
    version: str
    capabilities: Mapping[str, Any]
    _session: dict[str, str] | None = None
    _has_log_level: bool = False

    def request(self, exchange: Exchange) -> Reply:
        """Send a request, answer what is asked, and return the last response."""
        return self._request_modern(exchange) if self.version == MODERN else self._request_legacy(exchange)

    def _request_modern(self, exchange: Exchange) -> Reply:
        """Send a request that stands alone, and send it again with the answers to its questions."""
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
            given = {key: exchange.answer(key, asked) for key, asked in result.get("inputRequests", {}).items()}
            if exchange.unanswered:
                return reply
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            params = {**exchange.params, "inputResponses": given, **state}
        raise AssertionError(f"{exchange.target} has asked {MAX_ROUNDS} times: {given}")

    def _request_legacy(self, exchange: Exchange) -> Reply:
        """Send a request within the session, and answer questions while it is open."""
        if self._session is None:
            welcome = self._initialize()
            if welcome.status != 200:
                return welcome
        if exchange.listen and not self._has_log_level:
            self._send_request(Exchange("logging/setLevel", {"level": "debug"}))
            self._has_log_level = True
        return self._send_request(exchange)

    def _initialize(self) -> Reply:
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
        welcome = self._send_request(Exchange("initialize", params))
        if welcome.status == 200:
            session = welcome.headers.get(SESSION_HEADER)
            self._session = {} if session is None else {SESSION_HEADER: session}
            if self.version >= "2025-06-18":
                self._session[VERSION_HEADER] = self.version
            self._send({"method": "notifications/initialized"})
        return welcome

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
        return self._send(message, headers, on_message=partial(self._receive, exchange))

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
        reply = Context().run(self._send, response, is_inner=True)
        if reply.status >= 400:  # and the method would wait for ever
            raise AssertionError(f"the app refused the answer to {key!r}: HTTP {reply.status}")

    def _send(self, message: Message, headers: Mapping[str, str] | None = None, **options: Any) -> Reply:
        accept = {"Accept": f"application/json, {EVENT_STREAM}"}
        sent = {**accept, **(self._session or {}), **(headers or {})}
        return self.transport.send("mcp", json={"jsonrpc": "2.0", **message}, headers=sent, **options)


def header_value(value: Any) -> str:
    """Serialise a value for a header; in base64 if it has characters that headers may not have."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def _answer_result(method: str, answer: Any) -> Message:
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
