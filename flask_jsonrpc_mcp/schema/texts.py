"""Parse arguments that arrive as text, in a query string, a URI or a prompt, as the JSON types of their schema.

A text that cannot be parsed stays as it is, and the validator rejects it with its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import strict_json
from ..errors import ParseError
from .walk import Schema, resolve, types_of


def read_texts(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the arguments of prompts and URIs."""
    properties = schema["properties"]
    return {
        name: read_text(properties.get(name), schema, value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def read_query_arguments(schema: Schema, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Parse the arguments of a query string. Only arrays of plain values may be repeated."""
    arguments: dict[str, Any] = {}
    for name, texts in query.items():
        rules = schema["properties"].get(name)
        items = repeated_items(rules, schema)
        if items is not None:
            arguments[name] = [read_text(items, schema, text) for text in texts]
        else:
            arguments[name] = read_text(rules, schema, texts[0]) if len(texts) == 1 else list(texts)
    return arguments


def repeated_items(rules: Any, root: Schema) -> Any:
    """Return the schema of the items if an argument is an array of plain values; ``None`` for any other.

    In a query string such an argument is repeated: ``tag=a&tag=b``. All others that are not text are JSON.
    """
    array = _array_in(rules, root)
    if array is None:
        return None
    items = array.get("items", {})
    return None if types_of(items, root) & {"array", "object"} else items


def _array_in(rules: Any, root: Schema) -> Schema | None:
    if not isinstance(rules, Mapping):
        return None
    if "$ref" in rules:
        rules = resolve(root, rules["$ref"])
        return rules if isinstance(rules, Mapping) and rules.get("type") == "array" else None
    if rules.get("type") in ("array", ["array", "null"], ["null", "array"]):
        return rules
    others = [each for each in rules.get("anyOf", ()) if each != {"type": "null"}]
    return _array_in(others[0], root) if len(others) == 1 else None


def read_text(rules: Any, root: Schema, text: str) -> Any:
    """Parse one text as JSON, unless its schema allows strings."""
    if "string" in types_of(rules, root):
        return text
    try:
        return strict_json.read(text)
    except ParseError:
        return text
