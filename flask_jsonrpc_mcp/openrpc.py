"""What a caller may call, as an OpenRPC document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .methods import Method

OPENRPC_VERSION = "1.3.2"
DISCOVER = "rpc.discover"

_DEFINITIONS = "#/$defs/"
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
    schema = _hoisted(method.params.schema, method.name, components)
    required = schema.get("required", ())
    result = {} if method.output is None else _hoisted(method.output.schema, f"{method.name}.result", components)
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


def _hoisted(schema: Mapping[str, Any], prefix: str, components: dict[str, Any]) -> dict[str, Any]:
    """Move a schema's definitions to the components: in OpenRPC a reference starts at the document, not the schema."""

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
            value = {**value, "$ref": f"{_COMPONENTS}{prefix}.{reference.removeprefix(_DEFINITIONS)}"}
        return {name: moved(item) for name, item in value.items()}

    definitions = schema.get("$defs", {})
    components.update({f"{prefix}.{name}": moved(definition) for name, definition in definitions.items()})
    hoisted: dict[str, Any] = moved({name: value for name, value in schema.items() if name != "$defs"})
    return hoisted
