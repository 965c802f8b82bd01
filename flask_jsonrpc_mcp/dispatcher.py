"""One call, from a name and arguments to plain JSON: the only place where a user's code runs.

Find the method, load and validate the arguments, run, dump and validate the result. Whatever escapes on the way is
either an `RpcError`, which was written for the caller, or is logged in full under an id, and the caller learns the id.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from blinker import Namespace
from flask import current_app

from .access import Caller
from .catalogue import Catalogue
from .errors import MAX_QUOTED, InternalError, RpcError, VerbNotAllowed, one_line
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
    """

    name: str
    arguments: Mapping[str, Any] | Sequence[Any]
    caller: Caller
    face: str
    tools_only: bool = True
    read_only: bool = False
    id: str = field(default_factory=new_id)


class Dispatcher:
    """Runs calls of what a catalogue holds."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def invoke(self, call: Call) -> Any:
        """Run a call inside the current Flask request and return its result as plain JSON.

        :raises RpcError: for every failure; an `InternalError` for what nobody expected.
        """
        started = time.perf_counter()
        method: Method | None = None
        try:
            method = self._catalogue.find(call.name, call.caller, tools_only=call.tools_only)
            if call.read_only and not method.read_only:
                raise VerbNotAllowed(["POST"])
            positional, named = method.params.bind(call.arguments)
            result = _run(method, positional, named)
            plain = to_plain(result) if method.output is None else method.output.dump_result(result)
        # BaseException, because sys.exit() in a method must not end the worker, and every call in it.
        except BaseException as error:
            failure = _as_rpc_error(error, call.id)
            _report(call, method, failure, time.perf_counter() - started)
            raise failure from error.__cause__
        _report(call, method, None, time.perf_counter() - started)
        return plain


def log_unexpected(error: BaseException, error_id: str) -> None:
    """Log in full what nobody expected; the caller is told only the id."""
    current_app.logger.error("unexpected failure, id=%s", error_id, exc_info=error)


def _run(method: Method, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    result = current_app.ensure_sync(method.func)(*positional, **named)
    if isinstance(result, CoroutineType):
        result = current_app.ensure_sync(_awaited)(result)
    if isinstance(result, GeneratorType):
        return _buffered(method, list(result))
    if isinstance(result, AsyncGeneratorType):
        return _buffered(method, current_app.ensure_sync(_collected)(result))
    return result


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
        method_called.send(app, call=call, method=method, outcome=outcome, duration=duration, error=error)
