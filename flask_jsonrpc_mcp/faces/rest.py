"""The REST face, for curl: list, describe and invoke tools under ``/mcp/tools/``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import marshmallow
from flask import Response
from marshmallow import fields

from ..access import Caller
from ..calls import Call
from ..catalogue import Page, decode_cursor
from ..core import Core
from ..errors import MissingParameter, NoSuchPath, RpcError
from ..methods import Method
from ..settings import setting
from ..strict_json import write
from .requests import read_json_body, read_query
from .responses import json_response, make_page, page_response, spell_error
from .routes import ANY_VERB, Route

FACE = "rest"


class _Name(fields.Raw):
    """The name of a tool."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str) or not value:
            raise marshmallow.ValidationError("not a name")
        return value


class _Arguments(fields.Raw):
    """The arguments of a call by name. PHP clients send an empty list when there are none."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if value == [] and isinstance(value, list):
            return {}
        if not isinstance(value, dict):
            raise marshmallow.ValidationError("not an object")
        return value


class ListQuery(marshmallow.Schema):
    """What ``list`` takes in the query string."""

    cursor = fields.String()


class DescribeQuery(marshmallow.Schema):
    """What ``describe`` takes in the query string."""

    name = _Name(required=True)


class InvokeBody(marshmallow.Schema):
    """What ``invoke`` takes in its body."""

    name = _Name(required=True)
    arguments = _Arguments(required=True)


_list_query = ListQuery(unknown=marshmallow.EXCLUDE)
_describe_query = DescribeQuery(unknown=marshmallow.EXCLUDE)
_invoke_body = InvokeBody(unknown=marshmallow.EXCLUDE)


def list_tools(core: Core, caller: Caller) -> Response:
    core.require_discovery(caller)
    query = _load(_list_query, _first_values())
    offset = decode_cursor(query["cursor"]) if "cursor" in query else 0
    page = core.catalogue.listing_for(caller).page(FACE, offset, setting("PAGE_SIZE"), _spell_page)
    return page_response(page, core, caller, setting("LIST_MAX_AGE"))


def describe_tool(core: Core, caller: Caller) -> Response:
    core.require_discovery(caller)
    name = _load(_describe_query, _first_values())["name"]
    tool = core.catalogue.find(name, caller)
    described = {**tool.descriptor, "outputSchema": tool.descriptor.get("outputSchema", {})}
    # Whoever sees a tool has all of its permissions, so they learn nothing that they may not know.
    access = {"access": sorted(tool.access)} if tool.access else {}
    page = make_page(write({"tool": described, **access}))
    return page_response(page, core, caller, setting("LIST_MAX_AGE"))


def invoke_tool(core: Core, caller: Caller) -> Response:
    body = _load(_invoke_body, read_json_body())
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


def _load(schema: marshmallow.Schema, source: Any) -> Mapping[str, Any]:
    try:
        loaded: Mapping[str, Any] = schema.load(source)
    except marshmallow.ValidationError as error:
        # The first in declared order; "_schema" when the source is no object at all.
        wrong = next((name for name in schema.fields if name in error.messages), next(iter(schema.fields)))
        raise MissingParameter(wrong) from error
    return loaded


def _spell_page(tools: tuple[Method, ...], next_cursor: str | None) -> Page:
    listed = b",".join(tool.descriptor_json for tool in tools)
    return make_page(b'{"tools":[' + listed + b'],"nextCursor":' + write(next_cursor) + b"}")
