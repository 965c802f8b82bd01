"""The rows of tasks and of their workers: read and change them.

The row of a task decides who runs it, whether its worker is gone, and how it ended. Every change of state is one
conditional UPDATE, which names the state and the run that it expects; its row count says whether it happened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ..errors import TasksUnavailable
from .database import make_engine, metadata, tasks, transactional, workers

QUEUED, RUNNING, INPUT_REQUIRED = "queued", "running", "input_required"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"
UNFINISHED = (QUEUED, RUNNING, INPUT_REQUIRED)

WORKING = "working"
"""What clients see instead of `QUEUED` and `RUNNING`."""

# Seconds since the creation, and how many seconds to wait between two polls until then.
_POLL_INTERVALS = ((10, 1), (60, 2), (600, 5))

READ_FOR = 3600
"""Seconds for which a task is kept after its end, so that its result can be read."""

FIRST_OFFER, LAST_OFFER = 60, 3600
"""Seconds after which a task that no worker has claimed is offered again; doubled each time, up to the last."""

FAILED_OFFER = 5
"""Seconds after which a task is offered again that the engine has refused."""


# Statements of each call are built once: to build one takes longer than to run it.
_BY_ID = select(tasks).where(tasks.c.id == bindparam("task_id"))

_CLAIM = (
    update(tasks)
    .where(tasks.c.id == bindparam("task_id"), tasks.c.state == QUEUED, tasks.c.expires > bindparam("now"))
    .values(state=RUNNING, run=tasks.c.run + 1)
)
_CLAIM_RETURNING = _CLAIM.returning(*tasks.c)


def _count(*conditions: ColumnElement[bool], limit: Any) -> Any:
    """Return a subquery that counts tasks, up to a limit."""
    return select(func.count()).select_from(select(tasks.c.id).where(*conditions).limit(limit).subquery())


_WAITING = select(
    _count(
        tasks.c.owner == bindparam("owner"),
        or_(tasks.c.owner != "", tasks.c.address == bindparam("address")),
        tasks.c.state.in_(UNFINISHED),
        tasks.c.expires > bindparam("now"),
        limit=bindparam("most_own"),
    ).scalar_subquery(),
    _count(tasks.c.state == QUEUED, limit=bindparam("most_queued")).scalar_subquery(),
)

_NEW: dict[str, Any] = {column.name: getattr(column.default, "arg", None) for column in tasks.c}


@dataclass(frozen=True)
class TaskRecord:
    """A row of the table, in the order of its columns.

    :param owner: The principal of the caller; empty if anonymous.
    :param user: The name of the caller for lists; ``None`` if anonymous.
    :param caller: How to find the caller again: user, identity, scheme, permissions, scopes, grant. No credentials.
    :param call: The arguments, capabilities, ``_meta`` and client of the call, and what ``@rpc.carry`` has returned;
        erased when the task ends.
    :param repeatable: Whether it may run again if its worker is gone.
    :param run: How often a worker has claimed it.
    :param lost: How often the worker that ran it was lost.
    :param lease: Until when its worker counts as alive.
    :param offer_at: When it is offered to the engine again if no worker has claimed it.
    :param answers: Responses to questions, by key, each with the digest of its question.
    :param pending: Open questions by the key that the client sees: key, digest, method and params.
    :param asked: All keys that the client has seen.
    :param outcome: ``value``, ``content`` and ``meta`` of the result; or ``error``.
    """

    id: str
    blueprint: str
    owner: str
    address: str
    user: str | None
    caller: dict[str, Any]
    face: str
    method: str
    queue: str | None
    call: dict[str, Any] | None
    repeatable: bool
    state: str
    run: int
    lost: int
    runner: str | None
    lease: float | None
    offers: int
    offer_at: float
    cancel: bool
    answers: dict[str, Any] | None
    pending: dict[str, Any] | None
    asked: list[str] | None
    message: str | None
    progress: dict[str, Any] | None
    outcome: dict[str, Any] | None
    created: float
    updated: float
    expires: float

    @property
    def is_over(self) -> bool:
        return self.state not in UNFINISHED

    @property
    def status(self) -> str:
        """The status that clients see. It does not show whether a worker has started."""
        return WORKING if self.state in (QUEUED, RUNNING) else self.state

    @property
    def poll_interval(self) -> int:
        """How many seconds a client should wait before it asks again; more for older tasks."""
        if self.state == INPUT_REQUIRED:
            return 2
        age = time.time() - self.created
        return next((interval for until, interval in _POLL_INTERVALS if age < until), 15)


class Records:
    """The tasks and workers of one database.

    Every method raises `TasksUnavailable` if the database cannot be reached.
    """

    def __init__(self, url: URL, logger: Any) -> None:
        self.url = url
        self._logger = logger
        # By process: a forked one must not wait for a lock that a thread of its parent held.
        self._locks: dict[int, threading.Lock] = {}
        self._engine: Engine | None = None
        self._pid = 0

    @contextmanager
    def connection(self, *, is_transaction: bool = False) -> Iterator[Connection]:
        """Connect.

        :param is_transaction: Commit all statements or none.
        """
        try:
            engine = self._connected()
            with transactional(engine).begin() if is_transaction else engine.connect() as connection:
                yield connection
        except (DBAPIError, PoolTimeout, OSError) as error:
            reason = getattr(error, "orig", None) or error
            facts = {"reason": f"{type(reason).__name__}: {reason}"}
            self._logger.error("the database of the tasks cannot be used: %(reason)s", facts, extra=facts)
            raise TasksUnavailable() from error

    def _connected(self) -> Engine:
        """Return the engine of this process, because forked processes must not share connections."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            if self._engine is None or self._pid != os.getpid():
                if self._engine is not None:
                    self._engine.dispose(close=False)  # the connections of the parent
                engine = make_engine(self.url)
                try:
                    metadata.create_all(engine)
                except DBAPIError:  # another process has created them meanwhile, or the next try fails as well
                    metadata.create_all(engine)
                self._engine, self._pid = engine, os.getpid()
            return self._engine

    def close(self) -> None:
        """Close the connections of this process."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            if self._engine is not None:
                self._engine.dispose()
            self._engine = None

    def get(self, id: str) -> TaskRecord | None:
        try:
            return self._get(id)
        except TasksUnavailable as error:
            # A connection from before a restart of the server. The pool has dropped all of these now.
            if getattr(error.__cause__, "connection_invalidated", False):
                return self._get(id)
            raise

    def _get(self, id: str) -> TaskRecord | None:
        with self.connection() as connection:
            row = connection.execute(_BY_ID, {"task_id": id}).first()
        return None if row is None else TaskRecord(*row)

    def find(self, *conditions: ColumnElement[bool], limit: int = 100, newest_first: bool = False) -> list[TaskRecord]:
        """Find tasks, the oldest first."""
        with self.connection() as connection:
            return _read(connection, *conditions, limit=limit, newest_first=newest_first)

    def count(self, limit: int, *conditions: ColumnElement[bool]) -> int:
        """Count tasks, up to a limit."""
        with self.connection() as connection:
            return int(connection.execute(_count(*conditions, limit=limit)).scalar_one())

    def change(
        self, id: str, expected: Sequence[str], *conditions: ColumnElement[bool], run: int | None = None, **values: Any
    ) -> bool:
        """Change a task that is in one of the expected states, and in this run; return whether it was."""
        values.setdefault("updated", time.time())
        statement = update(tasks).where(tasks.c.id == id, tasks.c.state.in_(expected), *conditions)
        if run is not None:
            statement = statement.where(tasks.c.run == run)
        with self.connection() as connection:
            return connection.execute(statement.values(**values)).rowcount == 1

    def claim(self, id: str, runner: str, seconds: float) -> TaskRecord | None:
        """Begin to run a queued task, for one of all that try; ``None`` for the others."""
        now = time.time()
        values = {"task_id": id, "now": now, "runner": runner, "lease": now + seconds, "updated": now}
        with self.connection() as connection:
            if connection.dialect.update_returning:
                row = connection.execute(_CLAIM_RETURNING, values).first()
                return None if row is None else TaskRecord(*row)
            is_claimed = connection.execute(_CLAIM, values).rowcount == 1
            return _read(connection, tasks.c.id == id)[0] if is_claimed else None

    @contextmanager
    def holding(self, id: str, state: str) -> Iterator[tuple[Connection, TaskRecord | None]]:
        """Lock the row of a task that is in a state; ``None`` if it is not."""
        with self.connection(is_transaction=True) as connection:
            # An UPDATE first: it locks the row, and SQLite cannot change a read transaction to a write transaction.
            locking = update(tasks).where(tasks.c.id == id, tasks.c.state == state).values(run=tasks.c.run)
            is_locked = connection.execute(locking).rowcount == 1
            yield connection, _read(connection, tasks.c.id == id)[0] if is_locked else None

    def renew(self, runner: str, runs: Mapping[str, int], until: float | None) -> dict[str, tuple[int, bool]]:
        """Renew the leases of a runner, and return run and cancellation of its tasks.

        :param runs: The number of the run by task id.
        :param until: The new end of the leases; ``None`` to leave them.
        """
        mine = (tasks.c.id.in_(list(runs)), tasks.c.state == RUNNING, tasks.c.runner == runner)
        with self.connection() as connection:
            if until is not None:
                connection.execute(update(tasks).where(*mine).values(lease=until))
            rows = connection.execute(select(tasks.c.id, tasks.c.run, tasks.c.cancel).where(*mine))
            return {task_id: (run, cancel) for task_id, run, cancel in rows}

    def remove_expired(self) -> int:
        with self.connection() as connection:
            return connection.execute(delete(tasks).where(tasks.c.expires <= time.time())).rowcount

    def see_worker(self, id: str, values: Mapping[str, Any]) -> None:
        """Record that a worker is alive."""
        with self.connection() as connection:
            if connection.execute(update(workers).where(workers.c.id == id).values(**values)).rowcount == 0:
                connection.execute(insert(workers).values(id=id, **values))

    def remove_workers(self, *ids: str, unseen_for: float | None = None) -> None:
        gone: ColumnElement[bool] = workers.c.id.in_(ids)
        if unseen_for is not None:
            gone |= workers.c.seen < time.time() - unseen_for
        with self.connection() as connection:
            connection.execute(delete(workers).where(gone))

    def seen_workers(self, seconds: float) -> list[dict[str, Any]]:
        """Return the workers that were alive within the last seconds."""
        alive = select(workers).where(workers.c.seen >= time.time() - seconds).order_by(workers.c.id)
        with self.connection() as connection:
            return [dict(row) for row in connection.execute(alive).mappings()]


def add(connection: Connection, values: Mapping[str, Any]) -> TaskRecord:
    """Add a queued task."""
    connection.execute(insert(tasks), values)
    return TaskRecord(**{**_NEW, **values})


def count_waiting(connection: Connection, owner: str, address: str, most_own: int, most_queued: int) -> tuple[int, int]:
    """Count the unfinished tasks of a caller, and the queued ones of all, each up to a limit.

    :param address: Tells anonymous callers apart, whose ``owner`` is empty.
    """
    limits = {"most_own": most_own, "most_queued": most_queued}
    row = connection.execute(_WAITING, {"owner": owner, "address": address, "now": time.time(), **limits}).one()
    return row[0], row[1]


def ending(state: str, **values: Any) -> dict[str, Any]:
    """Return the values of a task that ends now: its arguments and answers are erased."""
    read_until = time.time() + READ_FOR
    expires = case((tasks.c.expires < read_until, read_until), else_=tasks.c.expires)
    erased = {"call": None, "answers": None, "pending": None, "lease": None}
    return {"message": None, **values, **erased, "state": state, "expires": expires}


def queueing(**values: Any) -> dict[str, Any]:
    """Return the values of a task that waits for a worker from now on."""
    return {**values, "state": QUEUED, "lease": None, "offers": 1, "offer_at": time.time() + FIRST_OFFER}


def _read(
    connection: Connection, *conditions: ColumnElement[bool], limit: int | None = None, newest_first: bool = False
) -> list[TaskRecord]:
    order: Iterable[Any] = (tasks.c.created.desc() if newest_first else tasks.c.created, tasks.c.id)
    rows = connection.execute(select(tasks).where(*conditions).order_by(*order).limit(limit))
    return [TaskRecord(*row) for row in rows]
