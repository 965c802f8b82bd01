"""Lines on standard input and output, and the threads that answer them."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from io import FileIO
from queue import SimpleQueue

from .config import MAX_BODY

MAX_LINE = MAX_BODY
"""Maximum bytes of a line, as of a request body over HTTP."""

_CHUNK = 65_536

logger = logging.getLogger(__name__)


def claim_standard_streams() -> tuple[FileIO, FileIO]:
    """Reserve standard input and output for the protocol.

    From now on everything that is printed, also by other languages and processes, goes to standard error, and standard
    input is empty for everyone else.
    """
    source, target = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()  # what was printed before
    sys.stdout = sys.stderr
    return source, target


def read_lines(source: FileIO, limit: int = MAX_LINE) -> Iterator[bytes | None]:
    """Yield each line without its end, and ``None`` for a line longer than ``limit`` bytes."""
    # Not readline(), which would buffer a line of any length.
    line, too_long = bytearray(), False
    while chunk := _read_some(source):
        for number, piece in enumerate(chunk.split(b"\n")):
            if number > 0:
                yield None if too_long else bytes(line)
                line.clear()
                too_long = False
            line += piece
            if len(line) > limit:
                line.clear()
                too_long = True
    if line or too_long:
        yield None if too_long else bytes(line)


def _read_some(source: FileIO) -> bytes:
    try:
        return source.read(_CHUNK)
    except (OSError, ValueError):  # broken, or closed at this end
        return b""


class LineWriter:
    """Writes whole lines, from any thread.

    :param on_broken: Called if the other end is closed.
    """

    def __init__(self, target: FileIO, on_broken: Callable[[], None]) -> None:
        self._target = target
        self._on_broken = on_broken
        self._lock = threading.Lock()

    def write(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        try:
            with self._lock:
                while rest:
                    rest = rest[self._target.write(rest) :]
        except (OSError, ValueError):  # broken, or closed at this end
            self._on_broken()


class Workers:
    """Runs jobs in at most ``limit`` threads.

    Not a `ThreadPoolExecutor`: Python waits for its threads at exit, and a call that hangs must not keep the process
    alive after its client has gone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0
        self._when_idle: Callable[[], None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job as soon as a thread is free."""
        with self._lock:
            self._unfinished += 1
            is_needed = self._threads < min(self._unfinished, self._limit)
            self._threads += is_needed
        self._jobs.put(job)
        if is_needed:
            threading.Thread(target=self._work, name="mcp-worker", daemon=True).start()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call a function once, when every job has ended."""
        with self._lock:
            if self._unfinished:
                self._when_idle = callback
                return
        callback()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            # A job handles its own failures; a lost thread would be missing for all later jobs.
            except BaseException:
                logger.exception("unexpected failure")
            finally:
                with self._lock:
                    self._unfinished -= 1
                    callback = None if self._unfinished else self._when_idle
                if callback is not None:
                    callback()
