"""The header ``Prefer`` (RFC 7240): whether a caller of a tool with ``task=`` wants a handle, and how soon."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flask import Request

from ..registry import Registry

MAX_WAIT = 60
"""Maximum seconds that a request waits for a task, because it holds a thread."""

# A name, perhaps a value, and parameters, which no preference of ours has.
_PREFERENCE = re.compile(r'\s*([!#$%&\'*+.^_`|~\w-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s;,"]*))?\s*(?:;[^,]*)?')


@dataclass(frozen=True)
class Preferences:
    """What a caller prefers.

    :param respond_async: To get a handle rather than to wait.
    :param wait: For how many seconds to wait before; ``None`` if not said.
    """

    respond_async: bool = False
    wait: int | None = None

    @property
    def applied(self) -> str:
        """The value of ``Preference-Applied``."""
        wait = [] if self.wait is None else [f"wait={self.wait}"]
        return ", ".join([*(["respond-async"] if self.respond_async else []), *wait])


NO_PREFERENCES = Preferences()


def read_preferences(request: Request) -> Preferences:
    """Read the header. What is unknown or malformed is ignored, as the RFC says, and the first of two counts."""
    found: dict[str, str] = {}
    for part in request.headers.get("Prefer", "").split(","):
        match = _PREFERENCE.fullmatch(part)
        if match is not None:
            found.setdefault(match[1].lower(), (match[2] or "").strip('"'))
    seconds = found.get("wait", "")
    is_number = seconds.isascii() and seconds.isdecimal()
    # More digits than that are more than the maximum.
    wait = min(int(seconds[:9]), MAX_WAIT) if is_number else None
    return Preferences(found.get("respond-async") == "", wait)


def may_detach(name: str, registry: Registry, preferences: Preferences) -> bool:
    """Return whether a call of a tool may become a task: if its caller prefers that, or the tool requires it."""
    method = registry.methods.get(name)
    task = None if method is None or method.tool is None else method.tool.task
    return task is not None and (task.required or preferences.respond_async or preferences.wait is not None)
