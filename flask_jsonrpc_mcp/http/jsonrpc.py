"""The JSON-RPC face: ``/jsonrpc`` for every method, by POST or GET. `rest` uses `Exchange` for ``/mcp/tools/<name>``.

GET requests can be linked to, prefetched and cached, so by default they run only methods marked as read-only.

A batch holds the thread of its HTTP request for all of its calls. So its time and its size are limited, and it stops if
its client disconnects. MCP clients of 2025-03-26 send batches too.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from flask import Request, Response, current_app, request

from ..auth import Caller
from ..call import Call, Detach, Result
from ..config import GET_NONE, GET_READ_ONLY, server_name
from ..envelope import Handler, Prepared, RpcRequest, RpcResponse, answer_one
from ..errors import InvalidRequest, MethodNotFound, Overloaded, RpcError, VerbNotAllowed
from ..failures import as_rpc_error
from ..invoke import invoke
from ..method import Method
from ..registry import Listing, Registry
from ..schema.walk import has_references, replace_references
from ..strict_json import write
from ..task_options import TASKS_EXTENSION
from .io import (
    client_socket,
    error_response,
    face_of,
    json_response,
    make_page,
    no_content,
    page_response,
    read_json_body,
    read_json_query,
)
from .preferences import NO_PREFERENCES, Preferences, may_detach, read_preferences
from .routes import Route, own_url

FACE = "jsonrpc"
# The last two are older media types of JSON-RPC over HTTP. An HTML form can send none of them.
MIMETYPES = ("application/json", "application/json-rpc", "application/jsonrequest")

DISCOVER = "rpc.discover"
TASKS_PREFIX = "rpc.tasks."
TASKS_CANCEL = "rpc.tasks.cancel"
OPENRPC_VERSION = "1.3.2"

CHECK_CLIENT_AFTER = 1.0
"""Seconds before a batch checks whether its client has disconnected. A client that closes only its sending side gets
all responses of a shorter batch."""


def post(request: Request, registry: Registry, caller: Caller) -> Response:
    return Exchange(request, registry, caller).respond(read_json_body(request, MIMETYPES))


def get(request: Request, registry: Registry, caller: Caller) -> Response:
    check_get()
    return Exchange(request, registry, caller, by_get=True).respond(read_json_query(request))


def check_get() -> None:
    """Check that GET may run methods at all.

    :raises VerbNotAllowed: if the setting forbids it.
    """
    if current_app.config["JSONRPC_MCP_GET_METHODS"] == GET_NONE:
        raise VerbNotAllowed(["POST"])


def get_only_reads() -> bool:
    """Whether GET may run only methods that are marked as read-only."""
    return bool(current_app.config["JSONRPC_MCP_GET_METHODS"] == GET_READ_ONLY)


def rpc_error(error: RpcError) -> Response:
    """Respond with an error without an id, because no JSON-RPC request was read."""
    return _failure(RpcResponse(None, error=error), error)


@dataclass
class Exchange:
    """One HTTP request with JSON-RPC.

    :param tool: The tool of ``/mcp/tools/<name>``; ``None`` for ``/jsonrpc``.
    :param preferences: Whether its caller prefers a task. A batch has none, because its calls would differ.
    :param handle: The `Handle` of the task that its call has become.
    """

    request: Request
    registry: Registry
    caller: Caller
    tool: str | None = None
    by_get: bool = False
    refusals: list[RpcError] = field(default_factory=list)
    preferences: Preferences = NO_PREFERENCES
    handle: Any = None

    def respond(self, payload: Any) -> Response:
        if isinstance(payload, list) and self.tool is None:
            body = answer_batch(payload, self._call)
            return self._no_reply() if body is None else json_response(body)
        if TASKS_EXTENSION in self.registry.extensions and not self.by_get:
            self.preferences = read_preferences(self.request)
        reply = answer_one(payload, self._call)
        if reply is None:
            return self._no_reply()
        if self.handle is not None:
            return self._with_handle(reply)
        if reply.error is not None:
            return _failure(reply, reply.error, at_tool=self.tool is not None)
        method = self.registry.methods.get(payload["method"]) if self.by_get else None
        if method is not None and method.max_age is not None:
            return page_response(self.request, make_page(reply.to_bytes()), self.registry, self.caller, method.max_age)
        return json_response(reply.to_bytes())

    def _with_handle(self, reply: RpcResponse) -> Response:
        if reply.error is not None:
            response = _failure(reply, reply.error, at_tool=self.tool is not None)
        else:
            response = json_response(reply.to_bytes(), 200 if self.handle.has_outcome else 202)
        added: Response = self.handle.add_headers(response)
        return added

    def _no_reply(self) -> Response:
        """Respond to notifications, which have no JSON-RPC response. The HTTP request may still be refused."""
        if not self.refusals:
            return no_content()
        refusal = self.refusals[0]
        return _failure(RpcResponse(None, error=refusal), refusal, at_tool=self.tool is not None)

    def _call(self, message: RpcRequest) -> Any:
        try:
            if self.tool is None and message.method == DISCOVER:
                return invoke(Call(DISCOVER, message.params, self.caller, FACE), self.registry, self._discover).value
            has_tasks = TASKS_EXTENSION in self.registry.extensions
            if has_tasks and self.tool is None and message.method.startswith(TASKS_PREFIX):
                if self.by_get and get_only_reads() and message.method == TASKS_CANCEL:
                    raise VerbNotAllowed(["POST"])
                return _task_views().call_built_in(
                    message.method, message.params, self.request, self.registry, self.caller
                )
            if self.tool is not None and message.method != self.tool:
                raise InvalidRequest("The method of the request is not the tool of the URL")
            call = Call(
                message.method,
                message.params,
                self.caller,
                face_of(self.request, FACE),
                listed_only=self.tool is not None,
                read_only=self.by_get and get_only_reads(),
                detachable=has_tasks
                and not self.by_get
                and may_detach(message.method, self.registry, self.preferences),
            )
            return invoke(call, self.registry).plain
        except Detach as detached:
            return self._start_task(detached.call)
        except RpcError as error:
            if isinstance(error, InvalidRequest) or (self.tool is not None and isinstance(error, MethodNotFound)):
                self.refusals.append(error)
            raise

    def _start_task(self, call: Call) -> Any:
        """Return the handle of a task, or the result if it is there in time."""
        try:
            self.handle = _task_views().Handle(self.request, self.registry, call, self.preferences)
        except Exception as error:  # a function of @rpc.carry may raise anything; the other calls of a batch go on
            raise as_rpc_error(error, call, None, self.registry.error_handlers) from error.__cause__
        return self.handle.outcome if self.handle.has_outcome else self.handle.describe()

    def _discover(self) -> Result:
        self.registry.auth.require_discovery(self.caller)
        return Result(_openrpc_document(self.registry.methods.listing_for(self.caller)))


def _task_views() -> Any:
    from . import task_views  # SQLAlchemy is an extra

    return task_views


def _failure(reply: RpcResponse, error: RpcError, *, at_tool: bool = False) -> Response:
    # /mcp/tools/<name> is 404 for an unknown tool; /jsonrpc answers -32601 with 200.
    status = error.status if at_tool and isinstance(error, MethodNotFound) else error.rpc_status
    return error_response(reply.to_json(), error, status)


ROUTES = (Route("/jsonrpc", "jsonrpc", {"GET": get, "POST": post}, rpc_error),)


def answer_batch(
    items: list[Any],
    handler: Handler,
    answer: Callable[[Any, Handler], RpcResponse | None] = answer_one,
    *,
    omit_null_id: bool = False,
) -> bytes | None:
    """Answer requests one after the other, and serialise the responses; ``None`` if there are none.

    A request that runs is not interrupted. But once the batch has exceeded its time or size, or its client has left,
    the remaining requests are not run, and are answered with an error.

    :param answer: Answers one item with a handler.
    :raises InvalidRequest: if the batch is empty or too long.
    """
    if not 0 < len(items) <= current_app.config["JSONRPC_MCP_MAX_BATCH"]:
        raise InvalidRequest()
    started, size, reason = time.monotonic(), 0, ""
    bodies = []
    for number, item in enumerate(items):
        if not reason and (reason := _reason_to_stop(time.monotonic() - started, size)):
            handler = _refuse_because(reason)
            facts = {"answered": number, "requests": len(items), "reason": reason}
            text = "batch stopped after %(answered)d of %(requests)d requests: %(reason)s"
            current_app.logger.warning(text, facts, extra=facts)
        response = answer(item, handler)
        if response is not None:
            bodies.append(response.to_bytes(omit_null_id=omit_null_id))
            size += len(bodies[-1])
    return b"[" + b",".join(bodies) + b"]" if bodies else None


def _reason_to_stop(seconds: float, size: int) -> str:
    max_seconds = current_app.config["JSONRPC_MCP_BATCH_TIMEOUT"]
    max_bytes = current_app.config["JSONRPC_MCP_MAX_BATCH_BYTES"]
    if seconds >= max_seconds:
        return f"the batch has taken more than {max_seconds} seconds"
    if size >= max_bytes:
        return f"the responses of the batch have more than {max_bytes} bytes"
    if seconds >= CHECK_CLIENT_AFTER and _client_has_left():
        return "the client has closed the connection"
    return ""


def _refuse_because(reason: str) -> Handler:
    def refuse(message: RpcRequest) -> NoReturn:
        raise Overloaded(f"Not run: {reason}")

    return refuse


def _client_has_left() -> bool:
    """Return whether the client has closed the connection; false if the server does not expose its socket."""
    connection = client_socket(request.environ)
    if connection is None:
        return False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            # A closed connection is readable, and so are bytes of the next request, which must stay in the buffer.
            return bool(selector.select(0)) and not connection.recv(1, socket.MSG_PEEK)
    except ValueError:
        return False  # TLS cannot peek
    except OSError:
        return True  # reset


def _openrpc_document(listing: Listing[Method]) -> Prepared:
    """Describe methods as an OpenRPC document, the result of ``rpc.discover``."""
    config = current_app.config
    info = {"title": server_name(current_app), "version": config["JSONRPC_MCP_SERVER_VERSION"]}
    if config["JSONRPC_MCP_INSTRUCTIONS"]:
        info["description"] = config["JSONRPC_MCP_INSTRUCTIONS"]
    servers = [{"name": info["title"], "url": own_url("jsonrpc", external=True)}]
    head = write({"openrpc": OPENRPC_VERSION, "info": info, "servers": servers})
    # The list of methods is large, so it is cached as JSON. Its members follow those of the head.
    return Prepared(head[:-1] + b"," + listing.document(_describe_all)[1:])


def _describe_all(methods: Iterable[Method]) -> bytes:
    components: dict[str, Any] = {}
    described: dict[str, Any] = {"methods": [_describe(method, components) for method in methods]}
    if components:
        described["components"] = {"schemas": components}
    return write(described)


def _describe(method: Method, components: dict[str, Any]) -> dict[str, Any]:
    # A method's name has no colon, so these component names are unique.
    schema = _as_component(method.params.schema, f"{method.name}:params", components)
    result = {} if method.output is None else _as_component(method.output.schema, f"{method.name}:result", components)
    described: dict[str, Any] = {"name": method.name}
    if method.tool is not None and method.tool.title is not None:
        described["summary"] = method.tool.title
    described["description"] = method.description
    required = schema.get("required", ())
    described["params"] = [_param(name, rules, name in required) for name, rules in schema["properties"].items()]
    described["result"] = {"name": "result", "schema": result}
    return described


def _param(name: str, rules: Any, required: bool) -> dict[str, Any]:
    param: dict[str, Any] = {"name": name}
    if isinstance(rules, Mapping) and isinstance(rules.get("description"), str):
        param["description"] = rules["description"]
    return {**param, "required": required, "schema": rules}


def _as_component(schema: dict[str, Any], name: str, components: dict[str, Any]) -> dict[str, Any]:
    """Move a schema with references to ``components``: in OpenRPC, ``#`` is the whole document."""
    if not has_references(schema):
        return schema
    components[name] = replace_references(schema, f"#/components/schemas/{name}")
    moved: dict[str, Any] = components[name]
    return moved
