"""The MCP endpoint: ``POST /mcp`` for clients of both eras, told apart by how their request begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Response as HttpResponse
from flask import request

from ..access import Caller
from ..core import Core
from ..envelope import Request, Response, answer_one, read_request, write_response
from ..errors import InvalidRequest, RpcError, SessionMissing
from ..mcp import legacy, modern, protocol, sessions
from ..mcp.tools import Session
from ..settings import setting
from .mirrored_headers import VERSION_HEADER, MirroredHeaders
from .requests import read_json_body
from .responses import error_response, json_response, no_content
from .routes import Route

SESSION_HEADER = "Mcp-Session-Id"


def post(core: Core, caller: Caller) -> HttpResponse:
    payload = read_json_body()
    if _is_modern(payload):
        return _serve_modern(core, caller, payload)
    return _Legacy(core, caller).serve(payload)


def spell_error(error: RpcError) -> HttpResponse:
    """Answer what failed before there was a request to answer: in both eras an error without an id."""
    return _respond(Response(None, error=error), lambda error: error.status)


ROUTES = (Route("/mcp", "mcp", {"POST": post}, spell_error),)


def _is_modern(payload: Any) -> bool:
    """Tell the era of a client: a modern one names its version with every request."""
    version = request.headers.get(VERSION_HEADER)
    if version is not None and version.strip() not in protocol.LEGACY:
        return True
    if not isinstance(payload, dict):
        return False
    params = payload.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    named = isinstance(meta, dict) and protocol.PROTOCOL_VERSION in meta
    return named or payload.get("method") == modern.DISCOVER


def _serve_modern(core: Core, caller: Caller, payload: Any) -> HttpResponse:
    def call(asked: Request) -> Any:
        _require_id(asked)
        # This version has no notifications over HTTP; one that comes is heard, and that is all.
        return modern.answer(core, caller, asked, MirroredHeaders()) if asked.wants_reply else None

    reply = answer_one(payload, call)
    return no_content(202) if reply is None else _respond(reply, lambda error: error.status)


@dataclass(frozen=True)
class _Legacy:
    """Serves a client from before 2026-07-28."""

    core: Core
    caller: Caller

    def serve(self, payload: Any) -> HttpResponse:
        if isinstance(payload, dict) and payload.get("method") == legacy.INITIALIZE:
            return self._initialize(payload)
        agreement = self._agreement()
        if isinstance(payload, list):
            return self._serve_batch(agreement, payload)
        reply = self._answer(agreement, payload)
        return no_content(202) if reply is None else _respond(reply, lambda error: error.rpc_status)

    def _initialize(self, payload: Any) -> HttpResponse:
        reply = answer_one(payload, _welcome) or Response(None, error=InvalidRequest("initialize needs an id"))
        response = _respond(reply, lambda error: error.rpc_status)
        if reply.error is None and sessions.are_possible():
            agreement = legacy.agree(read_request(payload))
            response.headers[SESSION_HEADER] = sessions.mint(agreement, self.caller, _audience())
        return response

    def _agreement(self) -> sessions.Agreement:
        """Find out what was agreed on with this client."""
        if not sessions.are_possible():
            version = request.headers.get(VERSION_HEADER, protocol.WITH_BATCHES).strip()
            return sessions.Agreement(version, frozenset())
        token = request.headers.get(SESSION_HEADER)
        if token is None:
            raise SessionMissing()
        return sessions.read(token, self.caller, _audience())

    def _serve_batch(self, agreement: sessions.Agreement, payload: list[Any]) -> HttpResponse:
        if agreement.version != protocol.WITH_BATCHES or not 0 < len(payload) <= setting("MAX_BATCH"):
            raise InvalidRequest("this version has no batches, or the batch is empty or too long")
        replies = [reply for item in payload if (reply := self._answer(agreement, item)) is not None]
        if not replies:
            return no_content(202)
        body = b"[" + b",".join(write_response(reply, omit_null_id=True) for reply in replies) + b"]"
        return json_response(body)

    def _answer(self, agreement: sessions.Agreement, item: Any) -> Response | None:
        if _is_response(item):
            return None  # heard; nothing of ours waits for it

        def call(asked: Request) -> Any:
            _require_id(asked)
            params = asked.params if isinstance(asked.params, dict) else {}
            meta = params.get("_meta")
            session = Session(
                self.core,
                self.caller,
                agreement.version,
                agreement.capabilities,
                meta if isinstance(meta, dict) else {},
            )
            return legacy.answer(session, asked)

        return answer_one(item, call)


def _welcome(asked: Request) -> dict[str, Any]:
    _require_id(asked)
    return legacy.welcome(legacy.agree(asked))


def _respond(reply: Response, status_of: Callable[[RpcError], int]) -> HttpResponse:
    body = write_response(reply, omit_null_id=True)
    if reply.error is None:
        return json_response(body)
    return error_response(body, reply.error, status_of(reply.error))


def _require_id(asked: Request) -> None:
    """MCP has no null ids."""
    if asked.wants_reply and asked.id is None:
        raise InvalidRequest("id must be a string or a number")


def _is_response(item: Any) -> bool:
    return isinstance(item, dict) and "method" not in item and ("result" in item or "error" in item) and "id" in item


def _audience() -> str:
    return str(request.blueprint)
