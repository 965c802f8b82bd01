"""MCP requests in both eras, and the answers to what a method asks."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..mcp.headers import METHOD_HEADER, NAME_HEADER
from ..mcp.http import SESSION_HEADER
from ..mcp.protocol import CLIENT_CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION, VERSION_HEADER
from .results import LogMessage, Progress, Reports
from .transport import EVENT_STREAM, Message, Reply, Transport

Question = Mapping[str, Any]
"""What a method asks, as the server sends it: ``{"method": "elicitation/create", "params": {...}}``."""

Answers = Mapping[str, Any] | Callable[[str, Question], Any] | None
"""An answer for each key, or a function that gets the key and the question; ``None`` is no answer."""

ACTIONS = ("accept", "decline", "cancel")
MAX_ROUNDS = 20
"""Maximum rounds of questions per request."""

ACCEPT = {"Accept": f"application/json, {EVENT_STREAM}"}
CLIENT_INFO = {"name": "flask-jsonrpc-mcp-testing", "version": "1"}

_ids = itertools.count(1)


@dataclass
class Exchange:
    """One MCP request, with everything that is sent in both directions before its response."""

    method: str
    params: Message
    answers: Answers = None
    mirrored: Mapping[str, str] = field(default_factory=dict)
    reports: Reports | None = None
    questions: dict[str, Question] = field(default_factory=dict)
    unanswered: dict[str, Question] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.params.get("name") or self.params.get("uri") or self.method)

    def keep_report(self, message: Message) -> None:
        """Keep a progress or log notification, if reports were requested."""
        params = message.get("params", {})
        if self.reports is None:
            return
        if message["method"] == "notifications/progress":
            self.reports.progress.append(Progress(params["progress"], params.get("total"), params.get("message")))
        elif message["method"] == "notifications/message":
            self.reports.log.append(LogMessage(params["level"], params.get("data"), params.get("logger")))

    def key_of(self, question: Question) -> str:
        """Find the key of a question from before 2026-07-28, which has none: answers are in order of the questions."""
        asked_before = next((key for key, asked in self.questions.items() if asked == question), None)
        if asked_before is not None:
            return asked_before
        keys = [] if callable(self.answers) else list(self.answers or {})
        number = len(self.questions)
        return keys[number] if number < len(keys) else f"question-{number + 1}"

    def answer(self, key: str, question: Question) -> Message | None:
        """Answer a question of the method, if the test says how."""
        # A question that is asked again was not answered in a usable way, and would be asked for ever.
        again = self.questions.get(key) == question and not callable(self.answers)
        self.questions[key] = question
        answer = None if again else self._given(key, question)
        if answer is None:
            self.unanswered[key] = question
            return None
        return _RESULTS[question["method"]](answer)

    def _given(self, key: str, question: Question) -> Any:
        return self.answers(key, question) if callable(self.answers) else (self.answers or {}).get(key)

    def explain_unanswered(self) -> tuple[str, str]:
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
        return f"It asks for {', '.join(asked)}", "; ".join(advice)


@dataclass(frozen=True)
class Modern:
    """A client of 2026-07-28: each request stands alone, and is sent again with the answers to its questions."""

    transport: Transport
    version: str
    capabilities: Mapping[str, Any]

    def request(self, exchange: Exchange) -> Reply:
        params = exchange.params
        for _ in range(MAX_ROUNDS):
            reply = self._send(exchange, params)
            result = reply.body.get("result", {}) if isinstance(reply.body, dict) else {}
            if result.get("resultType") != "input_required":
                return reply
            given = {key: exchange.answer(key, asked) for key, asked in result.get("inputRequests", {}).items()}
            if exchange.unanswered:
                return reply
            params = {**exchange.params, "inputResponses": given}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise AssertionError(f"{exchange.name} has asked {MAX_ROUNDS} times: {given}")

    def _send(self, exchange: Exchange, params: Message) -> Reply:
        number = next(_ids)
        meta: Message = {
            PROTOCOL_VERSION: self.version,
            "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
            CLIENT_CAPABILITIES: self.capabilities,
        }
        if exchange.reports is not None:
            meta.update({LOG_LEVEL: "debug", PROGRESS_TOKEN: number})
        payload = {"jsonrpc": "2.0", "id": number, "method": exchange.method, "params": {**params, "_meta": meta}}
        headers = {**ACCEPT, VERSION_HEADER: self.version, METHOD_HEADER: exchange.method, **exchange.mirrored}
        named = params.get("name", params.get("uri"))
        if isinstance(named, str):
            headers[NAME_HEADER] = header_value(named)
        return self.transport.send("mcp", json=payload, headers=headers, on_message=exchange.keep_report)


@dataclass
class Legacy:
    """A client from before 2026-07-28: it initialises a session first, and is asked while its request is open."""

    transport: Transport
    version: str
    capabilities: Mapping[str, Any]
    _headers: dict[str, str] | None = None
    _log_level_is_set: bool = False

    def request(self, exchange: Exchange) -> Reply:
        if self._headers is None:
            welcome = self._initialize()
            if welcome.status != 200:
                return welcome
        number, params = next(_ids), exchange.params
        if exchange.reports is not None:
            if not self._log_level_is_set:
                self._send(next(_ids), "logging/setLevel", {"level": "debug"})
                self._log_level_is_set = True
            params = {**params, "_meta": {PROGRESS_TOKEN: number}}

        def receive(message: Message) -> None:
            if "id" in message:
                self._respond(message, exchange)
            else:
                exchange.keep_report(message)

        return self._send(number, exchange.method, params, receive)

    def _send(
        self, number: int, method: str, params: Message, on_message: Callable[[Message], None] = lambda message: None
    ) -> Reply:
        payload = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return self.transport.send("mcp", json=payload, headers=self._headers or ACCEPT, on_message=on_message)

    def _initialize(self) -> Reply:
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT_INFO}
        welcome = self._send(next(_ids), "initialize", params)
        if welcome.status != 200:
            return welcome
        session = welcome.headers.get(SESSION_HEADER)
        self._headers = {
            **ACCEPT,
            **({SESSION_HEADER: session} if session is not None else {}),
            **({VERSION_HEADER: self.version} if self.version >= "2025-06-18" else {}),
        }
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.transport.send("mcp", json=initialized, headers=self._headers)
        return welcome

    def _respond(self, asked: Message, exchange: Exchange) -> None:
        response: Message = {"jsonrpc": "2.0", "id": asked["id"]}
        question = {name: value for name, value in asked.items() if name in ("method", "params")}
        key = exchange.key_of(question)
        answer = exchange.answer(key, question)
        if answer is None:
            response["error"] = {"code": -1, "message": "The test has no answer to this"}
        else:
            response["result"] = answer
        reply = self.transport.send_within("mcp", json=response, headers=self._headers)
        if reply.status >= 400:  # and the method would wait for ever
            raise AssertionError(f"the app refused the answer to {key!r}: HTTP {reply.status}")


def header_value(value: Any) -> str:
    """Serialise a value for a header; in base64 if it has characters that headers may not have."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def _elicit_result(answer: Any) -> Message:
    if isinstance(answer, str):
        if answer not in ACTIONS:
            raise ValueError(f"{answer!r} is not an answer to a form; pass a dict of its fields, or one of {ACTIONS}")
        return {"action": answer}
    is_result = set(answer) <= {"action", "content", "_meta"} and answer.get("action") in ACTIONS
    return dict(answer) if is_result else {"action": "accept", "content": dict(answer)}


def _sampling_result(answer: Any) -> Message:
    if not isinstance(answer, str):
        return dict(answer)
    content = {"type": "text", "text": answer}
    return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}


def _roots_result(answer: Any) -> Message:
    if isinstance(answer, Mapping):
        return dict(answer)
    return {"roots": [{"uri": root} if isinstance(root, str) else dict(root) for root in answer]}


# A test may also give the whole result that a client would send.
_RESULTS: dict[str, Callable[[Any], Message]] = {
    "elicitation/create": _elicit_result,
    "sampling/createMessage": _sampling_result,
    "roots/list": _roots_result,
}
