"""Make tools of the operations of an OpenAPI document, or of one endpoint of the app."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from flask import Flask

from ..call import running_call
from ..checks import checked_name
from ..method import HINT_OPTIONS
from .api_arguments import Arguments, read_arguments
from .endpoint import Endpoint
from .operations import Include, Operation, choose, read_operations
from .responses import result_of
from .views import read_view

Document: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""An OpenAPI 3 or Swagger 2 document, or a function that returns it."""

Naming: TypeAlias = str | Callable[[Operation], str] | None
"""What ``name=`` takes: a group, put before the ids with a dot, or a function that returns the whole name."""

Hints: TypeAlias = Mapping[str, Any] | Callable[[Operation], Mapping[str, Any]] | None
"""What ``annotations=`` takes: hints for all operations, or a function that returns those of one."""

_HINTS = {
    "GET": {"read_only": True},
    "PUT": {"destructive": True, "idempotent": True},
    "DELETE": {"destructive": True, "idempotent": True},
}

ENDPOINT = "__endpoint__"
"""The attribute of a tool's function with the endpoint that it calls."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class OperationTool:
    """A tool that calls an endpoint.

    :param options: The options of :meth:`.McpBlueprint.tool`.
    """

    name: str
    func: Callable[..., Any]
    options: dict[str, Any]
    operation: Operation
    arguments: Arguments


def tools_from_document(
    document: Mapping[str, Any], include: Include, name: Naming = None, annotations: Hints = None
) -> list[OperationTool]:
    """Make tools of the operations that ``include`` chooses.

    :raises TypeError, ValueError: naming the operation and the fix.
    """
    chosen = choose(read_operations(document), include)
    return [make_tool(operation, name=tool_name(operation, name), annotations=annotations) for operation in chosen]


def make_tool(
    operation: Operation,
    *,
    name: str,
    annotations: Hints = None,
    arguments: Arguments | None = None,
    endpoint: str | None = None,
) -> OperationTool:
    """Make a tool of an operation.

    :param arguments: Its arguments, if they are not in a document.
    :param endpoint: The name of its endpoint, if it is known.
    :raises ValueError: if it cannot be one, naming it.
    """
    try:
        arguments = arguments or read_arguments(operation)
    except ValueError as error:
        raise ValueError(f"operation {operation} cannot be a tool: {error}; leave it out of include") from error
    given = dict((annotations(operation) if callable(annotations) else annotations) or {})
    options: dict[str, Any] = {"params": arguments.schema, "description": _description_of(operation)}
    if operation.summary:
        options["title"] = operation.summary
    if given:
        options["annotations"] = given
    hints = {hint: value for hint, value in _HINTS.get(operation.method, {}).items() if HINT_OPTIONS[hint] not in given}
    function = _make_function(operation, Endpoint(operation.method, operation.paths, endpoint), arguments)
    return OperationTool(name, function, {**options, **hints}, operation, arguments)


def tool_from_view(
    app: Flask, name: str, endpoint: str, method: str | None, params: Mapping[str, Any]
) -> OperationTool:
    """Make a tool of an endpoint of the app.

    :param params: What `read_params` has read.
    :raises LookupError, ValueError: naming the endpoint and the fix.
    """
    operation, arguments = read_view(app, endpoint, method, params)
    return make_tool(operation, name=name, arguments=arguments, endpoint=endpoint)


def endpoint_of(func: Callable[..., Any]) -> Endpoint | None:
    """Return the endpoint that a tool calls; ``None`` for any other tool."""
    found: Endpoint | None = getattr(func, ENDPOINT, None)
    return found


def _make_function(operation: Operation, endpoint: Endpoint, arguments: Arguments) -> Callable[..., Any]:
    headers = list(_declared_headers(operation))

    def call_endpoint(**given: Any) -> Any:
        call = running_call.get()
        reply = endpoint.call(arguments, given, call)
        return result_of(reply, call.caller, reply.path, headers)

    call_endpoint.__name__ = call_endpoint.__qualname__ = operation.id
    setattr(call_endpoint, ENDPOINT, endpoint)
    return call_endpoint


def _declared_headers(operation: Operation) -> Iterable[str]:
    responses = operation.spec.get("responses")
    for response in responses.values() if isinstance(responses, Mapping) else ():
        headers = response.get("headers") if isinstance(response, Mapping) else None
        yield from headers if isinstance(headers, Mapping) else ()


def _description_of(operation: Operation) -> str:
    texts = dict.fromkeys(filter(None, [operation.summary, operation.description]))
    return "\n\n".join(texts) or f"{operation.method} {operation.path}"


def tool_name(operation: Operation, naming: Naming) -> str:
    """Return the name of the tool of an operation."""
    if callable(naming):
        return checked_name(None, naming(operation))
    own = _NOT_IN_NAMES.sub("_", operation.id).strip("_")
    return own if naming is None else f"{naming}.{own}"
