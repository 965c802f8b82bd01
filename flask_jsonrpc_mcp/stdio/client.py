"""The client at the other end of the lines: what it can be told and asked at any time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ..envelope import VERSION, notification
from ..errors import RpcError
from ..strict_json import write
from .lines import LineWriter


class Client:
    """The client, from any thread."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._questions: dict[str, Future[Any]] = {}
        self.is_initialized = False
        """Whether a client of before 2026-07-28 has been welcomed, and may be told of changes without having asked."""

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tell the client something."""
        self._writer.write(write(notification(method, params)))

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[str, Future[Any]]:
        """Ask the client something, which only versions before 2026-07-28 allow.

        :return: The id of the question, and where its answer will be: a result, or an `RpcError` of the client's.
        """
        question = f"server-{next(self._numbers)}"
        future: Future[Any] = Future()
        with self._lock:
            self._questions[question] = future
        self._writer.write(write({"jsonrpc": VERSION, "id": question, "method": method, "params": params}))
        return question, future

    def forget(self, question: str) -> None:
        """Wait for an answer no longer."""
        with self._lock:
            self._questions.pop(question, None)

    def hear(self, response: Mapping[str, Any]) -> None:
        """Take an answer of the client; one that nobody waits for is forgotten."""
        question, error = response["id"], response.get("error")
        with self._lock:
            future = self._questions.pop(question, None) if isinstance(question, str) else None
        if future is None or not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(response.get("result"))
        else:
            future.set_exception(_read_error(error))


def _read_error(error: Any) -> RpcError:
    if not isinstance(error, Mapping) or not isinstance(error.get("code"), int):
        return RpcError("The client answered with something that is no error")
    return RpcError(str(error.get("message")), code=error["code"], data=error.get("data"))
