"""Requests from before 2026-07-28 over HTTP: sessions, batches, and questions on the stream of a request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from flask import Response as HttpResponse

from ...access import Caller
from ...calls import Cancellation
from ...core import Core
from ...current import header
from ...envelope import Request, Response, answer_one, is_response, write_response
from ...errors import InvalidRequest, SessionMissing
from ...mcp import legacy, protocol, sessions
from ...mcp.opening import require_id
from ...mcp.session import Send, Session
from ...questions import InputNeeded, Question
from ...settings import setting
from ..responses import json_response, no_content
from .exchanges import accepts_events, audience, respond, wants_reports
from .letters import Letters, SessionLogLevel
from .mirrored_headers import MirroredHeaders
from .streams import Backlog, event, event_response, stream

SESSION_HEADER = "Mcp-Session-Id"


def serve_legacy(core: Core, caller: Caller, payload: Any, headers: MirroredHeaders) -> HttpResponse:
    if isinstance(payload, dict) and payload.get("method") == legacy.INITIALIZE:
        return _initialize(core, caller, payload)
    exchange = _open_exchange(core, caller, headers)
    return exchange.serve_batch(payload) if isinstance(payload, list) else exchange.serve(payload)


def _initialize(core: Core, caller: Caller, payload: Any) -> HttpResponse:
    agreement: sessions.Agreement | None = None

    def call(asked: Request) -> Any:
        nonlocal agreement
        require_id(asked)
        agreement = legacy.agree(asked)
        return legacy.welcome(core, agreement)

    reply = answer_one(payload, call) or Response(None, error=InvalidRequest("initialize needs an id"))
    response = respond(reply, _status_of)
    if reply.error is None and agreement is not None and sessions.are_possible():
        response.headers[SESSION_HEADER] = sessions.mint(agreement, caller, audience())
    return response


def _open_exchange(core: Core, caller: Caller, headers: MirroredHeaders) -> _Exchange:
    """Find out what was agreed on with this client."""
    here = audience()
    if not sessions.are_possible():
        agreement = sessions.Agreement(headers.version or protocol.WITH_BATCHES, frozenset())
        return _Exchange(core, caller, here, agreement, "")
    token = header(SESSION_HEADER)
    if token is None:
        raise SessionMissing()
    return _Exchange(core, caller, here, sessions.read(token, caller, here), token)


class _Exchange(NamedTuple):
    """One HTTP request of a client that has been initialised.

    :param token: The id of its session; empty when there are none.
    """

    core: Core
    caller: Caller
    audience: str
    agreement: sessions.Agreement
    token: str

    def serve(self, payload: Any) -> HttpResponse:
        if is_response(payload):
            self._letters.deliver(payload)
            return no_content(202)
        if wants_reports(payload):
            return self._stream(payload)
        logged = Backlog()
        try:
            reply = answer_one(payload, partial(self._answer, send=logged.add))
        except InputNeeded as needed:
            return self._stream(payload, needed)
        if reply is None:
            return no_content(202)
        if logged:
            messages = [*logged.take(), write_response(reply, omit_null_id=True)]
            return event_response(map(event, messages), lambda: None)
        return respond(reply, _status_of)

    def serve_batch(self, payload: list[Any]) -> HttpResponse:
        if self.agreement.version != protocol.WITH_BATCHES or not 0 < len(payload) <= setting("MAX_BATCH"):
            raise InvalidRequest("this version has no batches, or the batch is empty or too long")
        replies = [reply for item in payload if (reply := self._answer_in_batch(item)) is not None]
        if not replies:
            return no_content(202)
        body = b"[" + b",".join(write_response(reply, omit_null_id=True) for reply in replies) + b"]"
        return json_response(body)

    def _answer_in_batch(self, item: Any) -> Response | None:
        if is_response(item):
            self._letters.deliver(item)
            return None
        return answer_one(item, self._answer)

    def _stream(self, payload: Any, needed: InputNeeded | None = None) -> HttpResponse:
        """Answer with a stream, on which the client can also be asked.

        :param needed: What the method has asked for already.
        """

        def work(send: Send, cancellation: Cancellation) -> Response | None:
            def ask(questions: Mapping[str, Question]) -> Mapping[str, Any]:
                return self._letters.ask(questions, send, cancellation)

            def call(asked: Request) -> Any:
                return legacy.answer_asking(self._session(asked, send, cancellation), asked, ask, needed)

            return answer_one(payload, call)

        request_id = payload.get("id")
        return stream(request_id, work, _status_of, lambda: self._letters.is_cancelled(request_id))

    def _answer(self, asked: Request, send: Send | None = None) -> Any:
        if asked.method == legacy.CANCELLED and isinstance(asked.params, dict):
            self._letters.cancel(asked.params.get("requestId"))
        return legacy.answer(self._session(asked, send, Cancellation()), asked)

    def _session(self, asked: Request, send: Send | None, cancellation: Cancellation) -> Session:
        log_level, send = SessionLogLevel(self.token), send if accepts_events() else None
        return legacy.open_session(
            self.core, self.caller, self.agreement, asked, self.audience, log_level, cancellation, send
        )

    @property
    def _letters(self) -> Letters:
        return Letters(self.token, self.agreement.version)


def _status_of(reply: Response) -> int:
    return 200 if reply.error is None else reply.error.rpc_status
