"""What each line is, and who answers it: clients of both eras on one connection.

A client of before 2026-07-28 is served after its ``initialize``; a modern one at any time, because every request says
all there is to know. Handshake, ping and cancellation are done here and at once. Everything else goes to the server,
many requests at a time, each in a thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ..calls import new_id
from ..envelope import MAX_BATCH, Request, Response, is_response, read_request, readable_id, write_response
from ..errors import InternalError, InvalidRequest, Overloaded, ParseError, RpcError
from ..mcp.legacy import CANCELLED, INITIALIZE
from ..mcp.opening import is_modern, require_id
from ..mcp.protocol import WITH_BATCHES
from ..mcp.sessions import Agreement
from ..strict_json import read
from .client import Client
from .exchange import Exchange, Server
from .lines import LineWriter
from .workers import Job, Workers

MAX_RUNNING = 32
MAX_WAITING = 1000
"""How many requests may run at once, and how many may have come without an answer yet."""

logger = logging.getLogger(__name__)


class Loop:
    """Takes line after line, and writes what there is to say."""

    def __init__(self, server: Server, writer: LineWriter) -> None:
        self._server = server
        self._writer = writer
        self._client = Client(writer)
        self._workers = Workers(MAX_RUNNING)
        self._agreement: Agreement | None = None
        self._lock = threading.Lock()
        self._exchanges: dict[Any, Exchange] = {}
        server.connect(self._client)

    def take(self, line: bytes | None) -> None:
        """Take a line; ``None`` for one that was too long."""
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise InvalidRequest("The line is too long")
            message = read(line)
            if isinstance(message, list):
                self._take_batch(message)
                return
        except (ParseError, InvalidRequest) as error:
            self._send(Response(None, error=error))
            return
        if _is_handshake(message):
            self._writer.write(_answered(readable_id(message), lambda: self._initialize(message)))
            return
        admitted = self._admit(message)
        if isinstance(admitted, Response):
            self._send(admitted)
        elif admitted is not None:
            self._workers.submit(partial(self._run, admitted))

    def close(self, when_idle: Job) -> None:
        """Take no more lines; let what runs come to its end, and call back when it has."""
        with self._lock:
            running = list(self._exchanges.values())
        for exchange in running:
            exchange.hurry()
        self._workers.when_idle(when_idle)

    def _take_batch(self, messages: list[Any]) -> None:
        version = None if self._agreement is None else self._agreement.version
        if version != WITH_BATCHES or not 0 < len(messages) <= MAX_BATCH:
            raise InvalidRequest("This version has no batches, or the batch is empty or too long")
        admitted = [item for message in messages if (item := self._admit(message)) is not None]
        if admitted:
            self._workers.submit(partial(self._run_batch, admitted))

    def _initialize(self, message: Any) -> Any:
        request = _read(message)
        if not request.wants_reply:
            raise InvalidRequest("initialize needs an id")
        self._agreement, result = self._server.initialize(request)
        return result

    def _admit(self, message: Any) -> Response | Exchange | None:
        """Answer a message at once, or open an exchange for it; ``None`` when there is nothing to say."""
        if is_response(message):
            self._client.hear(message)
            return None
        try:
            request = _read(message)
            if not request.wants_reply:
                self._hear(request)
                return None
            modern = is_modern(message)
            if request.method == "ping" and not modern:
                return Response(request.id, {})
            if self._agreement is None and not modern:
                raise InvalidRequest("Send initialize first, or say which version this is in params._meta")
            if _is_handshake(message):
                raise InvalidRequest("initialize cannot be part of a batch")
            return self._open(Exchange(request, None if modern else self._agreement, self._client))
        except (InvalidRequest, Overloaded) as error:
            return Response(readable_id(message), error=error)

    def _open(self, exchange: Exchange) -> Exchange:
        with self._lock:
            if exchange.request.id in self._exchanges:
                raise InvalidRequest("A request with this id has not been answered yet")
            if len(self._exchanges) >= MAX_WAITING:
                raise Overloaded()
            self._exchanges[exchange.request.id] = exchange
        return exchange

    def _hear(self, notification: Request) -> None:
        params = notification.params if isinstance(notification.params, dict) else {}
        if notification.method == "notifications/initialized":
            self._client.is_initialized = self._agreement is not None
        elif notification.method == CANCELLED:
            cancelled = params.get("requestId")
            if isinstance(cancelled, (str, int, float)) and not isinstance(cancelled, bool):
                with self._lock:
                    exchange = self._exchanges.pop(cancelled, None)
                if exchange is not None:
                    exchange.cancel()

    def _run(self, exchange: Exchange) -> None:
        answer = self._answer(exchange)
        if answer is not None:
            self._writer.write(answer)

    def _run_batch(self, admitted: list[Response | Exchange]) -> None:
        answers = [_spell(item) if isinstance(item, Response) else self._answer(item) for item in admitted]
        spoken = [answer for answer in answers if answer is not None]
        if spoken:
            self._writer.write(b"[" + b",".join(spoken) + b"]")

    def _answer(self, exchange: Exchange) -> bytes | None:
        """Have a request answered; ``None`` when its client has cancelled it, before or meanwhile."""
        if exchange.is_cancelled:
            return None
        answer = _answered(exchange.request.id, lambda: self._server.answer(exchange))
        if not exchange.finish():
            return None
        with self._lock:
            self._exchanges.pop(exchange.request.id, None)
        return answer

    def _send(self, response: Response) -> None:
        self._writer.write(_spell(response))


def _is_handshake(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == INITIALIZE and not is_modern(message)


def _read(message: Any) -> Request:
    request = read_request(message)
    require_id(request)
    return request


def _answered(id: Any, answer: Callable[[], Any]) -> bytes:
    """Spell what became of a request: its result, or why there is none. The others go on."""
    try:
        return _spell(Response(id, answer()))
    except RpcError as error:
        return _spell(Response(id, error=error))
    # The app's own callbacks run here too (a before_request that calls sys.exit), hence BaseException.
    except BaseException:
        error_id = new_id()
        logger.exception("unexpected failure, id=%s", error_id)
        return _spell(Response(id, error=InternalError(error_id)))


def _spell(response: Response) -> bytes:
    return write_response(response, omit_null_id=True)
