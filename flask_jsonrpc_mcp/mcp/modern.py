"""MCP 2026-07-28: every request stands for itself.

Checks come in the order of the specification: what the request says of itself in ``_meta``, whether its headers say the
same, whether we speak its version, whether there is such a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..access import Caller
from ..calls import LOG_LEVELS, Cancellation
from ..changes import are_announced
from ..core import Core
from ..envelope import Prepared, Request
from ..errors import MalformedParams, MethodNotFound, UnsupportedVersion
from ..questions import NO_ANSWERS, InputNeeded
from ..schema.mirrored import MirroredArgument
from ..settings import server_name, setting
from ..strict_json import write
from . import protocol
from .asking import input_required, read_answers
from .offers import METHODS, Handler, capabilities_of, handler_of
from .opening import read_opening, require_version
from .reporting import Reporter
from .session import KeptLogLevel, Send, Session
from .subscriptions import LISTEN, Subscription, subscribe
from .tools import visible_tool

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What a request for one thing calls it; clients repeat that in a header. These are also the ones that may ask."""

COMPLETE = {"resultType": "complete"}
INPUT_REQUIRED = {"resultType": "input_required"}


class Mirror(Protocol):
    """Where a transport repeats parts of a request; each method raises `HeaderMismatch`."""

    @property
    def version(self) -> str | None: ...

    def check_version(self, version: str) -> None: ...

    def check_method(self, method: str) -> None: ...

    def check_name(self, name: Any) -> None: ...

    def check_arguments(self, mirrored: tuple[MirroredArgument, ...], arguments: Any) -> None: ...


def answer(
    core: Core,
    caller: Caller,
    request: Request,
    mirror: Mirror,
    audience: str,
    send: Send | None = None,
    cancellation: Cancellation | None = None,
) -> dict[str, Any] | Prepared | Subscription:
    """Answer a request with its result, or with what a client listens to from now on."""
    params: Any = request.params
    if isinstance(params, dict) and params.get("_meta") is None and mirror.version not in (None, protocol.MODERN):
        # An older client that means another version would not know what _meta has to do with it.
        raise UnsupportedVersion(str(mirror.version), protocol.VERSIONS)
    opening = read_opening(request)
    mirror.check_version(opening.version)
    require_version(opening.version)
    mirror.check_method(request.method)
    log_level = KeptLogLevel(_log_level(opening.meta))
    session = Session(
        core,
        caller,
        opening.version,
        audience,
        opening.capabilities,
        opening.meta,
        read_answers(request, caller.principal, audience) if request.method in NAMED else NO_ANSWERS,
        None if send is None else Reporter(send, opening.version, opening.meta, log_level.get),
        log_level,
        cancellation or Cancellation(),
    )
    if request.method == LISTEN:
        return subscribe(session, request)
    handle = handler_of(core, request.method, _METHODS)
    if handle is None:
        raise MethodNotFound(request.method)
    if request.method in NAMED:
        mirror.check_name(params.get(NAMED[request.method]))
        tool = visible_tool(session, params) if request.method == "tools/call" else None
        if tool is not None:
            mirror.check_arguments(tool.params.mirrored, params.get("arguments"))
    try:
        return _completed(session, request, handle(session, params))
    except InputNeeded as needed:
        return {**INPUT_REQUIRED, **input_required(session, request, needed), "_meta": _identity()}


def _completed(session: Session, request: Request, result: dict[str, Any] | Prepared) -> dict[str, Any] | Prepared:
    """Add what every result of this version has."""
    extra: dict[str, Any] = {**COMPLETE}
    if request.method in _CACHEABLE:
        extra |= _caching(session)
    if isinstance(result, Prepared):
        # The page is remembered, what an app's settings add to it is not: several apps may share a blueprint.
        return Prepared(result.body[:-1] + b"," + write({**extra, "_meta": _identity()})[1:])
    return {**extra, **result, "_meta": {**result.get("_meta", {}), **_identity()}}


def _discover(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "supportedVersions": [protocol.MODERN],
        "capabilities": capabilities_of(session.core, session.version, announces_changes=are_announced()),
    }
    if setting("INSTRUCTIONS"):
        result["instructions"] = setting("INSTRUCTIONS")
    return result


_METHODS: dict[str, Handler] = {protocol.DISCOVER: _discover, **METHODS}
_CACHEABLE = frozenset(
    [protocol.DISCOVER, "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
)


def _caching(session: Session) -> dict[str, Any]:
    """For how long, and for whom, a result is good; one that knows better for how long says so itself."""
    scope = "private" if session.core.authenticator.tells_callers_apart else "public"
    return {"ttlMs": setting("LIST_MAX_AGE") * 1000, "cacheScope": scope}


def _log_level(meta: Mapping[str, Any]) -> str | None:
    level = meta.get(protocol.LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise MalformedParams(f"{protocol.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return level


def _identity() -> dict[str, Any]:
    return {protocol.SERVER_INFO: {"name": server_name(), "version": setting("SERVER_VERSION")}}
