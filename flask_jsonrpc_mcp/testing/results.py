"""The result of a call, in one record for REST, JSON-RPC and MCP, and the reason if the call failed.

No response carries everything: MCP has the error of a tool as text only, REST has no JSON-RPC codes. The signal
`method_called` carries the rest, so the same assertions hold for all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from werkzeug.datastructures import Headers

from .. import errors
from ..call import METHOD, Call
from ..errors import InternalError, MethodNotFound, MissingCapability, RpcError
from ..lookup import why_not_found
from ..problems import MAX_ERROR_TEXT, Problem, one_line
from ..registry import Registry
from ..task_options import TASKS_EXTENSION

Message = dict[str, Any]

Read = Callable[[Message], tuple[Any, list[Message]]]
"""Splits the result of a request: the value, and the content blocks for the model."""

USE_START = "it runs as a task: call it with start(), then run_tasks()"

_PACKAGE = errors.__name__.rpartition(".")[0]
_ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RpcError)]


@dataclass(frozen=True)
class Reply:
    """The response to one HTTP request.

    :param body: The parsed JSON; ``None`` if it is not JSON.
    :param observed: What the signal `method_called` was sent with; empty if it was not sent.
    """

    status: int
    headers: Headers
    body: Any
    observed: Mapping[str, Any]


@dataclass(frozen=True)
class Progress:
    """A progress report of a method, made with ``current_call.progress``."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class LogMessage:
    """A log message of a method for its client, sent with ``current_call.log``."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True)
class Failure:
    """Why a call failed.

    :param code: The JSON-RPC error code, such as ``-32602``.
    :param slug: The kind of error: ``"invalid_arguments"``, ``"tool_not_found"``, and the others that REST sends.
    :param message: The error message that the client received.
    :param problems: Each problem with the arguments, with its ``path`` and ``message``.
    :param data: The ``data`` of an ``RpcError``.
    :param cause: The exception that escaped the method. Clients never see it; a test may.
    :param advice: What to check, for the author of the test. Clients never see it either.
    """

    code: int
    slug: str
    message: str
    problems: tuple[Problem, ...] = ()
    data: Any = None
    cause: BaseException | None = field(default=None, compare=False)
    advice: str | None = field(default=None, compare=False)

    @property
    def paths(self) -> list[str]:
        """Where the arguments are wrong, as JSON Pointers such as ``/title``."""
        return [problem.path for problem in self.problems]


class CallFailed(AssertionError):
    """Raised when a test reads the value of a call that failed.

    :param failure: Why it failed.
    """

    # Where one imports it from; pytest prints this before every failure.
    __module__ = __name__.rpartition(".")[0]

    def __init__(self, text: str, failure: Failure) -> None:
        super().__init__(text)
        self.failure = failure


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a call. True if the call worked, so ``assert mcp.call(...)`` is a test.

    :param name: The name that was called.
    :param arguments: The arguments it was called with.
    :param face: ``"rest"``, ``"jsonrpc"``, or ``"mcp"`` with the protocol version.
    :param status: The HTTP status of the response, and its ``headers``.
    :param reply: The whole response body, parsed.
    :param outcome: The value, or the failure; see :attr:`value` and :attr:`error`.
    :param content: The content blocks for the model. REST and JSON-RPC have none: there it is the value as one text.
    :param questions: What the method asked, by key, as the server sent it; on MCP only.
    :param notifications: What was sent before the response, if requested; see :attr:`progress` and :attr:`log`.
    """

    name: str
    arguments: Any
    face: str
    status: int
    headers: Headers
    reply: Any
    outcome: Any
    content: list[dict[str, Any]] = field(default_factory=list)
    questions: Mapping[str, Any] = field(default_factory=dict)
    notifications: list[Message] | None = None

    @property
    def ok(self) -> bool:
        """Whether the call worked."""
        return not isinstance(self.outcome, Failure)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def value(self) -> Any:
        """The return value of the method, as JSON has it.

        :raises CallFailed: if the call failed, with everything that is known about the reason.
        """
        __tracebackhide__ = True
        if isinstance(self.outcome, Failure):
            raise CallFailed(self._explain(self.outcome), self.outcome) from self.outcome.cause
        return self.outcome

    @property
    def error(self) -> Failure:
        """Why the call failed.

        :raises AssertionError: if it did not.
        """
        __tracebackhide__ = True
        if not isinstance(self.outcome, Failure):
            raise AssertionError(f"{self.name} should fail on {self.face}, but returned {_shorten(self.outcome)}")
        return self.outcome

    @property
    def progress(self) -> list[Progress]:
        """The progress that the method reported.

        :raises AssertionError: if the call was made without ``listen=True``.
        """
        __tracebackhide__ = True
        reports = self._params_of("notifications/progress")
        return [Progress(each["progress"], each.get("total"), each.get("message")) for each in reports]

    @property
    def log(self) -> list[LogMessage]:
        """The log messages that the method sent to its client.

        :raises AssertionError: if the call was made without ``listen=True``.
        """
        __tracebackhide__ = True
        reports = self._params_of("notifications/message")
        return [LogMessage(each["level"], each.get("data"), each.get("logger")) for each in reports]

    def _params_of(self, method: str) -> list[Message]:
        __tracebackhide__ = True
        if self.notifications is None:
            raise AssertionError(f"to get the progress and the log of {self.name}, call it with listen=True, on MCP")
        return [message["params"] for message in self.notifications if message["method"] == method]

    @property
    def text(self) -> str:
        """What a model reads: the texts of the content, or the error message."""
        if isinstance(self.outcome, Failure):
            return self.outcome.message
        parts = (block.get("resource", block) for block in self.content)
        return "\n".join(part["text"] for part in parts if "text" in part)

    def __repr__(self) -> str:
        if isinstance(self.outcome, Failure):
            advice = f"; {self.outcome.advice}" if self.outcome.advice else ""
            return f"<{self.name} on {self.face} failed, {self.outcome.slug}: {self.outcome.message}{advice}>"
        return f"<{self.name} on {self.face} returned {_shorten(self.outcome)}>"

    def _explain(self, failure: Failure) -> str:
        lines = [f"{self.name} failed on {self.face}: {failure.slug} ({failure.code}, HTTP {self.status})"]
        lines += [f"  {problem}" for problem in failure.problems or [failure.message]]
        if self.arguments:
            lines.append(f"  called with {_shorten(self.arguments)}")
        if failure.cause is not None and failure.message != str(failure.cause):
            lines.append(f"  because of {type(failure.cause).__name__}: {failure.cause}")
        if failure.advice is not None:
            lines.append(f"  {failure.advice}")
        return "\n".join(lines)


def _shorten(value: Any) -> str:
    return one_line(repr(value), MAX_ERROR_TEXT)


def read_failure(reply: Reply, registry: Registry) -> Failure:
    """Read why a call failed, from the signal if it was sent, else from the response."""
    sent = reply.body.get("error") if isinstance(reply.body, dict) else None
    if reply.observed.get("error") is not None:
        return _observed_failure(sent, registry, **reply.observed)
    if not isinstance(sent, dict):
        text = f"HTTP {reply.status} {HTTPStatus(reply.status).phrase}"
        advice = USE_START if reply.status == HTTPStatus.ACCEPTED else None
        return Failure(RpcError.code, f"http_{reply.status}", text, advice=advice)
    code = sent["code"]  # on REST the slug
    classes = (kind for kind in _ERRORS if code in (kind.slug, kind.code))
    kind = next((kind for kind in classes if reply.status in (kind.status, kind.rpc_status)), RpcError)
    slug, code = (code, kind.code) if isinstance(code, str) else (kind.slug, code)
    return Failure(code, slug, sent["message"], data=sent.get("data"))


def _observed_failure(
    sent: Message | None, registry: Registry, *, call: Call, method: Any, error: RpcError, **more: Any
) -> Failure:
    problems: tuple[Problem, ...] = getattr(error, "problems", ())
    code, message, cause, advice = error.code, error.message, None, None
    if sent is not None and call.kind != METHOD:
        # The errors of prompts and resources are worded by MCP alone, and never say "tool".
        code, message = sent["code"], sent["message"]
    if method is None and isinstance(error, MethodNotFound):
        advice = why_not_found(call.name, call.caller, registry, call.kind, listed_only=call.listed_only)
    elif method is not None and not problems:
        cause = cause_of(error)
    if isinstance(error, MissingCapability):
        extensions = error.data["requiredCapabilities"].get("extensions", ())
        advice = USE_START if TASKS_EXTENSION in extensions else None
    return Failure(code, error.slug, message, problems, error.data, cause, advice)


def cause_of(error: RpcError) -> BaseException | None:
    """Return the exception that left the method."""
    # An unexpected exception is replaced by an InternalError, whose context it is.
    cause = error.__context__ if isinstance(error, InternalError) else error
    # Start the traceback in the method: the frames of this package above it are no help to its author.
    step = None if cause is None else cause.__traceback__
    while step is not None and step.tb_frame.f_globals.get("__name__", "").startswith(f"{_PACKAGE}."):
        step = step.tb_next
    return cause if cause is None or step is None else cause.with_traceback(step)
