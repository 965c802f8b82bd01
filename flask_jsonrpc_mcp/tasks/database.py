"""The database of the tasks: its tables and its connections."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT
from sqlalchemy.exc import ArgumentError, DisconnectionError

from ..config import PREFIX

CHECKED_AFTER = 5
"""Seconds without use after which a connection is checked."""

BUSY_TIMEOUT = 15
"""Seconds that a writer waits for another one; SQLite has one writer at a time."""

_LIBPQ_TIMEOUTS = {"connect_timeout": 5, "tcp_user_timeout": 10_000}
"""Seconds to connect, and milliseconds until a connection whose other side does not answer is given up."""

# In this mode there is nothing to roll back when a connection returns to the pool.
_AUTOCOMMIT: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}


class _Json(TypeDecorator[Any]):
    """A JSON value as text. Unlike the JSON types of databases, it keeps the order of members."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return dialect.type_descriptor(MEDIUMTEXT() if dialect.name in ("mysql", "mariadb") else Text())

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else json.loads(value)


metadata = MetaData()

tasks = Table(
    "mcp_tasks",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("blueprint", String(255), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Column("user", String(255), nullable=True),
    Column("caller", _Json, nullable=False),
    Column("face", String(16), nullable=False),
    Column("method", String(255), nullable=False),
    Column("queue", String(100), nullable=True),
    Column("call", _Json, nullable=True),
    Column("repeatable", Boolean, nullable=False),
    Column("state", String(16), nullable=False),
    Column("run", Integer, nullable=False, default=0),
    Column("lost", Integer, nullable=False, default=0),
    Column("runner", String(128), nullable=True),
    Column("lease", Double, nullable=True),
    Column("offers", Integer, nullable=False, default=1),
    Column("offer_at", Double, nullable=False),
    Column("cancel", Boolean, nullable=False, default=False),
    Column("answers", _Json, nullable=True),
    Column("pending", _Json, nullable=True),
    Column("asked", _Json, nullable=True),
    Column("message", Text, nullable=True),
    Column("progress", _Json, nullable=True),
    Column("outcome", _Json, nullable=True),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Index("mcp_tasks_by_state", "state", "created"),
    Index("mcp_tasks_by_owner", "owner", "state"),
    Index("mcp_tasks_by_expiry", "expires"),
)

workers = Table(
    "mcp_task_workers",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("places", Integer, nullable=False),
    Column("queues", _Json, nullable=True),
    Column("port", Integer, nullable=True),
    Column("seen", Double, nullable=False),
)


def make_engine(url: URL) -> Engine:
    """Return an engine for the threads of one process.

    It commits each statement, which then takes one round trip instead of three. See `transactional`.
    """
    if url.get_backend_name() != "sqlite":
        limits = _LIBPQ_TIMEOUTS if url.get_driver_name() in ("psycopg", "psycopg2") else {}
        engine = create_engine(url, **_AUTOCOMMIT, max_overflow=-1, connect_args=limits)
        event.listen(engine, "checkin", lambda connection, pooled: pooled.info.update(used=time.monotonic()))
        event.listen(engine, "checkout", partial(_check_idle, engine))
        return engine
    file = Path(str(url.database))
    engine = create_engine(url, **_AUTOCOMMIT, max_overflow=-1, connect_args={"timeout": BUSY_TIMEOUT})
    event.listen(engine, "do_connect", lambda *ignored: _make_private(file))
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def transactional(engine: Engine) -> Engine:
    """Return an engine with the same connections, which commits all statements of a ``begin()`` or none."""
    level = "SERIALIZABLE" if engine.dialect.name == "sqlite" else "READ COMMITTED"
    return engine.execution_options(isolation_level=level)


def _check_idle(engine: Engine, connection: Any, pooled: Any, proxy: object) -> None:
    """Check a connection that was not used for a while. Checking it before each use would take a round trip."""
    if time.monotonic() - pooled.info.get("used", time.monotonic()) < CHECKED_AFTER:
        return
    try:
        engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error as error:
        raise DisconnectionError() from error  # the pool opens another one


def _make_private(file: Path) -> None:
    """Create the file, which only this user can read. SQLite creates the files beside it with the same mode."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))


def _prepare_sqlite(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    # With the write-ahead log, readers and the writer do not wait for each other.
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def database_url(app: Flask) -> URL:
    setting = app.config[PREFIX + "TASKS_DATABASE"]
    if setting is None:
        return URL.create("sqlite", database=str(Path(app.instance_path) / "mcp-tasks.db"))
    try:
        url = make_url(setting)
        url.get_dialect().import_dbapi()  # its driver may not be installed
    except (ArgumentError, ImportError) as error:
        raise ValueError(f"{PREFIX}TASKS_DATABASE must be an SQLAlchemy URL that can be used here: {error}") from error
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError(f"{PREFIX}TASKS_DATABASE must be a file that all processes can open, not in memory")
    return url
