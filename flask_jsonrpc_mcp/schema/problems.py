"""Put what is wrong with a value into words: short, with its path, and never repeating the value at length.

A message of jsonschema quotes the whole instance: 690 kB for a list of 100,000. Ours name the rule instead.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jsonschema
    from jsonschema.protocols import Validator

from ..errors import MAX_PROBLEMS, MAX_QUOTED, Problem, one_line
from ..strict_json import write
from .walk import type_name

MAX_BYTES = 8 * 1024
"""The size of all problems in one response."""

_MAX_TEXT_BYTES = 1000

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


def find_problems(validator: Validator, value: Any) -> list[Problem]:
    """List what is wrong with a value, in the order in which the schema is written, up to a limit."""
    try:
        errors = validator.iter_errors(value)
        problems = itertools.chain.from_iterable(_problems_of(error) for error in errors)
        return list(itertools.islice(problems, MAX_PROBLEMS))
    except (RecursionError, OverflowError):
        # A rule such as multipleOf: 0.1 cannot be computed for every number that JSON can have.
        return [Problem("", "could not be checked against the schema")]


def within_bounds(problems: Iterable[Problem]) -> list[Problem]:
    """Keep the first problems, as many as a response has room for, in bytes: a character can be four."""
    kept = []
    room = MAX_BYTES
    for problem in itertools.islice(problems, MAX_PROBLEMS):
        bounded = Problem(_cut(problem.path), _cut(problem.message))
        room -= len(write(bounded.to_json()))
        if room < 0:
            break
        kept.append(bounded)
    return kept


def pointer(base: str, *steps: object) -> str:
    """Extend a JSON Pointer."""
    escaped = (one_line(str(step), MAX_QUOTED).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([base, *(f"/{step}" for step in escaped)])


def problems_of_messages(messages: Any, path: str = "") -> list[Problem]:
    """Flatten the nested messages of a `marshmallow.ValidationError`."""
    if isinstance(messages, Mapping):
        return [
            problem
            for name, nested in messages.items()
            for problem in problems_of_messages(nested, path if name == "_schema" else pointer(path, name))
        ]
    texts = messages if isinstance(messages, list) else [messages]
    return [Problem(path, one_line(str(text), MAX_QUOTED)) for text in texts]


def _problems_of(error: jsonschema.ValidationError) -> Iterable[Problem]:
    if error.validator in ("anyOf", "oneOf"):
        intended = _intended_alternative(error)
        if intended:
            return itertools.chain.from_iterable(_problems_of(inner) for inner in intended)
    return [Problem(pointer("", *error.absolute_path), _message_of(error))]


def _message_of(error: jsonschema.ValidationError) -> str:
    keyword = str(error.validator)
    if keyword == "type":
        named: Any = error.validator_value
        return _wrong_type([named] if isinstance(named, str) else named, error.instance)
    if keyword in ("anyOf", "oneOf"):
        return _no_alternative(error)
    if keyword in _BOUNDS:
        return _BOUNDS[keyword].format(_quote(error.validator_value))
    return _TEXTS.get(keyword, f"breaks the rule {keyword!r}")


def _wrong_type(wanted: Iterable[object], value: object) -> str:
    return f"must be of type {' or '.join(map(str, wanted))}, not {type_name(value)}"


def _alternatives(error: jsonschema.ValidationError) -> list[list[jsonschema.ValidationError]]:
    """Group errors by alternative; an alternative that is `false`, which nothing could fit, has no path."""
    alternatives: dict[int, list[jsonschema.ValidationError]] = {}
    for inner in error.context or ():
        if inner.schema_path:
            alternatives.setdefault(int(inner.schema_path[0]), []).append(inner)
    return list(alternatives.values())


def _intended_alternative(error: jsonschema.ValidationError) -> list[jsonschema.ValidationError] | None:
    """Find the alternative that the caller meant: the only one of that type, or the one that const members choose."""
    typed = [inners for inners in _alternatives(error) if not any(map(_is_mistyped, inners))]
    if len(typed) == 1:
        return typed[0]
    chosen = [inners for inners in typed if not any(map(_is_other_choice, inners))]
    return chosen[0] if len(chosen) == 1 else None


def _is_mistyped(inner: jsonschema.ValidationError) -> bool:
    return inner.validator == "type" and not inner.path


def _is_other_choice(inner: jsonschema.ValidationError) -> bool:
    return inner.validator in ("const", "enum") and len(inner.path) == 1


def _no_alternative(error: jsonschema.ValidationError) -> str:
    """Name the types that would fit if the type is wrong, else what is wrong with the likeliest alternative."""
    mistyped = [[inner for inner in inners if _is_mistyped(inner)] for inners in _alternatives(error)]
    if mistyped and all(mistyped):
        return _wrong_type([inners[0].validator_value for inners in mistyped], error.instance)
    if not error.context:
        return "must match exactly one of the alternatives"
    from jsonschema.exceptions import best_match

    likeliest = best_match(iter([error]))
    if likeliest is None or likeliest is error:
        return "matches none of the alternatives"
    [problem, *_] = _problems_of(likeliest)
    inner_path = problem.path.removeprefix(pointer("", *error.absolute_path))
    return f"matches none of the alternatives ({Problem(inner_path, problem.message)})"


def _quote(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, MAX_QUOTED)


def _cut(text: str) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= _MAX_TEXT_BYTES:
        return text
    return encoded[:_MAX_TEXT_BYTES].decode("utf-8", "ignore") + "…"
