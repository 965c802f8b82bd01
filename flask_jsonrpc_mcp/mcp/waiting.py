"""Count the threads of a process that wait for a client: for its answer, for changes to send it, or for it to read.

All of them together are limited by ``JSONRPC_MCP_MAX_WAITING``, so that the other threads of the server stay free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask import current_app

from ..errors import Overloaded

EXTENSION = "jsonrpc_mcp_waiting"

_lock = threading.Lock()


class Place:
    """A place among the threads of the current app that wait for a client."""

    def __init__(self) -> None:
        self._limit: int = current_app.config["JSONRPC_MCP_MAX_WAITING"]
        self._taken: set[Place] = current_app.extensions.setdefault(EXTENSION, set())

    def take(self) -> bool:
        """Take the place, and return whether that was possible. A place that is taken stays so."""
        with _lock:
            if self not in self._taken and len(self._taken) < self._limit:
                self._taken.add(self)
            return self in self._taken

    def leave(self) -> None:
        with _lock:
            self._taken.discard(self)


@contextmanager
def place_to_wait() -> Iterator[None]:
    """Take a place while the current thread waits for a client.

    :raises Overloaded: if all are taken.
    """
    place = Place()
    if not place.take():
        raise Overloaded()
    try:
        yield
    finally:
        place.leave()
