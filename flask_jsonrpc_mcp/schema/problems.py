"""Words for what is wrong with a value: short, with its path, and never repeating the value at length.

A message of jsonschema quotes the whole instance: 690 kB for a list of 100,000. Ours name the rule instead.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from ..errors import MAX_PROBLEMS, MAX_QUOTED, Problem, one_line

_BOUNDS: dict[str, str] = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "const": "must be {}",
    "enum": "must be one of {}",
    "pattern": "must match the pattern {}",
    "format": "must be a valid {}",
}
_TYPE_NAMES = {type(None): "null", bool: "boolean", str: "string", int: "integer", float: "number", list: "array"}


def find_problems(validator: Validator, value: Any) -> list[Problem]:
    """List what is wrong with a value, in the order in which the schema is written, up to a limit."""
    try:
        errors = validator.iter_errors(value)
        problems = itertools.chain.from_iterable(_problems_of(error) for error in errors)
        return list(itertools.islice(problems, MAX_PROBLEMS))
    except (RecursionError, OverflowError):
        # A rule such as multipleOf: 0.1 cannot be computed for every number JSON can spell.
        return [Problem("", "could not be checked against the schema")]


def from_marshmallow(messages: Any, path: str = "") -> list[Problem]:
    """Flatten the nested messages of a marshmallow ``ValidationError``."""
    if isinstance(messages, Mapping):
        inner = (
            from_marshmallow(nested, path if name == "_schema" else pointer(path, name))
            for name, nested in messages.items()
        )
        return list(itertools.chain.from_iterable(inner))
    texts = messages if isinstance(messages, list) else [messages]
    return [Problem(path, one_line(str(text), MAX_QUOTED)) for text in texts]


def pointer(base: str, *steps: object) -> str:
    """Extend a JSON Pointer."""
    escaped = (one_line(str(step), MAX_QUOTED).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([base, *(f"/{step}" for step in escaped)])


def _problems_of(error: jsonschema.ValidationError) -> Iterable[Problem]:
    path = pointer("", *error.absolute_path)
    if error.validator == "required":
        # Reported once per missing member; only the message says which one.
        names: list[str] = list(error.validator_value)  # type: ignore[arg-type]
        name = next(name for name in names if error.message.startswith(repr(name)))
        return [Problem(pointer(path, name), "is required")]
    if error.validator == "additionalProperties" and error.validator_value is False:
        return [Problem(pointer(path, name), "is not expected here") for name in _unexpected_members(error)]
    return [Problem(path, _message_of(error))]


def _unexpected_members(error: jsonschema.ValidationError) -> list[str]:
    schema: Any = error.schema
    members: Any = error.instance
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    unexpected = (
        name for name in members if name not in known and not any(re.search(pattern, name) for pattern in patterns)
    )
    return list(itertools.islice(unexpected, MAX_PROBLEMS))


def _message_of(error: jsonschema.ValidationError) -> str:
    keyword = str(error.validator)
    if keyword == "type":
        return _wrong_type(error)
    if keyword in ("anyOf", "oneOf"):
        return _no_alternative(error)
    if keyword == "uniqueItems":
        return "must not have the same item twice"
    if keyword == "unevaluatedProperties":
        return "has members the schema does not know"
    if keyword in _BOUNDS:
        return _BOUNDS[keyword].format(_quote(error.validator_value))
    return f"breaks the rule {keyword!r}"


def _wrong_type(error: jsonschema.ValidationError) -> str:
    named: Any = error.validator_value
    wanted = named if isinstance(named, list) else [named]
    return f"must be of type {' or '.join(wanted)}, not {_type_name(error.instance)}"


def _no_alternative(error: jsonschema.ValidationError) -> str:
    """Say which types would do when it is a matter of type, else what is wrong with the likeliest alternative."""
    alternatives: dict[int, list[jsonschema.ValidationError]] = {}
    for inner in error.context or ():
        alternatives.setdefault(int(inner.schema_path[0]), []).append(inner)
    mistyped = [inners[0] for inners in alternatives.values() if [i.validator for i in inners] == ["type"]]
    if alternatives and len(mistyped) == len(alternatives) and not any(inner.path for inner in mistyped):
        wanted = " or ".join(str(inner.validator_value) for inner in mistyped)
        return f"must be of type {wanted}, not {_type_name(error.instance)}"
    likeliest = best_match(iter([error]))
    if likeliest is None or likeliest is error:
        return "must match exactly one of the alternatives"
    [problem, *_] = _problems_of(likeliest)
    inner_path = problem.path.removeprefix(pointer("", *error.absolute_path))
    return f"matches none of the alternatives ({Problem(inner_path, problem.message)})"


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "object")


def _quote(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, MAX_QUOTED)
