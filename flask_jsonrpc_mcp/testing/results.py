"""The result of a call, in one record for REST, JSON-RPC and MCP, and the reason if the call failed.

No response carries everything: MCP has the error of a tool as text only, REST has no JSON-RPC codes. The signal
`method_called` carries the rest, so the same assertions hold for all three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

from werkzeug.datastructures import Headers

from .. import errors
from ..call import METHOD, Call
from ..errors import MAX_ERROR_TEXT, InternalError, MethodNotFound, Problem, RpcError, one_line
from ..method import Method
from ..registry import Registry
from .transport import Reply

_PACKAGE = errors.__name__.rpartition(".")[0]


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
class Reports:
    """The progress and the log messages of one call."""

    progress: list[Progress] = field(default_factory=list)
    log: list[LogMessage] = field(default_factory=list)


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
    :param content: The content blocks for the model. REST and JSON-RPC have none: there it is the value as one text.
    :param questions: What the method asked, by key, as the server sent it; on MCP only.
    :param status: The HTTP status of the response, and its ``headers``.
    :param reply: The whole response body, parsed.
    :param reports: Progress and log messages, if requested; see :attr:`progress` and :attr:`log`.
    :param outcome: The value, or the failure; see :attr:`value` and :attr:`error`.
    """

    name: str
    arguments: Any
    face: str
    status: int
    headers: Headers
    reply: Any
    content: list[dict[str, Any]] = field(default_factory=list)
    questions: Mapping[str, Any] = field(default_factory=dict)
    reports: Reports | None = None
    outcome: Any = None

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
        return self._requested_reports().progress

    @property
    def log(self) -> list[LogMessage]:
        """The log messages that the method sent to its client.

        :raises AssertionError: if the call was made without ``listen=True``.
        """
        __tracebackhide__ = True
        return self._requested_reports().log

    def _requested_reports(self) -> Reports:
        __tracebackhide__ = True
        if self.reports is None:
            raise AssertionError(f"to get the progress and the log of {self.name}, call it with listen=True, on MCP")
        return self.reports

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
        lines += [f"  {problem}" for problem in failure.problems] or [f"  {failure.message}"]
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
    """Find out why a call failed: from the signal if there was one, else from the response."""
    sent = reply.body.get("error") if isinstance(reply.body, dict) else None
    call, error = reply.observed.call, reply.observed.error
    if call is not None and error is not None:
        failure = _observed_failure(reply.observed.method, call, error, registry)
        if call.kind == METHOD or sent is None:
            return failure
        # The errors of prompts and resources are worded by MCP alone, and never say "tool".
        return replace(failure, code=sent["code"], message=sent["message"])
    if not isinstance(sent, dict):
        return Failure(RpcError.code, f"http_{reply.status}", f"HTTP {reply.status} {HTTPStatus(reply.status).phrase}")
    code, message, data = sent["code"], sent["message"], sent.get("data")
    if isinstance(code, str):  # REST sends the slug
        alike = (kind for kind in _error_classes() if kind.slug == code)
        return Failure(next(alike, RpcError).code, code, message, data=data)
    alike = (kind for kind in _error_classes() if kind.code == code and reply.status in (kind.status, kind.rpc_status))
    return Failure(code, next(alike, RpcError).slug, message, data=data)


def _observed_failure(method: Method | None, call: Call, error: RpcError, registry: Registry) -> Failure:
    problems: tuple[Problem, ...] = getattr(error, "problems", ())
    failure = Failure(error.code, error.slug, error.message, problems, error.data)
    if method is None:
        return replace(failure, advice=_why_not_found(call, registry) if isinstance(error, MethodNotFound) else None)
    # An unexpected exception is replaced by an InternalError, whose context it is.
    cause = error.__context__ if isinstance(error, InternalError) else error
    return failure if problems or cause is None else replace(failure, cause=_cut_traceback(cause))


def _cut_traceback(cause: BaseException) -> BaseException:
    """Start the traceback in the method: the frames of this package above it are no help to its author."""
    step = cause.__traceback__
    while step is not None and step.tb_frame.f_globals.get("__name__", "").startswith(f"{_PACKAGE}."):
        step = step.tb_next
    return cause if step is None else cause.with_traceback(step)


def _error_classes(kind: type[RpcError] = RpcError) -> Iterator[type[RpcError]]:
    """Walk the tree of errors, without the classes that apps have added."""
    yield kind
    for narrower in kind.__subclasses__():
        if narrower.__module__ == errors.__name__:
            yield from _error_classes(narrower)


def _why_not_found(call: Call, registry: Registry) -> str:
    """Explain what clients are never sent: why a name was not found."""
    kind, collection = call.kind, registry.finders[call.kind]
    method = next(iter(collection.candidates(call.name)), None)
    if method is None:
        names = [method.name for method in collection]
        close = get_close_matches(call.name, names, n=3, cutoff=0.5) or names[:10]
        return f"no {kind} has this name; there are {', '.join(close)}" if close else f"no {kind} is registered"
    if call.listed_only and not method.listed:
        return 'it is not marked with @mcp_tool, so it can only be called with face="jsonrpc"'
    missing = ", ".join(map(repr, sorted(method.access - call.caller.permissions)))
    who = "an anonymous caller" if call.caller.anonymous else repr(call.caller.name)
    return f"it needs permissions that {who} does not have: {missing}"
