"""How many streams, waiting threads and overdue methods this process has, for telemetry."""

from __future__ import annotations

import threading
from collections.abc import Callable


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
"""Threads that wait for a client; see ``JSONRPC_MCP_MAX_WAITING``."""

overdue = Level()
"""Methods that still run after their timeout; see ``JSONRPC_MCP_MAX_OVERDUE``."""
