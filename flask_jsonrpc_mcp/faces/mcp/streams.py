"""Event streams: an answer that begins before the method has ended.

The method runs in a thread of its own, in the same Flask request, and whatever it reports is passed on by the thread
that holds the connection. The request stays open until both are done: its teardown must not run under a method that
still uses its database session. Whoever wants no reports never comes here.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from flask import Response as HttpResponse
from flask.globals import request_ctx

from ...calls import Cancellation
from ...envelope import Response, write_response
from ...mcp.session import Send
from ...strict_json import write
from ..responses import no_content
from .exchanges import EVENTS, respond

TICK = 1.0
"""After how many quiet seconds a comment is sent: it keeps proxies from closing a connection, and it is how we learn
that a client has gone."""

LOOK_AGAIN = 0.2
"""After how many seconds a stream looks again for what no thread wakes it for."""

MAX_PENDING = 1000
"""How many messages may wait for a slow reader; then the oldest are dropped."""

Work = Callable[[Send, Cancellation], Response | None]
"""Answers a request; what it sends meanwhile goes before the answer. ``None`` when the client gave it up."""


def stream(
    work: Work,
    error_status: Callable[[Response], int],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> HttpResponse:
    """Answer a request with a stream, if there is something to say before its end; else in plain JSON.

    :param is_cancelled: Asked now and then: the client may give a request up by another one.
    """
    job = _Job(work, is_cancelled)
    job.wait_for_news(TICK)
    if job.is_over and not job.has_messages:
        reply = job.end()
        return no_content(202) if reply is None else respond(reply, error_status(reply))
    return event_response(job.messages(), job.abandon)


def event_response(messages: Iterator[bytes], end: Callable[[], None]) -> HttpResponse:
    """Answer with a stream of messages that are spelled already; ``end`` is called once it is over."""
    response = HttpResponse(_OpenRequest(messages, end), mimetype=EVENTS)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def event(message: bytes) -> bytes:
    """Spell a message as an event; JSON on one line has no line break."""
    return b"data: " + message + b"\n\n"


def paced(messages: Iterator[dict[str, Any] | None]) -> Iterator[bytes]:
    """Spell messages as they come, and wait a little where there is none."""
    quiet = 0.0
    for message in messages:
        if message is not None:
            quiet = 0.0
            yield event(write(message))
            continue
        time.sleep(LOOK_AGAIN)
        quiet += LOOK_AGAIN
        if quiet >= TICK:
            quiet = 0.0
            yield COMMENT


COMMENT = b":\n\n"


class _Job:
    """A request being answered in a thread of its own."""

    def __init__(self, work: Work, is_cancelled: Callable[[], bool]) -> None:
        self._work = work
        self._is_cancelled = is_cancelled
        self._cancellation = Cancellation()
        self._news = threading.Condition()
        self._pending: deque[dict[str, Any]] = deque(maxlen=MAX_PENDING)
        self._reply: Response | None = None
        self._failure: BaseException | None = None
        self.is_over = False
        # With a copy of the context: the method has the same request, the same g and the same user as a view.
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    @property
    def has_messages(self) -> bool:
        return bool(self._pending)

    def wait_for_news(self, seconds: float) -> None:
        """Wait until there is a message, or the end."""
        with self._news:
            self._news.wait_for(lambda: self._pending or self.is_over, seconds)

    def messages(self) -> Iterator[bytes]:
        """Pass on what there is, the answer last."""
        while True:
            self.wait_for_news(TICK)
            with self._news:
                pending, over = list(self._pending), self.is_over
                self._pending.clear()
            for message in pending:
                yield event(write(message))
            if over:
                reply = self.end()
                if reply is not None and not self._cancellation.requested:
                    yield event(write_response(reply, omit_null_id=True))
                return
            if not pending:
                yield COMMENT
                if self._is_cancelled():
                    self._cancellation.request()

    def end(self) -> Response | None:
        """Wait for the thread, and return its answer; what failed in it fails here."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._reply

    def abandon(self) -> None:
        """Let the method know that nobody waits any more, and wait until it has ended."""
        if not self.is_over:
            self._cancellation.request()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._reply = self._work(self._send, self._cancellation)
        except BaseException as failure:  # whatever it is belongs to the thread that holds the connection
            self._failure = failure
        with self._news:
            self.is_over = True
            self._news.notify_all()

    def _send(self, message: dict[str, Any]) -> None:
        with self._news:
            self._pending.append(message)
            self._news.notify_all()


class _OpenRequest:
    """An iterable for the HTTP server that keeps the Flask request open until it is closed.

    ``flask.stream_with_context`` would tear the request down first, and then once more.
    """

    def __init__(self, messages: Iterator[bytes], end: Callable[[], None]) -> None:
        self._messages = messages
        self._end = end
        self._closed = False
        self._request = request_ctx._get_current_object()  # type: ignore[attr-defined]
        self._request.push()

    def __iter__(self) -> _OpenRequest:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._messages)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._end()
        finally:
            self._request.pop()
