"""Run tasks in a worker: claim one, find its caller, call its method, and store the outcome.

`Keeper` is one thread per process that renews the leases of running tasks, and settles those of lost workers. It does
not run in the thread of a method, so a method that holds a lock, or never reports progress, keeps its lease.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, current_app

from ..ask import InputNeeded
from ..auth import Caller
from ..call import Cancellation, log_unexpected, new_id
from ..errors import PROTOCOL_ERRORS, MethodNotFound, RpcError, ServerFault, TasksUnavailable
from ..invoke import invoke
from ..problems import one_line
from ..registry import Registry
from ..strict_json import write
from .calls import call_of, failure, request_of, restore_caller, success
from .database import tasks
from .records import (
    CANCELLED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    QUEUED,
    RUNNING,
    TaskRecord,
)
from .service import EXTENSION, Tasks

KEEPER = "jsonrpc_mcp_task_keeper"
"""``app.extensions["jsonrpc_mcp_task_keeper"]`` has the `Keeper` of this process."""

ENGINE, THREADS, WORKER = "engine", "threads", "worker"
"""The kinds of workers: called by an engine, threads of a web server, and the process ``flask mcp worker``."""

RETRY_EVERY = 0.5
"""Seconds between two tries to store the end of a task."""

TICK = 1.0
"""Seconds between two looks at cancellations, and between two writes of progress."""

IDLE_FOR = 5.0
"""Seconds after which the thread of the `Keeper` ends if nothing runs; it starts again with the next task."""

FORGOTTEN_AFTER = 3600.0
"""Seconds after which a worker that was killed is removed from the list."""

# MCP has more levels than Python.
_LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_making = threading.Lock()


@dataclass(eq=False)
class Run:
    """One run of a task in this process.

    :param cancellation: Requested by the client if the task is cancelled, or if this run has lost its lease.
    :param progress: What the method has reported last.
    """

    record: TaskRecord
    cancellation: Cancellation = field(default_factory=Cancellation)
    progress: dict[str, Any] | None = None
    lease_until: float = 0.0
    is_lost: bool = False


class Keeper:
    """Keeps the tasks that run in this process.

    :param id: Identifies the process as the runner of tasks.
    :param port: Where a datagram wakes the worker; see `LocalWorker`.
    """

    port: int | None = None

    def __init__(self, service: Tasks, kind: str, places: int, queues: list[str] | None = None) -> None:
        self.id = f"{socket.gethostname()[:80]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._service = service
        self._lease = float(service.setting("TASK_LEASE"))
        self._facts = {"kind": kind, "host": socket.gethostname()[:255], "pid": os.getpid(), "places": places}
        self._queues = queues
        self._runs: dict[str, Run] = {}
        self._written: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stays = False
        self._renewed = self._swept = 0.0

    @property
    def runs(self) -> list[Run]:
        with self._lock:
            return list(self._runs.values())

    def claim(self, task_id: str) -> Run | None:
        """Begin to run a task, and keep its lease until `release`; ``None`` if it does not wait for a worker."""
        record = self._service.records.claim(task_id, self.id, self._lease)
        if record is None:
            return None
        run = Run(record, lease_until=time.monotonic() + self._lease)
        with self._lock:
            self._runs[record.id] = run
        self.start()
        return run

    def release(self, run: Run) -> None:
        with self._lock:
            self._runs.pop(run.record.id, None)
            self._written.pop(run.record.id, None)

    def start(self, *, stays: bool = False) -> None:
        """Start the thread if it does not run.

        :param stays: Go on also while nothing runs, until `stop`; for workers.
        """
        with self._lock:
            self._stays = self._stays or stays
            if self._thread is None:
                # Not a daemon: tasks that run while the process ends still need their leases.
                self._thread = threading.Thread(target=self._keep, name="mcp-task-keeper")
                self._thread.start()

    def stop(self) -> None:
        """End the thread as soon as nothing runs."""
        self._stays = False

    def let_go(self) -> None:
        """Give up the leases at once, so that others settle the tasks without waiting for their end."""
        for run in self.runs:
            run.is_lost = True
            self._service.records.change(run.record.id, (RUNNING,), run=run.record.run, lease=time.time())
        self._service.records.remove_workers(self.id)

    def _keep(self) -> None:
        tick, idle_since = min(TICK, self._lease / 6), time.monotonic()
        while True:
            try:
                self._look()
            except TasksUnavailable:
                pass  # logged; a lease that cannot be renewed runs out
            except Exception:
                self._service.app.logger.exception(
                    "unexpected failure while looking after tasks", extra={"face": "task"}
                )
            with self._lock:
                if self._runs or (self._stays and threading.main_thread().is_alive()):
                    idle_since = time.monotonic()
                elif (
                    not threading.main_thread().is_alive()
                    or time.monotonic() - idle_since >= IDLE_FOR
                    or (not self._stays and self._facts["kind"] == "worker")
                ):
                    self._thread = None
                    break
            time.sleep(tick)
        try:
            self._service.records.remove_workers(self.id)
        except TasksUnavailable:
            pass  # removed by others later

    def _look(self) -> None:
        now, records = time.monotonic(), self._service.records
        is_due = now - self._renewed >= self._lease / 6
        runs = {run.record.id: run for run in self.runs}
        if runs:
            self._write_progress(runs)
            until = time.time() + self._lease if is_due else None
            mine = records.renew(self.id, {task_id: run.record.run for task_id, run in runs.items()}, until)
            for task_id, run in runs.items():
                number, is_cancelled = mine.get(task_id, (0, False))
                if number != run.record.run:
                    run.is_lost = True  # or it ends just now
                elif is_due:
                    run.lease_until = now + self._lease
                if is_cancelled or run.is_lost:
                    run.cancellation.request(by_client=True)
        if is_due:
            seen = {"port": self.port, "queues": self._queues, "seen": time.time()}
            records.see_worker(self.id, {**self._facts, **seen})
            for record in records.find(tasks.c.state == RUNNING, tasks.c.lease <= time.time()):
                self._service.settle_if_lost(record)
            self._renewed = now
        if now - self._swept >= self._lease:
            self.sweep()
            self._swept = now

    def sweep(self) -> None:
        """Offer tasks again that no worker has claimed, and remove expired ones."""
        records = self._service.records
        records.remove_expired()
        records.remove_workers(unseen_for=FORGOTTEN_AFTER)
        for record in records.find(tasks.c.state == QUEUED, tasks.c.offer_at <= time.time()):
            self._service.offer_again(record)

    def _write_progress(self, runs: dict[str, Run]) -> None:
        for task_id, run in runs.items():
            progress = run.progress
            if progress is None or progress == self._written.get(task_id):
                continue
            self._written[task_id] = progress
            is_wanted = tasks.c.cancel.is_(False)
            text = progress_text(**progress)
            self._service.records.change(
                task_id, (RUNNING,), is_wanted, run=run.record.run, progress=progress, message=text
            )


def run(task_id: str) -> None:
    """Run a task, unless another worker does or it is over. Engines call this in an app context of their worker."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    claimed = keeper_of(app).claim(task_id)
    if claimed is not None:
        run_claimed(app, claimed)


def keeper_of(app: Flask, kind: str = ENGINE, places: int = 1, queues: list[str] | None = None) -> Keeper:
    """Return the keeper of this process; a forked process gets its own."""
    with _making:
        found: tuple[int, Keeper] | None = app.extensions.get(KEEPER)
        if found is None or found[0] != os.getpid():
            found = (os.getpid(), Keeper(app.extensions[EXTENSION], kind, places, queues))
            app.extensions[KEEPER] = found
        return found[1]


def run_claimed(app: Flask, run: Run) -> None:
    """Run a task that this process has claimed."""
    service: Tasks = app.extensions[EXTENSION]
    keeper = keeper_of(app)
    try:
        state, outcome, message = _run_method(app, service, run)
        while state != INPUT_REQUIRED:
            try:
                progress = run.progress or run.record.progress
                if not service.end(run.record, state, outcome=outcome, message=message, progress=progress):
                    _log_dropped(app, run.record, state)
                break
            except TasksUnavailable:
                if run.is_lost or time.monotonic() > run.lease_until:
                    _log_dropped(app, run.record, state)
                    break
                time.sleep(RETRY_EVERY)
    finally:
        keeper.release(run)


def _run_method(app: Flask, service: Tasks, run: Run) -> tuple[str, dict[str, Any] | None, str | None]:
    """Return the new state of the task, its outcome, and its message."""
    registry = service.registry_of(run.record)
    with request_of(app, registry, run.record):
        try:
            try:
                if registry is None:
                    raise MethodNotFound(run.record.method)
                caller = _restore(app, registry, run.record)
            except RpcError as error:
                return _ended_by(error, service, run, is_failed=True)
            call = call_of(run.record, caller, reporter=_Reporter(app, run), cancellation=run.cancellation)
            return COMPLETED, _checked_size(success(invoke(call, registry)), service, run.record), None
        except InputNeeded as needed:
            return _ask(service, run, needed)
        except RpcError as error:
            return _ended_by(error, service, run)
        # Of a callback of the app, such as user_loader. Also sys.exit(), which must not end the worker.
        except BaseException as error:
            fault = ServerFault(new_id())
            log_unexpected(error, fault.error_id)
            return FAILED, failure(fault), fault.message


def _restore(app: Flask, registry: Registry, record: TaskRecord) -> Caller:
    """Restore what the task carries, and its caller.

    :raises MethodNotFound: if the caller is gone.
    """
    if registry.restore is not None:
        carried = (record.call or {}).get("carried")
        app.ensure_sync(registry.restore)(carried)  # first, because the user may depend on it
    caller = restore_caller(record, registry.auth)
    if caller is None:
        raise MethodNotFound(record.method)
    return caller


def _checked_size(outcome: dict[str, Any], service: Tasks, record: TaskRecord) -> dict[str, Any]:
    """Return an outcome, or an error if it is too large to store."""
    size, limit = len(write(outcome)), service.setting("TASK_MAX_RESULT")
    if size <= limit:
        return outcome
    facts = {"tool": record.method, "size": size, "limit": limit}
    text = "the result of a task of %(tool)r has %(size)d bytes; %(limit)d are kept"
    service.app.logger.warning(text, facts, extra=facts)
    return failure(RpcError(f"The result has {size} bytes; a task can store at most {limit}"))


def _ask(service: Tasks, run: Run, needed: InputNeeded) -> tuple[str, dict[str, Any] | None, str | None]:
    try:
        if service.ask(run.record, needed):
            return INPUT_REQUIRED, None, None
    except RpcError as error:
        return _ended_by(error, service, run)
    return CANCELLED, None, None  # or it is not this run's any more, and nothing is stored


def _ended_by(
    error: RpcError, service: Tasks, run: Run, *, is_failed: bool = False
) -> tuple[str, dict[str, Any] | None, str | None]:
    if run.cancellation.by_client:
        return CANCELLED, None, None
    outcome = _checked_size(failure(error), service, run.record)
    if is_failed or isinstance(error, PROTOCOL_ERRORS):
        return FAILED, outcome, error.message
    return COMPLETED, outcome, None


def _log_dropped(app: Flask, record: TaskRecord, state: str) -> None:
    text = "a task of %r ended as %r after it was given up; this is not stored"
    app.logger.warning(text, record.method, state, extra={"tool": record.method, "outcome": state})


class _Reporter:
    """Keeps what a method reports in a task. Log messages go to the app's log: MCP has no place for them."""

    def __init__(self, app: Flask, run: Run) -> None:
        self._app = app
        self._run = run

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        text = None if message is None else one_line(message)
        self._run.progress = {"done": done, "total": total, "message": text}

    def log(self, level: str, data: Any, logger: str | None) -> None:
        # A part of the id: the whole of it is a key to the task.
        facts = self._run.record.id[:8], self._run.record.method, one_line(str(data))
        self._app.logger.log(_LOG_LEVELS.get(level, logging.CRITICAL), "task %s… of %r: %s", *facts)


def progress_text(done: float, total: float | None, message: str | None) -> str:
    """Return progress as a text, such as ``3 of 12: April``."""
    count = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return one_line(count if message is None else f"{count}: {message}", 200)
