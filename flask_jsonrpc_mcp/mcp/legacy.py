"""MCP from 2024-11-05 to 2025-11-25: a handshake agrees on a version, and what follows keeps to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..access import Caller
from ..calls import LOG_LEVELS, Cancellation
from ..changes import are_announced
from ..core import Core
from ..envelope import Request
from ..errors import InvalidRequest, MalformedParams, MethodNotFound
from ..questions import InputNeeded, Question
from ..settings import server_info, setting
from . import protocol
from .asking import answer_by_asking
from .offers import METHODS, Handler, capabilities_of, handler_of
from .opening import require_id
from .reporting import Reporter
from .resources import visible_resource
from .session import NO_CAPABILITIES, LogLevel, Send, Session
from .sessions import Agreement, features_of

INITIALIZE = "initialize"
CANCELLED = "notifications/cancelled"

Ask = Callable[[Mapping[str, Question]], Mapping[str, Any]]
"""Puts questions to the client; returns its responses by key, or the `RpcError` that came of it."""


def agree(request: Request) -> Agreement:
    """Settle the version: the client's when we speak it, else our newest."""
    params = request.params
    if not isinstance(params, dict) or not isinstance(params.get("protocolVersion"), str):
        raise MalformedParams("initialize needs params.protocolVersion")
    if not isinstance(params.get("capabilities"), dict) or not isinstance(params.get("clientInfo"), dict):
        raise MalformedParams("initialize needs params.capabilities and params.clientInfo")
    wanted = params["protocolVersion"]
    version = wanted if wanted in protocol.LEGACY else protocol.LEGACY[0]
    return Agreement(version, features_of(params["capabilities"], version))


def welcome(core: Core, agreement: Agreement) -> dict[str, Any]:
    """Answer ``initialize``."""
    result: dict[str, Any] = {
        "protocolVersion": agreement.version,
        # Changes are told on requests that listen for them, which these versions do not have.
        "capabilities": capabilities_of(core, agreement.version),
        "serverInfo": server_info(),
    }
    if setting("INSTRUCTIONS"):
        result["instructions"] = setting("INSTRUCTIONS")
    return result


def open_session(
    core: Core,
    caller: Caller,
    agreement: Agreement,
    request: Request,
    audience: str,
    log_level: LogLevel,
    cancellation: Cancellation,
    send: Send | None,
) -> Session:
    """Put together one request's view of a client that has been initialised.

    :param send: Sends a message to the client; without, it can be told and asked nothing.
    """
    meta = request.params.get("_meta") if isinstance(request.params, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    return Session(
        core,
        caller,
        agreement.version,
        audience,
        NO_CAPABILITIES if send is None else agreement.capabilities,
        meta,
        log_level,
        cancellation,
        None if send is None else Reporter(send, agreement.version, meta, log_level.get),
    )


def answer_asking(session: Session, request: Request, ask: Ask, needed: InputNeeded | None = None) -> Any:
    """Answer a request, and ask the client while it waits; see `answer_by_asking`."""
    return answer_by_asking(lambda answers: answer(session._replace(answers=answers), request), ask, needed)


def answer(session: Session, request: Request) -> Any:
    """Answer a request of a client that has been initialised. A notification is heard, and that is all.

    :raises InputNeeded: when the client must be asked first.
    """
    method, params, _, wants_reply = request
    if not wants_reply:
        return None
    require_id(request)
    if not isinstance(params, dict):
        raise InvalidRequest("params must be an object")
    handle = handler_of(session.core, method, _METHODS)
    if handle is None:
        raise MethodNotFound(method)
    return handle(session, params)


def _ping(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _set_level(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    level = params.get("level")
    if level not in LOG_LEVELS:
        raise MalformedParams(f"params.level must be one of {', '.join(LOG_LEVELS)}")
    session.log_level.set(level)
    return {}


def _subscribe(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Take note that a client would like to hear of a resource; these versions offer us no request to tell it by."""
    if not are_announced():
        raise MethodNotFound("resources/subscribe")
    visible_resource(session, params)
    return {}


_METHODS: dict[str, Handler] = {
    "ping": _ping,
    "logging/setLevel": _set_level,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _subscribe,
    **METHODS,
}
