"""Pass messages between the processes of an app: open questions, answers, cancellations, announced changes.

By default messages are rows of one SQLite file, which all workers of one machine share; for several machines
``JSONRPC_MCP_MAILBOX`` names a Redis. Every message expires, so nothing stays of a process that was killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from flask import current_app
from flask.sansio.app import App

from .config import PREFIX
from .errors import NoMailbox

EXTENSION = "jsonrpc_mcp_mailbox"

FILE = "mailbox-2.sqlite3"
"""A release that changes the table changes this name, because both releases may run on one machine."""

MAX_OF_KIND = 1_000
"""Maximum messages of one kind; the oldest are dropped. Clients can send any number of log levels and cancellations;
because the limit is per kind, these cannot push out an answer that a call waits for."""

TIMEOUT = 1.0
"""Seconds that one operation may take."""

RETRY_AFTER = 10.0
"""After a failure, wait this many times its duration before the next try; at least a second."""

POLL_EVERY = 0.1
"""Seconds between two polls for a message."""

TOOLS, PROMPTS, RESOURCES = "tools", "prompts", "resources"
LISTS = (TOOLS, PROMPTS, RESOURCES)

CHANGE_MAX_AGE = 60 * 60
"""Seconds for which a change is kept; clients that listen poll far more often."""


class Mailbox:
    """The mailbox of one app. Values are plain JSON; the first word of a key is its kind, see `MAX_OF_KIND`.

    Every method but `delete` raises `NoMailbox` if the backend fails, or failed shortly before.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._backend = _make_backend(app)
        self._lock = threading.Lock()
        self._paused_until = 0.0  # zero if the last operation succeeded

    @property
    def has_backend(self) -> bool:
        """False if the setting is a Redis URL and the package redis is not installed."""
        return self._backend is not None

    def check_ready(self) -> None:
        """Check that the backend can be reached."""
        self.get_all(["change check_ready"])

    def put(self, key: str, value: Any, seconds: int) -> None:
        """Store a value for some seconds, and replace an earlier value of the key."""
        with self._use_backend() as backend:
            backend.put(_address(key), json.dumps(value), seconds)

    def get(self, key: str) -> Any:
        """Read the value of a key; ``None`` if missing."""
        return self.get_all([key]).get(key)

    def get_all(self, keys: Iterable[str]) -> dict[str, Any]:
        """Read the values of several keys, without those that are missing."""
        addresses = {_address(key): key for key in keys}
        with self._use_backend() as backend:
            return {addresses[address]: json.loads(text) for address, text in backend.get([*addresses]).items()}

    def pop(self, key: str) -> Any:
        """Read the value of a key and remove it; ``None`` if missing. If several workers try at once, one gets it."""
        with self._use_backend() as backend:
            return next(map(json.loads, backend.pop([_address(key)]).values()), None)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove the values of some keys. If the backend fails, they expire."""
        with suppress(NoMailbox), self._use_backend() as backend:
            backend.pop([_address(key) for key in keys])

    def wait_for(self, keys: Iterable[str], seconds: float, give_up: Callable[[], bool]) -> dict[str, Any] | None:
        """Wait until each of some keys has a value, and remove them.

        :param give_up: Called after each poll; waiting ends if it returns true.
        :returns: The values by key, or ``None`` if they did not all arrive in time.
        """
        deadline, values = time.monotonic() + seconds, {}
        missing = {_address(key): key for key in keys}
        while True:
            with self._use_backend() as backend:
                found = backend.pop([*missing])
            for address, text in found.items():
                values[missing.pop(address)] = json.loads(text)
            if not missing:
                return values
            if time.monotonic() > deadline or give_up():
                return None
            time.sleep(POLL_EVERY)

    @contextmanager
    def _use_backend(self) -> Iterator[_SqliteFile | _Redis]:
        """Use the backend for one operation, unless it is paused because an earlier one failed (a circuit breaker).

        :raises NoMailbox: if it is paused, or the operation fails.
        """
        began = time.monotonic()
        with self._lock:
            if self._backend is None or began < self._paused_until:
                raise NoMailbox()
            if self._paused_until:  # the pause is over: this thread retries, and it lasts for the others meanwhile
                self._paused_until = began + TIMEOUT
            paused_until = self._paused_until
        try:
            yield self._backend
        except self._backend.failures as error:
            if self._paused_until == paused_until:  # else another thread failed, and has paused and logged it
                now = time.monotonic()
                pause = RETRY_AFTER * max(now - began, 0.1)
                self._paused_until = now + pause
                facts = {"reason": str(error), "retry_after": round(pause, 1)}
                message = "the mailbox cannot be reached: %(reason)s; retrying in %(retry_after).1f seconds"
                self._app.logger.error(message, facts, extra=facts)
            raise NoMailbox() from error
        self._paused_until = 0.0


def init_app(app: App) -> None:
    """Create the mailbox of an app. It opens nothing before the first message.

    :raises ValueError, RuntimeError: if ``JSONRPC_MCP_MAILBOX`` is invalid.
    """
    if EXTENSION not in app.extensions:
        app.extensions[EXTENSION] = Mailbox(app)


def current_mailbox() -> Mailbox:
    """Return the mailbox of the current app."""
    mailbox: Mailbox = current_app.extensions[EXTENSION]
    return mailbox


def answer_timeout() -> int:
    """Return how many seconds to wait for an answer of the client."""
    return int(current_app.config["JSONRPC_MCP_ANSWER_TIMEOUT"])


class Watch:
    """Detects changes that are published from now on.

    :param topics: Names of lists, and URIs of resources.
    """

    def __init__(self, blueprint: str, topics: Iterable[str]) -> None:
        self._topics = {_change_key(blueprint, topic): topic for topic in topics}
        self._seen = current_mailbox().get_all(self._topics)

    def changed(self) -> list[str]:
        """Return the topics that have changed since the last call."""
        now = current_mailbox().get_all(self._topics)
        changed = [topic for key, topic in self._topics.items() if key in now and now[key] != self._seen.get(key)]
        self._seen |= now
        return changed


def announces_changes() -> bool:
    """Return whether clients of this app can listen for changes."""
    return bool(current_app.config["JSONRPC_MCP_SUBSCRIPTIONS"]) and current_mailbox().has_backend


def announce(blueprint: str, topic: str) -> None:
    """Publish a change to all listening clients: of a list, by its name, or of a resource, by its URI."""
    if announces_changes():
        # The function that made the change must not fail because of this; the mailbox has logged the failure.
        with suppress(NoMailbox):
            current_mailbox().put(_change_key(blueprint, topic), secrets.token_hex(8), CHANGE_MAX_AGE)


def _change_key(blueprint: str, topic: str) -> str:
    return f"change {blueprint} {topic}"


def _address(key: str) -> str:
    """Return where a message is stored: its kind, and a hash instead of the key, which may contain a session id."""
    return f"{key.partition(' ')[0]}:{hashlib.sha256(key.encode()).hexdigest()}"


def _kind(address: str) -> str:
    return address.partition(":")[0]


class _SqliteFile:
    """Stores texts by address in a file that only this user can read.

    Each operation opens its own connection. So threads and forked workers share none, no greenlet waits in a
    transaction, and a deleted file is created again.
    """

    failures: tuple[type[Exception], ...] = (sqlite3.Error, OSError, RuntimeError)

    # Writes do not wait for the disk: a file that a power failure has damaged is deleted, see `_open`.
    SCHEMA = """
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = OFF;
        CREATE TABLE IF NOT EXISTS messages (
            id INTEGER PRIMARY KEY, kind TEXT NOT NULL, address TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
            expires REAL NOT NULL
        );
        CREATE INDEX IF NOT EXISTS by_kind ON messages (kind, id);
        CREATE INDEX IF NOT EXISTS by_expiry ON messages (expires);
    """
    PUT = "INSERT OR REPLACE INTO messages (kind, address, text, expires) VALUES (?, ?, ?, ?)"
    GET = "SELECT address, text FROM messages WHERE address = ? AND expires > ?"
    LIMIT = """DELETE FROM messages WHERE kind = ? AND id <=
        (SELECT id FROM messages WHERE kind = ? ORDER BY id DESC LIMIT 1 OFFSET ?)"""

    def __init__(self, app: App) -> None:
        self._app = app

    def put(self, address: str, text: str, seconds: int) -> None:
        kind, now = _kind(address), time.time()
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM messages WHERE expires <= ?", (now,))
            connection.execute(self.PUT, (kind, address, text, now + seconds))
            connection.execute(self.LIMIT, (kind, kind, MAX_OF_KIND))
            connection.execute("COMMIT")

    def get(self, addresses: Sequence[str]) -> dict[str, str]:
        with self._open() as connection:
            return self._select(connection, addresses)

    def pop(self, addresses: Sequence[str]) -> dict[str, str]:
        with self._open() as connection:
            if not self._select(connection, addresses):
                return {}  # without a lock, because callers poll
            connection.execute("BEGIN IMMEDIATE")
            found = self._select(connection, addresses)
            connection.executemany("DELETE FROM messages WHERE address = ?", [(address,) for address in found])
            connection.execute("COMMIT")
            return found

    def _select(self, connection: sqlite3.Connection, addresses: Sequence[str]) -> dict[str, str]:
        now = time.time()
        return dict(row for address in addresses for row in connection.execute(self.GET, (address, now)).fetchall())

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Connect in autocommit mode; closing rolls back an open transaction."""
        file = _private_folder(self._app) / FILE
        try:
            with closing(sqlite3.connect(file, timeout=TIMEOUT, isolation_level=None)) as connection:
                self._prepare(connection)
                yield connection
        except sqlite3.Error as error:
            if type(error) is sqlite3.DatabaseError:  # not a subclass: damaged, or no database at all
                for each in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
                    each.unlink(missing_ok=True)
            raise RuntimeError(f"{file}: {error}") from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Create the table in a new file."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                connection.executescript(self.SCHEMA)
                return
            except sqlite3.OperationalError as error:
                # Of two processes that switch a new file to WAL mode, one fails at once, whatever its timeout.
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(POLL_EVERY)


class _Redis:
    """Stores texts by address, and for each kind a sorted set of addresses by age, to remove the oldest."""

    failures: tuple[type[Exception], ...]

    def __init__(self, app: App, url: str) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._app = app
        self.failures = (redis.RedisError, OSError)
        # No retries: a popped message is gone if the reply was lost.
        options = {"socket_connect_timeout": TIMEOUT, "socket_timeout": TIMEOUT, "retry": Retry(NoBackoff(), 0)}
        self._client: Any = redis.Redis.from_url(url, decode_responses=True, **options)

    def put(self, address: str, text: str, seconds: int) -> None:
        ages, pipeline = self._key(_kind(address)), self._client.pipeline()  # a transaction
        pipeline.set(self._key(address), text, ex=seconds)
        *_, count = pipeline.zadd(ages, {address: time.time()}).expire(ages, seconds).zcard(ages).execute()
        if count > MAX_OF_KIND:
            self._client.delete(*[self._key(oldest) for oldest, _ in self._client.zpopmin(ages, count - MAX_OF_KIND)])

    def get(self, addresses: Sequence[str]) -> dict[str, str]:
        return _without_missing(addresses, self._client.mget([*map(self._key, addresses)]) if addresses else [])

    def pop(self, addresses: Sequence[str]) -> dict[str, str]:
        keys, pipeline = [*map(self._key, addresses)], self._client.pipeline()
        pipeline.mget(keys).delete(*keys)
        for address in addresses:
            pipeline.zrem(self._key(_kind(address)), address)
        return _without_missing(addresses, pipeline.execute()[0])

    def _key(self, name: str) -> str:
        return f"flask-jsonrpc-mcp:{_owner(self._app)}:{name}"


def _without_missing(addresses: Sequence[str], texts: Sequence[str | None]) -> dict[str, str]:
    return {address: text for address, text in zip(addresses, texts, strict=True) if text is not None}


def _make_backend(app: App) -> _SqliteFile | _Redis | None:
    setting = app.config[PREFIX + "MAILBOX"]
    if isinstance(setting, str) and setting.startswith(("redis://", "rediss://", "unix://")):
        try:
            return _Redis(app, setting)
        except ImportError:
            app.logger.warning(
                "%sMAILBOX is a Redis URL, but the package redis is not installed, so methods cannot ask MCP clients"
                " anything, and changes are not announced; install flask-jsonrpc-mcp[redis]",
                PREFIX,
                extra={"setting": f"{PREFIX}MAILBOX"},
            )
            return None
    if setting is not None:
        if not setting or not isinstance(setting, (str, os.PathLike)) or "://" in str(setting):
            raise ValueError(f"{PREFIX}MAILBOX must be a folder or a redis:// URL, not {setting!r}")
        folder = _named_folder(app, setting)
        if folder.exists():
            _check_private(folder, folder.stat())
    return _SqliteFile(app)


def _owner(app: App) -> str:
    """Identify the app, because several may share a temp folder or a Redis. The key may be set after `init_app`."""
    return hashlib.sha256(f"{app.name} {app.secret_key!r}".encode()).hexdigest()[:24]


def _private_folder(app: App) -> Path:
    """Return the folder of the SQLite file; create it if missing."""
    setting = app.config[PREFIX + "MAILBOX"]
    temporary = Path(tempfile.gettempdir()) / f"flask-jsonrpc-mcp-{_owner(app)}"
    folder = temporary if setting is None else _named_folder(app, setting)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Anyone can put a link into the temp folder; a link that the setting names was put there by its owner.
    _check_private(folder, folder.lstat() if setting is None else folder.stat())
    return folder


def _named_folder(app: App, setting: str | os.PathLike[str]) -> Path:
    """Return the folder of the setting; a relative one is in the app's instance folder."""
    return Path(app.instance_path, setting)


def _check_private(folder: Path, found: os.stat_result) -> None:
    is_ours = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077)
    if not is_ours or not stat.S_ISDIR(found.st_mode):
        raise RuntimeError(
            f"{folder} is not a folder that only this user can read and write; name another one in {PREFIX}MAILBOX"
        )
