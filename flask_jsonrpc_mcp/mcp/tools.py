"""``tools/list`` and ``tools/call``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import METHOD
from ..envelope import Prepared
from ..errors import MethodNotFound, MissingCapability, RpcError, UnknownTool
from ..methods import Method
from ..settings import NO_DOTS, setting
from .listing import arguments_in, list_page, text_in
from .session import Session
from .spelling import spell_failure, spell_result, spell_tool


def list_tools(session: Session, params: Mapping[str, Any]) -> Prepared:
    style = setting("TOOL_NAME_STYLE")
    return list_page(
        session, params, session.core.catalogue, "tools", lambda tool, version: spell_tool(tool, version, style), style
    )


def visible_tool(session: Session, params: Mapping[str, Any]) -> Method | None:
    """Find the tool that a call names, if there is one that this caller may know of."""
    try:
        return session.core.catalogue.find(_known_name(session, params), session.caller)
    except MethodNotFound:
        return None


def call_tool(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool. What fails in it is a result that says so; only a request that is wrong itself is an error.

    :raises UnknownTool: when there is none, or none this caller may know of.
    """
    call = session.call(METHOD, _known_name(session, params), arguments_in(params))
    try:
        result = session.core.dispatcher.invoke(call)
    except MissingCapability:
        raise
    except MethodNotFound as error:
        raise UnknownTool(params["name"], sign_in=session.caller.may_sign_in) from error
    except RpcError as error:
        return spell_failure(error)
    return spell_result(result, session.version)


def _known_name(session: Session, params: Mapping[str, Any]) -> str:
    """The name behind what a client calls a tool, which may be its alias."""
    name = text_in(params, "name")
    return session.core.registry.name_of(name) if setting("TOOL_NAME_STYLE") == NO_DOTS else name
