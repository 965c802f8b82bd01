"""A call, its result, and `current_call`: what a running method may ask about the call that runs it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from flask import current_app
from werkzeug.local import LocalProxy

from .access import Caller


def new_id() -> str:
    """Make an id that finds a call in the log."""
    return secrets.token_hex(6)


def log_unexpected(error: BaseException, error_id: str) -> None:
    """Log in full what nobody expected; the caller is told only the id."""
    current_app.logger.error("unexpected failure, id=%s", error_id, exc_info=error)


@dataclass(frozen=True)
class Call:
    """One call of a method.

    :param arguments: By name, or by position.
    :param face: Where it came in: ``rest``, ``jsonrpc``, ``mcp``.
    :param tools_only: Methods that are not marked for MCP do not exist here.
    :param read_only: Only methods that say they change nothing may run.
    :param capabilities: What the client can do for a method: ``sampling``, ``elicitation``, ``roots``.
    :param meta: What the client sent beside the call, such as the ``traceparent`` of OpenTelemetry.
    """

    name: str
    arguments: Mapping[str, Any] | Sequence[Any]
    caller: Caller
    face: str
    tools_only: bool = True
    read_only: bool = False
    capabilities: frozenset[str] = frozenset()
    meta: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=new_id)


@dataclass(frozen=True)
class Result:
    """What a call gave, as plain JSON.

    :param content: Content blocks, when the method returned some.
    :param meta: What the client gets beside it.
    """

    value: Any
    content: list[dict[str, Any]] | None = None
    meta: Mapping[str, Any] | None = None

    @property
    def plain(self) -> Any:
        """The result for faces that have no content blocks."""
        return self.content if self.value is None and self.content is not None else self.value


class RunningCall:
    """A call while its method runs; a method finds its own as ``current_call``."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more. A long method should look now and then, and stop."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Tell the method that nobody waits for it any more."""
        self._cancelled.set()


running_call: ContextVar[RunningCall] = ContextVar("flask_jsonrpc_mcp.current_call")

current_call: RunningCall = LocalProxy(  # type: ignore[assignment]
    running_call, unbound_message="current_call is there only while a method runs that was called from outside."
)
"""The call that runs the current method."""
