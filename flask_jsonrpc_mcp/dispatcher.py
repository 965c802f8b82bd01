"""One call, from a name and arguments to plain JSON: the only place where a user's code runs.

Find the method, load and validate the arguments, run, dump and validate the result. Whatever escapes on the way is
either an `RpcError`, which was written for the caller, or is logged in full under an id, and the caller learns the id.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from blinker import Namespace

from .access import Caller
from .calls import Call, Result, RunningCall, log_unexpected
from .current import this_app
from .errors import MAX_QUOTED, InternalError, MissingCapability, RpcError, VerbNotAllowed, one_line
from .methods import Method
from .questions import InputNeeded
from .rate_limits import RateLimits
from .running import Runner
from .strict_json import to_plain, write

method_called = Namespace().signal("method-called")
"""Sent by the app after each call, with ``call``, ``method``, ``outcome``, ``duration`` and ``error``.

``call`` is the :class:`.Call`, ``method`` what was found by its name or ``None``, ``outcome`` is ``"ok"``,
``"input_required"`` when the client is asked first, or the slug of the error, ``duration`` is in seconds, and ``error``
is what the caller was told, or ``None``.
"""

INPUT_REQUIRED = "input_required"


class Finder(Protocol):
    """Where the methods of one kind are found."""

    def find(self, name: str, caller: Caller, *, listed_only: bool = True) -> Method: ...


class Dispatcher:
    """Runs calls of every kind."""

    def __init__(self, kinds: Mapping[str, Finder], rate_limits: RateLimits) -> None:
        self._kinds = kinds
        self._rate_limits = rate_limits
        self._runner = Runner()

    def invoke(self, call: Call) -> Result:
        """Run a call inside the current Flask request.

        :raises RpcError: for every failure; an `InternalError` for what nobody expected.
        :raises InputNeeded: when the method has questions that the client has not answered yet.
        """
        started = time.perf_counter()
        method: Method | None = None
        try:
            if self._rate_limits.per_caller:
                self._rate_limits.count(call.caller)
            method = self._kinds[call.kind].find(call.name, call.caller, listed_only=call.listed_only)
            if call.read_only and not method.read_only:
                raise VerbNotAllowed(["POST"])
            missing = method.requires - call.capabilities
            if missing:
                raise MissingCapability(missing)
            positional, named = method.bind(call)
            running = RunningCall(call)
            if method.confirm is not None:
                running.confirm(_spelled_out(method.confirm, call.arguments, method))
            # Once it runs, and not again with each answer: limited to one call, it could else never end.
            if method.rate_limit and not call.answers.are_to_the_method:
                self._rate_limits.count_method(call.caller, call.kind, method.name, method.rate_limit)
            result = method.dump(self._runner.run(running, method, positional, named), call)
        except InputNeeded:
            _report(call, method, INPUT_REQUIRED, None, time.perf_counter() - started)
            raise
        # BaseException, because sys.exit() in a method must not end the worker, and every call in it.
        except BaseException as error:
            failure = _as_rpc_error(error, call.id)
            _report(call, method, failure.slug, failure, time.perf_counter() - started)
            raise failure from error.__cause__
        _report(call, method, "ok", None, time.perf_counter() - started)
        return result


def _spelled_out(text: str, arguments: Mapping[str, Any] | Sequence[Any], method: Method) -> str:
    """Put arguments into a text, each on one line and not too long; those not given as their default."""
    properties = method.params.schema["properties"]
    given = arguments if isinstance(arguments, Mapping) else dict(zip(properties, arguments, strict=False))
    defaults = {name: rules.get("default") for name, rules in properties.items() if isinstance(rules, Mapping)}
    values = {name: given.get(name, defaults.get(name)) for name in properties}
    return text.format_map({name: one_line(_in_words(value), MAX_QUOTED) for name, value in values.items()})


def _in_words(value: Any) -> str:
    """Show a value to a person."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else write(value).decode("utf-8")


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


def _report(call: Call, method: Method | None, outcome: str, error: RpcError | None, duration: float) -> None:
    app = this_app()
    if app.logger.isEnabledFor(logging.INFO):
        app.logger.info(
            "call face=%s name=%r caller=%r outcome=%s ms=%.1f id=%s",
            call.face,
            one_line(call.name, MAX_QUOTED),
            one_line(call.caller.name, MAX_QUOTED),
            outcome,
            duration * 1000,
            call.id,
        )
    if method_called.receivers:
        try:
            method_called.send(app, call=call, method=method, outcome=outcome, duration=duration, error=error)
        except Exception as failed:
            # The call is over, whatever those who listen make of it.
            log_unexpected(failed, call.id)
