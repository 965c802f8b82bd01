"""Run a call: find the method, validate its arguments, run it, validate its result. Methods run only here.

Every failure leaves as an `RpcError`; `failures` makes one of any other exception.
"""

from __future__ import annotations

import contextvars
import functools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from types import AsyncGeneratorType, CoroutineType, GeneratorType, NoneType
from typing import Any

import click
from blinker import Namespace
from flask import current_app
from flask.sansio.app import App
from werkzeug.wrappers import Response

from . import levels
from .ask import InputNeeded
from .call import CLI, Call, Detach, Result, log_unexpected, running_call
from .errors import MissingCapability, Overloaded, RpcError, TimedOut, VerbNotAllowed
from .failures import as_rpc_error, value_of_response
from .method import Method
from .problems import MAX_QUOTED, is_visible, one_line
from .registry import Hook, Registry
from .strict_json import to_plain, write
from .task_options import TASKS_FEATURE

method_called = Namespace().signal("method-called")
"""Sent by the app after each call, with ``call``, ``method``, ``outcome``, ``duration`` and ``error``.

``call`` is the :class:`.Call`, ``method`` the method or ``None`` if none is registered, ``outcome`` is ``"ok"``,
``"input_required"``, ``"task"`` if it goes on as a task, or the slug of the error, ``duration`` is in seconds, and
``error`` is the `RpcError` or ``None``.
"""

INPUT_REQUIRED = "input_required"
TASK = "task"

# Results of these types need no awaiting and no iterating.
_PLAIN = (dict, list, str, int, float, NoneType)


def invoke(call: Call, registry: Registry, built_in: Callable[[], Result] | None = None) -> Result:
    """Run a call inside the current Flask request.

    :param built_in: Runs instead of a registered method, for a method such as ``rpc.discover``.
    :raises RpcError: for every failure.
    :raises InputNeeded: if the method asks something that the client has not answered yet.
    :raises Detach: if it goes on as a task, which the face creates.
    """
    started = time.perf_counter()
    method: Method | None = None
    try:
        if registry.rate_limits.per_caller and not call.in_task:
            registry.rate_limits.count(registry.rate_limits.per_caller, call.caller, "caller")
        if built_in is None:
            method = registry.finders[call.kind].find(call.name, call.caller, listed_only=call.listed_only)
            if method.scopes:
                registry.auth.require_scopes(call.caller, method.scopes)
            result = _run_method(call, method, registry)
        else:
            result = built_in()
    except InputNeeded:
        record_call(call, method, registry, INPUT_REQUIRED, None, time.perf_counter() - started)
        raise
    except Detach:
        record_call(call, method, registry, TASK, None, time.perf_counter() - started)
        raise
    # BaseException, because sys.exit() in a method must not end the worker.
    except BaseException as error:
        failure = as_rpc_error(error, call, method, registry.error_handlers)
        record_call(call, method, registry, failure.slug, failure, time.perf_counter() - started)
        raise failure from error.__cause__
    record_call(call, method, registry, "ok", None, time.perf_counter() - started)
    return result


def _run_method(call: Call, method: Method, registry: Registry) -> Result:
    tool = method.tool
    if call.read_only and not method.read_only:
        raise VerbNotAllowed(["POST"])
    if tool is not None and not tool.requires <= call.capabilities:
        raise MissingCapability(tool.requires - call.capabilities)
    task = None if tool is None or call.in_task else tool.task
    if task is not None and task.required and not call.detachable and call.face != CLI:
        raise MissingCapability([TASKS_FEATURE])
    positional, named = method.bind(call)
    if tool is not None and tool.confirm is not None and not call.in_task:
        call.confirm(_confirmation(str(tool.confirm), call.arguments, method), required=tool.confirm_required)
    # A retry with answers is the same call. If it counted again, a method with a limit of one call could ask, but
    # never finish.
    if method.rate_limit and not call.answers.has_run and not call.in_task:
        # With the kind, because a prompt may have the name of a tool.
        registry.rate_limits.count(method.rate_limit, call.caller, f"{call.kind}:{method.name}")
    if task is not None and call.detachable and not task.late:
        raise Detach(call)
    token = running_call.set(call)
    try:
        if method.timeout is None:
            return _run(registry.around, call, method, positional, named)
        run = functools.partial(_run, registry.around, call, method, positional, named)
        return _run_within(method.timeout, call, run)
    finally:
        running_call.reset(token)


def _run(
    around: Sequence[Hook], call: Call, method: Method, positional: Sequence[Any], named: Mapping[str, Any]
) -> Result:
    """Run a method, and dump its result, inside the functions of ``@rpc.around``."""
    if not around:
        return method.dump(_call_function(call, method, positional, named), call)
    with around[0](call):
        return _run(around[1:], call, method, positional, named)
    raise RuntimeError("a function of @rpc.around suppressed the exception of the method; let it pass")


def _call_function(call: Call, method: Method, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call the function, await a coroutine and iterate over a generator."""
    func = current_app.ensure_sync(method.func) if method.is_async else method.func
    result = func(*positional, **named)
    if isinstance(result, _PLAIN):
        return result
    if isinstance(result, CoroutineType):
        result = current_app.ensure_sync(_await)(result)
    if isinstance(result, Iterator):
        try:
            return method.collect([_report_item(call, number, item) for number, item in enumerate(result, 1)])
        finally:
            if isinstance(result, GeneratorType):
                result.close()  # now, and not when it is garbage collected
    if isinstance(result, AsyncGeneratorType):
        return method.collect(current_app.ensure_sync(_collect_async)(call, result))
    first = result[0] if isinstance(result, tuple) and result else result
    return value_of_response(result, call) if isinstance(first, Response) else result


async def _await(coroutine: CoroutineType[Any, Any, Any]) -> Any:
    return await coroutine


async def _collect_async(call: Call, items: AsyncGeneratorType[Any, None]) -> list[Any]:
    collected: list[Any] = []
    async for item in items:
        collected.append(_report_item(call, len(collected) + 1, item))
    return collected


def _report_item(call: Call, number: int, item: Any) -> Any:
    """Report an item of a generator as progress.

    :raises RpcError: if the call was cancelled, which closes the generator.
    """
    if call.cancelled:
        raise RpcError("Cancelled by the client")
    if call.reporter is not None:
        try:
            message = one_line(item if isinstance(item, str) else write(to_plain(item)).decode())
        except (TypeError, ValueError):
            message = None  # only the output schema can dump it
        call.progress(number, message=message)
    return item


def _run_within(seconds: float, call: Call, run: Callable[[], Result]) -> Result:
    """Run a method in a second thread, so that this one can stop waiting. Python cannot interrupt the method.

    The second thread gets a copy of the context, so the method has the same request, ``g`` and user.

    :raises TimedOut: if it has not returned in time. It goes on, with ``current_call.cancelled`` set.
    :raises Overloaded: if too many methods still run after their timeout.
    """
    if levels.overdue.count >= current_app.config["JSONRPC_MCP_MAX_OVERDUE"]:
        raise Overloaded()
    future: Future[Result] = Future()

    def run_in_thread() -> None:
        try:
            future.set_result(run())
        except BaseException as error:  # the waiting thread raises it
            future.set_exception(error)

    # Not a ThreadPoolExecutor: Python waits for its threads at exit, and a method that hangs must not block that.
    threading.Thread(target=contextvars.copy_context().run, args=(run_in_thread,), name=call.id, daemon=True).start()
    try:
        return future.result(seconds)
    except futures.TimeoutError:
        if future.done():  # the method itself raised a TimeoutError, or it has returned just now
            return future.result()
    call.cancellation.request()
    levels.overdue.add(1)
    app, facts = current_app._get_current_object(), call.log_facts()  # type: ignore[attr-defined]

    def end(ended: Future[Result]) -> None:
        """Runs in the thread of the method."""
        levels.overdue.add(-1)
        error = ended.exception()
        if error is not None and not isinstance(error, (RpcError, InputNeeded, Detach)):
            app.logger.error("unexpected failure, id=%(id)s", facts, exc_info=error, extra=facts)
        # The teardown functions of the request have run. What the method has opened since, such as a database
        # session, would stay open.
        for func in reversed(app.teardown_appcontext_funcs):
            app.ensure_sync(func)(error)

    future.add_done_callback(end)
    raise TimedOut(seconds)


def _confirmation(text: str, arguments: Mapping[str, Any] | Sequence[Any], method: Method) -> str:
    """Insert the arguments into the question of ``confirm=``, each as `_quoted`; missing ones as their default."""
    properties = method.params.schema["properties"]
    named = arguments if isinstance(arguments, Mapping) else dict(zip(properties, arguments, strict=False))
    defaults = {name: rules.get("default") for name, rules in properties.items() if isinstance(rules, Mapping)}
    values = {name: named.get(name, defaults.get(name)) for name in properties}
    return text.format_map({name: _quoted(value) for name, value in values.items()})


def _quoted(value: Any) -> str:
    """Serialise an argument on one line, with invisible characters escaped, and cut if it is long."""
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    cut = text[:MAX_QUOTED]
    shown = json.dumps(cut, ensure_ascii=False) if isinstance(value, str) else cut
    escaped = (char if is_visible(char) else json.dumps(char)[1:-1] for char in shown)
    return "".join(escaped) + ("" if cut == text else "…")


def record_call(
    call: Call, method: Method | None, registry: Registry, outcome: str, error: RpcError | None, duration: float
) -> None:
    """Log the call, pass it to the observers of the blueprint, and send `method_called`."""
    logger = current_app.logger
    if logger.isEnabledFor(logging.INFO):
        facts = {**call.log_facts(), "outcome": outcome, "ms": round(duration * 1000, 1)}
        text = "call face=%(face)s name=%(tool)r caller=%(caller)r outcome=%(outcome)s ms=%(ms).1f id=%(id)s"
        logger.info(text, facts, extra=facts)
    for observe in registry.call_observers:
        try:
            observe(call, method, outcome, duration, error)
        except Exception as failed:
            log_unexpected(failed, call.id)
    if method_called.receivers:
        app = current_app._get_current_object()  # type: ignore[attr-defined]
        try:
            method_called.send(app, call=call, method=method, outcome=outcome, duration=duration, error=error)
        except Exception as failed:
            log_unexpected(failed, call.id)  # the call itself is over


def show_calls(app: App) -> None:
    """Show the lines of calls under ``flask run``: set the level of ``app.logger``, by default WARNING, to INFO.

    An app that sets a level for its logger, or for the root logger, keeps it.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.info_name != "run":
        return
    if app.logger.level == logging.NOTSET and logging.root.level == logging.WARNING:
        app.logger.setLevel(logging.INFO)
