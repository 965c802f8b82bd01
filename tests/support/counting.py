"""How much work something is: in calls of Python functions, the same on every machine, or in time and memory."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flask_jsonrpc_mcp

OURS = str(Path(flask_jsonrpc_mcp.__file__).parent)


def calls_during(work: Callable[[], object], *, within: str = "") -> int:
    """Count the calls of Python functions, those of files below a folder when one is given."""
    count = 0

    def profile(frame: Any, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(within)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def seconds_during(work: Callable[[], object]) -> float:
    """Measure the time of the processor in this thread, for work in C: only compare it with large factors."""
    before = time.thread_time()
    work()
    return time.thread_time() - before


def bytes_during(work: Callable[[], object]) -> int:
    """Measure how many bytes are in use at the same time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
