"""Connections to the database of the tasks."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError

CHECKED_AFTER = 5
"""Seconds without use after which a connection is checked."""

BUSY_TIMEOUT = 15
"""Seconds that a writer waits for another one; SQLite has one writer at a time."""

_LIBPQ_TIMEOUTS = {"connect_timeout": 5, "tcp_user_timeout": 10_000}
"""Seconds to connect, and milliseconds until a connection whose other side does not answer is given up."""

# In this mode there is nothing to roll back when a connection returns to the pool.
_AUTOCOMMIT: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}


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
