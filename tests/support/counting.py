"""How much work something is, in calls of Python functions: a measure that does not depend on the machine."""

from __future__ import annotations

import sys
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
