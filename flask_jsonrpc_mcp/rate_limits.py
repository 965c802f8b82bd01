"""Rate limits of a blueprint, counted by the app's Flask-Limiter.

Flask-Limiter's decorators count requests to a view. This counts calls, because one request can have a batch of them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from flask import current_app

from .auth import Caller
from .errors import RateLimited
from .problems import MAX_QUOTED, one_line

if TYPE_CHECKING:
    from flask_limiter import Limiter
    from limits import RateLimitItem
    from limits.strategies import RateLimiter

STORAGE_TIMEOUT = 2.0
"""Seconds that the storage of the counters may take."""

STORAGE_PAUSE = 30.0
"""Seconds for which a storage that takes longer is not used, unless it answers meanwhile."""


class RateLimits:
    """Counts the calls of a blueprint.

    :param blueprint: The name of the blueprint, which is part of the counters' keys.
    :param limiter: The app's Flask-Limiter object, which decides where the counters are stored.
    :param per_caller: A limit for all calls of one caller, such as ``"100/minute"``.
    """

    def __init__(self, blueprint: str, limiter: Limiter | None, per_caller: str | None) -> None:
        self._blueprint = blueprint
        self._limiter = limiter
        self._paused_until = 0.0
        self.per_caller = self.parse(per_caller)

    @property
    def is_used(self) -> bool:
        """Whether there is a limiter."""
        return self._limiter is not None

    def parse(self, limits: str | None) -> tuple[RateLimitItem, ...]:
        """Parse limits such as ``"10/minute; 100/hour"``.

        :raises ValueError: if they are malformed, or there is no limiter.
        """
        if limits is None:
            return ()
        if self._limiter is None:
            raise ValueError("a rate limit needs a limiter; pass McpBlueprint(limiter=...) a Flask-Limiter object")
        from limits import parse_many  # installed with Flask-Limiter, which is an extra

        return tuple(parse_many(limits))

    def check_ready(self) -> None:
        """Check that the storage of the counters can be reached."""
        if self._limiter is None or not self._limiter.enabled:
            return
        storage = self._limiter.limiter.storage
        if not self._count_with_timeout(lambda: float(storage.check())):
            raise RuntimeError("the storage of the rate limits cannot be reached")

    def count(self, limits: tuple[RateLimitItem, ...], caller: Caller, scope: str) -> None:
        """Count a call.

        :param scope: What is counted: all calls of the caller, or those of one method.
        :raises RateLimited: if it exceeds one of the limits.
        """
        if self._limiter is None or not self._limiter.enabled:
            return
        key = ("flask-jsonrpc-mcp", self._blueprint, scope, caller.principal or f"address:{caller.address}")
        count = partial(_count, self._limiter.limiter, limits, key)
        try:
            reset = count() if _is_in_memory(self._limiter.limiter) else self._count_with_timeout(count)
        except Exception:
            if not current_app.config.get("RATELIMIT_SWALLOW_ERRORS"):
                raise
            facts = {"caller": one_line(caller.name, MAX_QUOTED)}
            current_app.logger.exception("the storage of the rate limits cannot be reached", extra=facts)
            return
        if reset is not None:
            raise RateLimited(max(1, math.ceil(reset - time.time())))

    def _count_with_timeout(self, count: Callable[[], float | None]) -> float | None:
        """Count in another thread, because a storage that hangs must not block the call.

        :raises TimeoutError: if the storage takes too long; at once while it is paused.
        """
        if self._paused_until:
            if time.monotonic() < self._paused_until:
                raise TimeoutError("the storage has not answered in time, and is not used for now")
            self._pause()  # for all calls but this one
        future: Future[float | None] = Future()

        def run() -> None:
            try:
                future.set_result(count())
            except BaseException as error:  # the waiting thread raises it
                future.set_exception(error)

        # Not a pool, from which threads that hang would be missing. A daemon, because Python waits for others at exit.
        threading.Thread(target=run, name="rate-limits", daemon=True).start()
        try:
            return future.result(STORAGE_TIMEOUT)
        except futures.TimeoutError as error:
            self._pause()
            raise TimeoutError(f"the storage has not answered within {STORAGE_TIMEOUT:g} seconds") from error
        finally:
            future.add_done_callback(self._resume)  # at once, or when it answers after all

    def _pause(self) -> None:
        self._paused_until = time.monotonic() + STORAGE_PAUSE

    def _resume(self, answered: Future[float | None]) -> None:
        self._paused_until = 0.0


def _count(limiter: RateLimiter, limits: tuple[RateLimitItem, ...], key: tuple[str, ...]) -> float | None:
    """Count a call, and return when it will be within the limit again; ``None`` if it is."""
    for limit in limits:
        if not limiter.hit(limit, *key):
            return limiter.get_window_stats(limit, *key).reset_time
    return None


def _is_in_memory(limiter: RateLimiter) -> bool:
    from limits.storage import MemoryStorage

    return isinstance(limiter.storage, MemoryStorage)
