"""MCP on standard input and output, one JSON message per line, for any `Server`: the app, or the bridge to a site.

One connection serves clients of both eras. The loop itself answers ``initialize``, ``ping`` and cancellations at once;
every other request goes to the server in a thread of its own, many at a time.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from queue import Empty, Queue, SimpleQueue
from typing import Any, Protocol

from .call import Cancellation, new_id
from .config import MAX_BODY
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
from .mcp.protocol import CANCELLED, INITIALIZE, WITH_BATCHES, is_modern, require_id
from .mcp.sessions import Session
from .strict_json import read, write

MAX_LINE = MAX_BODY
"""Maximum bytes of a line, as of a request body over HTTP."""

MAX_RUNNING, MAX_UNANSWERED = 32, 1000
"""Maximum requests that run at once, and maximum requests without a response."""

GRACE = 30.0
"""Seconds in which running requests may finish after the end of the input."""

_CHUNK = 65_536
_SIGNAL_POLL = 0.5  # Python runs signal handlers between two waits of the main thread

Reply = SimpleQueue[Mapping[str, Any] | None]
"""Receives the client's response to a request of ours, or ``None`` if there will be none."""

logger = logging.getLogger(__name__)


class Server(Protocol):
    """Answers requests. Called from several threads at once."""

    def connect(self, client: Client) -> None:
        """Called once, before anything else. The client can be notified from now on."""

    def initialize(self, message: RpcRequest) -> tuple[Session, Any]:
        """Answer ``initialize``; return the session and the result. No other message is read meanwhile."""

    def answer(self, exchange: Exchange) -> Any:
        """Return the result of a request, or raise `RpcError`."""


class Client:
    """The client of the connection. Can be used from any thread.

    :param on_broken: Called if the client cannot be written to any more.
    """

    def __init__(self, target: FileIO, on_broken: Callable[[], None]) -> None:
        self._target = target
        self._on_broken = on_broken
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._questions: dict[str, Reply] = {}
        self.is_initialized = False
        """Whether ``notifications/initialized`` has come from a client from before 2026-07-28."""

    def send(self, message: Mapping[str, Any] | bytes) -> None:
        """Send a message, serialised or not."""
        rest = memoryview((message if isinstance(message, bytes) else write(message)) + b"\n")
        try:
            with self._writing:
                while rest:
                    rest = rest[self._target.write(rest) :]
        except (OSError, ValueError):  # broken, or closed at this end
            self._on_broken()

    def ask(self, request: Mapping[str, Any], reply: Reply, timeout: float | None) -> Mapping[str, Any] | None:
        """Send a request, which only versions before 2026-07-28 allow, and wait for what comes into ``reply``."""
        question = f"server-{next(self._numbers)}"
        self._questions[question] = reply
        self.send({"jsonrpc": VERSION, "id": question, **request})
        try:
            return reply.get(timeout=timeout)
        except Empty:
            self.send(notification(CANCELLED, {"requestId": question, "reason": "it took too long"}))
            return None
        finally:
            self._questions.pop(question, None)

    def receive(self, response: Mapping[str, Any]) -> None:
        """Pass a response to the request that waits for it; any other is ignored."""
        question = response["id"]
        reply = self._questions.pop(question, None) if isinstance(question, str) else None
        if reply is not None:
            reply.put(response)


class Exchange:
    """One request while it is answered.

    :param session: What was negotiated with a client from before 2026-07-28; ``None`` for a request with ``_meta``.
    """

    def __init__(self, message: RpcRequest, session: Session | None, client: Client) -> None:
        self.message = message
        self.session = session
        self.cancellation = Cancellation()
        """Requested if the client cancels the request, but not if it disconnects: it may still read the response."""
        self._client = client
        self._lock = threading.Lock()
        self._is_open = True
        self._ending = threading.Event()
        self._reply = Reply()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a notification about this request, unless it has been answered."""
        with self._lock:
            if self._is_open:
                self._client.send(message)

    def ask(self, request: Mapping[str, Any], timeout: float | None = None) -> Any:
        """Send a request to the client and wait for its result. Only before 2026-07-28, one at a time.

        :param request: Without its id.
        :raises RpcError: if the client responds with an error, or not at all: this request was cancelled, the client
            has disconnected, or ``timeout`` is over.
        """
        self._reply = Reply()  # a new one, because the last question may still be answered
        response = None if self._ending.is_set() else self._client.ask(request, self._reply, timeout)
        if response is None:
            raise RpcError("The client did not answer")
        error = response.get("error")
        if error is not None:
            text = error.get("message") if isinstance(error, Mapping) else None
            raise RpcError(str(text or "The client answered with an error"))
        return response.get("result")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the client cancels the request or disconnects; return whether it did."""
        return self._ending.wait(seconds)

    def finish(self) -> bool:
        """Close the exchange; return whether the response may still be sent."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            return was_open

    def cancel(self) -> None:
        """Close the exchange because the client has cancelled the request."""
        if self.finish():
            self.cancellation.request(by_client=True)
            self.end()

    def end(self) -> None:
        """Wake up the threads that wait for the client. The request may still be answered."""
        self._ending.set()
        self._reply.put(None)


class Loop:
    """Receives messages in one thread, and answers requests in at most `MAX_RUNNING` others.

    Without a `ThreadPoolExecutor`: Python waits for its threads at exit, and a call that hangs must not keep the
    process alive after its client has gone.
    """

    def __init__(self, server: Server, client: Client) -> None:
        self._server = server
        self._client = client
        self._session: Session | None = None
        self._jobs: Queue[Callable[[], None]] = Queue()
        self._threads = 0
        self._exchanges: dict[Any, Exchange] = {}
        server.connect(client)

    def receive(self, line: bytes | None) -> None:
        """Process a line; ``None`` for one that was too long."""
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise InvalidRequest("The line is too long")
            message = read(line)
            if is_batch := isinstance(message, list):
                self._check_batch(message)
        except (ParseError, InvalidRequest) as error:
            self._client.send(_serialise(RpcResponse(None, error=error)))
            return
        messages = message if is_batch else [message]
        accepted = [item for each in messages if (item := self._accept(each, is_batch)) is not None]
        respond = partial(self._respond, accepted, is_batch)
        if not any(isinstance(item, Exchange) for item in accepted):
            respond()
            return
        self._jobs.put(respond)
        if self._threads < MAX_RUNNING:
            self._threads += 1
            threading.Thread(target=self._work, name="mcp-worker", daemon=True).start()

    def close(self) -> None:
        """Wake up the requests that wait for the client, which sends no more. They may still be answered."""
        for exchange in list(self._exchanges.values()):
            exchange.end()

    def wait(self) -> None:
        """Wait until every request is answered."""
        self._jobs.join()

    def _check_batch(self, messages: list[Any]) -> None:
        if self._session is None or self._session.version != WITH_BATCHES:
            raise InvalidRequest("This protocol version has no batches")
        if not messages:
            raise InvalidRequest("The batch is empty")
        if len(messages) > MAX_BATCH:
            raise InvalidRequest(f"The batch has more than {MAX_BATCH} messages")

    def _accept(self, message: Any, is_batch: bool) -> bytes | Exchange | None:
        """Answer a message at once, or open an exchange for it; ``None`` if there is nothing to answer."""
        if is_response(message):
            self._client.receive(message)
            return None
        modern = is_modern(message)
        try:
            request = read_request(message)
            require_id(request)
            if request.method == INITIALIZE and not modern:
                if is_batch:
                    raise InvalidRequest("initialize cannot be part of a batch")
                return _make_response(request.id, lambda: self._initialize(request))
            if not request.wants_reply:
                self._receive_notification(request)
                return None
            if request.method == "ping" and not modern:
                return _serialise(RpcResponse(request.id, {}))
            return self._open(request, modern)
        except (InvalidRequest, Overloaded) as error:
            return _serialise(RpcResponse(readable_id(message), error=error))

    def _initialize(self, message: RpcRequest) -> Any:
        self._session, result = self._server.initialize(message)
        return result

    def _receive_notification(self, message: RpcRequest) -> None:
        if message.method == "notifications/initialized":
            self._client.is_initialized = self._session is not None
        elif message.method == CANCELLED and isinstance(message.params, dict):
            request_id = message.params.get("requestId")
            exchange = self._exchanges.get(request_id) if is_id(request_id) else None
            if exchange is not None:
                exchange.cancel()

    def _open(self, message: RpcRequest, modern: bool) -> Exchange:
        if self._session is None and not modern:
            raise InvalidRequest("Send initialize first, or put the protocol version into params._meta")
        if message.id in self._exchanges:
            raise InvalidRequest("A request with this id has not been answered yet")
        if len(self._exchanges) >= MAX_UNANSWERED:
            raise Overloaded()
        exchange = self._exchanges[message.id] = Exchange(message, None if modern else self._session, self._client)
        return exchange

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            # A request handles its own failures; a lost thread would be missing for all later ones.
            except BaseException:
                logger.exception("unexpected failure", extra={"face": "mcp"})
            finally:
                self._jobs.task_done()

    def _respond(self, accepted: list[bytes | Exchange], is_batch: bool) -> None:
        answers = [item if isinstance(item, bytes) else self._answer(item) for item in accepted]
        responses = [response for response in answers if response is not None]
        if responses:
            self._client.send(b"[" + b",".join(responses) + b"]" if is_batch else responses[0])

    def _answer(self, exchange: Exchange) -> bytes | None:
        """Return the serialised response; ``None`` if the client has cancelled the request."""
        response = None
        if not exchange.cancellation.requested:
            response = _make_response(exchange.message.id, lambda: self._server.answer(exchange))
        # Not already when it is cancelled: while it runs, it counts towards MAX_UNANSWERED.
        del self._exchanges[exchange.message.id]
        return response if exchange.finish() else None


def _make_response(id: Any, answer: Callable[[], Any]) -> bytes:
    try:
        return _serialise(RpcResponse(id, answer()))
    except RpcError as error:
        return _serialise(RpcResponse(id, error=error))
    # Callbacks of the app run here too, such as a before_request that calls sys.exit().
    except BaseException:
        error_id = new_id()
        logger.exception("unexpected failure, id=%s", error_id, extra={"face": "mcp", "id": error_id})
        return _serialise(RpcResponse(id, error=InternalError(error_id)))


def _serialise(response: RpcResponse) -> bytes:
    return response.to_bytes(omit_null_id=True)


def claim_standard_streams() -> tuple[FileIO, FileIO]:
    """Reserve standard input and output for the protocol.

    From now on, what Python code, C libraries and child processes print goes to standard error, and their standard
    input is empty.
    """
    source, target = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    for stream in (source, target):
        os.set_blocking(stream.fileno(), True)  # reading a non-blocking pipe would look like its end
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()  # what was printed before
    sys.stdout = sys.stderr
    return source, target


def serve(server: Server, source: FileIO, target: FileIO, *, grace: float = GRACE) -> None:
    """Serve a client until it disconnects.

    At the end of the input, running requests are answered first. SIGTERM and SIGINT end it at once.
    """
    # A SimpleQueue is reentrant, so a signal handler may use it.
    ends: SimpleQueue[None] = SimpleQueue()
    end = partial(ends.put, None)
    loop = Loop(server, Client(target, on_broken=end))

    def receive_all() -> None:
        try:
            for line in read_lines(source):
                loop.receive(line)
            give_up = threading.Timer(grace, end)
            give_up.daemon = True
            give_up.start()
            loop.close()
            loop.wait()
        finally:
            end()

    with _on_signals(end):
        threading.Thread(target=receive_all, name="mcp-reader", daemon=True).start()
        while True:
            try:
                return ends.get(timeout=_SIGNAL_POLL)
            except Empty:
                pass


def read_lines(source: FileIO, limit: int = MAX_LINE) -> Iterator[bytes | None]:
    """Yield each line without its end, and ``None`` for a line longer than ``limit`` bytes."""
    line, too_long = bytearray(), False
    with suppress(OSError, ValueError):  # broken, or closed at this end
        while chunk := source.read(_CHUNK):  # not readline(), which would buffer a line of any length
            for number, piece in enumerate(chunk.split(b"\n")):
                if number > 0:
                    yield None if too_long else bytes(line)
                    line.clear()
                    too_long = False
                line += piece
                if len(line) > limit:
                    line.clear()
                    too_long = True
    if line or too_long:
        yield None if too_long else bytes(line)


@contextmanager
def _on_signals(callback: Callable[[], None]) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: callback()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
