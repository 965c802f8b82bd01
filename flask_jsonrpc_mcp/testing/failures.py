"""Reads why a call failed: as the app told it, or else as it stands on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

from .. import errors
from ..access import Caller
from ..core import Core
from ..errors import InternalError, Problem, RpcError
from ..methods import Method
from .results import Failure
from .wire import Heard, Reply, Wire

INPUT_REQUIRED = "input_required"

_PACKAGE = errors.__name__.rpartition(".")[0] + "."


def read_failure(reply: Reply, wire: Wire) -> Failure:
    """Find out why a call failed."""
    body = reply.body if isinstance(reply.body, dict) else {}
    spoken = body.get("error")
    if reply.heard.error is not None:
        told = _told(reply.heard, reply.heard.error, _advice(wire.core, reply.heard))
        if reply.heard.is_of_a_method or spoken is None:
            return told
        # What is said of a prompt or a resource has one spelling only, and no call of them says "tool".
        return replace(told, code=spoken["code"], message=spoken["message"])
    if isinstance(spoken, dict):
        return _spoken(spoken, reply.status)
    return Failure(RpcError.code, f"http_{reply.status}", f"HTTP {reply.status} {HTTPStatus(reply.status).phrase}")


def _told(heard: Heard, error: RpcError, advice: str | None) -> Failure:
    problems: tuple[Problem, ...] = getattr(error, "problems", ())
    # The dispatcher raises an InternalError in the place of what nobody expected.
    cause = error.__context__ if isinstance(error, InternalError) else error
    if heard.method is None or problems or cause is None:
        return Failure(error.code, error.slug, error.message, problems, error.data, advice=advice)
    return Failure(error.code, error.slug, error.message, data=error.data, cause=_from_the_method_on(cause))


def _from_the_method_on(cause: BaseException) -> BaseException:
    """Leave out of the traceback how we came to the method: whoever reads it looks for a mistake of their own."""
    step = cause.__traceback__
    while step is not None and step.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        step = step.tb_next
    return cause if step is None else cause.with_traceback(step)


def _spoken(error: dict[str, Any], status: int) -> Failure:
    code, data = error["code"], error.get("data")
    if isinstance(code, str):
        kind = next((kind for kind in _kinds() if kind.slug == code), RpcError)
        return Failure(kind.code, code, error["message"], data=data)
    kinds = (kind for kind in _kinds() if kind.code == code and status in (kind.status, kind.rpc_status))
    return Failure(code, next(kinds, RpcError).slug, error["message"], data=data)


def _kinds(kind: type[RpcError] = RpcError) -> Iterator[type[RpcError]]:
    """The tree of failures, but for those that apps have added."""
    yield kind
    for narrower in kind.__subclasses__():
        if narrower.__module__ == errors.__name__:
            yield from _kinds(narrower)


def _advice(core: Core, heard: Heard) -> str | None:
    """Say what callers are not told: why a name is not to be found."""
    if heard.method is not None or heard.call is None or not isinstance(heard.error, errors.MethodNotFound):
        return None
    kind, name = heard.call.kind, heard.call.name
    registries = core.registries[kind]
    method = next((found for registry in registries for found in registry.named(name)), None)
    if method is None:
        names = [method.name for registry in registries for method in registry]
        close = get_close_matches(name, names, n=3, cutoff=0.5) or names[:10]
        return f"no {kind} has this name; there are {', '.join(close)}" if close else f"there is no {kind} at all"
    if heard.call.listed_only and not method.listed:
        return 'it is not marked with @mcp_tool, so only face="jsonrpc" knows it'
    return _missing_permissions(method, heard.call.caller)


def _missing_permissions(method: Method, caller: Caller) -> str:
    missing = ", ".join(map(repr, sorted(method.access - caller.permissions)))
    who = "an anonymous caller" if caller.anonymous else repr(caller.name)
    return f"it takes permissions that {who} does not have: {missing}"
