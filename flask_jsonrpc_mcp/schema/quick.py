"""A quick yes: most values fit their schema, and to say so takes less than to list what is wrong.

A check made here may say no to a value that fits; then `problems` finds nothing wrong with it. It never says yes to one
that does not fit. Two things make it quick:

* jsonschema makes a validator of its own for each schema inside a schema, every time it gets there. That is needed
  where a schema moves the base of its references; elsewhere the rules are the same, and the validator at hand will do.
* With the ``speed`` extra, jsonschema-rs checks the schemas that it reads as jsonschema does, see `likeness`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from jsonschema import ValidationError, validators
from jsonschema.protocols import Validator
from referencing import Registry

from .. import speed
from .formats import FORMATS
from .keywords import ecma
from .likeness import is_read_alike
from .validator import compile_validator

Fits = Callable[[Any], bool]
"""Says yes to a value only if it fits. May raise for what is too deep, too large or of no form in JSON."""

# With one of these, a schema is more than its keywords side by side.
_MOVING = frozenset({"$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$recursiveRef"})


def quick_check(schema: Mapping[str, Any]) -> Fits:
    """Make the quick check of a schema that was checked or generated here."""
    return _by_jsonschema_rs(schema) or _by_jsonschema(compile_validator(schema))


def _by_jsonschema_rs(schema: Mapping[str, Any]) -> Fits | None:
    if speed.jsonschema_rs is None or not is_read_alike(schema):
        return None
    try:
        compiled = speed.jsonschema_rs.Draft202012Validator(
            schema,
            keywords={"pattern": _Pattern, "format": _Format},
            # These schemas have nothing to fetch; this sees to it that nothing ever is.
            retriever=_refuse,
        )
    except (TypeError, ValueError):
        return None
    fits: Fits = compiled.is_valid
    return fits


class _Pattern:
    """Our rule for patterns, as jsonschema-rs calls it."""

    def __init__(self, parent: object, pattern: str, path: object) -> None:
        self._search = ecma(pattern).search

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not self._search(instance):
            raise ValueError


class _Format:
    """Our formats, as jsonschema-rs calls them."""

    def __init__(self, parent: object, format: str, path: object) -> None:
        self._format = format

    def validate(self, instance: Any) -> None:
        if not FORMATS.conforms(instance, self._format):
            raise ValueError


def _refuse(uri: str) -> NoReturn:
    raise ValueError("nothing is ever fetched")


def _by_jsonschema(validator: Validator) -> Fits:
    registry: Registry[Any] = Registry()
    return _quick(type(validator))(validator.schema, registry=registry, format_checker=FORMATS).is_valid


@functools.cache
def _quick(strict: type[Validator]) -> type[Validator]:
    """Make a validator with the same rules, whose errors do not say where they are: there need not be more than one."""
    quick: Any = validators.extend(strict)  # type: ignore[no-untyped-call]
    in_full = quick.descend

    def descend(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[ValidationError]:
        if resolver is not None or not isinstance(schema, dict) or not _MOVING.isdisjoint(schema):
            yield from in_full(self, instance, schema, path, schema_path, resolver)
            return
        for keyword, argument in schema.items():
            rule = self.VALIDATORS.get(keyword)
            if rule is not None:
                yield from rule(self, argument, instance, schema) or ()

    quick.descend = descend
    made: type[Validator] = quick
    return made
