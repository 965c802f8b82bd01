"""Read an endpoint of the URL map as an operation: its variables, the hints of its view, and a schema for the rest."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from flask import Flask
from werkzeug.routing import AnyConverter, BaseConverter, FloatConverter, IntegerConverter, Rule, UUIDConverter

from ..schema.shape import SchemaSpec, read_classes
from ..schema.types import HintConverter
from ..schema.walk import object_schema
from ..strict_json import to_plain
from .api_arguments import Arguments, Body, Parameter
from .endpoint import RuleVariable, path_of, variables_of
from .operations import METHODS, Operation


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


def read_view(app: Flask, endpoint: str, method: str | None, params: Mapping[str, Any]) -> tuple[Operation, Arguments]:
    """Read an endpoint.

    :param params: What `read_params` has read.
    :raises LookupError: if there is no such endpoint, or it does not take ``method``.
    :raises ValueError: naming the endpoint and the fix.
    """
    rule, method = _find_rule(app, endpoint, method)
    view = _view_of(app.view_functions[endpoint], method)
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
    text = inspect.getdoc(view) or ""
    operation = Operation(id=endpoint, method=method, path=path_of(rule), description=text)
    return operation, Arguments(schema, parameters, body)


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


def _view_of(view: Callable[..., Any], method: str) -> Callable[..., Any]:
    """Return the function of a view for an HTTP method: that of its class, if it has one."""
    function: Callable[..., Any] = getattr(getattr(view, "view_class", None), method.lower(), view)
    return function


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
