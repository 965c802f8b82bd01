"""The REST face, for curl: list, describe and invoke tools under ``/mcp/tools/``, and tasks under ``/mcp/tasks``."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Request, Response, current_app

from ..auth import Caller
from ..call import Call, Detach
from ..errors import MissingParameter, NoSuchPath, RpcError
from ..invoke import invoke
from ..method import Method
from ..registry import Page, Registry, decode_cursor
from ..strict_json import write
from ..task_options import TASKS_EXTENSION
from .io import face_of, first_values, json_response, make_page, page_response, read_json_body, rest_error, tool_error
from .preferences import NO_PREFERENCES, may_detach, read_preferences
from .routes import ANY_VERB, Route, View

FACE = "rest"

T = TypeVar("T")


def list_tools(request: Request, registry: Registry, caller: Caller) -> Response:
    registry.auth.require_discovery(caller)
    query = first_values(request)
    offset = decode_cursor(query["cursor"]) if "cursor" in query else 0
    listing = registry.methods.listing_for(caller)
    page = listing.page(FACE, offset, current_app.config["JSONRPC_MCP_PAGE_SIZE"], _make_page)
    response = page_response(request, page, registry, caller, current_app.config["JSONRPC_MCP_LIST_MAX_AGE"])
    if listing.is_lazy:
        response.vary.add("Accept-Language")
    return response


def describe_tool(request: Request, registry: Registry, caller: Caller) -> Response:
    registry.auth.require_discovery(caller)
    tool = registry.methods.find(_required(first_values(request), "name", str), caller)
    document: dict[str, Any] = {"tool": {**tool.descriptor, "outputSchema": tool.descriptor.get("outputSchema", {})}}
    if tool.access:
        # A caller sees a tool only with all of these permissions, so this reveals nothing.
        document["access"] = sorted(tool.access)
    page = make_page(write(document))
    response = page_response(request, page, registry, caller, current_app.config["JSONRPC_MCP_LIST_MAX_AGE"])
    if registry.methods.is_lazy:
        response.vary.add("Accept-Language")
    return response


def invoke_tool(request: Request, registry: Registry, caller: Caller) -> Response:
    body = read_json_body(request)
    name = _required(body, "name", str)
    # PHP clients send an empty list in place of an empty object.
    arguments = {} if body.get("arguments") == [] else _required(body, "arguments", dict)
    preferences = read_preferences(request) if TASKS_EXTENSION in registry.extensions else None
    detachable = preferences is not None and may_detach(name, registry, preferences)
    try:
        result = invoke(Call(name, arguments, caller, face_of(request, FACE), detachable=detachable), registry)
    except Detach as detached:
        from .task_views import start_task  # SQLAlchemy is an extra

        return start_task(request, registry, detached.call, preferences or NO_PREFERENCES)
    except RpcError as error:
        return tool_error(error)
    return json_response({"result": result.plain})


def task_view(name: str) -> View:
    """Return a view of tasks, which are imported only for a blueprint with a tool that has ``task=``."""

    def view(request: Request, registry: Registry, caller: Caller, **variables: Any) -> Response:
        if TASKS_EXTENSION not in registry.extensions:
            raise NoSuchPath()
        from . import task_views  # SQLAlchemy is an extra

        response: Response = getattr(task_views, name)(request, registry, caller, **variables)
        return response

    return view


def not_found(request: Request, registry: Registry, caller: Caller, rest: str) -> Response:
    raise NoSuchPath()


TASK_VIEWS = {"GET": task_view("get_task"), "DELETE": task_view("cancel_task")}
ROUTES = (
    Route("/mcp/tools/list", "list_tools", {"GET": list_tools}, rest_error),
    Route("/mcp/tools/describe", "describe_tool", {"GET": describe_tool}, rest_error),
    Route("/mcp/tools/invoke", "invoke_tool", {"POST": invoke_tool}, rest_error),
    Route("/mcp/tasks", "list_tasks", {"GET": task_view("list_tasks")}, rest_error),
    Route(
        "/mcp/tasks/<task_id>", "task", {"GET": task_view("get_task"), "DELETE": task_view("cancel_task")}, rest_error
    ),
    Route("/mcp/<path:rest>", "nothing_here", {ANY_VERB: not_found}, rest_error),
)


def _required(source: Any, name: str, kind: type[T]) -> T:
    """Return a member of the query string or the body.

    :raises MissingParameter: if it is missing, empty or of another type.
    """
    value = source.get(name) if isinstance(source, dict) else None
    if not isinstance(value, kind) or value == "":
        raise MissingParameter(name)
    return value


def _make_page(tools: tuple[Method, ...], next_cursor: str | None) -> Page:
    return make_page(write({"tools": [tool.descriptor for tool in tools], "nextCursor": next_cursor}))
