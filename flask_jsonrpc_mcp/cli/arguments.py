"""``key=value`` on the command line, typed by the schema of the method.

A text becomes what the schema wants of it. Where it cannot, it stays a text: the schema is what refuses it then, with
the path and together with everything else that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ..errors import ParseError
from ..strict_json import read

BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}

_DEFINITIONS = "#/$defs/"
_MAX_REFERENCES = 10


def read_arguments(pairs: Iterable[str], whole: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make the arguments of a call.

    :param pairs: ``key=value``, ``key.inner=value``.
    :param whole: All arguments as one JSON object; pairs are added to it.
    :raises click.UsageError: for what is neither.
    """
    arguments = {} if whole is None else _read_object(whole)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{pair!r} is no argument; write key=value, or all of them as --json '{{...}}'")
        _put(arguments, key, text, schema)
    return arguments


def read_value(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """Make of a text what a schema wants, if that can be."""
    return _typed(text, _types(schema, root))


def unread(arguments: Any, schema: Any, root: Mapping[str, Any], key: str = "") -> list[str]:
    """List the keys whose value is still a text where the schema wants an array or an object."""
    if isinstance(arguments, str):
        wanted = _types(schema, root)
        return [key] if wanted and wanted <= {"array", "object", "null"} else []
    if not isinstance(arguments, dict):
        return []
    found = (unread(value, _member(schema, name, root), root, name) for name, value in arguments.items())
    return [name for names in found for name in names]


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = read(text)
    except ParseError as error:
        raise click.UsageError(f"--json is not valid JSON: {_quoted(text)}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"--json must be an object with the arguments by name, not {_quoted(text)}")
    return value


def _quoted(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"


def _put(arguments: dict[str, Any], key: str, text: str, root: Mapping[str, Any]) -> None:
    """Set an argument; dots lead into objects, unless they are part of the name itself."""
    schema: Any = root
    steps = [key] if key in root.get("properties", {}) else key.split(".")
    for step in steps[:-1]:
        inner = arguments.setdefault(step, {})
        if not isinstance(inner, dict):
            raise click.UsageError(f"{key}: {step} is given twice, as a value and as an object")
        arguments, schema = inner, _member(schema, step, root)
    if steps[-1] in arguments:
        raise click.UsageError(f"{key} is given twice; write an array as JSON: {key}='[1, 2]'")
    arguments[steps[-1]] = read_value(text, _member(schema, steps[-1], root), root)


def _typed(text: str, types: frozenset[str]) -> Any:
    value = _as_json(text)
    if not types:
        return value
    if isinstance(value, str):
        value = text  # quotes are part of a text, where it can only be one
    if _type_of(value) in types:
        return value
    if "boolean" in types and text.lower() in BOOLEANS:
        return BOOLEANS[text.lower()]
    # A number that is none of the right kind is refused as a number.
    return value if types & {"integer", "number"} and _type_of(value) in ("integer", "number") else text


def _as_json(text: str) -> Any:
    try:
        return read(text)
    except ParseError:
        return text


def _member(schema: Any, name: str, root: Mapping[str, Any]) -> Any:
    """Find the schema of a member of an object, in the first alternative that has one."""
    for alternative in _alternatives(schema, root):
        properties = alternative.get("properties", {})
        if name in properties:
            return properties[name]
    return {}


def _types(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Name the types that a schema takes; nothing when it takes any, or does not say."""
    types: set[str] = set()
    for alternative in _alternatives(schema, root):
        named = alternative.get("type", [])
        types.update([named] if isinstance(named, str) else named)
        choices = [*alternative.get("enum", ()), *([alternative["const"]] if "const" in alternative else [])]
        if not named:
            types.update(map(_type_of, choices))
    return frozenset(types)


def _type_of(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _alternatives(schema: Any, root: Mapping[str, Any], left: int = _MAX_REFERENCES) -> list[Mapping[str, Any]]:
    """List a schema and all that stand in it as alternatives or behind references."""
    if not isinstance(schema, Mapping) or left == 0:
        return []
    found = [schema]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        name = reference.removeprefix(_DEFINITIONS)
        found += _alternatives(root.get("$defs", {}).get(name), root, left - 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for alternative in schema.get(keyword, ()):
            found += _alternatives(alternative, root, left - 1)
    return found
