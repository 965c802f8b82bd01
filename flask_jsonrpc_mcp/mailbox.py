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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flask.sansio.app import App

from .errors import Overloaded, RpcError
from .serving import this_app
from .settings import PREFIX, setting

if TYPE_CHECKING:
    from cachelib.base import BaseCache

EXTENSION = "jsonrpc_mcp_mailbox"

T = TypeVar("T")

LOOK_AGAIN = 0.05
"""After how many seconds someone who waits looks again."""

REDIS_TIMEOUT = 5
"""For how many seconds Redis may keep a worker waiting."""

KINDS = ("answer", "cancelled", "change", "level")
"""What there is room of its own for, by the first word of a key; everything else shares the room of ``OTHERS``.

Anyone can leave levels and cancellations, as many as they like, so these must not push out what someone waits for.
"""

OTHERS = "other"

MAX_LETTERS = 1_000
"""How many files there may be of each kind; beyond that those go first that expire first, and all have to be read."""


class NoMailbox(RpcError):
    """What needs a mailbox cannot be done, because there is none, or none that can be reached."""

    status = 503
    slug = "no_mailbox"
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
        return self._rooms is not None

    def put(self, key: str, letter: Any, seconds: int) -> None:
        """Leave something, plain JSON, for so many seconds.

        :param key: Its first word is the kind of letter: see ``KINDS``. Where there are too many of a kind, others of
            that kind make room, those first that expire first.
        :raises NoMailbox: when that cannot be done; so do the others.
        """

        def leave(room: BaseCache) -> bool:
            return bool(room.set(_address(key), letter, timeout=seconds))

        if not self._reach(key, leave):
            # The folder may be gone: what is in the temp folder is swept away now and then.
            self._forget()
            if not self._reach(key, leave):
                raise NoMailbox()

    def look(self, key: str) -> Any:
        """Look for what was left under a key; ``None`` when there is nothing."""
        return self._reach(key, lambda room: room.get(_address(key)))

    def take(self, key: str) -> Any:
        """Take what was left under a key; ``None`` when there is nothing."""
        letter = self.look(key)
        if letter is not None:
            self._reach(key, lambda room: room.delete(_address(key)))
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

    def _reach(self, key: str, act: Callable[[BaseCache], T]) -> T:
        rooms = self._rooms
        if rooms is None:
            raise NoMailbox()
        room = rooms[_kind(key)]
        try:
            return act(room)
        except room.failures as error:  # type: ignore[attr-defined]
            self._app.logger.error("the mailbox in %sMAILBOX cannot be reached: %s", PREFIX, error)
            raise NoMailbox() from error

    def _forget(self) -> None:
        with self._lock:
            self.__dict__.pop("_made", None)

    @property
    def _rooms(self) -> Mapping[str, BaseCache] | None:
        with self._lock:
            return self._made

    @cached_property
    def _made(self) -> Mapping[str, BaseCache] | None:
        # Late, so that each worker has connections of its own and the import of an app leaves nothing behind.
        try:
            return _make_rooms(self._app)
        except ImportError as error:
            self._app.logger.warning(
                "%s is not installed, so MCP clients from before 2026-07-28 cannot be asked anything, and nobody hears"
                " of changes; install flask-jsonrpc-mcp[mailbox], or [redis] for several machines",
                error.name,
            )
        except (OSError, RuntimeError) as error:
            self._app.logger.error("there is no mailbox: %s", error)
        return None


def init_app(app: App) -> None:
    """Give an app its mailbox.

    :raises ValueError, RuntimeError: when the setting cannot work.
    """
    place = app.config[PREFIX + "MAILBOX"]
    if place is not None:
        if not place or not isinstance(place, (str, os.PathLike)) or ("://" in str(place) and not _is_redis(place)):
            raise ValueError(f"{PREFIX}MAILBOX must be a folder or a redis:// URL, not {place!r}")
        if not _is_redis(place) and Path(place).exists():
            _check_private(Path(place), Path(place).stat())
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


def _make_rooms(app: App) -> dict[str, BaseCache]:
    """Make the room for each kind of letter."""
    from cachelib import FileSystemCache, RedisCache
    from cachelib.serializers import JSONSerializer

    # The serializer and what may go wrong are the class's own: files are written as soon as there is an object.
    class Plain(JSONSerializer):
        """JSON, because unpickling what someone else has put there would run it."""

        def loads(self, bvalue: Any, *args: Any, **kwargs: Any) -> Any:
            return None if bvalue is None else super().loads(bvalue, *args, **kwargs)

    place = app.config[PREFIX + "MAILBOX"]
    owner = hashlib.sha256(f"{app.name} {app.secret_key!r}".encode()).hexdigest()[:24]
    if not _is_redis(place):

        class Files(FileSystemCache):
            serializer = Plain()  # type: ignore[assignment]
            failures = (OSError,)

        folder = _private_folder(place, owner)
        return {kind: Files(str(folder / kind), threshold=MAX_LETTERS) for kind in (*KINDS, OTHERS)}

    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    class Redis(RedisCache):
        serializer = Plain()  # type: ignore[assignment]
        failures = (OSError, redis.RedisError)

    # Nobody waits long for a server that is not there. Once more, because a kept connection may have been closed.
    patience = {"socket_connect_timeout": REDIS_TIMEOUT, "socket_timeout": REDIS_TIMEOUT}
    client = redis.Redis.from_url(place, retry=Retry(NoBackoff(), 1), **patience)
    # Nobody counts here. What anyone can leave is bounded by its size, some hundred bytes, and by how soon it expires.
    return {kind: Redis(client, key_prefix=f"flask-jsonrpc-mcp:{owner}:{kind}:") for kind in (*KINDS, OTHERS)}


def _is_redis(place: Any) -> bool:
    return isinstance(place, str) and place.startswith(("redis://", "rediss://", "unix://"))


def _private_folder(place: Any, owner: str) -> Path:
    """Make a folder that only this user can read and write.

    :raises RuntimeError: when someone else has made it.
    """
    folder = Path(place) if place is not None else Path(tempfile.gettempdir()) / f"flask-jsonrpc-mcp-{owner}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # In the temp folder anyone may have put a link to somewhere else.
    _check_private(folder, folder.lstat() if place is None else folder.stat())
    return folder


def _check_private(folder: Path, found: os.stat_result) -> None:
    ours = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077)
    if not ours or not stat.S_ISDIR(found.st_mode):
        raise RuntimeError(
            f"{folder} is no folder that only this user can read and write; name another one in {PREFIX}MAILBOX"
        )


def _kind(key: str) -> str:
    word = key.partition(" ")[0]
    return word if word in KINDS else OTHERS


def _address(key: str) -> str:
    """Hide what a key is made of: a session's id is in it."""
    return hashlib.sha256(key.encode()).hexdigest()
