"""Event streams: responses that are sent while the method runs, by WSGI's ``write`` callable.

``start_response`` returns ``write`` (PEP 3333). Flask calls a response inside its request context. A method that runs
there has the thread, the ``g`` and the user of its request. ``after_request`` functions run before it, so it cannot
change the session or the response. Teardown functions run after it, when its events have been written.

A server without ``write``, such as granian, gets all events at the end. On uWSGI, where only the thread of the request
may write, a silent method sends no comments, and notices at its next report that its client has left.

``write`` blocks while the client does not read. A second thread detects that: the stream takes a slot of
``JSONRPC_MCP_MAX_WAITING``, and is disconnected if none is free. This needs the socket, which gunicorn and werkzeug
pass on.
"""

from __future__ import annotations

import functools
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flask import Response
from werkzeug.wsgi import ClosingIterator

from .. import levels
from ..call import Cancellation
from ..envelope import RpcResponse
from ..errors import RpcError
from ..http.io import client_socket
from ..strict_json import write

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

EVENTS = "text/event-stream"

KEEP_ALIVE = 1.0
"""Seconds of silence after which a comment is sent. It keeps proxies from closing the connection, and fails if the
client has left."""

CHECK_EVERY = 1.0
"""Seconds between two checks whether a stream has waited for its client more than half of the time."""

SEND_TIMEOUT = 60.0
"""Seconds after which a client that reads nothing is disconnected."""

MAX_BACKLOG = 1 << 20
"""Maximum bytes of messages that wait for the end of a method; the oldest are dropped."""

_COMMENT = b":\n\n"


@dataclass
class Backlog:
    """Messages of a method that are sent with its response, as events."""

    events: deque[bytes] = field(default_factory=deque)
    size: int = 0

    def add(self, message: dict[str, Any]) -> None:
        # Serialised here, so that a value that is not JSON raises in the method that reports it.
        self.add_event(event(message))

    def add_event(self, data: bytes) -> None:
        self.events.append(data)
        self.size += len(data)
        while self.size > MAX_BACKLOG and len(self.events) > 1:
            self.size -= len(self.events.popleft())

    def take(self) -> list[bytes]:
        """Remove and return all events, oldest first."""
        events = list(self.events)
        self.events.clear()
        self.size = 0
        return events


class EventStream:
    """The event stream of one response. It begins with the first message.

    :param start: Sends the headers and returns WSGI's ``write``, or ``None`` if the server has none.
    :param writer: The only thread that may write; what others send waits for it. ``None`` for any thread.
    :param connection: The socket of the client, if known.
    """

    def __init__(
        self,
        start: Callable[[], Callable[[bytes], object] | None],
        cancellation: Cancellation,
        writer: int | None = None,
        connection: socket.socket | None = None,
    ) -> None:
        self.cancellation = cancellation
        self.has_begun = False
        self._start = start
        self._writer = writer
        self._connection = connection
        self._write: Callable[[bytes], object] | None = None
        self._backlog = Backlog()
        self._last_sent = time.monotonic()
        # The seconds that all finished writes took, and when the current one began. One tuple, because another thread
        # reads it.
        self._writes: tuple[float, float | None] = 0.0, None
        # The watching thread writes too, and so does a method that is async or has a timeout.
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Send the headers, if they have not been sent."""
        with self._lock:
            if not self.has_begun:
                self._write = self._start()
                self.has_begun = True

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Blocks while the client does not read."""
        self.send_event(event(message))

    def send_event(self, data: bytes) -> None:
        with self._lock:
            if self._ended.is_set() or self.cancellation.by_client:
                return
            self._backlog.add_event(data)
            if self._writer in (None, threading.get_ident()):
                self.begin()
                self._write_backlog()

    def require_live(self) -> None:
        """Check that the server can send now.

        :raises RpcError: if it sends everything at the end.
        """
        self.begin()
        if self._write is None:
            raise RpcError("This HTTP server cannot send events before the response is complete")

    def keep_alive(self) -> None:
        """Send a comment if nothing was sent for `KEEP_ALIVE` seconds. It fails if the client has left."""
        if time.monotonic() - self._last_sent >= KEEP_ALIVE:
            self.send_event(_COMMENT)

    def watch_in_thread(self) -> None:
        """Keep the stream alive from a second thread while the method is silent, and detect a slow client."""
        # A timer, because most streams end before the first comment is due.
        self._timer = threading.Timer(KEEP_ALIVE, self._watch, [levels.Slot(), time.monotonic()])
        self._timer.daemon = True
        self._timer.start()

    def is_cancelled(self) -> bool:
        """Return whether the client has cancelled or left. Also keeps the stream alive while a call waits."""
        self.keep_alive()
        return self.cancellation.requested

    def end(self, reply: RpcResponse | None) -> list[bytes]:
        """End the stream, with a reply if there were messages, and return the events that could not be sent."""
        # Reading `requested` polls for a cancellation. A client that has cancelled expects no reply, but one whose call
        # was cancelled by a timeout does.
        is_cancelled = self.cancellation.requested and self.cancellation.by_client
        with self._lock:
            if (self.has_begun or self._backlog.events) and reply is not None and not is_cancelled:
                self.send_event(reply_event(reply))
            self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        return self._backlog.take()

    def _write_backlog(self) -> None:
        if self._write is None:
            return
        waited, _ = self._writes
        began = time.monotonic()
        self._writes = waited, began
        try:
            for data in self._backlog.take():
                self._write(data)
        # Each server has its own exceptions for a closed connection.
        except Exception:
            self.cancellation.request(by_client=True)
        self._last_sent = time.monotonic()
        self._writes = waited + self._last_sent - began, None

    def _watch(self, slot: levels.Slot, checked_at: float) -> None:
        """Run in a thread of its own until the stream ends.

        A client is slow if writes took more than half of the time since the last check. Then the stream needs a slot.
        """
        waited_before = 0.0
        while not self._ended.is_set():
            self._send_comment()
            now = time.monotonic()
            if now - checked_at >= CHECK_EVERY:
                finished, current = self._writes
                current_write = 0.0 if current is None else now - current
                waited = finished + current_write
                is_slow = waited - waited_before >= (now - checked_at) / 2
                if not is_slow:
                    slot.release()
                elif not slot.acquire() or current_write > SEND_TIMEOUT:
                    self._disconnect()
                checked_at, waited_before = now, waited
            self._ended.wait(KEEP_ALIVE)
        slot.release()

    def _send_comment(self) -> None:
        """Call `keep_alive`, unless it would block."""
        if self._lock.acquire(blocking=False):  # else another thread writes
            try:
                if self._connection is None or _is_writable(self._connection):
                    self.keep_alive()
            finally:
                self._lock.release()

    def _disconnect(self) -> None:
        self.cancellation.request(by_client=True)
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)  # a blocked write fails at once


Run = Callable[[EventStream], RpcResponse | None]
"""Answers a request, and may send messages before. Returns ``None`` if there is no response."""


class StreamResponse(Response):
    """Runs a request while it is sent.

    :param run: Answers the request.
    :param plain: Builds the response if ``run`` has sent nothing. Its status and headers are then used.
    """

    def __init__(self, run: Run, plain: Callable[[RpcResponse | None], Response], cancellation: Cancellation) -> None:
        self._body = self._run_buffered()
        super().__init__(self._body, mimetype=EVENTS)
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"
        self._run = run
        self._plain = plain
        self._cancellation = cancellation

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self.response is not self._body:  # an after_request function has read or wrapped it
            self.make_sequence()  # now, while there is a request context
            return super().__call__(environ, start_response)

        def start() -> Any:
            # Some servers and middlewares return None, against PEP 3333.
            return start_response(self.status, self.get_wsgi_headers(environ).to_wsgi_list())

        # uWSGI's write works only in the thread of the request.
        writer = threading.get_ident() if "uwsgi.version" in environ else None
        stream = EventStream(start, self._cancellation, writer, client_socket(environ))
        if writer is None:
            stream.watch_in_thread()
        reply = None
        levels.streams.add(1)
        try:
            reply = self._run(stream)
        finally:
            unsent = stream.end(reply)
            levels.streams.add(-1)
        if stream.has_begun or self._cancellation.by_client:
            stream.begin()
            return ClosingIterator(unsent, self.close)
        plain = self._plain(reply)
        self.status_code = plain.status_code
        self.headers.remove("X-Accel-Buffering")
        self.headers.update(plain.headers)
        self.set_data(plain.get_data())
        return super().__call__(environ, start_response)

    def _run_buffered(self) -> Iterator[bytes]:
        """Yield all events at the end, if something reads the body before it is sent."""
        stream = EventStream(lambda: None, self._cancellation)
        stream.begin()
        yield from stream.end(self._run(stream))


@functools.lru_cache(maxsize=32)
def stream_response_class(response_class: type[Response]) -> type[StreamResponse]:
    """Return a `StreamResponse` that is a subclass of the app's response class; Flask converts any other response."""
    return type("StreamResponse", (StreamResponse, response_class), {})


def _is_writable(connection: socket.socket) -> bool:
    """Whether a few bytes can be written now, or a write would fail."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_WRITE)
            return bool(selector.select(timeout=0))
    except (OSError, ValueError):
        return True  # closed


def event(message: dict[str, Any]) -> bytes:
    """Serialise a message as a server-sent event."""
    return b"data: " + write(message) + b"\n\n"


def reply_event(reply: RpcResponse) -> bytes:
    """Serialise a response as a server-sent event."""
    return b"data: " + reply.to_bytes(omit_null_id=True) + b"\n\n"


def buffered_response(events: Iterable[bytes]) -> Response:
    """Respond with events that are all known."""
    return Response(b"".join(events), mimetype=EVENTS, headers={"Cache-Control": "no-store"})
