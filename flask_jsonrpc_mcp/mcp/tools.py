"""``tools/list`` and ``tools/call``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import METHOD
from ..envelope import Prepared
from ..errors import MethodNotFound, MissingCapability, RpcError, UnknownTool
from ..schema.mirrored import MirroredArgument
from ..settings import NO_DOTS, setting
from .listing import arguments_in, list_page, text_in
from .session import Session
from .spelling import spell_failure, spell_result, spell_tool


def list_tools(session: Session, params: Mapping[str, Any]) -> Prepared:
    style = setting("TOOL_NAME_STYLE")
    return list_page(
        session, params, session.core.catalogue, "tools", lambda tool, version: spell_tool(tool, version, style), style
    )


def call_tool(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool. What fails in it is a result that says so; only a request that is wrong itself is an error.

    :raises UnknownTool: when there is none, or none this caller may know of.
    """
    name, arguments = text_in(params, "name"), arguments_in(params)
    if session.core.registry.has_aliases:
        name = _known_name(session, name)
    if session.mirror is not None and (mirrored := _mirrored(session, name)):
        session.mirror.check_arguments(mirrored, arguments)
    call = session.call(METHOD, name, arguments)
    try:
        result = session.core.dispatcher.invoke(call)
    except MissingCapability:
        raise
    except MethodNotFound as error:
        raise UnknownTool(params["name"], sign_in=session.caller.may_sign_in) from error
    except RpcError as error:
        return spell_failure(error)
    return spell_result(result, session.version)


def _mirrored(session: Session, name: str) -> tuple[MirroredArgument, ...]:
    """The arguments that a call repeats in headers; none for a tool that this caller may not know of."""
    tool = session.core.registry.get(name)
    if tool is None or not tool.params.mirrored:
        return ()
    try:
        return session.core.catalogue.find(name, session.caller).params.mirrored
    except MethodNotFound:
        return ()


def _known_name(session: Session, name: str) -> str:
    """The name behind what a client calls a tool, which in this app may be its alias."""
    return session.core.registry.name_of(name) if setting("TOOL_NAME_STYLE") == NO_DOTS else name
