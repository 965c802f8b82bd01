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
from ..errors import InvalidRequest, MalformedParams, MethodNotFound, UnsupportedVersion
from ..questions import NO_ANSWERS, InputNeeded
from ..schema.mirrored import MirroredArgument
from ..settings import server_name, setting
from ..strict_json import write
from . import protocol
from .asking import input_required, read_answers
from .offers import METHODS, Handler, capabilities_of, handler_of
from .reporting import Reporter
from .resources import visible_resource
from .session import KeptLogLevel, Send, Session
from .sessions import features_of
from .subscriptions import LISTEN, Subscription, subscribe
from .tools import visible_tool

DISCOVER = "server/discover"

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
    version, capabilities, meta = _read_meta(request, mirror)
    mirror.check_version(version)
    if version != protocol.MODERN:
        raise UnsupportedVersion(version, [protocol.MODERN])
    mirror.check_method(request.method)
    params: Any = request.params
    log_level = KeptLogLevel(_log_level(meta))
    session = Session(
        core,
        caller,
        version,
        audience,
        features_of(capabilities),
        meta,
        read_answers(request, caller.principal, audience) if request.method in NAMED else NO_ANSWERS,
        None if send is None else Reporter(send, version, meta.get(protocol.PROGRESS_TOKEN), log_level.get),
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


def _read_meta(request: Request, mirror: Mirror) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """Read what a request says of itself: its version, what its client can do, and all of it."""
    if not isinstance(request.params, Mapping):
        raise InvalidRequest("params must be an object")
    meta = request.params.get("_meta")
    if meta is None and mirror.version not in (None, protocol.MODERN):
        # An older client that means another version would not know what _meta has to do with it.
        raise UnsupportedVersion(str(mirror.version), protocol.VERSIONS)
    if not isinstance(meta, Mapping):
        raise MalformedParams("params._meta is missing")
    version, capabilities = meta.get(protocol.PROTOCOL_VERSION), meta.get(protocol.CLIENT_CAPABILITIES)
    if not isinstance(version, str):
        raise MalformedParams(f"params._meta must have {protocol.PROTOCOL_VERSION}")
    if not isinstance(capabilities, Mapping):
        raise MalformedParams(f"params._meta must have {protocol.CLIENT_CAPABILITIES}")
    return version, capabilities, meta


def _completed(session: Session, request: Request, result: dict[str, Any] | Prepared) -> dict[str, Any] | Prepared:
    """Add what every result of this version has."""
    extra: dict[str, Any] = {**COMPLETE}
    if request.method in _CACHEABLE:
        extra |= _caching(session, request)
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


_METHODS: dict[str, Handler] = {DISCOVER: _discover, **METHODS}
_CACHEABLE = frozenset(
    [DISCOVER, "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
)


def _caching(session: Session, request: Request) -> dict[str, Any]:
    """For how long, and for whom, a result is good."""
    seconds = setting("LIST_MAX_AGE")
    if request.method == "resources/read":
        params: Any = request.params
        seconds = visible_resource(session, params).max_age or 0
    scope = "private" if session.core.authenticator.tells_callers_apart else "public"
    return {"ttlMs": seconds * 1000, "cacheScope": scope}


def _log_level(meta: Mapping[str, Any]) -> str | None:
    level = meta.get(protocol.LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise MalformedParams(f"{protocol.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return level


def _identity() -> dict[str, Any]:
    return {protocol.SERVER_INFO: {"name": server_name(), "version": setting("SERVER_VERSION")}}
