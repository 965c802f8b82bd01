"""Arguments that arrive as text whatever they are: those of prompts, and what a URI says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import strict_json
from ..errors import ParseError


def read_texts(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Turn texts into the numbers, booleans, lists and objects that a schema of arguments asks for.

    A text that is none of these stays as it is, for the schema to refuse.
    """
    properties, definitions = schema["properties"], schema.get("$defs", {})
    return {
        name: _read(text) if isinstance(text, str) and not _takes_text(properties.get(name), definitions) else text
        for name, text in arguments.items()
    }


def _takes_text(rules: Any, definitions: Mapping[str, Any]) -> bool:
    """Tell whether a text may be meant as such."""
    if not isinstance(rules, Mapping):
        return True
    if "$ref" in rules:
        return _takes_text(definitions.get(str(rules["$ref"]).removeprefix("#/$defs/")), definitions)
    if "enum" in rules:
        return any(isinstance(choice, str) for choice in rules["enum"])
    if "const" in rules:
        return isinstance(rules["const"], str)
    if "type" in rules:
        kinds = rules["type"]
        return "string" in ([kinds] if isinstance(kinds, str) else kinds)
    choices = rules.get("anyOf") or rules.get("oneOf")
    return choices is None or any(_takes_text(choice, definitions) for choice in choices)


def _read(text: str) -> Any:
    try:
        return strict_json.read(text)
    except ParseError:
        return text
