"""`LocalTasks`: the default engine, without a broker. Workers of one machine claim tasks from the table.

A worker is the process ``flask mcp worker``. While there is none, a process that has a task to run, such as that of
``flask run``, starts threads for it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from contextlib import suppress

from flask import Flask, current_app
from sqlalchemy import ColumnElement

from ..errors import TasksUnavailable
from .database import tasks
from .records import QUEUED
from .running import THREADS, WORKER, Keeper, keeper_of, run_claimed
from .service import EXTENSION, WORKER_SEEN, Tasks

POLL_EVERY = 0.25
"""Seconds between two looks for queued tasks. A process that creates one wakes the workers of its machine at once."""

IDLE_FOR = 5.0
"""Seconds without a task after which the threads of a web process end; they start again with the next one."""

DEFAULT_QUEUE = "default"

CHECK_WORKERS_EVERY = 5.0
"""Seconds for which the list of worker processes is cached."""


class LocalTasks:
    """Runs tasks on this machine, in ``flask mcp worker`` or in threads of this process."""

    is_local = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: tuple[int, LocalWorker] | None = None
        self._checked = float("-inf")
        self._has_process = False
        self._ports: list[int] = []

    def offer(self, task_id: str, queue: str | None) -> None:
        """Wake the worker processes of this machine, or else the threads of this process."""
        app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
        service: Tasks = app.extensions[EXTENSION]
        for port in self._processes(service):
            _wake(port)
        threads = service.setting("TASK_THREADS")
        if self._has_process or not threads:
            return
        with self._lock:
            pid, worker = self._worker or (0, None)
            if worker is None or pid != os.getpid() or not worker.wake():
                worker = LocalWorker(app, threads, kind=THREADS)
                self._worker = os.getpid(), worker
                threading.Thread(target=worker.run_until_idle, name="mcp-task-worker").start()

    def _processes(self, service: Tasks) -> list[int]:
        """Return the ports of the worker processes on this machine."""
        if time.monotonic() - self._checked > CHECK_WORKERS_EVERY:
            found = [each for each in service.records.seen_workers(WORKER_SEEN) if each["kind"] == WORKER]
            here = [each["port"] for each in found if each["host"] == socket.gethostname()[:255]]
            self._has_process = bool(found)
            self._ports = [port for port in here if port is not None]
            self._checked = time.monotonic()
        return self._ports


def _wake(port: int) -> None:
    """Send an empty datagram. It may be lost: workers look for tasks by themselves too, a little later."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b"", ("127.0.0.1", port))


class LocalWorker:
    """Claims queued tasks and runs each in a thread of its own.

    :param places: How many run at a time.
    :param queues: Claim only tasks of these queues; ``"default"`` for those without one.
    """

    def __init__(self, app: Flask, places: int, queues: list[str] | None = None, kind: str = WORKER) -> None:
        self._app = app
        self._places = places
        self._queues = queues
        self._running: set[threading.Thread] = set()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self._port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self.is_stopping = False
        self._has_ended = False
        self._service: Tasks = app.extensions[EXTENSION]
        self.keeper: Keeper = keeper_of(app, kind, places, queues)
        self.keeper.port = self._port

    def wake(self) -> bool:
        """Look for tasks now; return whether it still does."""
        with self._lock:
            if not self._has_ended:
                _wake(self._port)
            return not self._has_ended

    def stop(self) -> None:
        """Claim nothing more."""
        self.is_stopping = True
        self.wake()

    def run_until_idle(self) -> None:
        """Run tasks until there are none for a while, or the main thread ends."""
        idle_since = time.monotonic()
        while threading.main_thread().is_alive():
            if self.claim() or self._running:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since >= IDLE_FOR and self._end():
                return
            self._pause()
        self._end(at_once=True)

    def _end(self, *, at_once: bool = False) -> bool:
        """End, unless `wake` was called meanwhile."""
        with self._lock:
            self._has_ended = at_once or not select.select([self._socket], [], [], 0)[0]
            if self._has_ended:
                self._socket.close()
            return self._has_ended

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
        self._end(at_once=True)

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
                self._app.logger.exception("unexpected failure while running a task", extra={"face": "task"})
            finally:
                with self._lock:
                    self._running.discard(threading.current_thread())
                self.wake()

        thread = threading.Thread(target=run_in_thread, name="mcp-task")
        with self._lock:
            self._running.add(thread)
        thread.start()
        return True

    def _pause(self) -> None:
        select.select([self._socket], [], [], POLL_EVERY)
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
