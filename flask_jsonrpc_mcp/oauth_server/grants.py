"""Store grants: what a user has allowed a client, one row each. Tokens are not stored.

The row of an ended grant stays for an hour, with an ``expires_at`` in the past, so that its code cannot be used again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import current_app

from ..errors import SignInUnavailable
from ..problems import MAX_QUOTED, one_line

if TYPE_CHECKING:
    from sqlalchemy import Engine

KEEP_ENDED = 3600
"""Seconds for which the row of an ended grant is kept; longer than a code is valid."""

CLOCK_SKEW = 600
"""Seconds by which the clocks of two machines may differ; less than `KEEP_ENDED`."""

TIMEOUT = 5.0
"""Seconds that a statement waits while other processes write."""

CREATE = """CREATE TABLE IF NOT EXISTS oauth_grants (
    id VARCHAR(64) PRIMARY KEY, user_id VARCHAR(255) NOT NULL, client_id TEXT NOT NULL, client_name TEXT NOT NULL,
    scope TEXT NOT NULL, resource TEXT NOT NULL, generation INTEGER NOT NULL, created_at DOUBLE PRECISION NOT NULL,
    refreshed_at DOUBLE PRECISION NOT NULL, expires_at DOUBLE PRECISION NOT NULL)"""
PURGE = "DELETE FROM oauth_grants WHERE expires_at < :before"
INSERT = """INSERT INTO oauth_grants (id, user_id, client_id, client_name, scope, resource, generation, created_at,
    refreshed_at, expires_at) VALUES (:id, :user_id, :client_id, :client_name, :scope, :resource, :generation,
    :created_at, :refreshed_at, :expires_at)"""
COLUMNS = "id, user_id, client_id, client_name, scope, resource, generation, created_at, refreshed_at, expires_at"
GET = f"SELECT {COLUMNS} FROM oauth_grants WHERE id = :id AND expires_at > :now"  # noqa: S608 - a constant
OF_USER = f"""SELECT {COLUMNS} FROM oauth_grants WHERE user_id = :user_id AND expires_at > :now
    ORDER BY created_at"""  # noqa: S608 - a constant
# Of several processes that try this at once, one succeeds.
ROTATE = """UPDATE oauth_grants SET generation = generation + 1, refreshed_at = :now, expires_at = :expires_at
    WHERE id = :id AND generation = :generation AND expires_at > :now"""
# In the past by the clocks of all machines.
ENDED = f"expires_at = :now - {CLOCK_SKEW}"
REVOKE = f"UPDATE oauth_grants SET {ENDED} WHERE id = :id AND expires_at > :now"  # noqa: S608 - a constant
REVOKE_USER = f"UPDATE oauth_grants SET {ENDED} WHERE user_id = :user_id AND expires_at > :now"  # noqa: S608


@dataclass(frozen=True)
class Grant:
    """What a user has allowed a client.

    :param scope: The scopes, separated by spaces.
    :param resource: The URL of the MCP endpoint that its tokens are for.
    :param generation: How often its refresh token was replaced.
    :param refreshed_at: When its refresh token was last replaced, in seconds since 1970; at first ``created_at``.
    :param expires_at: When it ends if it is not refreshed before.
    """

    id: str
    user_id: str
    client_id: str
    client_name: str
    scope: str
    resource: str
    generation: int
    created_at: float
    refreshed_at: float
    expires_at: float

    @property
    def scopes(self) -> list[str]:
        return self.scope.split()


class Grants(ABC):
    """Stores grants. Every method needs an app context, and raises `SignInUnavailable` if the database fails."""

    failures: tuple[type[Exception], ...] = ()
    duplicates: tuple[type[Exception], ...] = ()

    @abstractmethod
    def execute(self, statement: str, parameters: Mapping[str, Any]) -> tuple[Sequence[Any], int]:
        """Execute a statement in a transaction of its own. Return its rows, and how many rows it has changed."""

    def _run(self, statement: str, **parameters: Any) -> tuple[Sequence[Any], int]:
        try:
            return self.execute(statement, parameters)
        except self.duplicates:
            raise
        except self.failures as error:
            facts = {"reason": one_line(str(error), MAX_QUOTED)}
            current_app.logger.error("the storage of OAuth grants failed: %(reason)s", facts, extra=facts)
            raise SignInUnavailable() from error

    def insert(self, grant: Grant) -> bool:
        """Insert a grant. Return whether that worked, or ``False`` if its id exists already."""
        self._run(PURGE, before=time.time() - KEEP_ENDED)
        try:
            self._run(INSERT, **asdict(grant))
        except self.duplicates:
            return False
        return True

    def get(self, id: str) -> Grant | None:
        """Return a grant that has not ended."""
        rows, _ = self._run(GET, id=id, now=time.time())
        return Grant(*rows[0]) if rows else None

    def of_user(self, user_id: str) -> list[Grant]:
        """Return the grants of a user that have not ended."""
        rows, _ = self._run(OF_USER, user_id=user_id, now=time.time())
        return [Grant(*row) for row in rows]

    def rotate(self, id: str, generation: int, expires_at: float) -> bool:
        """Start the next generation. Return ``False`` if ``generation`` is not the current one any more."""
        _, changed = self._run(ROTATE, id=id, generation=generation, expires_at=expires_at, now=time.time())
        return changed == 1

    def revoke(self, id: str) -> None:
        self._run(REVOKE, id=id, now=time.time())

    def revoke_user(self, user_id: str) -> None:
        self._run(REVOKE_USER, user_id=user_id, now=time.time())


class FileGrants(Grants):
    """Store the grants in an SQLite file, which all processes of one machine share.

    :param path: The file. It is created with mode 0600, and its folder too, if they are missing.
    """

    failures = (sqlite3.Error, OSError)
    duplicates = (sqlite3.IntegrityError,)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def execute(self, statement: str, parameters: Mapping[str, Any]) -> tuple[Sequence[Any], int]:
        # A connection for each statement, so that threads and forked workers share none.
        with closing(self._open()) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall(), cursor.rowcount

    def _open(self) -> sqlite3.Connection:
        is_new = not self._path.exists()
        if is_new:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self._path, timeout=TIMEOUT, isolation_level=None)
        try:
            if is_new or not connection.execute("PRAGMA schema_version").fetchone()[0]:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(CREATE)
        except BaseException:
            connection.close()
            raise
        return connection


class SqlGrants(Grants):
    """Store the grants in a table of the app's own database, ``oauth_grants``, which is created if it is missing.

    :param engine: An SQLAlchemy engine, or a function that returns it, such as ``lambda: db.engine``.
    """

    def __init__(self, engine: Engine | Callable[[], Engine]) -> None:
        from sqlalchemy import text
        from sqlalchemy.exc import IntegrityError, SQLAlchemyError

        self._engine = engine
        self._text = text
        self._lock = threading.Lock()
        self._created: set[Engine] = set()
        self.failures = (SQLAlchemyError,)
        self.duplicates = (IntegrityError,)

    def execute(self, statement: str, parameters: Mapping[str, Any]) -> tuple[Sequence[Any], int]:
        engine = self._engine() if callable(self._engine) else self._engine
        if engine not in self._created:
            self._create(engine)
        with engine.begin() as connection:
            result = connection.execute(self._text(statement), parameters)
            return (result.fetchall() if result.returns_rows else ()), result.rowcount

    def _create(self, engine: Engine) -> None:
        with self._lock:
            for last_try in (False, True):
                try:
                    with engine.begin() as connection:
                        connection.execute(self._text(CREATE))
                    break
                except self.failures:  # PostgreSQL fails if two processes create a table at once
                    if last_try:
                        raise
            self._created.add(engine)
