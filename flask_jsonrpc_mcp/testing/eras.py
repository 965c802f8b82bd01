"""MCP as a client speaks it, in both eras: requests one by one, or after a handshake."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..faces.mcp.legacy import SESSION_HEADER
from ..faces.mcp.mirrored_headers import METHOD_HEADER, NAME_HEADER, VERSION_HEADER
from ..mcp.protocol import CLIENT_CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION
from ..methods import Method
from .answers import Answers, Question, find_answer
from .results import LogMessage, Progress, Reports
from .wire import Message, Reply, Wire

CLIENT = {"name": "flask-jsonrpc-mcp-testing", "version": "1"}
MAX_ROUNDS = 20
"""A method that has asked so often asks for ever."""

_ENDPOINT = "mcp"
_ACCEPT = {"Accept": "application/json, text/event-stream"}
_ids = itertools.count(1)


@dataclass
class Conversation:
    """Everything that is said besides the answer to one request."""

    answers: Answers = None
    reports: Reports | None = None
    questions: dict[str, Question] = field(default_factory=dict)
    unanswered: dict[str, Question] = field(default_factory=dict)

    def hear(self, message: Message) -> None:
        """Keep what the method says of itself."""
        params = message.get("params", {})
        if self.reports is None:
            return
        if message["method"] == "notifications/progress":
            self.reports.progress.append(Progress(params["progress"], params.get("total"), params.get("message")))
        elif message["method"] == "notifications/message":
            self.reports.log.append(LogMessage(params["level"], params.get("data"), params.get("logger")))

    def key_of(self, question: Question) -> str:
        """Name a question of a version that has no keys: answers are meant in the order of the questions."""
        asked_before = next((key for key, asked in self.questions.items() if asked == question), None)
        if asked_before is not None:
            return asked_before
        keys = [] if callable(self.answers) else list(self.answers or {})
        number = len(self.questions)
        return keys[number] if number < len(keys) else f"question-{number + 1}"

    def answer(self, key: str, question: Question) -> dict[str, Any] | None:
        """Answer what the method asks, if the test says how."""
        # What is asked again was not answered as it should be, and would be asked for ever.
        again = self.questions.get(key) == question and not callable(self.answers)
        self.questions[key] = question
        answer = None if again else find_answer(self.answers, key, question)
        if answer is None:
            self.unanswered[key] = question
        return answer


class Era(Protocol):
    """How requests are made before and since 2026-07-28."""

    def ask(self, method: str, params: Message, conversation: Conversation, mirrored: Mapping[str, str]) -> Reply: ...


@dataclass(frozen=True)
class Modern:
    """Since 2026-07-28: every request by itself, and again with the answers to what the method asked."""

    wire: Wire
    version: str
    capabilities: Mapping[str, Any]

    def ask(self, method: str, params: Message, conversation: Conversation, mirrored: Mapping[str, str]) -> Reply:
        for _ in range(MAX_ROUNDS):
            reply = self._send(method, params, conversation, mirrored)
            result = reply.body.get("result", {}) if isinstance(reply.body, dict) else {}
            if result.get("resultType") != "input_required":
                return reply
            given = {key: conversation.answer(key, asked) for key, asked in result.get("inputRequests", {}).items()}
            if conversation.unanswered:
                return reply
            params = {name: value for name, value in params.items() if name != "requestState"}
            params["inputResponses"] = given
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise AssertionError(f"{params.get('name', method)} has asked {MAX_ROUNDS} times: {given}")

    def _send(self, method: str, params: Message, conversation: Conversation, mirrored: Mapping[str, str]) -> Reply:
        number = next(_ids)
        meta: Message = {
            PROTOCOL_VERSION: self.version,
            "io.modelcontextprotocol/clientInfo": CLIENT,
            CLIENT_CAPABILITIES: self.capabilities,
        }
        if conversation.reports is not None:
            meta.update({LOG_LEVEL: "debug", PROGRESS_TOKEN: number})
        payload = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
        headers = {**_ACCEPT, VERSION_HEADER: self.version, METHOD_HEADER: method, **mirrored}
        named = params.get("name", params.get("uri"))
        if isinstance(named, str):
            headers[NAME_HEADER] = header_value(named)
        return self.wire.send(_ENDPOINT, json=payload, headers=headers, on_message=conversation.hear)


@dataclass
class Legacy:
    """Before: a handshake, and its session with everything after. Questions come while the call is open."""

    wire: Wire
    version: str
    capabilities: Mapping[str, Any]
    _headers: dict[str, str] | None = None
    _log_level_is_set: bool = False

    def ask(self, method: str, params: Message, conversation: Conversation, mirrored: Mapping[str, str]) -> Reply:
        if self._headers is None:
            welcome = self._initialize()
            if welcome.status != 200:
                return welcome
        number = next(_ids)
        if conversation.reports is not None:
            self._ask_for_log()
            params = {**params, "_meta": {PROGRESS_TOKEN: number}}
        payload = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

        def hear(message: Message) -> None:
            if "id" in message:
                self._respond(message, conversation)
            else:
                conversation.hear(message)

        return self.wire.send(_ENDPOINT, json=payload, headers=self._headers, on_message=hear)

    def _initialize(self) -> Reply:
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT}
        payload = {"jsonrpc": "2.0", "id": next(_ids), "method": "initialize", "params": params}
        welcome = self.wire.send(_ENDPOINT, json=payload, headers=_ACCEPT)
        if welcome.status != 200:
            return welcome
        session = welcome.headers.get(SESSION_HEADER)
        self._headers = {
            **_ACCEPT,
            **({SESSION_HEADER: session} if session is not None else {}),
            **({VERSION_HEADER: self.version} if self.version >= "2025-06-18" else {}),
        }
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.wire.send(_ENDPOINT, json=initialized, headers=self._headers)
        return welcome

    def _ask_for_log(self) -> None:
        if not self._log_level_is_set:
            params = {"level": "debug"}
            payload = {"jsonrpc": "2.0", "id": next(_ids), "method": "logging/setLevel", "params": params}
            self.wire.send(_ENDPOINT, json=payload, headers=self._headers)
            self._log_level_is_set = True

    def _respond(self, asked: Message, conversation: Conversation) -> None:
        response: Message = {"jsonrpc": "2.0", "id": asked["id"]}
        question = {name: value for name, value in asked.items() if name in ("method", "params")}
        answer = conversation.answer(conversation.key_of(question), question)
        if answer is None:
            response["error"] = {"code": -1, "message": "The test has no answer to this"}
        else:
            response["result"] = answer
        self.wire.send(_ENDPOINT, json=response, headers=self._headers)


def mirrored_arguments(method: Method | None, arguments: Any) -> dict[str, str]:
    """The arguments that travel in headers too, as a proxy would see them."""
    if method is None:
        return {}
    values = {argument.header: argument.value_in(arguments) for argument in method.params.mirrored}
    return {header: header_value(value) for header, value in values.items() if value is not None}


def header_value(value: Any) -> str:
    """Spell a value for a header; in base64 when it has characters that headers have not."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="
