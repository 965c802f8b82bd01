"""One call, from a name and arguments to plain JSON: the only place where a user's code runs.

Find the method, load and validate the arguments, run, dump and validate the result. Whatever escapes on the way is
either an `RpcError`, which was written for the caller, or is logged in full under an id, and the caller learns the id.
"""

from __future__ import annotations

import time
from typing import Any

from blinker import Namespace
from flask import current_app

from .calls import Call, Result, RunningCall, log_unexpected
from .catalogue import Catalogue
from .content import as_tool_result, blocks_of, meta_of
from .errors import MAX_QUOTED, InternalError, MissingCapability, RpcError, VerbNotAllowed, one_line
from .methods import Method
from .rate_limits import RateLimits
from .running import Runner
from .strict_json import to_plain

method_called = Namespace().signal("method-called")
"""Sent by the app after each call, with ``call``, ``method``, ``outcome``, ``duration`` and ``error``.

``call`` is the :class:`Call`, ``method`` the :class:`Method` or ``None`` when there was none to find, ``outcome`` is
``"ok"`` or the slug of the error, ``duration`` is in seconds, and ``error`` is what the caller was told, or ``None``.
"""


class Dispatcher:
    """Runs calls of what a catalogue holds."""

    def __init__(self, catalogue: Catalogue, rate_limits: RateLimits) -> None:
        self._catalogue = catalogue
        self._rate_limits = rate_limits
        self._runner = Runner()

    def invoke(self, call: Call) -> Result:
        """Run a call inside the current Flask request.

        :raises RpcError: for every failure; an `InternalError` for what nobody expected.
        """
        started = time.perf_counter()
        method: Method | None = None
        try:
            self._rate_limits.count(call.caller)
            method = self._catalogue.find(call.name, call.caller, tools_only=call.tools_only)
            if call.read_only and not method.read_only:
                raise VerbNotAllowed(["POST"])
            missing = method.requires - call.capabilities
            if missing:
                raise MissingCapability(missing)
            self._rate_limits.count_method(call.caller, method.name, method.rate_limit)
            positional, named = method.params.bind(call.arguments)
            result = _dump(method, self._runner.run(RunningCall(call), method, positional, named))
        # BaseException, because sys.exit() in a method must not end the worker, and every call in it.
        except BaseException as error:
            failure = _as_rpc_error(error, call.id)
            _report(call, method, failure, time.perf_counter() - started)
            raise failure from error.__cause__
        _report(call, method, None, time.perf_counter() - started)
        return result


def _dump(method: Method, returned: Any) -> Result:
    shown = as_tool_result(returned)
    if shown is None:
        return Result(_dump_value(method, returned))
    content = blocks_of(shown) or None
    # What declares its output must give it, with content beside it or without.
    undeclared = method.output is None and shown.value is None and content is not None
    value = None if undeclared else _dump_value(method, shown.value)
    return Result(value, content, meta_of(shown))


def _dump_value(method: Method, value: Any) -> Any:
    return to_plain(value) if method.output is None else method.output.dump_result(value)


def _as_rpc_error(error: BaseException, call_id: str) -> RpcError:
    if isinstance(error, RpcError):
        try:
            return _spoken(error)
        # Its parts are the method's own, and looking at them may run anything.
        except BaseException as unspeakable:
            error = unspeakable
    log_unexpected(error, call_id)
    return InternalError(call_id)


def _spoken(error: RpcError) -> RpcError:
    """See that an error can be told, whatever a method has made of it."""
    if type(error.code) is not int:
        raise TypeError(f"the code of an RpcError must be an int, not {type(error.code).__name__}")
    error.message = one_line(str(error.message))
    error.data = to_plain(error.data)
    return error


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
