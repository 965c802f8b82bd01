"""Where the mailbox keeps its letters: in files, which all workers of one machine share, or in Redis, for several.

Either is cachelib's. Each kind of letter has a room of its own, so that too many of one kind are no trouble to others.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from flask.sansio.app import App

from .settings import PREFIX

REDIS_TIMEOUT = 5
"""For how many seconds Redis may keep a worker waiting."""

KINDS = ("answer", "cancelled", "change", "confirmed", "level", "question")
"""What has a room of its own, by the first word of the key. Anyone can leave levels and cancellations, as many as they
like, so these must not push out what someone waits for."""

OTHERS = "other"
"""The room for everything else."""

MAX_LETTERS = 1_000
"""How many files are kept of each kind, the latest ones."""

WRITTEN_WITHIN = 60
"""After how many seconds a file that is not yet complete never will be."""


class Room(Protocol):
    """Where one kind of letter is kept: a cache of cachelib's.

    :ivar failures: What it raises when it cannot be reached.
    """

    failures: tuple[type[Exception], ...]

    def set(self, key: str, value: Any, timeout: int) -> Any: ...

    def add(self, key: str, value: Any, timeout: int) -> Any: ...

    def get(self, key: str) -> Any: ...

    def delete(self, key: str) -> Any: ...

    def sweep(self) -> None:
        """Remove what nobody will take any more."""


def check_place(app: App) -> None:
    """Check where an app wants its letters to be kept.

    :raises ValueError, RuntimeError: when that cannot work.
    """
    place = app.config[PREFIX + "MAILBOX"]
    if place is not None:
        if not place or not isinstance(place, (str, os.PathLike)) or ("://" in str(place) and not _is_redis(place)):
            raise ValueError(f"{PREFIX}MAILBOX must be a folder or a redis:// URL, not {place!r}")
        if not _is_redis(place) and Path(place).exists():
            _check_private(Path(place), Path(place).stat())


def make_rooms(app: App) -> dict[str, Room]:
    """Make the room for each kind of letter."""
    from cachelib import FileSystemCache, RedisCache
    from cachelib.serializers import JSONSerializer

    class Plain(JSONSerializer):
        """JSON, because unpickling what someone else has put there would run it."""

        def loads(self, bvalue: Any, *args: Any, **kwargs: Any) -> Any:
            return None if bvalue is None else super().loads(bvalue, *args, **kwargs)

    place = app.config[PREFIX + "MAILBOX"]
    owner = hashlib.sha256(f"{app.name} {app.secret_key!r}".encode()).hexdigest()[:24]
    if not _is_redis(place):

        class Files(FileSystemCache):
            serializer = Plain()  # type: ignore[assignment]
            failures: tuple[type[Exception], ...] = (OSError,)

            def add(self, key: str, value: Any, timeout: Any = None) -> bool:
                # cachelib looks first and writes then, so that two could both be the first.
                try:
                    os.close(os.open(self._get_filename(key), os.O_CREAT | os.O_EXCL, 0o600))
                except FileExistsError:
                    return False
                return bool(self.set(key, value, timeout))

            def sweep(self) -> None:
                with suppress(OSError):  # the folder may be gone; whoever leaves a letter makes it again
                    self._remove_expired(time.time())
                    files = sorted(Path(self._path).iterdir(), key=_written)
                    # cachelib never looks again at what a process was writing when it was killed.
                    unfinished = [file for file in files if file.name.endswith(self._fs_transaction_suffix)]
                    stale = [file for file in unfinished if _written(file) < time.time() - WRITTEN_WITHIN]
                    for file in (*stale, *files[:-MAX_LETTERS]):
                        file.unlink(missing_ok=True)

        folder = _private_folder(place, owner)
        # No threshold of cachelib's: below it nothing is ever removed, and above it each letter costs a look at all.
        return {kind: Files(str(folder / kind), threshold=0) for kind in (*KINDS, OTHERS)}

    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    class Redis(RedisCache):
        serializer = Plain()  # type: ignore[assignment]
        failures: tuple[type[Exception], ...] = (OSError, redis.RedisError)

        def sweep(self) -> None:
            """Redis does."""

    # Nobody waits long for a server that is not there. Once more, because a kept connection may have been closed.
    patience = {"socket_connect_timeout": REDIS_TIMEOUT, "socket_timeout": REDIS_TIMEOUT}
    client = redis.Redis.from_url(place, retry=Retry(NoBackoff(), 1), **patience)
    # Nobody counts here. What anyone can leave has some hundred bytes and expires, levels after an hour, so a limit on
    # requests bounds it. Answers are bounded by the calls that wait.
    return {kind: Redis(client, key_prefix=f"flask-jsonrpc-mcp:{owner}:{kind}:") for kind in (*KINDS, OTHERS)}


def kind_of(key: str) -> str:
    """Tell in which room the letter with a key is."""
    word = key.partition(" ")[0]
    return word if word in KINDS else OTHERS


def address_of(key: str) -> str:
    """Hide what a key is made of: a session's id is in it."""
    return hashlib.sha256(key.encode()).hexdigest()


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


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # someone has taken it
