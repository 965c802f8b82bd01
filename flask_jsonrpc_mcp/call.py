"""One call of a method, and `current_call`: what a running method can report to its client, and ask it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from flask import current_app
from werkzeug.local import LocalProxy

from .ask import (
    CONFIRM_KEY,
    NO_ANSWERS,
    Answers,
    Elicit,
    Elicited,
    ElicitUrl,
    InputNeeded,
    ListRoots,
    Question,
    Root,
    Sample,
    Sampled,
    UnusableAnswer,
)
from .auth import Caller
from .content import PromptMessage
from .errors import CannotAsk, MissingCapability, RpcError
from .problems import MAX_QUOTED, one_line
from .strict_json import to_plain

METHOD, PROMPT, RESOURCE, COMPLETION, SUBSCRIPTION = "method", "prompt", "resource", "completion", "subscription"
"""The kinds of calls."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""MCP's log levels, least severe first."""

MCP, BRIDGE = "mcp", "bridge"
"""The faces for MCP clients: ``/mcp`` or stdio, and the bridge, which calls the other routes for them."""

CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
"""The key of ``_meta`` for what an MCP client calls itself."""

CLI = "cli"
"""The face of ``flask mcp call``, which waits for as long as a method takes."""

BRIDGE_HEADER = "Mcp-Bridge"
"""Sent by the bridge, so that the site knows that an MCP client is calling, and not a person."""

MAX_TRACE_HEADER = 8192
"""Maximum characters of one value of ``_meta`` that continues a trace, as W3C has it for ``baggage``."""

POLL_EVERY = 1.0
"""Seconds between two checks whether the client has cancelled a running call."""

_CANNOT_CONFIRM = (
    "Not done: the user must confirm this first, and this MCP client cannot ask. Connect a client with the"
    " capability elicitation to /mcp (before 2026-07-28 it must also accept text/event-stream), or declare the tool"
    " with confirm_required=False to run it without the question"
)


def trace_headers(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the part of a client's ``_meta`` that can continue its trace, such as ``traceparent`` and ``baggage``.

    What could be no HTTP header is left out: libraries write what they cannot parse to the log as it is.
    """
    # The other keys of MCP have a prefix; these have none.
    return {
        name: value
        for name, value in meta.items()
        if "/" not in name
        and isinstance(value, str)
        and len(value) <= MAX_TRACE_HEADER
        and value.isascii()
        and value.isprintable()
    }


class Reporter(Protocol):
    """Sends the progress and log messages of a call to its client."""

    def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, data: Any, logger: str | None) -> None: ...


@dataclass
class Cancellation:
    """Whether a call has been cancelled.

    :param poll: Returns whether the client has cancelled by another request; called at most once per second.
    :param by_client: Whether the client cancelled or disconnected, so that it does not expect a response.
    """

    poll: Callable[[], bool] | None = None
    by_client: bool = False
    _requested: bool = False
    _polled: float = field(default_factory=time.monotonic)

    @property
    def requested(self) -> bool:
        if not self._requested and self.poll is not None and time.monotonic() >= self._polled + POLL_EVERY:
            self._polled = time.monotonic()
            if self.poll():
                self.request(by_client=True)
        return self._requested

    def request(self, *, by_client: bool = False) -> None:
        """Cancel the call."""
        self._requested = True
        self.by_client = self.by_client or by_client


@dataclass(frozen=True)
class Call:
    """One call of a method. A running method finds its own as ``current_call``.

    :param arguments: By name, or by position.
    :param face: The interface it came in by: ``rest``, ``jsonrpc``, ``mcp``, ``bridge``, ``cli``.
    :param kind: ``method``, ``prompt``, ``resource``, ``completion`` or ``subscription``.
    :param capabilities: What the client can be asked: ``elicitation``, ``elicitation.url``, ``sampling``, ``roots``.
    :param answers: The client's answers to questions of earlier runs.
    :param reporter: Sends progress and log messages to the client; ``None`` if that is not possible.
    :param meta: The ``_meta`` of the request, such as OpenTelemetry's ``traceparent``.
    :param listed_only: Find only methods that are listed, such as those marked as tools.
    :param read_only: Run the method only if it is marked as read-only.
    :param detachable: The client supports tasks: it may get the id of a task now, and fetch the result later.
    :param in_task: A worker runs it. Confirmation and rate limits were dealt with when the task was created.
    :param notes: What is found out while it runs: its ``id``, and ``trace_id``, the trace that the method ran in.
    """

    name: str
    arguments: Mapping[str, Any] | Sequence[Any]
    caller: Caller
    face: str
    kind: str = METHOD
    capabilities: frozenset[str] = frozenset()
    answers: Answers = NO_ANSWERS
    reporter: Reporter | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    meta: Mapping[str, Any] = field(default_factory=dict)
    listed_only: bool = True
    read_only: bool = False
    detachable: bool = False
    in_task: bool = False
    notes: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _digests: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def id(self) -> str:
        """Identifies the call in the log."""
        return self.notes.get("id") or self.notes.setdefault("id", new_id())

    def log_facts(self) -> dict[str, Any]:
        """Return the fields that identify the call in log records. Each value is one line."""
        return {
            "tool": one_line(self.name, MAX_QUOTED),
            "face": self.face,
            "caller": one_line(self.caller.name, MAX_QUOTED),
            "id": self.id,
        }

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted. A long method should check this now and then, and return."""
        return self.cancellation.requested

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client, if it asked for that.

        A generator, or a method with ``streams=True``, sends it at once; any other method sends it with its result.

        :param done: How much is done; must increase with each report.
        :param total: How much there is to do, if known.
        """
        for number in (done,) if total is None else (done, total):
            if not isinstance(number, (int, float)) or not math.isfinite(number):
                raise ValueError(f"progress and total must be finite numbers, not {number!r}")
        if self.reporter is not None and not self.cancelled:
            # A lone surrogate, which a file name can contain, cannot be serialised as JSON.
            text = None if message is None else str(message).encode("utf-8", "replace").decode("utf-8")
            self.reporter.progress(done, total, text)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if it asked for that level.

        :param level: ``debug``, ``info``, ``notice``, ``warning``, ``error``, ``critical``, ``alert`` or ``emergency``.
        :param data: A string, or any other JSON value. It leaves the server, so it must not contain secrets.
        :param logger: The name of the logger.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
        plain = to_plain(data)
        if self.reporter is not None and not self.cancelled:
            self.reporter.log(level, plain, logger)

    def detach(self) -> None:
        """Go on in a worker, and give the client a handle; for tools with ``task=TaskOptions(late=True)``.

        If the client supports tasks, the method **ends here**, and a worker runs it again from its beginning with the
        answers to its questions at hand. So do nothing before this that must not happen twice. In the worker, and for
        all other clients, it returns, and the method continues.
        """
        if self.detachable and not self.in_task:
            raise Detach(self)

    def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> Elicited:
        """Ask the user to fill in a form; see :class:`.Elicit` and :meth:`ask`."""
        return self._ask_one(Elicit(message, schema), key)  # type: ignore[no-any-return]

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Ask the user to open a URL; see :class:`.ElicitUrl` and :meth:`ask`."""
        return self._ask_one(ElicitUrl(message, url), key)  # type: ignore[no-any-return]

    def sample(
        self,
        messages: str | PromptMessage | Sequence[str | PromptMessage],
        *,
        max_tokens: int = 1000,
        system_prompt: str | None = None,
        options: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Sampled:
        """Ask the client's model; see :class:`.Sample` and :meth:`ask`."""
        question = Sample(messages, max_tokens, system_prompt, options or {})
        return self._ask_one(question, key)  # type: ignore[no-any-return]

    def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask the client for its roots; see :meth:`ask`."""
        return self._ask_one(ListRoots(), key)  # type: ignore[no-any-return]

    def ask(self, **questions: Question) -> dict[str, Any]:
        """Ask several questions at once, and return the answers by their names.

        If an answer is missing, the method **ends here**. The client is asked, and the method runs again from its
        beginning with the answers at hand. So do nothing that must not happen twice before the last question, and ask
        the same questions in the same order in each run.

        :raises RpcError: if this client cannot be asked.
        """
        return self._answers_to(questions)

    def confirm(self, message: str, *, required: bool) -> None:
        """Ask the user whether the method may run at all; used for ``@rpc.tool(confirm=...)``.

        :param required: Reject an MCP client that cannot ask. On the other faces the caller is the user.
        :raises RpcError: if the user did not accept.
        """
        if self.face == MCP and not current_app.secret_key:
            raise CannotAsk()
        question = Elicit(message)
        if question.feature not in self.capabilities:
            if self.face in (MCP, BRIDGE) and required:
                raise RpcError(_CANNOT_CONFIRM)
            return
        answer = self._answers_to({CONFIRM_KEY: question}, has_run=False)[CONFIRM_KEY]
        if not answer.accepted:
            raise RpcError("Not done: the user declined")

    def _ask_one(self, question: Question, key: str | None) -> Any:
        if key is None:
            key = f"question-{1 + sum(each.startswith('question-') for each in self._digests)}"
        return self._answers_to({key: question})[key]

    def _answers_to(self, questions: Mapping[str, Question], *, has_run: bool = True) -> dict[str, Any]:
        """Return the answers, or end the run with the questions that have none.

        :param has_run: False for ``confirm=``: the method has not run yet, and only answers with a signed state count.
        :raises InputNeeded: with the open questions.
        :raises ValueError: if a key was used for another question.
        """
        for key, question in questions.items():
            if not isinstance(question, Question):
                kind = type(question).__name__
                raise TypeError(f"{key!r} must be an Elicit, ElicitUrl, Sample or ListRoots, not {kind}")
            if not isinstance(key, str):
                raise TypeError(f"the key of a question must be a str, not {type(key).__name__}")
        missing = {question.feature for question in questions.values()} - self.capabilities
        if missing:
            raise MissingCapability(missing)
        answers, open_questions = {}, {}
        for key, question in questions.items():
            digest = question.digest
            if self._digests.setdefault(key, digest) != digest:
                raise ValueError(f"the key {key!r} belongs to another question; give each its own key")
            try:
                answers[key] = self.answers.get(key, question, signed=not has_run)
            except UnusableAnswer:
                open_questions[key] = question
        if open_questions:
            raise InputNeeded(open_questions, has_run=has_run)
        return answers


class Detach(BaseException):
    """Ends a call that goes on as a task. A method's ``except Exception`` does not catch it."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.name)
        self.call = call


@dataclass(slots=True)
class Result:
    """The result of a call, as plain JSON values.

    :param content: Content blocks, if the method returned any.
    :param meta: The ``_meta`` of the result.
    :param schema: The output schema that the value matches, if declared.
    :param max_age: For how many seconds the client may cache it.
    """

    value: Any
    content: list[dict[str, Any]] | None = None
    meta: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    max_age: int = 0

    @property
    def plain(self) -> Any:
        """The result for faces without content blocks."""
        return self.content if self.value is None and self.content is not None else self.value


running_call: ContextVar[Call] = ContextVar("flask_jsonrpc_mcp.current_call")

current_call: Call = LocalProxy(  # type: ignore[assignment]
    running_call,
    unbound_message="Working outside of a call: current_call is only available while a tool, prompt or resource runs.",
)
"""The call of the running method."""


def new_id() -> str:
    """Return an id for a log entry. It is not a secret."""
    return f"{random.getrandbits(48):012x}"


def log_unexpected(error: BaseException, error_id: str) -> None:
    """Log an unexpected exception with its traceback under an id."""
    call = running_call.get(None)
    facts = {**({} if call is None else call.log_facts()), "id": error_id}
    current_app.logger.error("unexpected failure, id=%(id)s", facts, exc_info=error, extra=facts)
