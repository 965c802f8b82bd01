"""MCP from 2024-11-05 to 2025-11-25: a handshake agrees on a version, and what follows keeps to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..envelope import Prepared, Request
from ..errors import InvalidRequest, MalformedParams, MethodNotFound
from ..settings import server_name, setting
from . import protocol
from .sessions import Agreement, features_of
from .tools import Session, call_tool, list_tools

INITIALIZE = "initialize"


def agree(request: Request) -> Agreement:
    """Settle the version: the client's when we speak it, else our newest."""
    params = request.params
    if not isinstance(params, Mapping) or not isinstance(params.get("protocolVersion"), str):
        raise MalformedParams("initialize needs params.protocolVersion")
    if not isinstance(params.get("capabilities"), Mapping) or not isinstance(params.get("clientInfo"), Mapping):
        raise MalformedParams("initialize needs params.capabilities and params.clientInfo")
    wanted = params["protocolVersion"]
    version = wanted if wanted in protocol.LEGACY else protocol.LEGACY[0]
    return Agreement(version, features_of(params["capabilities"]))


def welcome(agreement: Agreement) -> dict[str, Any]:
    """Answer ``initialize``."""
    result: dict[str, Any] = {
        "protocolVersion": agreement.version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": server_name(), "version": setting("SERVER_VERSION")},
    }
    if setting("INSTRUCTIONS"):
        result["instructions"] = setting("INSTRUCTIONS")
    return result


def answer(session: Session, request: Request) -> Any:
    """Answer a request of a client that has been initialised. A notification is heard, and that is all."""
    if not request.wants_reply:
        return None
    if not isinstance(request.params, Mapping):
        raise InvalidRequest("params must be an object")
    handle = METHODS.get(request.method)
    if handle is None:
        raise MethodNotFound(request.method)
    return handle(session, request.params)


def _ping(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _list_tools(session: Session, params: Mapping[str, Any]) -> Prepared:
    return list_tools(session, params, {})


def _call_tool(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    return call_tool(session, params)


METHODS: dict[str, Callable[[Session, Mapping[str, Any]], Any]] = {
    "ping": _ping,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
}
