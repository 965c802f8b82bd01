"""MCP on standard input and output, one JSON message per line, for any `Server`: the app, or the bridge to a site.

One connection serves clients of both eras. The loop itself answers ``initialize``, ``ping`` and cancellations at once;
every other request goes to the server in a thread of its own, many at a time.
"""

from __future__ import annotations

import itertools
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from io import FileIO
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from .call import new_id
from .envelope import (
    MAX_BATCH,
    VERSION,
    RpcRequest,
    RpcResponse,
    is_id,
    is_response,
    notification,
    read_request,
    readable_id,
)
from .errors import InternalError, InvalidRequest, Overloaded, ParseError, RpcError
from .lines import LineWriter, Workers, read_lines
from .mcp.protocol import CANCELLED, INITIALIZE, WITH_BATCHES, is_modern, require_id
from .mcp.sessions import Session
from .strict_json import read, write

MAX_RUNNING, MAX_UNANSWERED = 32, 1000
"""How many requests may run at once, and how many may be unanswered."""

GRACE = 30.0
"""For how many seconds running requests may still be answered after the end of the input."""

_SIGNAL_POLL = 0.5  # Python runs signal handlers between two waits of the main thread

logger = logging.getLogger(__name__)


class Server(Protocol):
    """Answers requests. Called from several threads at once."""

    def connect(self, client: Client) -> None:
        """Called once, before anything else. The client can be notified from now on."""

    def initialize(self, message: RpcRequest) -> tuple[Session, Any]:
        """Answer ``initialize``: what was negotiated, and the result. No other message is read meanwhile."""

    def answer(self, exchange: Exchange) -> Any:
        """Return the result of a request, or raise `RpcError`."""


class NotAnswered(RpcError):
    """The client did not answer a question, or has disconnected."""

    default_message = "The client did not answer"


class Client:
    """The client of the connection. Can be used from any thread."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._questions: dict[str, Future[Any]] = {}
        self.is_initialized = False
        """Whether ``notifications/initialized`` has come from a client from before 2026-07-28."""

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._writer.write(write(notification(method, params)))

    def ask(self, method: str, params: Mapping[str, Any]) -> tuple[str, Future[Any]]:
        """Send a request, which only versions before 2026-07-28 allow.

        :returns: Its id, and a future with the result or the client's error.
        """
        question, future = f"server-{next(self._numbers)}", Future[Any]()
        with self._lock:
            self._questions[question] = future
        self._writer.write(write({"jsonrpc": VERSION, "id": question, "method": method, "params": params}))
        return question, future

    def forget(self, question: str) -> None:
        """Ignore the response to a request from now on."""
        with self._lock:
            self._questions.pop(question, None)

    def receive(self, response: Mapping[str, Any]) -> None:
        """Pass a response to the request that waits for it; any other is ignored."""
        question, error = response["id"], response.get("error")
        with self._lock:
            future = self._questions.pop(question, None) if isinstance(question, str) else None
        if future is None or not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(response.get("result"))
        elif isinstance(error, Mapping) and isinstance(error.get("code"), int):
            future.set_exception(RpcError(str(error.get("message")), code=error["code"], data=error.get("data")))
        else:
            future.set_exception(RpcError("The client answered with a malformed error"))


class Exchange:
    """One request while it is answered.

    :param session: What was negotiated with a client from before 2026-07-28; ``None`` for a request with ``_meta``.
    """

    def __init__(self, message: RpcRequest, session: Session | None, client: Client) -> None:
        self.message = message
        self.session = session
        self._client = client
        self._lock = threading.Lock()
        self._is_open = True
        self._ending = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self.is_cancelled = False

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification about this request, unless it has been answered."""
        with self._lock:
            if self._is_open:
                self._client.notify(method, params)

    def ask(self, method: str, params: Mapping[str, Any], timeout: float | None = None) -> Any:
        """Send a request to the client and wait for its result. Only before 2026-07-28.

        :raises NotAnswered: if this request was cancelled, the client has disconnected, or ``timeout`` is over.
        :raises RpcError: if the client responds with an error.
        """
        if self.session is None:
            raise NotAnswered("A client of 2026-07-28 can only be asked by the result of its request")
        if self._ending.is_set():
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
        """Wait until the client cancels the request or disconnects; return whether it did."""
        return self._ending.wait(seconds)

    def when_ending(self, callback: Callable[[], object]) -> None:
        """Call a function, from another thread, when the client cancels the request or disconnects."""
        with self._lock:
            if not self._ending.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Call a function when the client cancels the request, but not when it disconnects."""
        self.when_ending(lambda: callback() if self.is_cancelled else None)

    def finish(self) -> bool:
        """End the exchange; return whether the response may still be sent."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            return was_open

    def cancel(self) -> None:
        """End the exchange because the client has cancelled the request."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open, self.is_cancelled = False, True
        self.end()

    def end(self) -> None:
        """Call the callbacks. The request may still be answered."""
        with self._lock:
            self._ending.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Loop:
    """Reads messages, and writes responses."""

    def __init__(self, server: Server, writer: LineWriter) -> None:
        self._server = server
        self._writer = writer
        self._client = Client(writer)
        self._workers = Workers(MAX_RUNNING)
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._exchanges: dict[Any, Exchange] = {}
        server.connect(self._client)

    def receive(self, line: bytes | None) -> None:
        """Process a line; ``None`` for one that was too long."""
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise InvalidRequest("The line is too long")
            message = read(line)
            if isinstance(message, list):
                self._receive_batch(message)
                return
        except (ParseError, InvalidRequest) as error:
            self._writer.write(_serialise(RpcResponse(None, error=error)))
            return
        if _is_initialize(message):
            self._writer.write(_answered(readable_id(message), lambda: self._initialize(message)))
            return
        accepted = self._accept(message)
        if isinstance(accepted, RpcResponse):
            self._writer.write(_serialise(accepted))
        elif accepted is not None:
            self._workers.submit(partial(self._run, accepted))

    def close(self, when_idle: Callable[[], None]) -> None:
        """Let running requests end, and call back when they have."""
        with self._lock:
            running = list(self._exchanges.values())
        for exchange in running:
            exchange.end()
        self._workers.when_idle(when_idle)

    def _receive_batch(self, messages: list[Any]) -> None:
        version = None if self._session is None else self._session.version
        if version != WITH_BATCHES or not 0 < len(messages) <= MAX_BATCH:
            raise InvalidRequest("This version has no batches, or the batch is empty or too long")
        accepted = [item for message in messages if (item := self._accept(message)) is not None]
        if accepted:
            self._workers.submit(partial(self._run_batch, accepted))

    def _initialize(self, message: Any) -> Any:
        self._session, result = self._server.initialize(read_request(message))
        return result

    def _accept(self, message: Any) -> RpcResponse | Exchange | None:
        """Answer a message at once, or open an exchange for it; ``None`` if there is nothing to answer."""
        if is_response(message):
            self._client.receive(message)
            return None
        try:
            request = read_request(message)
            require_id(request)
            if not request.wants_reply:
                self._receive_notification(request)
                return None
            modern = is_modern(message)
            if request.method == "ping" and not modern:
                return RpcResponse(request.id, {})
            if self._session is None and not modern:
                raise InvalidRequest("Send initialize first, or say which version this is in params._meta")
            if _is_initialize(message):
                raise InvalidRequest("initialize cannot be part of a batch")
            exchange = Exchange(request, None if modern else self._session, self._client)
            with self._lock:
                if request.id in self._exchanges:
                    raise InvalidRequest("A request with this id has not been answered yet")
                if len(self._exchanges) >= MAX_UNANSWERED:
                    raise Overloaded()
                self._exchanges[request.id] = exchange
            return exchange
        except (InvalidRequest, Overloaded) as error:
            return RpcResponse(readable_id(message), error=error)

    def _receive_notification(self, message: RpcRequest) -> None:
        if message.method == "notifications/initialized":
            self._client.is_initialized = self._session is not None
        elif message.method == CANCELLED and isinstance(message.params, dict):
            cancelled = message.params.get("requestId")
            if is_id(cancelled):
                with self._lock:
                    exchange = self._exchanges.pop(cancelled, None)
                if exchange is not None:
                    exchange.cancel()

    def _run(self, exchange: Exchange) -> None:
        response = self._answer(exchange)
        if response is not None:
            self._writer.write(response)

    def _run_batch(self, accepted: list[RpcResponse | Exchange]) -> None:
        answers = [_serialise(item) if isinstance(item, RpcResponse) else self._answer(item) for item in accepted]
        responses = [response for response in answers if response is not None]
        if responses:
            self._writer.write(b"[" + b",".join(responses) + b"]")

    def _answer(self, exchange: Exchange) -> bytes | None:
        """Return the serialised response; ``None`` if the client has cancelled the request."""
        if exchange.is_cancelled:
            return None
        response = _answered(exchange.message.id, lambda: self._server.answer(exchange))
        if not exchange.finish():
            return None
        with self._lock:
            self._exchanges.pop(exchange.message.id, None)
        return response


def _is_initialize(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == INITIALIZE and not is_modern(message)


def _answered(id: Any, answer: Callable[[], Any]) -> bytes:
    try:
        return _serialise(RpcResponse(id, answer()))
    except RpcError as error:
        return _serialise(RpcResponse(id, error=error))
    # Callbacks of the app run here too, such as a before_request that calls sys.exit().
    except BaseException:
        error_id = new_id()
        logger.exception("unexpected failure, id=%s", error_id)
        return _serialise(RpcResponse(id, error=InternalError(error_id)))


def _serialise(response: RpcResponse) -> bytes:
    return response.to_bytes(omit_null_id=True)


def serve(server: Server, source: FileIO, target: FileIO, *, grace: float = GRACE) -> None:
    """Serve a client until it disconnects.

    At the end of the input, running requests are answered first. SIGTERM and SIGINT end it at once.
    """
    # A SimpleQueue is reentrant, so a signal handler may use it.
    ends: SimpleQueue[str] = SimpleQueue()
    loop = Loop(server, LineWriter(target, on_broken=lambda: ends.put("broken")))

    def read_all() -> None:
        try:
            for line in read_lines(source):
                loop.receive(line)
        finally:
            ends.put("input")

    with _on_signals(lambda: ends.put("signal")):
        threading.Thread(target=read_all, name="mcp-reader", daemon=True).start()
        if _wait_for(ends) != "input":
            return
        loop.close(when_idle=lambda: ends.put("idle"))
        _wait_for(ends, grace)


def _wait_for(ends: SimpleQueue[str], seconds: float = math.inf) -> str | None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            return ends.get(timeout=min(left, _SIGNAL_POLL))
        except Empty:
            pass
    return None


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
