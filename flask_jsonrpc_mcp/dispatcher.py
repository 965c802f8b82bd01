"""One call, from a name and arguments to plain JSON: the only place where a user's code runs.

Find the method, load and validate the arguments, run, dump and validate the result. Whatever escapes on the way is
either an `RpcError`, which was written for the caller, or is logged in full under an id, and the caller learns the id.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, CoroutineType
from typing import Any

from blinker import Namespace
from flask import current_app

from .access import Caller
from .catalogue import Catalogue
from .content import as_tool_result, blocks_of
from .errors import MAX_QUOTED, InternalError, MissingCapability, RpcError, VerbNotAllowed, one_line
from .methods import Method
from .strict_json import to_plain

method_called = Namespace().signal("method-called")
"""Sent by the app after each call, with ``call``, ``method``, ``outcome``, ``duration`` and ``error``.

``call`` is the :class:`Call`, ``method`` the :class:`Method` or ``None`` when there was none to find, ``outcome`` is
``"ok"`` or the slug of the error, ``duration`` is in seconds, and ``error`` is what the caller was told, or ``None``.
"""


def new_id() -> str:
    """Make an id that finds a call in the log."""
    return secrets.token_hex(6)


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


class Dispatcher:
    """Runs calls of what a catalogue holds."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def invoke(self, call: Call) -> Result:
        """Run a call inside the current Flask request.

        :raises RpcError: for every failure; an `InternalError` for what nobody expected.
        """
        started = time.perf_counter()
        method: Method | None = None
        try:
            method = self._catalogue.find(call.name, call.caller, tools_only=call.tools_only)
            if call.read_only and not method.read_only:
                raise VerbNotAllowed(["POST"])
            missing = method.requires - call.capabilities
            if missing:
                raise MissingCapability(missing)
            positional, named = method.params.bind(call.arguments)
            result = _dump(method, _run(method, positional, named))
        # BaseException, because sys.exit() in a method must not end the worker, and every call in it.
        except BaseException as error:
            failure = _as_rpc_error(error, call.id)
            _report(call, method, failure, time.perf_counter() - started)
            raise failure from error.__cause__
        _report(call, method, None, time.perf_counter() - started)
        return result


def log_unexpected(error: BaseException, error_id: str) -> None:
    """Log in full what nobody expected; the caller is told only the id."""
    current_app.logger.error("unexpected failure, id=%s", error_id, exc_info=error)


def _run(method: Method, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    result = current_app.ensure_sync(method.func)(*positional, **named)
    if isinstance(result, CoroutineType):
        result = current_app.ensure_sync(_awaited)(result)
    if isinstance(result, Iterator):
        return _buffered(method, list(result))
    if isinstance(result, AsyncGeneratorType):
        return _buffered(method, current_app.ensure_sync(_collected)(result))
    return result


def _dump(method: Method, returned: Any) -> Result:
    shown = as_tool_result(returned)
    if shown is None:
        return Result(_dump_value(method, returned))
    content = blocks_of(shown) or None
    value = None if shown.value is None and content is not None else _dump_value(method, shown.value)
    return Result(value, content, None if shown.meta is None else to_plain(shown.meta))


def _dump_value(method: Method, value: Any) -> Any:
    return to_plain(value) if method.output is None else method.output.dump_result(value)


async def _awaited(coroutine: CoroutineType[Any, Any, Any]) -> Any:
    return await coroutine


async def _collected(items: AsyncGeneratorType[Any, None]) -> list[Any]:
    return [item async for item in items]


def _buffered(method: Method, items: list[Any]) -> Any:
    """Make one result of a generator's items: one text when it gives text, else a list."""
    if method.output is not None:
        is_text = method.output.schema.get("type") == "string"
    else:
        is_text = bool(items) and all(isinstance(item, str) for item in items)
    return "".join(items) if is_text else items


def _as_rpc_error(error: BaseException, call_id: str) -> RpcError:
    if isinstance(error, RpcError):
        try:
            error.data = to_plain(error.data)
        except (TypeError, ValueError) as unspeakable:
            error = unspeakable
        else:
            return error
    log_unexpected(error, call_id)
    return InternalError(call_id)


def _report(call: Call, method: Method | None, error: RpcError | None, duration: float) -> None:
    outcome = "ok" if error is None else error.slug
    current_app.logger.info(
        "call face=%s name=%r caller=%r outcome=%s ms=%.1f id=%s",
        call.face,
        one_line(call.name, MAX_QUOTED),
        one_line(call.caller.name, MAX_QUOTED),
        outcome,
        duration * 1000,
        call.id,
    )
    if method_called.receivers:
        app = current_app._get_current_object()  # type: ignore[attr-defined]
        try:
            method_called.send(app, call=call, method=method, outcome=outcome, duration=duration, error=error)
        except Exception as failed:
            # The call is over, whatever those who listen make of it.
            log_unexpected(failed, call.id)
