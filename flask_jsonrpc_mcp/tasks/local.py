"""`LocalTasks`: the default engine, without a broker. Workers of one machine claim tasks from the table.

A worker is the process ``flask mcp worker``. While there is none, a process that has a task to run, such as that of
``flask run``, starts threads for it.
"""

from __future__ import annotations

import os
import threading
import time

from flask import Flask, current_app
from sqlalchemy import ColumnElement

from .keeping import Keeper
from .records import QUEUED, TasksUnavailable, tasks
from .running import THREADS, WORKER, keeper_of, run_claimed
from .service import WORKER_SEEN, Tasks, current_tasks

POLL_EVERY = 0.25
"""Seconds between two looks for queued tasks."""

IDLE_FOR = 5.0
"""Seconds without a task after which the threads of a web process end; they start again with the next one."""

DEFAULT_QUEUE = "default"

CHECK_WORKERS_EVERY = 5.0


class LocalTasks:
    """Runs tasks on this machine, in ``flask mcp worker`` or in threads of this process."""

    is_local = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[int, LocalWorker] = {}
        self._checked = (0.0, False)

    def offer(self, task_id: str, queue: str | None) -> None:
        """Wake the threads of this process, unless a worker process runs."""
        app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
        service = current_tasks()
        threads = service.setting("TASK_THREADS")
        if not threads or self._has_process(service):
            return
        with self._lock:
            worker = self._workers.get(os.getpid())
            if worker is None or worker.has_ended:
                worker = LocalWorker(app, threads, kind=THREADS)
                self._workers = {os.getpid(): worker}
                threading.Thread(target=worker.run_until_idle, name="mcp-task-worker").start()
            worker.wake()

    def _has_process(self, service: Tasks) -> bool:
        checked, found = self._checked
        if time.monotonic() - checked > CHECK_WORKERS_EVERY:
            found = any(each["kind"] == WORKER for each in service.records.seen_workers(WORKER_SEEN))
            self._checked = time.monotonic(), found
        return found


class LocalWorker:
    """Claims queued tasks and runs each in a thread of its own.

    :param places: How many run at a time.
    :param queues: Claim only tasks of these queues; ``"default"`` for those without one.
    """

    def __init__(self, app: Flask, places: int, queues: list[str] | None = None, kind: str = WORKER) -> None:
        self._app = app
        self._places = places
        self._queues = queues
        self._kind = kind
        self._running: set[threading.Thread] = set()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self.is_stopping = False
        self.has_ended = False
        with app.app_context():
            self._service = current_tasks()
        self.keeper: Keeper = keeper_of(app, kind, places, queues)

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more."""
        self.is_stopping = True
        self._wake.set()

    def run_until_idle(self) -> None:
        """Run tasks until there are none for a while, or the main thread ends."""
        try:
            idle_since = time.monotonic()
            while threading.main_thread().is_alive() and not self.is_stopping:
                if self.claim() or self._running:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since >= IDLE_FOR:
                    break
                self._pause()
        finally:
            self.has_ended = True

    def run(self, *, burst: bool = False) -> None:
        """Run tasks until `stop`, and wait for those that run.

        :param burst: End as soon as nothing is queued.
        """
        self.keeper.start(stays=True)
        while not self.is_stopping:
            if not self.claim() and burst and not self._running:
                break
            self._pause()
        for thread in list(self._running):
            thread.join()
        self.keeper.stop()

    def claim(self) -> int:
        """Claim as many tasks as there are places, and return how many."""
        free = self._places - len(self._running)
        if free <= 0:
            return 0
        try:
            found = self._service.records.find(*self._conditions(), limit=free)
            return sum(self._start(record.id) for record in found)
        except TasksUnavailable:
            return 0  # logged

    def _conditions(self) -> list[ColumnElement[bool]]:
        conditions: list[ColumnElement[bool]] = [tasks.c.state == QUEUED, tasks.c.expires > time.time()]
        if self._queues is not None:
            named = tasks.c.queue.in_(self._queues)
            conditions.append(named | tasks.c.queue.is_(None) if DEFAULT_QUEUE in self._queues else named)
        return conditions

    def _start(self, task_id: str) -> bool:
        run = self.keeper.claim(task_id)
        if run is None:
            return False

        def run_in_thread() -> None:
            try:
                run_claimed(self._app, run)
            except BaseException:
                self._app.logger.exception("unexpected failure while running a task")
            finally:
                with self._lock:
                    self._running.discard(threading.current_thread())
                self._wake.set()

        thread = threading.Thread(target=run_in_thread, name="mcp-task")
        with self._lock:
            self._running.add(thread)
        thread.start()
        return True

    def _pause(self) -> None:
        self._wake.wait(POLL_EVERY)
        self._wake.clear()
