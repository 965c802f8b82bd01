"""JSON Schemas in a few words, for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MAX_CHOICES = 8


def spell_type(schema: Any, *, deep: bool = False) -> str:
    """Say in a word or two what a schema takes.

    :param deep: Name the members of objects too.
    """
    if not isinstance(schema, dict):
        return "anything"
    if "enum" in schema:
        choices = [json.dumps(choice, ensure_ascii=False) for choice in schema["enum"]]
        return " | ".join(choices if len(choices) <= MAX_CHOICES else [*choices[:MAX_CHOICES], "…"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return " | ".join(dict.fromkeys(spell_type(alternative, deep=deep) for alternative in alternatives))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " | ".join(kind)
    if kind == "array":
        return f"array of {spell_type(schema.get('items'), deep=deep)}"
    if kind == "object" and deep and schema.get("properties"):
        return f"object with {', '.join(schema['properties'])}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def spell_notes(schema: Any) -> str:
    """Say what else holds for a value: its bounds, and what it is when left out."""
    return "; ".join(_notes(schema)) if isinstance(schema, dict) else ""


def _notes(schema: dict[str, Any]) -> Iterator[str]:
    rules = dict(schema)
    for alternative in schema.get("anyOf", ()):
        rules.update(alternative if isinstance(alternative, dict) else {})
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        low, high = rules.get(least), rules.get(most)
        if low is not None and high is not None:
            yield f"{low} to {high}{unit}"
        elif low is not None:
            yield f"at least {low}{unit}"
        elif high is not None:
            yield f"at most {high}{unit}"
    if "default" in rules:
        yield f"default {json.dumps(rules['default'], ensure_ascii=False)}"
