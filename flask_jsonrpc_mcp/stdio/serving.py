"""From the first line to a clean end: the end of the input, a signal, or a client that has gone."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from queue import Empty, SimpleQueue

from .exchange import Server
from .lines import LineWriter, read_lines
from .loop import Loop

GRACE = 30.0
"""For how many seconds what runs may still be answered after the end of the input."""

LOOK_UP = 0.5
"""For how many seconds to wait at a time. Python handles a signal between two steps of the main thread, so one that
comes just when a wait begins is heard at its end."""


def serve(server: Server, source: FileIO, target: FileIO, *, grace: float = GRACE) -> None:
    """Serve a client until it leaves.

    At the end of the input what runs is answered first. SIGTERM and SIGINT end it at once.
    """
    # A queue, because it is the one thing of Python's that a signal handler may safely put something into.
    ends: SimpleQueue[str] = SimpleQueue()
    loop = Loop(server, LineWriter(target, on_broken=lambda: ends.put("broken")))

    def read() -> None:
        try:
            for line in read_lines(source):
                loop.take(line)
        finally:
            ends.put("input")

    with _on_signals(lambda: ends.put("signal")):
        threading.Thread(target=read, name="mcp-reader", daemon=True).start()
        if _wait_for(ends) != "input":
            return
        loop.close(when_idle=lambda: ends.put("idle"))
        _wait_for(ends, grace)


def _wait_for(ends: SimpleQueue[str], seconds: float = math.inf) -> str | None:
    """Wait for an end; ``None`` when there is none in time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            return ends.get(timeout=min(left, LOOK_UP))
        except Empty:
            pass
    return None


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
