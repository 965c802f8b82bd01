"""Offer tasks to the engine, in one thread per process: a broker that hangs must not hold up a request."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from flask import Flask

from .records import TasksUnavailable

WAIT = 0.5
"""Seconds that a request waits until its task was offered. The task is safe once its row is stored."""

MAX_WAITING = 1000
"""Maximum tasks that wait to be offered in one process. Others are offered when a worker finds them late."""


class TaskEngine(Protocol):
    """Brings tasks to workers, by calling ``flask_jsonrpc_mcp.tasks.run(task_id)`` there."""

    def offer(self, task_id: str, queue: str | None) -> None:
        """Send the id to a worker. It may raise, and may be lost or repeated: the task is offered again."""


class Offering:
    """Offers tasks, in an app context.

    :param on_failure: Is called with the id of a task that could not be offered.
    """

    def __init__(self, app: Flask, on_failure: Callable[[str], None]) -> None:
        self._app = app
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._pid = 0

    @property
    def has_begun(self) -> bool:
        """Whether a task of this app was ever offered."""
        return self._pid != 0

    def offer(self, task_id: str, queue: str | None, engine: TaskEngine, *, wait: float = 0.0) -> None:
        """Offer a task soon.

        :param wait: Seconds to wait until it was offered.
        """
        offered = threading.Event()
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._queue: SimpleQueue[tuple[str, str | None, TaskEngine, threading.Event]] = SimpleQueue()
                # A daemon, because a broker that hangs must not block the end of the process.
                threading.Thread(target=self._run, args=(self._queue,), name="mcp-task-offers", daemon=True).start()
            if self._queue.qsize() >= MAX_WAITING:
                return
            self._queue.put((task_id, queue, engine, offered))
        if wait:
            offered.wait(wait)

    def _run(self, waiting: SimpleQueue[tuple[str, str | None, TaskEngine, threading.Event]]) -> None:
        while True:
            task_id, queue, engine, offered = waiting.get()
            try:
                self._offer(task_id, queue, engine)
            except Exception:  # this thread offers all tasks of the process
                self._app.logger.exception("unexpected failure while offering a task", extra={"face": "task"})
            offered.set()

    def _offer(self, task_id: str, queue: str | None, engine: TaskEngine) -> None:
        try:
            with self._app.app_context():
                engine.offer(task_id, queue)
        except Exception as error:
            facts = {"reason": str(error)}
            self._app.logger.warning("a task could not be offered, and will be again: %(reason)s", facts, extra=facts)
            with suppress(TasksUnavailable):  # logged
                self._on_failure(task_id)
