"""Make tools of the operations of an OpenAPI document, or of one endpoint of the URL map."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from flask import Flask
from werkzeug.routing import AnyConverter, BaseConverter, FloatConverter, IntegerConverter, Rule, UUIDConverter

from ..call import running_call
from ..checks import checked_name
from ..method import HINT_OPTIONS
from ..schema.shape import SchemaSpec, read_classes
from ..schema.types import HintConverter
from ..schema.walk import object_schema
from ..strict_json import to_plain
from .api_arguments import Arguments, Body, Parameter, read_arguments
from .endpoint import Endpoint, RuleVariable, path_of, variables_of
from .operations import METHODS, Include, Operation, choose, read_operations
from .responses import result_of

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


def endpoint_of(func: Callable[..., Any]) -> Endpoint | None:
    """Return the endpoint that a tool calls; ``None`` for any other tool."""
    found: Endpoint | None = getattr(func, ENDPOINT, None)
    return found


def _make_function(operation: Operation, endpoint: Endpoint, arguments: Arguments) -> Callable[..., Any]:
    headers = list(_declared_headers(operation))

    def call_endpoint(**given: Any) -> Any:
        call = running_call.get()
        return result_of(endpoint.call(arguments, given, call), call.caller, headers)

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


# From the URL map


def read_params(name: str, params: SchemaSpec | None) -> Mapping[str, Any]:
    """Read the schema of the query string, or of the JSON body of POST, PUT and PATCH.

    :raises TypeError: if it does not describe an object, naming the tool.
    """
    if params is None:
        return {}
    declared = read_classes(params)
    if declared is None and not isinstance(params, Mapping):
        raise TypeError(f"{name}: params must be a JSON Schema dict, a marshmallow schema or a pydantic model")
    schema: Mapping[str, Any] = to_plain(params) if declared is None else declared.schema
    if schema.get("type", "object") != "object" or "$ref" in schema:
        raise TypeError(f"{name}: params must describe an object")
    return schema


def tool_from_view(
    app: Flask, name: str, endpoint: str, method: str | None, params: Mapping[str, Any]
) -> OperationTool:
    """Make a tool of an endpoint of the app.

    :param params: What `read_params` has read.
    :raises LookupError, ValueError: naming the endpoint and the fix.
    """
    rule, method = _find_rule(app, endpoint, method)
    view = app.view_functions[endpoint]
    view = getattr(getattr(view, "view_class", None), method.lower(), view)  # of a class: its method
    properties = {each.name: _schema_of(each, view) for each in variables_of(rule)}
    parameters = {name: Parameter(name, "path") for name in properties}
    required = list(properties)
    body = None
    members = params.get("properties", {})
    properties.update(members)
    required += [name for name in params.get("required", ()) if name not in required]
    others = [name for name in members if name not in parameters]
    if method in ("GET", "DELETE"):
        parameters.update({name: Parameter(name, "query") for name in others})
    elif others:
        body = Body("application/json", {name: name for name in others})
    definitions = {name: params[name] for name in ("$defs", "definitions") if name in params}
    schema = {**object_schema(properties, required, closed=True), **definitions}
    operation = Operation(id=endpoint, method=method, path=path_of(rule), description=inspect.getdoc(view) or "")
    return make_tool(operation, name=name, arguments=Arguments(schema, parameters, body), endpoint=endpoint)


def _find_rule(app: Flask, endpoint: str, method: str | None) -> tuple[Rule, str]:
    if endpoint not in app.view_functions:
        close = get_close_matches(endpoint, app.view_functions, n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else "flask routes lists them"
        raise LookupError(f"add_view: the app has no endpoint {endpoint!r} ({hint})")
    rules = list(app.url_map.iter_rules(endpoint))
    taken = sorted({verb for rule in rules for verb in rule.methods or () if verb.lower() in METHODS})
    if method is None and len(taken) > 1:
        raise ValueError(f"add_view: endpoint {endpoint!r} takes {', '.join(taken)}; choose one with method=")
    chosen = (method or "".join(taken)).upper()
    rule = next((rule for rule in rules if chosen in (rule.methods or ())), None)
    if rule is None:
        known = ", ".join(taken) or "nothing"
        raise LookupError(f"add_view: endpoint {endpoint!r} does not take {chosen} (it takes {known})")
    return rule, chosen


def _schema_of(variable: RuleVariable, view: Callable[..., Any]) -> dict[str, Any]:
    """Describe a variable of the path by the hint of the view, or else by its converter."""
    if isinstance(variable.converter, AnyConverter):
        return {"type": "string", "enum": list(variable.options)}
    try:
        hint = typing.get_type_hints(view, include_extras=True).get(variable.name)
        hinted = {} if hint is None else HintConverter().convert(hint).schema
    except (TypeError, NameError):
        hinted = {}
    return {**_schema_of_converter(variable.converter), **hinted}


def _schema_of_converter(converter: BaseConverter) -> dict[str, Any]:
    if isinstance(converter, UUIDConverter):
        return {"type": "string", "format": "uuid"}
    if not isinstance(converter, (IntegerConverter, FloatConverter)):
        return {"type": "string"}
    schema: dict[str, Any] = {"type": "integer" if isinstance(converter, IntegerConverter) else "number"}
    minimum = converter.min if converter.signed else max(converter.min or 0, 0)
    limits = {"minimum": minimum, "maximum": converter.max}
    return {**schema, **{name: limit for name, limit in limits.items() if limit is not None}}
