"""Runs a method: plain, async or generator, with or without a time limit."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import AsyncGeneratorType, CoroutineType, GeneratorType, NoneType
from typing import Any

from .calls import RunningCall, log_unexpected, running_call
from .current import this_app
from .errors import Overloaded, RpcError, TimedOut, one_line
from .methods import Method
from .questions import InputNeeded
from .settings import setting
from .strict_json import to_plain, write

# What most methods return, and what is nothing to wait for.
_PLAIN = (dict, list, str, int, float, NoneType)


class Runner:
    """Runs the methods of a blueprint, and counts those in this process that went on after their time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._overdue = 0

    def run(self, call: RunningCall, method: Method, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Run a method and return what it returns, a generator's items in one piece.

        :raises TimedOut: when it has not ended after its time; it is told so, and goes on by itself.
        :raises Overloaded: when too many have not.
        """
        before = running_call.set(call)
        try:
            if method.timeout is None:
                return _run(call, method, positional, named)
            return self._run_within(method.timeout, call, lambda: _run(call, method, positional, named))
        finally:
            running_call.reset(before)

    def _run_within(self, seconds: float, call: RunningCall, run: Callable[[], Any]) -> Any:
        if self._overdue >= setting("MAX_OVERDUE"):
            raise Overloaded()
        outcome = _Outcome(run)
        # With a copy of the context: the method has the same request, the same g and the same user as a view.
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(outcome.find_out,), name=call.call.id, daemon=True).start()
        if outcome.known.wait(seconds):
            return outcome.get()
        call.call.cancellation.request()
        with self._lock:
            self._overdue += 1
        outcome.when_known(lambda: self._end_overdue(call, outcome))
        raise TimedOut(seconds)

    def _end_overdue(self, call: RunningCall, outcome: _Outcome) -> None:
        with self._lock:
            self._overdue -= 1
        if outcome.error is not None and not isinstance(outcome.error, (RpcError, InputNeeded)):
            log_unexpected(outcome.error, call.call.id)


class _Outcome:
    """What becomes of a function in another thread."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.known = threading.Event()
        self._run = run
        self._lock = threading.Lock()
        self._value: Any = None
        self.error: BaseException | None = None
        self._then: Callable[[], None] | None = None

    def find_out(self) -> None:
        try:
            self._value = self._run()
        except BaseException as error:  # whatever it is belongs to the thread that waits for it
            self.error = error
        with self._lock:
            self.known.set()
            then = self._then
        if then is not None:
            then()

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self._value

    def when_known(self, then: Callable[[], None]) -> None:
        """Call a function as soon as it is known: now, if it has become so."""
        with self._lock:
            self._then = then
            already = self.known.is_set()
        if already:
            then()


def _run(call: RunningCall, method: Method, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    func = this_app().ensure_sync(method.func) if method.is_async else method.func
    result = func(*positional, **named)
    if isinstance(result, _PLAIN):
        return result
    if isinstance(result, CoroutineType):
        result = this_app().ensure_sync(_awaited)(result)
    if isinstance(result, Iterator):
        try:
            return method.collect([_announced(call, number, item) for number, item in enumerate(result, 1)])
        finally:
            if isinstance(result, GeneratorType):
                result.close()  # now, if it was given up, and not when the last frame that knows it is gone
    if isinstance(result, AsyncGeneratorType):
        return method.collect(this_app().ensure_sync(_collected)(call, result))
    return result


async def _awaited(coroutine: CoroutineType[Any, Any, Any]) -> Any:
    return await coroutine


async def _collected(call: RunningCall, items: AsyncGeneratorType[Any, None]) -> list[Any]:
    number, collected = 0, []
    async for item in items:
        number += 1
        collected.append(_announced(call, number, item))
    return collected


def _announced(call: RunningCall, number: int, item: Any) -> Any:
    """Show an item of a generator to a client that wants to see how it gets on.

    :raises RpcError: when nobody wants to any more; the generator ends here.
    """
    if call.cancelled:
        raise RpcError("Given up by the client")
    if call.call.listener is not None:
        call.progress(number, message=_in_words(item))
    return item


def _in_words(item: Any) -> str | None:
    """Show an item on one line, if it has a form by itself: what ``output`` will dump has none yet."""
    try:
        return one_line(item if isinstance(item, str) else write(to_plain(item)).decode())
    except (TypeError, ValueError):
        return None
