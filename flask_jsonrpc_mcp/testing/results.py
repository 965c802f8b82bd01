"""What a call gave, in one record for every face: the same assertion holds on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from werkzeug.datastructures import Headers

from ..errors import MAX_ERROR_TEXT, Problem, one_line
from ..mcp.spelling import as_text

TEXT = "text"


@dataclass(frozen=True)
class Progress:
    """What a method said of its progress, by ``current_call.progress``."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class LogMessage:
    """What a method told its caller, by ``current_call.log``."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True)
class Reports:
    """What a method said while it ran."""

    progress: list[Progress] = field(default_factory=list)
    log: list[LogMessage] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    """Why a call failed.

    :param code: The JSON-RPC error code, such as ``-32602``.
    :param slug: The kind of failure, as the README lists them: ``"invalid_arguments"``, ``"tool_not_found"``.
    :param message: What the caller was told.
    :param problems: Each thing that is wrong with the arguments, with its ``path`` and ``message``.
    :param data: What an ``RpcError`` carries beside its text.
    :param cause: The exception that escaped the method. Callers never see it; a test may.
    :param advice: What to look at, for whoever reads the failing test. Callers never see it either.
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
    """Something was asked of the app and failed, where a test wanted its value.

    :param failure: Why.
    """

    # Where one imports it from; pytest prints this before every failure.
    __module__ = __name__.rpartition(".")[0]

    def __init__(self, text: str, failure: Failure) -> None:
        super().__init__(text)
        self.failure = failure


@dataclass(frozen=True, repr=False)
class Result:
    """What a call gave. True when it worked, so ``assert mcp.call(...)`` is a test.

    :param name: What was called.
    :param arguments: With what.
    :param face: By which face, with the version where it is MCP.
    :param content: What a model is shown, as content blocks. Faces without them have the value as one text.
    :param questions: What the method asked, by key, as the server sent it; on MCP only.
    :param status: The HTTP status of the answer, and its ``headers``.
    :param reply: The whole answer as JSON, in the words of its face.
    :param reports: What the method said while it ran, if someone listened; see :attr:`progress` and :attr:`log`.
    :param outcome: What it gave, or its failure; see :attr:`value` and :attr:`error`.
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
        """Whether it worked."""
        return not isinstance(self.outcome, Failure)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def value(self) -> Any:
        """What the method returned, as JSON has it.

        :raises CallFailed: when the call failed, with everything there is to know of why.
        """
        __tracebackhide__ = True
        if isinstance(self.outcome, Failure):
            raise CallFailed(self._explained(self.outcome), self.outcome) from self.outcome.cause
        return self.outcome

    @property
    def error(self) -> Failure:
        """Why the call failed.

        :raises AssertionError: when it did not.
        """
        __tracebackhide__ = True
        if not isinstance(self.outcome, Failure):
            raise AssertionError(f"{self.name} was to fail on {self.face}, and gave {_shown(self.outcome)}")
        return self.outcome

    @property
    def progress(self) -> list[Progress]:
        """What the method said of its progress.

        :raises AssertionError: when nobody listened.
        """
        return self._heard().progress

    @property
    def log(self) -> list[LogMessage]:
        """What the method told its caller besides.

        :raises AssertionError: when nobody listened.
        """
        return self._heard().log

    def _heard(self) -> Reports:
        __tracebackhide__ = True
        if self.reports is None:
            raise AssertionError(f"nobody listened to {self.name}; call it with listen=True, on MCP")
        return self.reports

    @property
    def text(self) -> str:
        """What a model reads: the texts of the content, or what the caller was told of the failure."""
        if isinstance(self.outcome, Failure):
            return self.outcome.message
        parts = (block.get("resource", block) for block in self.content)
        return "\n".join(part[TEXT] for part in parts if TEXT in part)

    def __repr__(self) -> str:
        if isinstance(self.outcome, Failure):
            advice = f"; {self.outcome.advice}" if self.outcome.advice else ""
            return f"<{self.name} on {self.face} failed, {self.outcome.slug}: {self.outcome.message}{advice}>"
        return f"<{self.name} on {self.face} gave {_shown(self.outcome)}>"

    def _explained(self, failure: Failure) -> str:
        lines = [f"{self.name} failed on {self.face}: {failure.slug} ({failure.code}, HTTP {self.status})"]
        lines += [f"  {problem}" for problem in failure.problems] or [f"  {failure.message}"]
        if self.arguments:
            lines.append(f"  called with {_shown(self.arguments)}")
        if failure.cause is not None and failure.message != str(failure.cause):
            lines.append(f"  because of {type(failure.cause).__name__}: {failure.cause}")
        if failure.advice is not None:
            lines.append(f"  {failure.advice}")
        return "\n".join(lines)


def _shown(value: Any) -> str:
    return one_line(repr(value), MAX_ERROR_TEXT)


def text_block(value: Any) -> dict[str, Any]:
    """Show a value as a model would read it."""
    return {"type": TEXT, TEXT: as_text(value)}
