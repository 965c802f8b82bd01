"""The REST face, for curl: list, describe and invoke tools under ``/mcp/tools/``, and tasks under ``/mcp/tasks``.

``/mcp/tools/<name>`` takes the arguments themselves, as a JSON object by POST or as a query string by GET. It also
takes a JSON-RPC request, which has the member ``jsonrpc``; `jsonrpc` answers that one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeVar

from flask import Request, Response, current_app, request

from ..auth import Caller
from ..call import Call, Detach
from ..config import server_name
from ..errors import MissingParameter, NoSuchPath, RpcError
from ..invoke import invoke
from ..method import Method
from ..registry import Page, Registry, decode_cursor
from ..schema.texts import read_query_arguments
from ..strict_json import write
from ..task_options import TASKS_EXTENSION
from . import jsonrpc
from .io import (
    call_error,
    face_of,
    first_values,
    json_response,
    make_page,
    page_response,
    read_json_body,
    read_json_query,
    read_query,
    rest_error,
)
from .preferences import NO_PREFERENCES, may_detach, read_preferences
from .routes import ANY_VERB, Route, View, own_url

FACE = "rest"
OPENAPI = "openapi_document"
"""The endpoint of the OpenAPI document."""

# The member "jsonrpc" in the parameter "query", percent-encoded or not.
_MESSAGE = re.compile(rb"(?:^|&)query=[^&]*(?:%22|\")jsonrpc(?:%22|\")")

T = TypeVar("T")


def list_tools(request: Request, registry: Registry, caller: Caller) -> Response:
    registry.auth.require_discovery(caller)
    query = first_values(request)
    offset = decode_cursor(query["cursor"]) if "cursor" in query else 0
    listing = registry.methods.listing_for(caller)
    page = listing.page(FACE, offset, current_app.config["JSONRPC_MCP_PAGE_SIZE"], _make_page)
    return _description(request, page, registry, caller)


def describe_tool(request: Request, registry: Registry, caller: Caller) -> Response:
    registry.auth.require_discovery(caller)
    tool = registry.methods.find(_required(first_values(request), "name", str), caller)
    document: dict[str, Any] = {"tool": {**tool.descriptor, "outputSchema": tool.descriptor.get("outputSchema", {})}}
    if tool.access:
        # A caller sees a tool only with all of these permissions, so this reveals nothing.
        document["access"] = sorted(tool.access)
    return _description(request, make_page(write(document)), registry, caller)


def openapi_document(request: Request, registry: Registry, caller: Caller) -> Response:
    """Describe the tools of this caller as an OpenAPI 3.1 document."""
    if not has_openapi():
        raise NoSuchPath("The OpenAPI document needs apispec: install flask-jsonrpc-mcp[openapi]")
    registry.auth.require_discovery(caller)
    return _description(request, make_page(make_document(registry, caller)), registry, caller)


def make_document(registry: Registry, caller: Caller) -> bytes:
    """Build the OpenAPI document; the part that describes the tools is cached like a page of the list."""
    from ..openapi.document import describe_tools, join_document  # imports apispec

    config, listing = current_app.config, registry.methods.listing_for(caller)
    get_methods = config["JSONRPC_MCP_GET_METHODS"]

    def describe(tools: tuple[Method, ...], next_cursor: str | None) -> Page:
        return Page(describe_tools(tools, registry.auth.sign_ins, get_methods))

    described = listing.page(f"openapi {get_methods}", 0, max(1, len(listing.methods)), describe)
    info = {"title": server_name(current_app), "version": config["JSONRPC_MCP_SERVER_VERSION"]}
    if config["JSONRPC_MCP_INSTRUCTIONS"]:
        info["description"] = str(config["JSONRPC_MCP_INSTRUCTIONS"])
    return join_document(info, own_url("mcp", external=True), described.body)


def has_openapi() -> bool:
    """Whether the package that the OpenAPI document needs is installed."""
    return find_spec("apispec") is not None


def invoke_tool(request: Request, registry: Registry, caller: Caller) -> Response:
    body = read_json_body(request)
    name = _required(body, "name", str)
    # PHP clients send an empty list in place of an empty object.
    arguments = {} if body.get("arguments") == [] else _required(body, "arguments", dict)
    return _run(Call(name, arguments, caller, face_of(request, FACE)), registry)


def post_tool(request: Request, registry: Registry, caller: Caller, name: str) -> Response:
    body = read_json_body(request, jsonrpc.MIMETYPES)
    if not _has_plain_arguments(body):
        return jsonrpc.Exchange(request, registry, caller, name).respond(body)
    return _run(Call(name, body, caller, face_of(request, FACE)), registry)


def get_tool(request: Request, registry: Registry, caller: Caller, name: str) -> Response:
    jsonrpc.check_get()
    if _has_message(request):
        return jsonrpc.Exchange(request, registry, caller, name, by_get=True).respond(read_json_query(request))
    tool = registry.methods.get(name)
    query = read_query(request)
    # Whether this caller may use the tool is decided by invoke(), before the arguments are looked at.
    arguments = {} if tool is None else read_query_arguments(tool.params.schema, query)
    call = Call(name, arguments, caller, face_of(request, FACE), read_only=jsonrpc.get_only_reads())
    response = _run(call, registry)
    if tool is None or tool.max_age is None or response.status_code != 200:
        return response
    return page_response(request, make_page(response.get_data()), registry, caller, tool.max_age)


def tool_error(error: RpcError) -> Response:
    """Respond in the format of the request: REST for plain arguments, else JSON-RPC."""
    if request.method == "POST":
        try:
            plain = _has_plain_arguments(read_json_body(request, jsonrpc.MIMETYPES))
        except RpcError:
            plain = False
    else:
        plain = request.method in ("GET", "HEAD") and not _has_message(request)
    return rest_error(error) if plain else jsonrpc.rpc_error(error)


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
    Route("/mcp/tasks/<task_id>", "task", TASK_VIEWS, rest_error),
    Route("/mcp/openapi.json", OPENAPI, {"GET": openapi_document}, rest_error),
    Route("/mcp/tools/<name>", "call_tool", {"GET": get_tool, "POST": post_tool}, tool_error),
    Route("/mcp/<path:rest>", "nothing_here", {ANY_VERB: not_found}, rest_error),
)


def _description(request: Request, page: Page, registry: Registry, caller: Caller) -> Response:
    """Respond with a page that describes tools."""
    response = page_response(request, page, registry, caller, current_app.config["JSONRPC_MCP_LIST_MAX_AGE"])
    if registry.methods.is_lazy:
        response.vary.add("Accept-Language")
    return response


def _run(call: Call, registry: Registry) -> Response:
    preferences = NO_PREFERENCES
    if TASKS_EXTENSION in registry.extensions and request.method == "POST":
        preferences = read_preferences(request)
        call = replace(call, detachable=may_detach(call.name, registry, preferences))
    try:
        result = invoke(call, registry)
    except Detach as detached:
        from .task_views import start_task  # SQLAlchemy is an extra

        return start_task(request, registry, detached.call, preferences)
    except RpcError as error:
        return call_error(error)
    return json_response({"result": result.plain})


def _has_plain_arguments(body: Any) -> bool:
    return isinstance(body, dict) and "jsonrpc" not in body


def _has_message(request: Request) -> bool:
    """Return whether ``?query=`` is a JSON-RPC request, valid or not; a tool may have an argument of this name, too."""
    return _MESSAGE.search(request.query_string) is not None


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
