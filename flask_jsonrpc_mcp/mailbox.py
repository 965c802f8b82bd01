"""Messages between the processes of an app: answers of older clients, which come by another request, and changes.

All that one process leaves for another is kept by cachelib: in files, which all workers of one machine share, or in
Redis, for several machines. Everything expires by itself, so that nothing is left of a process that was killed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask.sansio.app import App

from .errors import Overloaded, RpcError
from .serving import this_app
from .settings import PREFIX, setting

if TYPE_CHECKING:
    from cachelib.base import BaseCache

EXTENSION = "jsonrpc_mcp_mailbox"

LOOK_AGAIN = 0.05
"""After how many seconds someone who waits looks again."""

MAX_LETTERS = 10_000
"""How many files there may be; beyond that those go first that expire first."""


class NoMailbox(RpcError):
    """What needs a mailbox cannot be done, because there is none."""

    default_message = "This server cannot do that: it has no way to pass answers from one worker to another"


class Mailbox:
    """The mailbox of one app."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(app.config[PREFIX + "MAX_WAITING"])
        self._listening = threading.BoundedSemaphore(app.config[PREFIX + "MAX_LISTENERS"])

    @property
    def is_possible(self) -> bool:
        """Whether there is one. The log says once why not."""
        return self._cache is not None

    def put(self, key: str, letter: Any, seconds: int) -> None:
        """Leave something, plain JSON, for so many seconds."""
        self._open.set(_address(key), letter, timeout=seconds)

    def look(self, key: str) -> Any:
        """Look for what was left under a key; ``None`` when there is nothing."""
        return self._open.get(_address(key))

    def take(self, key: str) -> Any:
        """Take what was left under a key; ``None`` when there is nothing."""
        letter = self.look(key)
        if letter is not None:
            self._open.delete(_address(key))
        return letter

    def wait_for(self, keys: Iterable[str], seconds: float, give_up: Callable[[], bool]) -> dict[str, Any] | None:
        """Wait until there is something under each of some keys, and take it.

        :param give_up: Asked again and again; waiting ends when it says so.
        :returns: What was there by key, or ``None`` when it did not come in time.
        """
        deadline, taken = time.monotonic() + seconds, {}
        missing = list(keys)
        while True:
            for key in list(missing):
                letter = self.take(key)
                if letter is not None:
                    taken[key] = letter
                    missing.remove(key)
            if not missing:
                return taken
            if give_up() or time.monotonic() > deadline:
                return None
            time.sleep(LOOK_AGAIN)

    @contextmanager
    def place_to_wait(self) -> Iterator[None]:
        """Take one of the places for calls that wait for an answer; each holds a thread of this process.

        :raises Overloaded: when they are all taken.
        """
        with _place(self._waiting):
            yield

    @contextmanager
    def place_to_listen(self) -> Iterator[None]:
        """Take one of the places for clients that listen for changes.

        :raises Overloaded: when they are all taken.
        """
        with _place(self._listening):
            yield

    @property
    def _open(self) -> BaseCache:
        cache = self._cache
        if cache is None:
            raise NoMailbox()
        return cache

    @property
    def _cache(self) -> BaseCache | None:
        with self._lock:
            return self._made

    @cached_property
    def _made(self) -> BaseCache | None:
        # Late, so that each worker has connections of its own and the import of an app leaves nothing behind.
        try:
            return _make_cache(self._app)
        except ImportError as error:
            self._app.logger.warning(
                "%s is not installed, so MCP clients from before 2026-07-28 cannot be asked anything, and nobody hears"
                " of changes; install flask-jsonrpc-mcp[mailbox], or [redis] for several machines",
                error.name,
            )
            return None


def init_app(app: App) -> None:
    """Give an app its mailbox.

    :raises ValueError: when the setting cannot work.
    """
    place = app.config[PREFIX + "MAILBOX"]
    if place is not None and not isinstance(place, (str, os.PathLike)):
        raise ValueError(f"{PREFIX}MAILBOX must be a folder or a redis:// URL, not {place!r}")
    app.extensions.setdefault(EXTENSION, Mailbox(app))


def current_mailbox() -> Mailbox:
    """Find the mailbox of the current app."""
    mailbox: Mailbox = this_app().extensions[EXTENSION]
    return mailbox


def answer_timeout() -> int:
    """For how many seconds a question may stay unanswered."""
    return int(setting("ANSWER_TIMEOUT"))


@contextmanager
def _place(places: threading.BoundedSemaphore) -> Iterator[None]:
    if not places.acquire(blocking=False):
        raise Overloaded()
    try:
        yield
    finally:
        places.release()


def _make_cache(app: App) -> BaseCache:
    from cachelib import FileSystemCache, RedisCache
    from cachelib.serializers import JSONSerializer

    class Plain(JSONSerializer):
        """JSON, because unpickling what someone else has put there would run it."""

        def loads(self, bvalue: Any, *args: Any, **kwargs: Any) -> Any:
            return None if bvalue is None else super().loads(bvalue, *args, **kwargs)

    place = app.config[PREFIX + "MAILBOX"]
    owner = hashlib.sha256(f"{app.name} {app.secret_key!r}".encode()).hexdigest()[:24]
    cache: FileSystemCache | RedisCache
    if isinstance(place, str) and place.startswith(("redis://", "rediss://", "unix://")):
        import redis

        cache = RedisCache(redis.Redis.from_url(place), key_prefix=f"flask-jsonrpc-mcp:{owner}:")
    else:
        cache = FileSystemCache(str(_private_folder(place, owner)), threshold=MAX_LETTERS)
    cache.serializer = Plain()  # type: ignore[assignment]
    return cache


def _private_folder(place: Any, owner: str) -> Path:
    """Make a folder that only this user can read and write.

    :raises RuntimeError: when someone else has made it.
    """
    folder = Path(place) if place is not None else Path(tempfile.gettempdir()) / f"flask-jsonrpc-mcp-{owner}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077):
        raise RuntimeError(f"{folder} is not private to this user; name another folder in {PREFIX}MAILBOX")
    return folder


def _address(key: str) -> str:
    """Hide what a key is made of: a session's id is in it."""
    return hashlib.sha256(key.encode()).hexdigest()
