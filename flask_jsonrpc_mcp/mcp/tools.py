"""``tools/list`` and ``tools/call``, the same for every version but for how their results are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..access import Caller
from ..calls import Call
from ..catalogue import Page, decode_cursor
from ..core import Core
from ..envelope import Prepared
from ..errors import InvalidCursor, MalformedParams, MethodNotFound, MissingCapability, RpcError, UnknownTool
from ..methods import Method
from ..settings import NO_DOTS, setting
from ..strict_json import write
from .spelling import spell_failure, spell_result, spell_tool

FACE = "mcp"


@dataclass(frozen=True)
class Session:
    """Who is asking, in which version, and what their client can do."""

    core: Core
    caller: Caller
    version: str
    capabilities: frozenset[str] = frozenset()
    meta: Mapping[str, Any] = field(default_factory=dict)


def list_tools(session: Session, params: Mapping[str, Any], extra: Mapping[str, Any]) -> Prepared:
    """List the tools of a caller, one page.

    :param extra: What else the result of this version has.
    """
    session.core.require_discovery(session.caller)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise MalformedParams("cursor must be a string")
    try:
        offset = 0 if cursor is None else decode_cursor(cursor)
    except InvalidCursor as error:
        raise MalformedParams(error.message) from error
    style = setting("TOOL_NAME_STYLE")

    def make(tools: tuple[Method, ...], next_cursor: str | None) -> Page:
        page: dict[str, Any] = {"tools": [spell_tool(tool, session.version, style) for tool in tools]}
        if next_cursor is not None:
            page["nextCursor"] = next_cursor  # left out at the end: clients take null for a cursor
        return Page(write(page))

    listing = session.core.catalogue.tools_for(session.caller)
    page = listing.page(f"{FACE} {session.version} {style}", offset, setting("PAGE_SIZE"), make)
    # The page is remembered, what an app's settings add to it is not: several apps may share a blueprint.
    return Prepared(page.body[:-1] + b"," + write(extra)[1:] if extra else page.body)


def visible_tool(session: Session, params: Mapping[str, Any]) -> Method | None:
    """Find the tool that a call names, if there is one that this caller may know of."""
    try:
        return session.core.catalogue.find(_known_name(session, params), session.caller, tools_only=True)
    except MethodNotFound:
        return None


def call_tool(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool. What fails in it is a result that says so; only a request that is wrong itself is an error.

    :raises UnknownTool: when there is none, or none this caller may know of.
    """
    arguments = params.get("arguments", {})
    if not isinstance(arguments, Mapping):
        raise MalformedParams("params.arguments must be an object")
    call = Call(
        _known_name(session, params),
        arguments,
        session.caller,
        FACE,
        capabilities=session.capabilities,
        meta=session.meta,
    )
    try:
        result = session.core.dispatcher.invoke(call)
    except MissingCapability:
        raise
    except MethodNotFound as error:
        raise UnknownTool(params["name"], sign_in=session.caller.may_sign_in) from error
    except RpcError as error:
        return spell_failure(error)
    tool = session.core.catalogue.find(call.name, session.caller, tools_only=True)
    return spell_result(tool, result, session.version)


def _name_in(params: Mapping[str, Any]) -> str:
    name = params.get("name")
    if not isinstance(name, str):
        raise MalformedParams("params.name must be the name of a tool")
    return name


def _known_name(session: Session, params: Mapping[str, Any]) -> str:
    """The name behind what a client calls a tool, which may be its alias."""
    name = _name_in(params)
    return session.core.registry.name_of(name) if setting("TOOL_NAME_STYLE") == NO_DOTS else name
