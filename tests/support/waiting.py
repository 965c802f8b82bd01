"""Wait for a state, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(check: Callable[[], T | None], seconds: float = 60) -> T:
    """Return what a function returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {seconds} seconds: {found!r}"
        time.sleep(0.03)
    return found
