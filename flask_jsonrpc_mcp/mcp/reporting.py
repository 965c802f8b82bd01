"""How a running method's progress and log are told to its client."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..calls import LOG_LEVELS
from ..envelope import notification
from . import protocol


class Reporter:
    """Sends notifications about one request, however often its method runs.

    :param meta: What the client sent beside its request: with a token, it wants to hear of progress.
    :param log_level: The least level it wants to see; ``None`` for nothing.
    """

    _reported = -math.inf

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        version: str,
        meta: Mapping[str, Any],
        log_level: Callable[[], str | None],
    ) -> None:
        self._send = send
        self._version = version
        self._token = meta.get(protocol.PROGRESS_TOKEN)
        self._log_level = log_level

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        # The protocol wants each report to be of more than the one before, also when the method has run before.
        if done <= self._reported or not is_progress_token(self._token):
            return
        self._reported = done
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None and protocol.has_annotations(self._version):
            params["message"] = message
        self._send(notification("notifications/progress", params))

    def log(self, level: str, data: Any, logger: str | None) -> None:
        least = self._log_level()
        if least is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(least):
            return
        params = {"level": level, "data": data}
        self._send(notification("notifications/message", params if logger is None else {**params, "logger": logger}))


def is_progress_token(token: Any) -> bool:
    return isinstance(token, (str, int)) and not isinstance(token, bool)
