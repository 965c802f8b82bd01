"""Words for the errors of jsonschema: short, with their path, and never repeating the value at length.

A message of jsonschema quotes the whole instance: 690 kB for a list of 100,000. Ours name the rule instead.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from ..errors import MAX_PROBLEMS, MAX_QUOTED, Problem, one_line
from .problems import pointer

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
# Under the names of properties, patternProperties and None comes only what a schema of `false` refuses.
_TEXTS = {
    "required": "is required",
    "uniqueItems": "must not have the same item twice",
    "unevaluatedProperties": "has members the schema does not know",
    **dict.fromkeys(("additionalProperties", "properties", "patternProperties", "None"), "is not expected here"),
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


def _problems_of(error: jsonschema.ValidationError) -> Iterable[Problem]:
    if error.validator in ("anyOf", "oneOf"):
        intended = _intended_alternative(error)
        if intended:
            return itertools.chain.from_iterable(_problems_of(inner) for inner in intended)
    return [Problem(pointer("", *error.absolute_path), _message_of(error))]


def _message_of(error: jsonschema.ValidationError) -> str:
    keyword = str(error.validator)
    if keyword == "type":
        return _wrong_type(error)
    if keyword in ("anyOf", "oneOf"):
        return _no_alternative(error)
    if keyword in _BOUNDS:
        return _BOUNDS[keyword].format(_quote(error.validator_value))
    return _TEXTS.get(keyword, f"breaks the rule {keyword!r}")


def _wrong_type(error: jsonschema.ValidationError) -> str:
    named: Any = error.validator_value
    wanted = named if isinstance(named, list) else [named]
    return f"must be of type {' or '.join(wanted)}, not {_type_name(error.instance)}"


def _alternatives(error: jsonschema.ValidationError) -> list[list[jsonschema.ValidationError]]:
    """Sort what is wrong by alternative; one that is `false` is none that anyone had in mind, and has no path."""
    alternatives: dict[int, list[jsonschema.ValidationError]] = {}
    for inner in filter(lambda inner: inner.schema_path, error.context or ()):
        alternatives.setdefault(int(inner.schema_path[0]), []).append(inner)
    return list(alternatives.values())


def _intended_alternative(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError] | None:
    """Find the alternative the caller had in mind: the only one of that type, or the one its const members choose."""
    typed = [inners for inners in _alternatives(error) if not any(_is_mistyped(inner) for inner in inners)]
    if len(typed) == 1:
        return typed[0]
    chosen = [inners for inners in typed if not any(_is_other_choice(inner) for inner in inners)]
    return chosen[0] if len(chosen) == 1 else None


def _is_mistyped(inner: jsonschema.ValidationError) -> bool:
    return inner.validator == "type" and not inner.path


def _is_other_choice(inner: jsonschema.ValidationError) -> bool:
    return inner.validator in ("const", "enum") and len(inner.path) == 1


def _no_alternative(error: jsonschema.ValidationError) -> str:
    """Say which types would do when it is a matter of type, else what is wrong with the likeliest alternative."""
    mistyped = [[inner for inner in inners if _is_mistyped(inner)] for inners in _alternatives(error)]
    if mistyped and all(mistyped):
        wanted = " or ".join(str(inners[0].validator_value) for inners in mistyped)
        return f"must be of type {wanted}, not {_type_name(error.instance)}"
    if not error.context:
        return "must match exactly one of the alternatives"
    likeliest = best_match(iter([error]))
    if likeliest is None or likeliest is error:
        return "matches none of the alternatives"
    [problem, *_] = _problems_of(likeliest)
    inner_path = problem.path.removeprefix(pointer("", *error.absolute_path))
    return f"matches none of the alternatives ({Problem(inner_path, problem.message)})"


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "object")


def _quote(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, MAX_QUOTED)
