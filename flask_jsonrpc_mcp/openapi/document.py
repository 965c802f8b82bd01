"""Describe tools as an OpenAPI 3.1 document: the plain endpoints ``/mcp/tools/<name>``, made with apispec."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from apispec import APISpec

from ..authentication import SignIn
from ..config import GET_ALL, GET_READ_ONLY
from ..method import Method
from ..schema.texts import repeated_items
from ..schema.walk import Schema, has_references, replace_references, types_of
from ..strict_json import write

OPENAPI_VERSION = "3.1.0"
JSON = "application/json"
ERROR = "Error"

_PROBLEM = {"type": "object", "properties": {"path": {"type": "string"}, "message": {"type": "string"}}}
_ERROR_SCHEMA = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {
                    "type": ["string", "integer"],
                    "description": "A word for programs; a number if the request could not be read at all",
                },
                "message": {"type": "string", "description": "What is wrong, for people"},
                "errors": {"type": "array", "items": _PROBLEM, "description": "Every problem of the arguments"},
                "data": {"description": "More about it, if the tool says more"},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
_INVALID = {
    "error": {
        "code": "invalid_arguments",
        "message": "Invalid arguments: /limit: must be at most 100",
        "errors": [{"path": "/limit", "message": "must be at most 100"}],
    }
}


def describe_tools(tools: Iterable[Method], sign_ins: Iterable[SignIn], get_methods: str) -> bytes:
    """Describe tools: the members ``paths``, ``components`` and ``tags`` of a document, as JSON.

    :param get_methods: The setting ``GET_METHODS``.
    """
    described = [tool for tool in tools if tool.tool is not None and not tool.tool.requires]
    spec = APISpec(title="", version="", openapi_version=OPENAPI_VERSION)
    spec.components.schema(ERROR, component=_ERROR_SCHEMA)
    schemes = {name: scheme for name, scheme in map(_security_scheme, sign_ins) if scheme}
    for name, scheme in schemes.items():
        spec.components.security_scheme(name, scheme)
    for tag in dict.fromkeys(map(_tag_of, described)):
        spec.tag({"name": tag})
    names = {tool.name for tool in described}
    for tool in described:
        operations = _operations(tool, spec, list(schemes))
        by_get = get_methods == GET_ALL or (get_methods == GET_READ_ONLY and tool.read_only)
        if by_get and not (tool.tool and tool.tool.task and tool.tool.task.required):  # a GET starts no task
            operations["get"] = _by_get(tool, operations["post"], names)
        spec.path(f"/tools/{tool.name}", operations=operations)
    made = spec.to_dict()
    return write({member: made[member] for member in ("tags", "paths", "components") if member in made})


def join_document(info: Mapping[str, Any], server: str, described: bytes) -> bytes:
    """Put the members that differ between apps before those of `describe_tools`."""
    head = write({"openapi": OPENAPI_VERSION, "info": info, "servers": [{"url": server}]})
    return head[:-1] + b"," + described[1:]


def _tag_of(tool: Method) -> str:
    """Tools are grouped by the part of their name before the last dot, as in a `ToolGroup`."""
    return tool.name.rpartition(".")[0] or "tools"


def _security_scheme(sign_in: SignIn) -> tuple[str, dict[str, Any] | None]:
    """Describe an authentication method; ``None`` if it has no header of its own."""
    scheme, header = sign_in.scheme or "", sign_in.header
    if header != "Authorization":
        return header, {"type": "apiKey", "in": "header", "name": header}
    if not scheme:
        return "", None
    note = {"description": f"An access token of {sign_in.issuer}"} if sign_in.issuer else {}
    return scheme.lower(), {"type": "http", "scheme": scheme.lower(), **note}


def _operations(tool: Method, spec: APISpec, schemes: list[str]) -> dict[str, Any]:
    arguments = _as_component(tool.params.schema, f"{tool.name}.arguments", spec)
    common: dict[str, Any] = {"tags": [_tag_of(tool)], "description": tool.description}
    if tool.tool is not None and tool.tool.title is not None:
        common["summary"] = tool.tool.title
    if schemes:
        anyone: list[dict[str, list[str]]] = [{}] if not tool.access and not tool.scopes else []
        common["security"] = [*anyone, *({name: sorted(tool.scopes)} for name in schemes)]
    common["responses"] = _responses(tool, spec, schemes)
    body = {"content": {JSON: {"schema": arguments}}, "required": True}
    return {"post": {"operationId": tool.name, **common, "requestBody": body}}


def _by_get(tool: Method, by_post: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Describe the same call with a query string. Its id must not be the name of another tool."""
    prefix = "get_"
    while prefix + tool.name in names:
        prefix += "_"
    common = {member: value for member, value in by_post.items() if member != "requestBody"}
    common["responses"] = {status: each for status, each in by_post["responses"].items() if status != "202"}
    arguments = by_post["requestBody"]["content"][JSON]["schema"]
    return {**common, "operationId": prefix + tool.name, "parameters": _parameters(tool, arguments)}


def _responses(tool: Method, spec: APISpec, schemes: list[str]) -> dict[str, Any]:
    output = {} if tool.output is None else _as_component(tool.output.schema, f"{tool.name}.result", spec)
    schema = {"type": "object", "properties": {"result": output}, "required": ["result"]}
    error = {"schema": {"$ref": f"#/components/schemas/{ERROR}"}}
    responses: dict[str, Any] = {
        "200": {"description": "The result of the tool", "content": {JSON: {"schema": schema}}},
    }
    if tool.tool is not None and tool.tool.task is not None:
        task = {"type": "object", "properties": {"task": {"type": "object"}}, "required": ["task"]}
        responses["202"] = {"description": "The task that runs the tool", "content": {JSON: {"schema": task}}}
    responses["400"] = {"description": "Invalid arguments", "content": {JSON: {**error, "example": _INVALID}}}
    if schemes:
        responses["401"] = {"description": "Sign in first", "content": {JSON: error}}
    return {**responses, "default": {"description": "The call has failed", "content": {JSON: error}}}


def _parameters(tool: Method, component: Schema) -> list[dict[str, Any]]:
    """Describe the arguments as parameters of a query string, as `read_query_arguments` reads them."""
    schema, parameters = tool.params.schema, []
    for name, rules in schema["properties"].items():
        parameter: dict[str, Any] = {"name": name, "in": "query"}
        if isinstance(rules, Mapping) and isinstance(rules.get("description"), str):
            parameter["description"] = rules["description"]
        if name in schema.get("required", ()):
            parameter["required"] = True
        shown = rules
        if isinstance(rules, Mapping) and has_references(rules):
            shown = {"$ref": f"{component['$ref']}/properties/{name.replace('~', '~0').replace('/', '~1')}"}
        shown = _without_null(shown)
        if "object" in types_of(rules, schema) or (
            "array" in types_of(rules, schema) and repeated_items(rules, schema) is None
        ):
            parameter["content"] = {JSON: {"schema": shown}}
        else:
            parameter["schema"] = shown
        parameters.append(parameter)
    return parameters


def _without_null(rules: Any) -> Any:
    """A query string has no null; an argument that may be null is left out instead."""
    if not isinstance(rules, Mapping):
        return rules
    kept = {key: value for key, value in rules.items() if (key, value) != ("default", None)}
    if isinstance(kept.get("type"), list) and "null" in kept["type"]:
        others = [each for each in kept["type"] if each != "null"]
        kept["type"] = others[0] if len(others) == 1 else others
    if isinstance(kept.get("enum"), list) and None in kept["enum"]:
        kept["enum"] = [each for each in kept["enum"] if each is not None]
    alternatives = [each for each in kept.get("anyOf", ()) if each != {"type": "null"}]
    if len(alternatives) == 1 and isinstance(alternatives[0], Mapping):
        return {**alternatives[0], **{key: value for key, value in kept.items() if key != "anyOf"}}
    return {**kept, "anyOf": alternatives} if "anyOf" in kept else kept


def _as_component(schema: dict[str, Any], name: str, spec: APISpec) -> dict[str, Any]:
    """Move a schema with references to ``components``, because ``#`` is the whole document here."""
    if not has_references(schema):
        return schema
    spec.components.schema(name, component=replace_references(schema, f"#/components/schemas/{name}"))
    return {"$ref": f"#/components/schemas/{name}"}
