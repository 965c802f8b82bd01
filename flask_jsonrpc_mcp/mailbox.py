"""Messages between the processes of an app: answers of older clients, which come by another request, and changes.

Everything expires by itself, so that nothing is left of a process that was killed.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from flask.sansio.app import App

from .current import this_app
from .errors import Overloaded, RpcError
from .mailbox_rooms import Room, address_of, check_place, kind_of, make_rooms
from .settings import PREFIX, setting

EXTENSION = "jsonrpc_mcp_mailbox"

T = TypeVar("T")

LOOK_AGAIN = 0.05
"""After how many seconds someone who waits looks again."""

SWEEP_EVERY, SWEEP_AFTER = 60, 100
"""After how many seconds, or letters, a process that leaves one removes files that have expired or are too many."""


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
        self._swept, self._left_since = -math.inf, 0
        self._waiting = threading.BoundedSemaphore(app.config[PREFIX + "MAX_WAITING"])
        self._listening = threading.BoundedSemaphore(app.config[PREFIX + "MAX_LISTENERS"])

    @property
    def is_possible(self) -> bool:
        """Whether there is one. The log says once why not."""
        return self._rooms is not None

    def put(self, key: str, letter: Any, seconds: int) -> None:
        """Leave something, plain JSON, for so many seconds.

        :param key: Its first word says what kind of letter it is: see `mailbox_rooms.KINDS`. Where there are too many
            of a kind, the oldest of that kind have to go.
        :raises NoMailbox: when that cannot be done; so do the others.
        """

        def leave(room: Room, address: str) -> bool:
            return bool(room.set(address, letter, timeout=seconds))

        if not self._reach(key, leave):
            # The folder may be gone: what is in the temp folder is swept away now and then.
            self._forget()
            if not self._reach(key, leave):
                raise NoMailbox()
        self._sweep()

    def look(self, key: str) -> Any:
        """Look for what was left under a key; ``None`` when there is nothing."""
        return self._reach(key, lambda room, address: room.get(address))

    def take(self, key: str) -> Any:
        """Take what was left under a key; ``None`` when there is nothing."""
        letter = self.look(key)
        if letter is not None:
            self._reach(key, lambda room, address: room.delete(address))
        return letter

    def claim(self, key: str, seconds: int) -> bool:
        """Leave a mark, unless there is one already; tell whether this is the first."""
        first = bool(self._reach(key, lambda room, address: room.add(address, True, timeout=seconds)))
        self._sweep()
        return first

    def discard(self, keys: Iterable[str]) -> None:
        """Remove what was left under some keys. Where that cannot be done, it expires."""
        with suppress(NoMailbox):
            for key in keys:
                self._reach(key, lambda room, address: room.delete(address))

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

    def _reach(self, key: str, act: Callable[[Room, str], T]) -> T:
        rooms = self._rooms
        if rooms is None:
            raise NoMailbox()
        room = rooms[kind_of(key)]
        try:
            return act(room, address_of(key))
        except room.failures as error:
            self._app.logger.error("the mailbox in %sMAILBOX cannot be reached: %s", PREFIX, error)
            raise NoMailbox() from error

    def _sweep(self) -> None:
        """Now and then, so that it costs each letter little, however many there are."""
        now = time.monotonic()
        self._left_since += 1
        if self._left_since >= SWEEP_AFTER or now - self._swept >= SWEEP_EVERY:
            self._swept, self._left_since = now, 0
            for room in (self._rooms or {}).values():
                room.sweep()

    def _forget(self) -> None:
        with self._lock:
            self.__dict__.pop("_made", None)

    @property
    def _rooms(self) -> Mapping[str, Room] | None:
        with self._lock:
            return self._made

    @cached_property
    def _made(self) -> Mapping[str, Room] | None:
        # Late, so that each worker has connections of its own and the import of an app leaves nothing behind.
        try:
            return make_rooms(self._app)
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
    check_place(app)
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
