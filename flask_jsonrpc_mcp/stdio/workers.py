"""Threads that run jobs, at most so many at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

logger = logging.getLogger(__name__)

Job = Callable[[], None]


class Workers:
    """Runs jobs in threads of their own.

    Not a `ThreadPoolExecutor`: Python waits for the threads of one before it ends, and a call that hangs must not keep
    a process alive whose client has gone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0
        self._when_idle: Callable[[], None] | None = None

    def submit(self, job: Job) -> None:
        """Run a job as soon as a thread is free."""
        with self._lock:
            self._unfinished += 1
            is_needed = self._threads < min(self._unfinished, self._limit)
            self._threads += is_needed
        self._jobs.put(job)
        if is_needed:
            threading.Thread(target=self._work, name="mcp-worker", daemon=True).start()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once, when every job has ended."""
        with self._lock:
            if self._unfinished:
                self._when_idle = callback
                return
        callback()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            # A job answers for its own failures; but a thread that is lost is missed by all jobs to come.
            except BaseException:
                logger.exception("unexpected failure")
            finally:
                with self._lock:
                    self._unfinished -= 1
                    callback = None if self._unfinished else self._when_idle
                if callback is not None:
                    callback()
