"""A call, its result, and `current_call`: what a running method may say to, and ask of, the client that called it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from werkzeug.local import LocalProxy

from .access import Caller
from .content import PromptMessage
from .current import this_app
from .errors import MissingCapability, RpcError
from .mailbox import answer_timeout, current_mailbox
from .questions import (
    CONFIRM_KEY,
    NO_ANSWERS,
    Answers,
    CannotAsk,
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
from .strict_json import to_plain

METHOD, PROMPT, RESOURCE, COMPLETION = "method", "prompt", "resource", "completion"
"""What a call may be of."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""How much a message matters, the least first."""

MCP = "mcp"
"""The face of MCP, the only one whose clients can be asked."""


def new_id() -> str:
    """Make an id that finds a call in the log. It is no secret, so it need not cost what one does."""
    return f"{random.getrandbits(48):012x}"


def log_unexpected(error: BaseException, error_id: str) -> None:
    """Log in full what nobody expected; the caller is told only the id."""
    this_app().logger.error("unexpected failure, id=%s", error_id, exc_info=error)


class Listener(Protocol):
    """A client that wants to hear how a call gets on."""

    def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    def log(self, level: str, data: Any, logger: str | None) -> None: ...


class Cancellation:
    """Whether a call has been given up by those who waited for it."""

    requested = False

    def request(self) -> None:
        """Give the call up."""
        self.requested = True


# A fact, but not frozen: to make a frozen one of so many members costs as much as to find and check a method.
@dataclass
class Call:
    """One call of a method.

    :param arguments: By name, or by position.
    :param face: Where it came in: ``rest``, ``jsonrpc``, ``mcp``, ``cli``.
    :param kind: What it is a call of: a method, a prompt, a resource, a completion.
    :param capabilities: What the client can do for a method: ``sampling``, ``elicitation``, ``roots``.
    :param answers: What the client has answered to the method's questions in earlier runs.
    :param listener: Who wants to hear how the call gets on.
    :param meta: What the client sent beside the call, such as the ``traceparent`` of OpenTelemetry.
    :param listed_only: Methods that are in no list, because they are not marked for MCP, do not exist here.
    :param read_only: Only methods that say they change nothing may run.
    """

    name: str
    arguments: Mapping[str, Any] | Sequence[Any]
    caller: Caller
    face: str
    kind: str = METHOD
    capabilities: frozenset[str] = frozenset()
    answers: Answers = NO_ANSWERS
    listener: Listener | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    meta: Mapping[str, Any] = field(default_factory=dict)
    listed_only: bool = True
    read_only: bool = False

    @cached_property
    def id(self) -> str:
        """What finds the call in the log."""
        return new_id()


class Result(NamedTuple):
    """What a call gave, as plain JSON.

    :param content: Content blocks, when the method returned some.
    :param meta: What the client gets beside it.
    :param schema: What the value keeps to, when the method declares it.
    :param max_age: For how many seconds the client may keep it.
    """

    value: Any
    content: list[dict[str, Any]] | None = None
    meta: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    max_age: int = 0

    @property
    def plain(self) -> Any:
        """The result for faces that have no content blocks."""
        return self.content if self.value is None and self.content is not None else self.value


class RunningCall:
    """A call while its method runs; a method finds its own as ``current_call``."""

    _questions = 0

    def __init__(self, call: Call) -> None:
        self.call = call
        self._digests: dict[str, str] = {}

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more. A long method should look now and then, and stop."""
        return self.call.cancellation.requested

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the method is. Goes nowhere when the client did not ask for it.

        :param done: How much is done; more each time, whatever it counts.
        :param total: How much there is to do, if that is known.
        """
        for number in (done, total):
            if number is not None and (not isinstance(number, (int, float)) or not math.isfinite(number)):
                raise ValueError(f"progress is counted in numbers, not in {number!r}")
        if self.call.listener is not None and not self.cancelled:
            # Half a surrogate pair, such as a file name can contain, has no form in JSON.
            shown = None if message is None else str(message).encode("utf-8", "replace").decode("utf-8")
            self.call.listener.progress(done, total, shown)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send the client a message for its log. Goes nowhere when the client did not ask for it.

        :param level: How much it matters: ``debug``, ``info``, ``notice``, ``warning``, ``error``, ``critical``,
            ``alert`` or ``emergency``.
        :param data: A text, or anything else that JSON can hold. No secrets: it leaves the server.
        :param logger: What part of the app says so.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
        plain = to_plain(data)
        if self.call.listener is not None and not self.cancelled:
            self.call.listener.log(level, plain, logger)

    def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> Elicited:
        """Ask the person at the client to fill in a form; see :class:`.Elicit`, and :meth:`ask` for what that means."""
        return self._ask_one(Elicit(message, schema), key)  # type: ignore[no-any-return]

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited:
        """Ask the person at the client to open a page; see :class:`.ElicitUrl`."""
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
        """Ask the client's model; see :class:`.Sample`."""
        question = Sample(messages, max_tokens, system_prompt, options or {})
        return self._ask_one(question, key)  # type: ignore[no-any-return]

    def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask the client for the folders that its person works in."""
        return self._ask_one(ListRoots(), key)  # type: ignore[no-any-return]

    def ask(self, **questions: Question) -> dict[str, Any]:
        """Ask several things at once, and return the answers by the names that the questions were given here.

        Without an answer the method **ends here**: the client is asked, and then the method runs again from its
        beginning, with the answers at hand. So do nothing that cannot be done twice before the last question, and ask
        the same things in the same order each time.

        :raises RpcError: when this client cannot be asked.
        """
        return self.answers_to(questions)

    def answers_to(self, questions: Mapping[str, Question], *, vouched: bool = False) -> dict[str, Any]:
        """Find the answers to questions, or end the run until there are some.

        :param vouched: Answers count only where it is certain that these very questions were put.
        :raises InputNeeded: with the questions that have no answer yet.
        :raises ValueError: when a key is that of another question; its answer would take the place of this one's.
        """
        for key, question in questions.items():
            if not isinstance(question, Question):
                kind = type(question).__name__
                raise TypeError(f"{key!r} must be an Elicit, ElicitUrl, Sample or ListRoots, not {kind}")
            if not isinstance(key, str):
                raise TypeError(f"the key of a question must be a str, not {type(key).__name__}")
        missing = {question.feature for question in questions.values()} - self.call.capabilities
        if missing:
            raise MissingCapability(missing)
        answers, open_questions = {}, {}
        for key, question in questions.items():
            digest = question.digest
            if self._digests.setdefault(key, digest) != digest:
                raise ValueError(f"the key {key!r} is that of another question; give each a key of its own")
            try:
                answers[key] = self.call.answers.to(key, question, vouched=vouched)
            except UnusableAnswer:
                open_questions[key] = question
        if open_questions:
            raise InputNeeded(open_questions)
        return answers

    def confirm(self, message: str) -> None:
        """Let the person at the client decide whether the method runs at all.

        :raises RpcError: when they did not say yes, or have said it once already.
        """
        if self.call.face == MCP and not this_app().secret_key:
            # Nobody could be asked: not even what an older client can do is known without sessions.
            raise CannotAsk()
        question = Elicit(message)
        if question.feature not in self.call.capabilities:
            return
        answer = self.answers_to({CONFIRM_KEY: question}, vouched=True)[CONFIRM_KEY]
        if not answer.accepted:
            raise RpcError("Not done: the person who was asked did not agree")
        state, mailbox = self.call.answers.state, current_mailbox()
        if state is not None and mailbox.is_possible and not mailbox.claim(f"confirmed {state}", answer_timeout()):
            raise RpcError("Not done again: the person who was asked agreed to it once")

    def _ask_one(self, question: Question, key: str | None) -> Any:
        self._questions += 1
        key = f"question-{self._questions}" if key is None else key
        return self.answers_to({key: question})[key]


running_call: ContextVar[RunningCall] = ContextVar("flask_jsonrpc_mcp.current_call")

current_call: RunningCall = LocalProxy(  # type: ignore[assignment]
    running_call, unbound_message="current_call is there only while a method runs that was called from outside."
)
"""The call that runs the current method."""
