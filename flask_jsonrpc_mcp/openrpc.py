"""What a caller may call, as an OpenRPC document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .methods import Method

OPENRPC_VERSION = "1.3.2"
DISCOVER = "rpc.discover"

_COMPONENTS = "#/components/schemas/"


def openrpc_document(methods: Iterable[Method], *, info: Mapping[str, str], url: str) -> dict[str, Any]:
    """Describe methods.

    :param info: Title and version of the service, and what it is for.
    :param url: Where they are called.
    """
    components: dict[str, Any] = {}
    described = [_describe(method, components) for method in methods]
    document: dict[str, Any] = {
        "openrpc": OPENRPC_VERSION,
        "info": dict(info),
        "servers": [{"name": info["title"], "url": url}],
        "methods": described,
    }
    if components:
        document["components"] = {"schemas": components}
    return document


def _describe(method: Method, components: dict[str, Any]) -> dict[str, Any]:
    # A colon is in no method's name, so these names are nobody else's.
    schema = _moved(method.params.schema, f"{method.name}:params", components)
    result = {} if method.output is None else _moved(method.output.schema, f"{method.name}:result", components)
    required = schema.get("required", ())
    described: dict[str, Any] = {"name": method.name}
    if method.tool is not None and method.tool.title is not None:
        described["summary"] = method.tool.title
    described["description"] = method.description
    described["params"] = [_param(name, rules, name in required) for name, rules in schema["properties"].items()]
    described["result"] = {"name": "result", "schema": result}
    return described


def _param(name: str, rules: Any, required: bool) -> dict[str, Any]:
    param: dict[str, Any] = {"name": name}
    if isinstance(rules, Mapping) and isinstance(rules.get("description"), str):
        param["description"] = rules["description"]
    return {**param, "required": required, "schema": rules}


def _moved(schema: dict[str, Any], name: str, components: dict[str, Any]) -> dict[str, Any]:
    """Make a schema with references a component: in OpenRPC they start at the document, not at the schema."""
    if not _has_references(schema):
        return schema
    moved: dict[str, Any] = _readdressed(schema, _COMPONENTS + name)
    components[name] = moved
    return moved


def _has_references(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "$ref" in value or any(_has_references(inner) for inner in value.values())
    return isinstance(value, list) and any(_has_references(inner) for inner in value)


def _readdressed(value: Any, address: str) -> Any:
    if isinstance(value, list):
        return [_readdressed(item, address) for item in value]
    if not isinstance(value, Mapping):
        return value
    moved = {name: _readdressed(item, address) for name, item in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = address + reference[1:]
    return moved
