"""Lines in and out, and the standard streams they travel on."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from io import FileIO

from ..settings import MAX_BODY

MAX_LINE = MAX_BODY
"""The most bytes of a line: as many as the body of a request over HTTP may have."""

_CHUNK = 65_536


def claim_standard_streams() -> tuple[FileIO, FileIO]:
    """Take standard input and output for the protocol alone.

    Whatever code prints from now on, also in another language or process, goes to standard error, and whatever reads
    standard input finds it empty.
    """
    source, target = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()  # what was printed before this, too
    sys.stdout = sys.stderr
    return source, target


def read_lines(source: FileIO, limit: int = MAX_LINE) -> Iterator[bytes | None]:
    """Yield every line without its end, and ``None`` in the place of one that is longer than ``limit`` bytes."""
    # Not readline(): it would keep a line of any length in memory.
    line, too_long = bytearray(), False
    while chunk := _read_some(source):
        for number, piece in enumerate(chunk.split(b"\n")):
            if number > 0:  # there was a line end before this piece
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
    except (OSError, ValueError):  # broken, or closed at this end: nothing more will come
        return b""


class LineWriter:
    """Writes whole lines, from any thread.

    :param on_broken: Called when nobody reads them any more.
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
