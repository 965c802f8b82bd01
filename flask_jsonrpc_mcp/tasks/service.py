"""`Tasks`: create, read, answer and cancel the tasks of an app. The faces and the workers use it."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from queue import SimpleQueue
from typing import Any, Protocol

from flask import Flask, request
from sqlalchemy import Connection

from .. import checks
from ..ask import Answers, InputNeeded
from ..auth import Caller, client_id
from ..call import CLIENT_INFO, Call
from ..config import PREFIX
from ..errors import Overloaded, RpcError, TasksUnavailable, TooManyTasks, UnknownTask
from ..registry import EXTENSION as REGISTRIES
from ..registry import Registry
from .calls import failure, may_see, report_lost, store_answer, store_caller
from .database import database_url, tasks
from .records import (
    CANCELLED,
    FAILED,
    FAILED_OFFER,
    FIRST_OFFER,
    INPUT_REQUIRED,
    LAST_OFFER,
    QUEUED,
    RUNNING,
    Records,
    TaskRecord,
    add,
    count_waiting,
    ending,
    queueing,
)

EXTENSION = "jsonrpc_mcp_tasks"
"""``app.extensions["jsonrpc_mcp_tasks"]`` has the `Tasks` of the app."""

MAX_RUNS = 3
"""Maximum runs of a repeatable task whose workers were lost."""

WORKER_SEEN = 30
"""Seconds for which a worker counts as alive after it was seen."""

START_WITHIN = 1.0
"""Seconds after which a queued task says that there is no worker; threads of this process may just be starting."""

KEPT_META = ("traceparent", "tracestate", CLIENT_INFO)
"""The members of ``_meta`` that a task keeps, for traces and the audit trail."""

CANCELLING = "Cancelling"
NO_WORKER = "Waiting for a worker; none is running"
LOST = "The worker that ran this has gone; it may have done a part of its work"
POISON = f"Running this ended its worker {MAX_RUNS} times"

WAIT = 0.5
"""Seconds that a request waits until its task was offered. The task is safe once its row is stored."""

MAX_WAITING = 1000
"""Maximum tasks that wait to be offered in one process. Others are offered when a worker finds them late."""


class TaskEngine(Protocol):
    """Brings tasks to workers, by calling ``flask_jsonrpc_mcp.tasks.run(task_id)`` there."""

    def offer(self, task_id: str, queue: str | None) -> None:
        """Send the id to a worker. It may raise, and may be lost or repeated: the task is offered again."""


class Offering:
    """Offers tasks to the engine, in one thread per process: a broker that hangs must not hold up a request.

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


class Tasks:
    """The tasks of one app. It opens nothing before the first task.

    :param engine: Brings tasks to workers, unless a blueprint has its own.
    :raises ValueError: if ``JSONRPC_MCP_TASKS_DATABASE`` is invalid.
    """

    def __init__(self, app: Flask, engine: TaskEngine) -> None:
        self.app = app
        self.engine = engine
        self.records = Records(database_url(app), app.logger)
        self.offering = Offering(app, self._offer_soon)
        self._workers_read = (-1.0, True)

    def setting(self, name: str) -> Any:
        return self.app.config[PREFIX + name]

    def create(self, call: Call, registry: Registry) -> TaskRecord:
        """Store a call as a task, and offer it to a worker.

        :raises TooManyTasks: if the caller has too many.
        :raises Overloaded: if too many wait for a worker.
        :raises TasksUnavailable: if the database cannot be reached.
        :raises RpcError: if a worker could not find the user of the caller.
        """
        method = registry.methods.find(call.name, call.caller, listed_only=call.listed_only)
        tool = method.tool
        if tool is None or tool.task is None:
            raise TypeError(f"{checks.name_of(method.func)} calls current_call.detach(); register it with task=")
        caller, now = call.caller, time.time()
        meta = {name: call.meta[name] for name in KEPT_META if name in call.meta}
        for more in registry.task_meta:
            meta |= more()
        values = {
            "id": secrets.token_urlsafe(32),
            "blueprint": self.name_of(registry),
            "owner": caller.principal,
            "address": caller.address[:64],
            "user": caller.name[:255] or None,
            "caller": store_caller(caller, registry.auth),
            "face": call.face,
            "method": method.name,
            "queue": tool.task.queue,
            "call": {
                "arguments": call.arguments,
                "capabilities": sorted(call.capabilities),
                "meta": meta,
                "client_id": client_id(request.environ),
                "agent": request.user_agent.string,
                "listed_only": call.listed_only,
                "rounds": call.answers.rounds,
                **self._carried(registry),
            },
            "repeatable": tool.repeatable,
            "answers": {key: store_answer(*answer) for key, answer in call.answers.by_key.items()},
            "asked": [],
            "created": now,
            "updated": now,
            "expires": now + (tool.task.ttl or self.setting("TASK_TTL")),
            **queueing(),
        }
        with self.records.connection() as connection:
            self._check_limits(connection, caller)
            record = add(connection, values)
        self.offering.offer(record.id, record.queue, self._engine_of(registry), wait=WAIT)
        return record

    def _carried(self, registry: Registry) -> dict[str, Any]:
        """Return what ``@rpc.carry`` keeps of this request.

        :raises TypeError: if it is not JSON.
        """
        if registry.carry is None:
            return {}
        carried = self.app.ensure_sync(registry.carry)()
        try:
            json.dumps(carried, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{checks.name_of(registry.carry)} must return plain JSON: {error}") from error
        return {"carried": carried}

    def get(self, task_id: str, registry: Registry, caller: Caller) -> TaskRecord:
        """Return a task of a caller.

        :raises UnknownTask: if there is no such task, or the caller may not see it, or it has expired.
        """
        # PostgreSQL refuses a text with NUL.
        is_possible = task_id.isascii() and task_id.isprintable() and len(task_id) <= 64
        record = self.records.get(task_id) if is_possible else None
        if record is None or record.expires <= time.time() or record.blueprint != self.name_of(registry):
            raise UnknownTask()
        if not may_see(caller, record):
            raise UnknownTask()
        if record.state == RUNNING and self.settle_if_lost(record):
            return self.get(task_id, registry, caller)
        if record.state == QUEUED:
            self.offer_again(record)
        return record

    def answer(self, record: TaskRecord, responses: Mapping[str, Any]) -> None:
        """Store responses to open questions, and queue the task again when all are answered. Others are ignored.

        :raises MalformedParams: if all answers together are too long.
        """
        with self.records.holding(record.id, INPUT_REQUIRED) as (connection, held):
            if held is None:
                return
            pending, answers = held.pending or {}, held.answers or {}
            given = {shown: question for shown, question in pending.items() if shown in responses}
            for shown, question in given.items():
                answers[question["key"]] = store_answer(question["digest"], responses[shown])
            Answers(answers).check_size()
            left = {shown: question for shown, question in pending.items() if shown not in given}
            if not given:
                return
            values = {"answers": answers, "pending": left, "updated": time.time()}
            values = values if left else queueing(**values)
            connection.execute(tasks.update().where(tasks.c.id == record.id).values(**values))
        if not left:
            self.offer_now(record)

    def cancel(self, record: TaskRecord) -> None:
        """Cancel a task: at once if no worker runs it, else its method sees ``current_call.cancelled``."""
        if record.is_over or self.records.change(record.id, (QUEUED, INPUT_REQUIRED), **ending(CANCELLED)):
            return
        self.records.change(record.id, (RUNNING,), cancel=True, message=CANCELLING)

    def ask(self, record: TaskRecord, needed: InputNeeded) -> bool:
        """Let a running task wait for answers; return ``False`` if another run has taken it over.

        :raises RpcError: if the client was asked too often.
        """
        asked, pending = list(record.asked or ()), {}
        rounds = (record.call or {})["rounds"] + 1
        Answers({}, rounds - 1).check_rounds()
        for key, question in needed.questions.items():
            shown, number = key, 1
            while shown in asked:  # a key is never used twice, because clients remember what they have answered
                number += 1
                shown = f"{key}~{number}"
            asked.append(shown)
            request = {"method": question.method, "params": question.params}
            pending[shown] = {"key": key, "digest": question.digest, **request}
        values = {"asked": asked, "pending": pending, "call": {**(record.call or {}), "rounds": rounds}}
        is_wanted = tasks.c.cancel.is_(False)
        return self.records.change(
            record.id, (RUNNING,), is_wanted, run=record.run, state=INPUT_REQUIRED, lease=None, message=None, **values
        )

    def end(self, record: TaskRecord, state: str, **values: Any) -> bool:
        """End a running task; return ``False`` if another run has taken it over."""
        values = ending(state, **values)
        is_kept = tasks.c.expires > time.time()
        return self.records.change(record.id, (RUNNING,), is_kept, run=record.run, **values)

    def settle_if_lost(self, record: TaskRecord) -> bool:
        """Queue a task again, or end it, if its worker has not renewed the lease; return whether it was so."""
        now = time.time()
        if record.state != RUNNING or record.lease is None or record.lease > now:
            return False
        lost = record.lost + 1
        error = RpcError(POISON if lost == MAX_RUNS else LOST, code=-32603, slug="worker_lost")
        if record.cancel:
            values = ending(CANCELLED)
        elif record.repeatable and lost < MAX_RUNS:
            values = queueing(message=None)
        else:
            values = ending(FAILED, outcome=failure(error), message=error.message)
        is_settled = self.records.change(
            record.id, (RUNNING,), tasks.c.lease <= now, run=record.run, lost=lost, **values
        )
        if is_settled:
            facts = {"worker": record.runner, "tool": record.method}
            self.app.logger.warning("the worker %(worker)s of a task of %(tool)r has gone", facts, extra=facts)
            registry = self.registry_of(record)
            if values["state"] == QUEUED:
                self.offer_now(record)
            elif registry is not None:
                report_lost(self.app, registry, record, error)
        return is_settled

    def offer_now(self, record: TaskRecord) -> None:
        """Offer a task that has been queued again."""
        self.offering.offer(record.id, record.queue, self._engine_of(self.registry_of(record)))

    def offer_again(self, record: TaskRecord) -> None:
        """Offer a queued task again if that is due: its message may be lost."""
        now, engine = time.time(), self._engine_of(self.registry_of(record))
        if record.offer_at <= now:
            pause = min(FIRST_OFFER * 2**record.offers, LAST_OFFER)
            values = {"offers": record.offers + 1, "offer_at": now + pause, "updated": record.updated}
            # Of all processes that notice it, one offers it.
            if self.records.change(record.id, (QUEUED,), tasks.c.offers == record.offers, **values):
                self.offering.offer(record.id, record.queue, engine)
        elif getattr(engine, "is_local", False):
            self.offering.offer(record.id, record.queue, engine)  # there may be no worker yet, and this costs nothing

    def _offer_soon(self, task_id: str) -> None:
        """Let a task be offered again soon, which could not be offered now."""
        self.records.change(task_id, (QUEUED,), offer_at=time.time() + FAILED_OFFER, updated=tasks.c.updated)

    def count_queued(self) -> int:
        """Count the tasks that wait for a worker, up to the limit."""
        return self.records.count(self.setting("MAX_QUEUED"), tasks.c.state == QUEUED)

    def check_ready(self) -> None:
        """Check that the database can be reached."""
        self.records.count(1)

    def has_worker(self) -> bool:
        """Return whether any worker was seen lately."""
        read, found = self._workers_read
        if time.monotonic() - read > 1:
            with suppress(TasksUnavailable):  # logged; a handle is sent without it
                found = bool(self.records.seen_workers(WORKER_SEEN))
            self._workers_read = time.monotonic(), found
        return found

    def status_message(self, record: TaskRecord) -> str | None:
        """Return what to say about a task: its progress, or that there is no worker."""
        is_waiting = record.state == QUEUED and record.message is None and time.time() - record.updated > START_WITHIN
        if is_waiting and not self.has_worker():
            return NO_WORKER
        return record.message

    def describe(self, record: TaskRecord) -> dict[str, Any]:
        """Describe a task as REST, JSON-RPC and the command line show it, without its outcome."""
        return {
            "id": record.id,
            "tool": record.method,
            "status": record.status,
            "message": self.status_message(record),
            "progress": record.progress,
            "created": iso_time(record.created),
            "updated": iso_time(record.updated),
            "expires": iso_time(record.expires),
        }

    def registry_of(self, record: TaskRecord) -> Registry | None:
        """Return the blueprint of a task; ``None`` if this app does not have it."""
        registries: dict[str, Registry] = self.app.extensions.get(REGISTRIES, {})
        return registries.get(record.blueprint)

    def _engine_of(self, registry: Registry | None) -> TaskEngine:
        own: TaskEngine | None = None if registry is None else registry.task_engine
        return own or self.engine

    def name_of(self, registry: Registry) -> str:
        """Return the full name of a blueprint; that of a nested one has the names of its parents."""
        registries: dict[str, Registry] = self.app.extensions[REGISTRIES]
        return next(name for name, each in registries.items() if each is registry)

    def _check_limits(self, connection: Connection, caller: Caller) -> None:
        most_own, most_queued = self.setting("MAX_TASKS"), self.setting("MAX_QUEUED")
        own, queued = count_waiting(connection, caller.principal, caller.address[:64], most_own, most_queued)
        if own >= most_own:
            raise TooManyTasks(most_own, retry_after=5)
        if queued >= most_queued:
            raise Overloaded("Too many tasks wait for a worker; try again later")


def iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
