"""One request while it is being answered, and the `Server` that answers it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any, Protocol

from ..envelope import Request
from ..errors import RpcError
from ..mcp.legacy import CANCELLED
from ..mcp.sessions import Agreement
from .client import Client


class Server(Protocol):
    """Who answers: an app, or a bridge to a site. Knows no lines, and is called from several threads at once."""

    def connect(self, client: Client) -> None:
        """Hear of the client, before anything else; it may be told of changes from now on."""

    def initialize(self, request: Request) -> tuple[Agreement, Any]:
        """Welcome a client of before 2026-07-28: what is agreed on, and the result. Nothing else is read meanwhile."""

    def answer(self, exchange: Exchange) -> Any:
        """Answer a request with its result, or raise `RpcError`."""


class NotAnswered(RpcError):
    """The client did not answer a question, or there is nobody left to ask."""

    default_message = "The client did not answer"


class Exchange:
    """One request while it is being answered: what its server may tell and ask the client, and what it should know.

    :param agreement: What was agreed on with a client of before 2026-07-28; ``None`` for a request that says everything
        about itself.
    """

    def __init__(self, request: Request, agreement: Agreement | None, client: Client) -> None:
        self.request = request
        self.agreement = agreement
        self._client = client
        self._lock = threading.Lock()
        self._is_open = True
        self._told_to_end = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self.is_cancelled = False
        """Whether the client does not wait for the answer any more."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something about this request, unless that has come to its end."""
        with self._lock:  # nothing may be said after the answer
            if self._is_open:
                self._client.notify(method, params)

    def ask(self, method: str, params: Mapping[str, Any], timeout: float | None = None) -> Any:
        """Ask the client, and wait for its answer. Only before 2026-07-28.

        :raises NotAnswered: when the request was cancelled meanwhile, the client has gone, ``timeout`` is over, or the
            client is a modern one.
        :raises RpcError: when the client answers with an error.
        """
        if self.agreement is None:
            raise NotAnswered("This client is asked in the result of its request, and cannot be asked otherwise")
        if self._told_to_end.is_set():
            raise NotAnswered()
        question, answer = self._client.ask(method, params)
        self.when_ending(answer.cancel)
        try:
            return answer.result(timeout)
        except futures.CancelledError as error:
            raise NotAnswered() from error
        except futures.TimeoutError as error:
            self._client.notify(CANCELLED, {"requestId": question, "reason": "it took too long"})
            raise NotAnswered() from error
        finally:
            self._client.forget(question)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the client cancels the request or leaves; tell whether it did."""
        return self._told_to_end.wait(seconds)

    def when_ending(self, callback: Callable[[], object]) -> None:
        """Call back when the client cancels the request or leaves, from another thread."""
        with self._lock:
            if not self._told_to_end.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Call back when the client cancels the request, but not when it leaves: it may still read the answer."""
        self.when_ending(lambda: callback() if self.is_cancelled else None)

    def finish(self) -> bool:
        """Come to the end; False when that has happened already, and there is nothing to be said any more."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            return was_open

    def cancel(self) -> None:
        """Tell what runs that the client does not wait for it any more."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open, self.is_cancelled = False, True
        self.hurry()

    def hurry(self) -> None:
        """Tell what runs that the client has gone. It may still answer: what was written is read by someone."""
        with self._lock:
            self._told_to_end.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
