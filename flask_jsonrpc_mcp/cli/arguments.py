"""Read the arguments of a call from the command line: ``key=value``, or JSON from an option, a file or stdin.

A value gets the type that the method's schema wants. If it cannot be read as that type it stays a text, and the
validator reports it with its path, together with everything else that is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import ParseError, one_line
from ..schema.walk import TYPES, resolve, type_name, types_of
from ..strict_json import read

F = TypeVar("F", bound=Callable[..., Any])

BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
NUMBERS = frozenset({"integer", "number"})
JSON_ONLY = frozenset({"array", "object", "null"})

_MAX_DEPTH = 10

_pairs_argument = click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
_json_option = click.option(
    "--json", "whole", metavar="JSON", help="All arguments as a JSON object; @FILE reads a file, - reads stdin."
)


def arguments_of_call(command: F) -> F:
    """Add ``KEY=VALUE...`` and ``--json``, the arguments of `read_arguments`."""
    return _pairs_argument(_json_option(command))


def read_arguments(pairs: Iterable[str], whole: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of a call.

    :param pairs: ``key=value``, or ``key.inner=value`` for a member of an object.
    :param whole: All arguments as a JSON object, ``@FILE`` or ``-`` for stdin; pairs are added to it.
    :raises click.UsageError: if one cannot be read.
    """
    arguments = {} if whole is None else _read_whole(whole)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{pair!r} is not an argument; write key=value, or all of them as --json '{{...}}'")
        _set(arguments, key, text, schema)
    return arguments


def likely_name(path: str, root: Mapping[str, Any]) -> str | None:
    """Return the argument that was probably meant, if the last part of a JSON Pointer is none that the schema has."""
    schema: Any = root
    *outer, name = path.split("/")[1:] or [""]
    for part in outer:
        schema = _member(schema, part, root)
    names = [known for alternative in _alternatives(schema, root) for known in alternative.get("properties", ())]
    return None if name in names else next(iter(get_close_matches(name, names, n=1)), None)


def _read_whole(option: str) -> dict[str, Any]:
    text = option
    try:
        if option == "-":
            text = sys.stdin.read()
        elif option.startswith("@"):
            text = Path(option[1:]).read_text("utf-8")
        value = read(text)
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--json {option} cannot be read: {error}") from error
    except ParseError as error:
        raise click.UsageError(f"--json is not valid JSON: {one_line(text, 60)}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"--json must be an object with the arguments by name, not {one_line(text, 60)}")
    return value


def _set(arguments: dict[str, Any], key: str, text: str, root: Mapping[str, Any]) -> None:
    """Set an argument; dots lead into objects, unless a property has that very name."""
    schema: Any = root
    *outer, last = [key] if key in root.get("properties", {}) else key.split(".")
    for name in outer:
        inner = arguments.setdefault(name, {})
        if not isinstance(inner, dict):
            raise click.UsageError(f"{key}: {name} is given twice, as a value and as an object")
        arguments, schema = inner, _member(schema, name, root)
    if last in arguments:
        raise click.UsageError(f"{key} is given twice; write an array as JSON: {key}='[1, 2]'")
    types = _types_of(_member(schema, last, root), root)
    try:
        arguments[last] = _read_value(text, types)
    except ParseError as error:
        example = '["..."]' if "array" in types else '{"...": "..."}'
        raise click.UsageError(f"{key} must be JSON, such as {key}='{example}'") from error


def _member(schema: Any, name: str, root: Mapping[str, Any]) -> Any:
    """Return the schema of an object's member, from the first alternative that has it."""
    members = (alternative.get("properties", {}) for alternative in _alternatives(schema, root))
    return next((properties[name] for properties in members if name in properties), {})


def _read_value(text: str, types: frozenset[str]) -> Any:
    """Read a text as one of the types, or as the text itself if it can be one.

    :raises ParseError: if it is not JSON, and every type is written as JSON.
    """
    is_json = bool(types) and types <= JSON_ONLY
    try:
        value = read(text)
    except ParseError:
        if is_json:
            raise
        value = text
    if is_json or not types:
        return value
    if isinstance(value, str):
        value = text  # a text is taken as typed, with its quotes
    name = type_name(value)
    # A number of the wrong kind stays a number, for a better message of the validator.
    if name in types or (name in NUMBERS and types & NUMBERS):
        return value
    return BOOLEANS.get(text.lower(), text) if "boolean" in types else text


def _types_of(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Name the JSON types that a schema accepts; empty if it accepts any, or does not say."""
    types = (types_of(alternative, root) for alternative in _alternatives(schema, root))
    return frozenset().union(*(named for named in types if named != TYPES))


def _alternatives(schema: Any, root: Mapping[str, Any], left: int = _MAX_DEPTH) -> list[Mapping[str, Any]]:
    """List a schema, its alternatives and what it refers to."""
    if not isinstance(schema, Mapping) or left == 0:
        return []
    inner = [alternative for keyword in ("anyOf", "oneOf", "allOf") for alternative in schema.get(keyword, ())]
    inner.append(resolve(root, schema.get("$ref")))
    return [schema, *(found for each in inner for found in _alternatives(each, root, left - 1))]
