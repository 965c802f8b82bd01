"""MCP 2026-07-28: every request stands for itself.

Checks come in the order of the specification: what the request says of itself in ``_meta``, whether its headers say the
same, whether we speak its version, whether there is such a method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..access import Caller
from ..core import Core
from ..envelope import Prepared, Request
from ..errors import MethodNotFound, UnsupportedVersion
from ..schema.mirrored import MirroredArgument
from ..settings import server_name, setting
from . import protocol
from .opening import read_opening, require_version
from .tools import Session, call_tool, list_tools, visible_tool

DISCOVER = protocol.DISCOVER
COMPLETE = {"resultType": "complete"}


class Mirror(Protocol):
    """Where a transport repeats parts of a request; each method raises `HeaderMismatch`."""

    @property
    def version(self) -> str | None: ...

    def check_version(self, version: str) -> None: ...

    def check_method(self, method: str) -> None: ...

    def check_name(self, name: Any) -> None: ...

    def check_arguments(self, mirrored: tuple[MirroredArgument, ...], arguments: Any) -> None: ...


def answer(core: Core, caller: Caller, request: Request, mirror: Mirror) -> Any:
    """Answer a request."""
    params = request.params
    if isinstance(params, Mapping) and params.get("_meta") is None and mirror.version not in (None, protocol.MODERN):
        # An older client that means another version would not know what _meta has to do with it.
        raise UnsupportedVersion(str(mirror.version), protocol.VERSIONS)
    opening = read_opening(request)
    mirror.check_version(opening.version)
    require_version(opening.version)
    mirror.check_method(request.method)
    handle = METHODS.get(request.method)
    if handle is None:
        raise MethodNotFound(request.method)
    session = Session(core, caller, opening.version, opening.capabilities, opening.meta)
    return handle(session, opening.params, mirror)


def _discover(session: Session, params: Mapping[str, Any], mirror: Mirror) -> dict[str, Any]:
    result: dict[str, Any] = {
        **COMPLETE,
        "supportedVersions": [protocol.MODERN],
        "capabilities": {"tools": {}},
        **_caching(session),
        "_meta": _identity(),
    }
    if setting("INSTRUCTIONS"):
        result["instructions"] = setting("INSTRUCTIONS")
    return result


def _list_tools(session: Session, params: Mapping[str, Any], mirror: Mirror) -> Prepared:
    return list_tools(session, params, {**COMPLETE, **_caching(session), "_meta": _identity()})


def _call_tool(session: Session, params: Mapping[str, Any], mirror: Mirror) -> dict[str, Any]:
    mirror.check_name(params.get("name"))
    tool = visible_tool(session, params)
    if tool is not None:
        mirror.check_arguments(tool.params.mirrored, params.get("arguments"))
    result = call_tool(session, params)
    return {**COMPLETE, **result, "_meta": {**result.get("_meta", {}), **_identity()}}


METHODS: dict[str, Callable[[Session, Mapping[str, Any], Mirror], Any]] = {
    DISCOVER: _discover,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
}


def _caching(session: Session) -> dict[str, Any]:
    """For how long, and for whom, a result is good."""
    scope = "private" if session.core.authenticator.tells_callers_apart else "public"
    return {"ttlMs": setting("LIST_MAX_AGE") * 1000, "cacheScope": scope}


def _identity() -> dict[str, Any]:
    return {protocol.SERVER_INFO: {"name": server_name(), "version": setting("SERVER_VERSION")}}
