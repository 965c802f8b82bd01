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
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Response as HttpResponse
from flask.ctx import RequestContext
from flask.globals import request_ctx

from ...calls import Cancellation, log_unexpected, new_id
from ...envelope import Id, Response, write_response
from ...errors import ServerFault
from ...mcp.session import Send
from ...strict_json import write
from ..responses import no_content
from .exchanges import EVENTS, respond

TICK = 1.0
"""After how many quiet seconds a comment is sent: it keeps proxies from closing a connection, and it is how we learn
that a client has gone."""

LOOK_AGAIN = 0.2
"""After how many seconds a stream looks again for what no thread wakes it for."""

MAX_BACKLOG = 1 << 20
"""How many bytes may wait for a slow reader; then the oldest messages are dropped."""

Work = Callable[[Send, Cancellation], Response | None]
"""Answers a request; what it sends meanwhile goes before the answer. ``None`` when there is nothing to answer."""


def stream(
    request_id: Id,
    work: Work,
    error_status: Callable[[Response], int],
    is_given_up: Callable[[], bool] = lambda: False,
) -> HttpResponse:
    """Answer a request with a stream, if there is something to say before its end; else in plain JSON.

    :param is_given_up: Asked now and then: the client may give a request up by another one.
    """
    job = _Job(request_id, work, is_given_up)
    job.wait_for_news(TICK)
    if job.is_over and not job.backlog:
        return no_content(202) if job.reply is None else respond(job.reply, error_status)
    return event_response(job.messages(), job.abandon)


def event_response(messages: Iterator[bytes], end: Callable[[], None]) -> HttpResponse:
    """Answer with a stream of messages that are spelled already; ``end`` is called once it is over."""
    response = _EventResponse(messages, mimetype=EVENTS)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    response.call_on_close(end)
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


class Backlog:
    """Messages that a client has not been sent yet, spelled already. The size of what may be lost is bounded."""

    _added = _size = 0

    def __init__(self) -> None:
        self._messages: dict[int, bytes] = {}
        self._droppable: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, message: dict[str, Any]) -> None:
        # Spelled here, so that what JSON cannot hold fails in the method that reports it.
        spelled = write(message)
        self._added += 1
        self._messages[self._added] = spelled
        if "id" in message:
            return  # a question, whose answer someone waits for
        self._droppable.append(self._added)
        self._size += len(spelled)
        while self._size > MAX_BACKLOG and len(self._droppable) > 1:
            self._size -= len(self._messages.pop(self._droppable.popleft()))

    def take(self) -> list[bytes]:
        """Take all there is, the oldest first."""
        messages = list(self._messages.values())
        self._messages.clear()
        self._droppable.clear()
        self._size = 0
        return messages


class _Job:
    """A request being answered in a thread of its own."""

    def __init__(self, request_id: Id, work: Work, is_given_up: Callable[[], bool]) -> None:
        self.backlog = Backlog()
        self.reply: Response | None = None
        self.is_over = False
        self._request_id = request_id
        self._work = work
        self._is_given_up = is_given_up
        self._given_up = False
        self._cancellation = Cancellation()
        self._news = threading.Condition()
        # With a copy of the context: the method has the same request, the same g and the same user as a view.
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def wait_for_news(self, seconds: float) -> None:
        """Wait until there is a message, or the end."""
        with self._news:
            self._news.wait_for(lambda: self.backlog or self.is_over, seconds)

    def messages(self) -> Iterator[bytes]:
        """Pass on what there is, the answer last."""
        looked = time.monotonic()
        while True:
            self.wait_for_news(TICK)
            with self._news:
                messages, over = self.backlog.take(), self.is_over
            yield from map(event, messages)
            if over:
                break
            if not messages:
                yield COMMENT
            # A method that reports all the time can be given up too.
            if time.monotonic() - looked >= TICK:
                looked = time.monotonic()
                if self._is_given_up():
                    self._give_up()
        # Not when it was cancelled: that is also what a method sees whose time is over, and that must be answered.
        if self.reply is not None and not self._given_up:
            yield event(write_response(self.reply, omit_null_id=True))

    def abandon(self) -> None:
        """Let the method know that nobody waits any more, and wait until it has ended."""
        if not self.is_over:
            self._give_up()
        self._thread.join()

    def _give_up(self) -> None:
        self._given_up = True
        self._cancellation.request()

    def _run(self) -> None:
        try:
            self.reply = self._work(self._send, self._cancellation)
        except BaseException as failure:  # nobody else would answer: the status may have been sent already
            fault = ServerFault(new_id())
            log_unexpected(failure, fault.error_id)
            self.reply = Response(self._request_id, error=fault)
        with self._news:
            self.is_over = True
            self._news.notify_all()

    def _send(self, message: dict[str, Any]) -> None:
        with self._news:
            self.backlog.add(message)
            self._news.notify_all()


class _EventResponse(HttpResponse):
    """A response that keeps the Flask request open until the HTTP server closes it."""

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        messages = super().__call__(environ, start_response)
        # Only now that the server has it: a response that the app's own after_request drops is closed by nobody.
        return _OpenRequest(messages, request_ctx._get_current_object())  # type: ignore[attr-defined]


class _OpenRequest:
    """An iterable for the HTTP server that keeps a Flask request open until it is closed.

    ``flask.stream_with_context`` would tear the request down first, and then once more. Servers iterate and close in
    the thread that called the app, so what is pushed here is popped there.
    """

    def __init__(self, messages: Any, request: RequestContext) -> None:
        self._messages = messages
        self._iterator = iter(messages)
        self._request: RequestContext | None = request
        request.push()

    def __iter__(self) -> _OpenRequest:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._iterator)  # type: ignore[no-any-return]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._request is None:
            return
        request, self._request = self._request, None
        try:
            self._messages.close()
        finally:
            request.pop()
