"""`AuditTable`: the audit trail in a table of a database. Needs SQLAlchemy 2."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ..problems import one_line
from .audit import Audit

try:
    from sqlalchemy import (
        JSON,
        BigInteger,
        Column,
        DateTime,
        Engine,
        Float,
        Integer,
        MetaData,
        String,
        Table,
        create_engine,
        delete,
        insert,
        select,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install SQLAlchemy", name=error.name) from error

__all__ = ["AuditTable"]

PURGE_EVERY = 3600.0
"""Seconds between two deletions of records that are too old."""


class AuditTable(Audit):
    """Write the audit trail to a table, each record in a transaction of its own.

    ::

        audit = AuditTable("postgresql+psycopg://audit@db/audit", retention=timedelta(days=365))
        rpc = McpBlueprint(auth=auth, audit=audit)

    A rollback of the app does not remove a record. With SQLite, use another file than the app does: the app may still
    hold the lock of its database when the record is written.

    :param engine: A URL, an engine of SQLAlchemy, or a function that returns one, such as ``lambda: db.engine``.
    :param name: The name of the table, which is created if it is missing.
    :param retention: Records older than this are deleted when another is written, at most once an hour; ``None`` keeps
        all.
    :param page_size: Records of one :meth:`page`.
    :param options: ``arguments=True`` to record the values of arguments, ``reads=True`` to record read-only methods.
    """

    def __init__(
        self,
        engine: str | Engine | Callable[[], Engine],
        *,
        name: str = "mcp_audit",
        retention: timedelta | None = None,
        page_size: int = 100,
        **options: bool,
    ) -> None:
        super().__init__(**options)
        if retention is not None and retention <= timedelta(0):
            raise ValueError(f"retention must be longer than nothing, not {retention!r}")
        if isinstance(page_size, bool) or page_size < 1:
            raise ValueError(f"page_size must be at least 1, not {page_size!r}")
        self.table = _make_table(name)
        """The table, for migrations and for queries of your own."""
        self._engine = create_engine(engine) if isinstance(engine, str) else engine
        self._retention = retention
        self._page_size = page_size
        self._purge_at = 0.0
        self._is_created = False
        self._lock = threading.Lock()

    def write(self, record: Mapping[str, Any]) -> None:
        values = {name: self._fit(name, value) for name, value in record.items()}
        values["time"] = datetime.fromisoformat(record["time"])
        with self._open().begin() as connection:
            connection.execute(insert(self.table).values(values))
        self._purge()

    def page(self, before: int | None = None, **where: Any) -> list[dict[str, Any]]:
        """Return a page of records, the newest first.

        :param before: The ``number`` of the last record of the previous page.
        :param where: Only records with these values, such as ``tool="articles.delete"`` or ``caller="ada"``.
        """
        columns = self.table.c
        query = select(self.table).order_by(columns.number.desc()).limit(self._page_size)
        if before is not None:
            query = query.where(columns.number < before)
        for name, value in where.items():
            query = query.where(columns[name] == self._fit(name, value))
        with self._open().connect() as connection:
            rows = connection.execute(query).mappings().all()
        # SQLite returns times without their zone.
        return [
            {**row, "time": row["time"].replace(tzinfo=timezone.utc).isoformat(timespec="milliseconds")} for row in rows
        ]

    def _fit(self, name: str, value: Any) -> Any:
        """Cut a text to the length of its column, without NUL: PostgreSQL would refuse it, and callers choose some."""
        kind = self.table.c[name].type
        if isinstance(value, str) and isinstance(kind, String) and kind.length is not None:
            return one_line(value, kind.length)
        return value

    def _open(self) -> Engine:
        engine = self._engine() if callable(self._engine) else self._engine
        if not self._is_created:
            with self._lock:
                if not self._is_created:
                    self.table.metadata.create_all(engine)
                    self._is_created = True
        return engine

    def _purge(self) -> None:
        """Delete records that are too old, at most every `PURGE_EVERY` seconds."""
        with self._lock:
            if self._retention is None or time.monotonic() < self._purge_at:
                return
            self._purge_at = time.monotonic() + PURGE_EVERY
        oldest = datetime.now(timezone.utc) - self._retention
        with self._open().begin() as connection:
            connection.execute(delete(self.table).where(self.table.c.time < oldest))


def _make_table(name: str) -> Table:
    number = BigInteger().with_variant(Integer(), "sqlite")  # only INTEGER counts by itself in SQLite
    texts = ("blueprint", "face", "tool", "caller", "credential", "address", "client", "confirmation")
    return Table(
        name,
        MetaData(),
        Column("number", number, primary_key=True, autoincrement=True),
        Column("time", DateTime(timezone=True), nullable=False, index=True),
        Column("id", String(32), nullable=False, index=True),
        Column("trace_id", String(32)),
        *(Column(each, String(512)) for each in texts),
        Column("client_id", String(2048)),  # those of our authorization server have up to 1,500
        Column("scopes", JSON),
        Column("access", JSON),
        Column("outcome", String(128), nullable=False),
        Column("ms", Float),
        Column("arguments", JSON),
    )
