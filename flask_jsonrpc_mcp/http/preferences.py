"""Read the header ``Prefer`` (RFC 7240), with which callers of a tool with ``task=`` ask for a handle."""

from __future__ import annotations

from typing import NamedTuple

from flask import Request
from werkzeug.http import parse_list_header

from ..registry import Registry

MAX_WAIT = 60
"""Maximum seconds that a request waits for a task, because it holds a thread."""


class Preferences(NamedTuple):
    """The preferences of a caller.

    :param respond_async: Respond with a handle instead of waiting for the result.
    :param wait: Seconds to wait for the result before responding with a handle; ``None`` if not given.
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
    """Read the header. As in RFC 7240, unknown and malformed preferences are ignored, and the first of two counts."""
    found: dict[str, str] = {}
    for part in parse_list_header(request.headers.get("Prefer", "")):
        preference = part.partition(";")[0]  # its parameters are ignored
        name, _, value = preference.partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    seconds = found.get("wait", "")
    is_number = seconds.isascii() and seconds.isdecimal()
    # Nine digits are enough to exceed the maximum, and int() refuses very long texts.
    wait = min(int(seconds[:9]), MAX_WAIT) if is_number else None
    return Preferences(found.get("respond-async") == "", wait)


def may_detach(name: str, registry: Registry, preferences: Preferences) -> bool:
    """Return whether a call may become a task: the tool has ``task=``, and the caller or the tool asks for it."""
    method = registry.methods.get(name)
    task = None if method is None or method.tool is None else method.tool.task
    return task is not None and (task.required or preferences.respond_async or preferences.wait is not None)
