"""The database: one engine per app, one session per request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flask import Flask, current_app, g
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.pool import StaticPool

from flask_jsonrpc_mcp import RpcError

EXTENSION = "sample_app_engine"

IN_MEMORY = (None, "", ":memory:")

BUSY_TIMEOUT = 15
"""Seconds that a writer waits for another one; SQLite has one writer at a time."""


def init_app(app: Flask) -> None:
    """Create the engine of an app.

    It connects with the first request, so a server can create the app before it forks its workers.
    """
    url = make_url(app.config["DATABASE_URL"])
    engine = create_engine(url, **_options_for(url))
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        if url.database not in IN_MEMORY and "uri" not in url.query:
            event.listen(engine, "do_connect", lambda *ignored: _make_private(Path(str(url.database))))
    app.extensions[EXTENSION] = engine
    app.teardown_appcontext(_close_session)


def current_engine() -> Engine:
    """Return the engine of the current app, for code that cannot use the session of the request."""
    engine: Engine = current_app.extensions[EXTENSION]
    return engine


def current_session() -> Session:
    """Return the session of the current request. Uncommitted changes are rolled back when the request ends."""
    if "db_session" not in g:
        g.db_session = Session(current_engine())
    session: Session = g.db_session
    return session


@contextmanager
def transaction() -> Iterator[Session]:
    """Commit the changes of the block, or roll all of them back if it raises.

    The calls of a batch share a session, so a call that fails must not leave changes that the next call would commit.

    :raises RpcError: if another request has deleted a row that this one changes.
    """
    session = current_session()
    try:
        yield session
        session.commit()
    except StaleDataError as error:
        session.rollback()
        raise RpcError("Someone else changed this at the same time; try again", status=409) from error
    except BaseException:
        session.rollback()
        raise


def _close_session(error: BaseException | None) -> None:
    session: Session | None = g.pop("db_session", None)
    if session is not None:
        session.close()


def _options_for(url: URL) -> dict[str, Any]:
    if url.get_backend_name() != "sqlite":
        # The pool needs no limit: a worker has a limited number of threads, and none should wait for a connection.
        return {"max_overflow": -1, "pool_pre_ping": True}
    if url.database in IN_MEMORY:
        # One connection for everyone, or each thread would see an empty database of its own.
        return {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    return {"max_overflow": -1, "connect_args": {"timeout": BUSY_TIMEOUT}}


def _make_private(database: Path) -> None:
    """Let only the user of this process read the database. SQLite creates the files beside it with the same mode."""
    if not database.exists():
        database.touch(mode=0o600)
    for suffix in ("", "-wal", "-shm", "-journal"):
        file = database.with_name(database.name + suffix)
        with suppress(FileNotFoundError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def _prepare_sqlite(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    # With the write-ahead log, readers and the writer do not wait for each other.
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
