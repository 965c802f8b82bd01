"""Who is asking, in which version, and how to reach them while their request is being answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ..access import Caller
from ..calls import COMPLETION, MCP, Call, Cancellation, Listener
from ..core import Core
from ..questions import NO_ANSWERS, Answers
from ..schema.mirrored import MirroredArgument

FACE = MCP
NO_CAPABILITIES: frozenset[str] = frozenset()

Send = Callable[[dict[str, Any]], None]
"""Sends a message to the client before the answer to its request."""


class LogLevel(Protocol):
    """What a client wants to see of the log of methods: the least level, or ``None`` for nothing."""

    def get(self) -> str | None: ...

    def set(self, level: str) -> None: ...


class KeptLogLevel:
    """A level that is kept here, for as long as a connection or a request lasts."""

    def __init__(self, level: str | None = None) -> None:
        self.level = level

    def get(self) -> str | None:
        return self.level

    def set(self, level: str) -> None:
        self.level = level


class Mirror(Protocol):
    """Where a transport repeats parts of a request; each method raises `HeaderMismatch`."""

    @property
    def version(self) -> str | None: ...

    def check_version(self, version: str) -> None: ...

    def check_method(self, method: str) -> None: ...

    def check_name(self, name: Any) -> None: ...

    def check_arguments(self, mirrored: tuple[MirroredArgument, ...], arguments: Any) -> None: ...


class Session(NamedTuple):
    """One request's view of a client.

    :param audience: The blueprint that the client talks to; what is signed for one is not taken by another.
    :param meta: What the client sent beside the request.
    :param answers: What it has answered to questions of earlier runs.
    :param listener: Who tells the client how its request gets on, where there is a way to.
    :param mirror: Where the request is repeated, if anywhere.
    """

    core: Core
    caller: Caller
    version: str
    audience: str
    capabilities: frozenset[str]
    meta: Mapping[str, Any]
    log_level: LogLevel
    cancellation: Cancellation
    listener: Listener | None = None
    answers: Answers = NO_ANSWERS
    mirror: Mirror | None = None

    def call(self, kind: str, name: str, arguments: Any) -> Call:
        """Make the call of a method."""
        # A completion is wanted at once, for every letter typed; in no version can a question be the answer to it.
        capabilities = NO_CAPABILITIES if kind == COMPLETION else self.capabilities
        return Call(
            name,
            arguments,
            self.caller,
            FACE,
            kind,
            capabilities,
            self.answers,
            self.listener,
            self.cancellation,
            self.meta,
        )
