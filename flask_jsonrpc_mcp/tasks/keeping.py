"""`Keeper`: one thread per process that renews the leases of running tasks, and settles those of lost workers.

It does not run in the thread of a method, so a method that holds a lock, or never reports progress, keeps its lease.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from ..call import Cancellation
from .records import QUEUED, RUNNING, TaskRecord, TasksUnavailable, tasks
from .service import Tasks, progress_text

TICK = 1.0
"""Seconds between two looks at cancellations, and between two writes of progress."""

IDLE_FOR = 5.0
"""Seconds after which the thread ends if nothing runs; it starts again with the next task."""

FORGOTTEN_AFTER = 3600.0
"""Seconds after which a worker that was killed is removed from the list."""


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
