"""How many streams, waiting threads and overdue methods this process has, for telemetry and for limits.

``JSONRPC_MCP_MAX_WAITING`` limits the threads that wait: for an answer of a client, for changes to send to it, for it
to read, or for a task. So the other threads of the server stay free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask import current_app

from .errors import Overloaded

EXTENSION = "jsonrpc_mcp_waiting"

_slots_lock = threading.Lock()


class Level:
    """A number that goes up and down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: list[Callable[[int], None]] = []
        self.count = 0

    def add(self, number: int) -> None:
        with self._lock:
            self.count += number
            for watch in self._watchers:
                watch(self.count)  # with the lock, so that the last call has the last number

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call a function with the number now, and whenever it changes. It must not raise."""
        with self._lock:
            if watcher not in self._watchers:
                self._watchers.append(watcher)
            watcher(self.count)


streams = Level()
"""Event streams that are being sent."""

waiting = Level()
"""Threads that wait for a client or for a task; see ``JSONRPC_MCP_MAX_WAITING``."""

overdue = Level()
"""Methods that still run after their timeout; see ``JSONRPC_MCP_MAX_OVERDUE``."""


class Slot:
    """One of the `JSONRPC_MCP_MAX_WAITING` slots of the current app for threads that wait.

    As a context manager, it is whether the slot could be acquired.
    """

    def __init__(self) -> None:
        self._limit: int = current_app.config["JSONRPC_MCP_MAX_WAITING"]
        self._taken: set[Slot] = current_app.extensions.setdefault(EXTENSION, set())

    def acquire(self) -> bool:
        """Acquire the slot, unless it is acquired already; return false if none is free."""
        with _slots_lock:
            if self not in self._taken and len(self._taken) < self._limit:
                self._taken.add(self)
                waiting.add(1)
            return self in self._taken

    def release(self) -> None:
        with _slots_lock:
            if self in self._taken:
                self._taken.remove(self)
                waiting.add(-1)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


@contextmanager
def waiting_slot() -> Iterator[None]:
    """Hold a slot while the current thread waits for a client.

    :raises Overloaded: if none is free.
    """
    with Slot() as is_acquired:
        if not is_acquired:
            raise Overloaded()
        yield
