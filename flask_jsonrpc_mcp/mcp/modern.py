"""MCP 2026-07-28: every request stands for itself.

Checks come in the order of the specification: what the request says of itself in ``_meta``, whether its headers say the
same, whether we speak its version, whether there is such a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..access import Caller
from ..calls import LOG_LEVELS, Cancellation
from ..changes import are_announced
from ..core import Core
from ..envelope import Prepared, Request
from ..errors import MalformedParams, MethodNotFound, UnsupportedVersion
from ..questions import NO_ANSWERS, InputNeeded
from ..settings import server_info, setting
from ..strict_json import write
from . import protocol
from .asking import input_required, read_answers
from .offers import METHODS, Handler, capabilities_of, handler_of
from .opening import read_opening, require_version
from .reporting import Reporter
from .session import KeptLogLevel, Mirror, Send, Session
from .subscriptions import LISTEN, Subscription, subscribe

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What a request for one thing calls it; clients repeat that in a header. These are also the ones that may ask."""

COMPLETE = {"resultType": "complete"}
INPUT_REQUIRED = {"resultType": "input_required"}


def answer(
    core: Core,
    caller: Caller,
    request: Request,
    audience: str,
    cancellation: Cancellation,
    *,
    mirror: Mirror | None = None,
    send: Send | None = None,
) -> dict[str, Any] | Prepared | Subscription:
    """Answer a request with its result, or with what a client listens to from now on.

    :param mirror: Where the request is repeated, if anywhere.
    :param send: Sends a message to the client; without, it can be told nothing while its request is open.
    """
    method, params = request.method, request.params
    if mirror is not None and mirror.version not in (None, protocol.MODERN) and _lacks_meta(params):
        # An older client that means another version would not know what _meta has to do with it.
        raise UnsupportedVersion(str(mirror.version), protocol.VERSIONS)
    version, capabilities, params, meta = read_opening(request)
    if mirror is not None:
        mirror.check_version(version)
    require_version(version)
    if mirror is not None:
        mirror.check_method(method)
    log_level = KeptLogLevel(_checked_level(meta[protocol.LOG_LEVEL]) if protocol.LOG_LEVEL in meta else None)
    listener = None if send is None else Reporter(send, version, meta, log_level.get)
    answers = read_answers(request, caller.principal, audience) if method in NAMED else NO_ANSWERS
    session = Session(
        core, caller, version, audience, capabilities, meta, log_level, cancellation, listener, answers, mirror
    )
    if method == LISTEN:
        return subscribe(session, request)
    handle = handler_of(core, method, _METHODS)
    if handle is None:
        raise MethodNotFound(method)
    if mirror is not None and method in NAMED:
        mirror.check_name(params.get(NAMED[method]))
    try:
        return _completed(session, request, handle(session, params))
    except InputNeeded as needed:
        return {**INPUT_REQUIRED, **input_required(session, request, needed), "_meta": _identity()}


def _completed(session: Session, request: Request, result: dict[str, Any] | Prepared) -> dict[str, Any] | Prepared:
    """Add what every result of this version has."""
    extra = {**COMPLETE, **_caching(session)} if request.method in _CACHEABLE else COMPLETE
    if isinstance(result, Prepared):
        # The page is remembered, what an app's settings add to it is not: several apps may share a blueprint.
        return Prepared(result.body[:-1] + b"," + write({**extra, "_meta": _identity()})[1:])
    meta = _identity()
    return {**extra, **result, "_meta": {**result["_meta"], **meta} if "_meta" in result else meta}


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


def _lacks_meta(params: Any) -> bool:
    return isinstance(params, dict) and params.get("_meta") is None


def _checked_level(level: Any) -> str | None:
    if level is not None and level not in LOG_LEVELS:
        raise MalformedParams(f"{protocol.LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return level  # type: ignore[no-any-return]


def _identity() -> dict[str, Any]:
    return {protocol.SERVER_INFO: server_info()}
