"""The keywords of JSON Schema that we check in our own way, which is that of the specification.

jsonschema reads patterns as Python does, while JSON Schema means those of ECMA-262; it tells of a missing, unknown or
forbidden member at the object around it, where only the message would say which one it is; and it quotes the whole of a
value that is of a wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from jsonschema import ValidationError
from jsonschema.protocols import Validator

from ..errors import MAX_PROBLEMS
from .dialect import ecma

Errors = Iterable[ValidationError]

_BOOLEAN = object()
# What is of one of these very classes is of that type in every dialect.
_CLASSES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}


def _type(validator: Validator, types: str | Sequence[str], instance: Any, schema: Any) -> Errors:
    for name in (types,) if isinstance(types, str) else types:
        if type(instance) is _CLASSES.get(name) or validator.is_type(instance, name):
            return ()
    return [ValidationError("is of another type")]


def _pattern(validator: Validator, pattern: str, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, str) and not ecma(pattern).search(instance):
        yield ValidationError("does not match")


def _properties(validator: Validator, properties: Mapping[str, Any], instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return ()
    # Errors one by one, as they are asked for: a large value may have more of them than the memory can hold.
    present = [_member(validator, instance, name, rules) for name, rules in properties.items() if name in instance]
    return chain.from_iterable(present)


def _pattern_properties(validator: Validator, patterns: Mapping[str, Any], instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        for pattern, rules in patterns.items():
            for name in filter(ecma(pattern).search, instance):
                yield from _member(validator, instance, name, rules)


def _additional_properties(validator: Validator, rules: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return ()
    known = schema.get("properties", ())
    others = [name for name in instance if name not in known]
    for pattern in schema.get("patternProperties", ()):
        others = [name for name in others if not ecma(pattern).search(name)]
    if not others:
        return ()
    if rules is False:
        del others[MAX_PROBLEMS:]
    return chain.from_iterable(_member(validator, instance, name, rules) for name in others)


def _required(validator: Validator, names: Sequence[str], instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return ()
    return [ValidationError("is missing", path=[name]) for name in names if name not in instance]


def _member(validator: Any, instance: Any, name: str, rules: Any) -> Errors:
    if rules is False:
        return [ValidationError("is not allowed", path=[name])]
    errors: Errors = validator.descend(instance[name], rules, path=name, schema_path=name)
    return errors


def _unique_items(validator: Validator, unique: bool, instance: Any, schema: Any) -> Errors:
    """In linear time: comparing each item with each other takes 13 seconds for 3,000 small objects."""
    if unique and isinstance(instance, list):
        comparable = [_comparable(item) for item in instance]
        if len(set(comparable)) != len(comparable):
            yield ValidationError("has the same item twice")


def _comparable(value: Any) -> Any:
    """Make a value hashable such that equal ones in JSON are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return frozenset((name, _comparable(item)) for name, item in value.items())
    return (_BOOLEAN, value) if isinstance(value, bool) else value


KEYWORDS: dict[str, Callable[..., Errors]] = {
    "type": _type,
    "pattern": _pattern,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "required": _required,
    "uniqueItems": _unique_items,
}
