"""Put what is wrong with a value into words: short, with its path, and never repeating the value at length.

A message of jsonschema quotes the whole instance: 690 kB for a list of 100,000. Ours name the rule instead.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema import ValidationError
from jsonschema.protocols import Validator

from ..errors import MAX_PROBLEMS, MAX_QUOTED, Problem, one_line, pointer
from .keywords import NoAlternative
from .walk import ERROR_TEXTS, type_name

BOUNDS: dict[str, str] = {
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
_TEXTS = {
    "required": "is required",
    "uniqueItems": "must not have the same item twice",
    **dict.fromkeys(("false", "None"), "is not expected here"),  # for a schema of `false`, ours and jsonschema's
}


def find_problems(validator: Validator, value: Any) -> list[Problem]:
    """List what is wrong with a value, in the order in which the schema is written, up to a limit."""
    try:
        problems = itertools.chain.from_iterable(map(_problems_of, validator.iter_errors(value)))
        return list(itertools.islice(problems, MAX_PROBLEMS))
    except (RecursionError, OverflowError):
        # A rule such as multipleOf: 0.1 cannot be computed for every number that JSON can have.
        return [Problem("", "could not be checked against the schema")]


def _problems_of(error: ValidationError, base: str = "") -> Iterable[Problem]:
    path = pointer(base, *error.path)
    intended = _intended_alternative(error.alternatives) if isinstance(error, NoAlternative) else None
    if intended:
        return itertools.chain.from_iterable(_problems_of(inner, path) for inner in intended)
    return [Problem(path, _message_of(error))]


def _message_of(error: ValidationError) -> str:
    keyword = str(error.validator)
    own: Any = error.schema.get(ERROR_TEXTS) if isinstance(error.schema, Mapping) else None
    if isinstance(own, Mapping) and keyword in own:
        return one_line(str(own[keyword]), MAX_QUOTED)
    if keyword == "type":
        named: Any = error.validator_value
        return _wrong_type([named] if isinstance(named, str) else named, error.instance)
    if keyword in ("anyOf", "oneOf"):
        return _no_alternative(error)
    if keyword in BOUNDS:
        limit: Any = error.validator_value
        text = limit if isinstance(limit, str) else json.dumps(limit, ensure_ascii=False, default=str)
        return BOUNDS[keyword].format(one_line(text, MAX_QUOTED))
    return _TEXTS.get(keyword, f"breaks the rule {keyword!r}")


def _wrong_type(wanted: Iterable[object], value: object) -> str:
    return f"must be of type {' or '.join(map(str, wanted))}, not {type_name(value)}"


def _intended_alternative(alternatives: list[list[ValidationError]]) -> list[ValidationError] | None:
    """Find the alternative that the caller meant: the only one of that type, or the one that const members choose."""
    typed = [inners for inners in alternatives if not any(map(_is_mistyped, inners))]
    if len(typed) == 1:
        return typed[0]
    chosen = [inners for inners in typed if not any(map(_is_other_choice, inners))]
    return chosen[0] if len(chosen) == 1 else None


def _is_mistyped(inner: ValidationError) -> bool:
    return inner.validator == "type" and not inner.path


def _is_other_choice(inner: ValidationError) -> bool:
    return inner.validator in ("const", "enum") and len(inner.path) == 1


def _no_alternative(error: ValidationError) -> str:
    """Name the types that would fit if the type is wrong, else what is wrong furthest inside the value."""
    if not isinstance(error, NoAlternative):
        return "must match exactly one of the alternatives"
    mistyped = [[inner for inner in inners if _is_mistyped(inner)] for inners in error.alternatives]
    if mistyped and all(mistyped):
        return _wrong_type([inners[0].validator_value for inners in mistyped], error.instance)
    deepest = max(itertools.chain(*error.alternatives), key=lambda inner: len(inner.path), default=error)
    if deepest is error or not deepest.path:
        return "matches none of the alternatives"
    [problem, *_] = _problems_of(deepest)
    return f"matches none of the alternatives ({problem})"
