"""The REST face, for curl: list, describe and invoke tools under ``/mcp/tools/``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response

from ..access import Caller
from ..calls import Call
from ..catalogue import Page, decode_cursor
from ..core import Core
from ..errors import NoSuchPath, RpcError
from ..methods import Method
from ..settings import setting
from ..strict_json import write
from .requests import read_json_body, read_query
from .responses import json_response, make_page, page_response, spell_error
from .routes import ANY_VERB, Route

FACE = "rest"


def list_tools(core: Core, caller: Caller) -> Response:
    core.require_discovery(caller)
    query = _loader()("list", _first_values())
    offset = decode_cursor(query["cursor"]) if "cursor" in query else 0
    page = core.catalogue.listing_for(caller).page(FACE, offset, setting("PAGE_SIZE"), _spell_page)
    return page_response(page, core, caller, setting("LIST_MAX_AGE"))


def describe_tool(core: Core, caller: Caller) -> Response:
    core.require_discovery(caller)
    name = _loader()("describe", _first_values())["name"]
    tool = core.catalogue.find(name, caller)
    described = {**tool.descriptor, "outputSchema": tool.descriptor.get("outputSchema", {})}
    # Whoever sees a tool has all of its permissions, so they learn nothing that they may not know.
    access = {"access": sorted(tool.access)} if tool.access else {}
    page = make_page(write({"tool": described, **access}))
    return page_response(page, core, caller, setting("LIST_MAX_AGE"))


def invoke_tool(core: Core, caller: Caller) -> Response:
    body = _loader()("invoke", read_json_body())
    try:
        result = core.dispatcher.invoke(Call(body["name"], body["arguments"], caller, FACE))
    except RpcError as error:
        if error.slug == RpcError.slug:
            return spell_error(error, f"Tool execution failed: {error.message}")
        raise
    return json_response({"result": result.plain})


def nothing_here(core: Core, caller: Caller, rest: str) -> Response:
    raise NoSuchPath()


ROUTES = (
    Route("/mcp/tools/list", "list_tools", {"GET": list_tools}, spell_error),
    Route("/mcp/tools/describe", "describe_tool", {"GET": describe_tool}, spell_error),
    Route("/mcp/tools/invoke", "invoke_tool", {"POST": invoke_tool}, spell_error),
    Route("/mcp/<path:rest>", "nothing_here", {ANY_VERB: nothing_here}, spell_error),
)


def _first_values() -> dict[str, str]:
    return {name: values[0] for name, values in read_query().items()}


@functools.cache
def _loader() -> Callable[[str, Any], Mapping[str, Any]]:
    """What reads requests, see `rest_bodies`."""
    # By the first request, because it needs marshmallow: an app on standard input never gets one, see `schema.late`.
    from .rest_bodies import load

    return load


def _spell_page(tools: tuple[Method, ...], next_cursor: str | None) -> Page:
    listed = b",".join(tool.descriptor_json for tool in tools)
    return make_page(b'{"tools":[' + listed + b'],"nextCursor":' + write(next_cursor) + b"}")
