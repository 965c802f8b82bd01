"""A quick yes of jsonschema.

It makes a validator of its own for each schema inside a schema, every time it gets there. That is needed where a schema
moves the base of its references; elsewhere the rules are the same, and the validator at hand will do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import ValidationError, validators
from jsonschema.protocols import Validator
from referencing import Registry

from .jsonschema_validator import FORMATS, compile_validator

# With one of these, a schema is more than its keywords side by side.
_MOVING = frozenset({"$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$recursiveRef"})


def quick_check(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Make the quick check of a schema that was checked or generated here."""
    validator = compile_validator(schema)
    registry: Registry[Any] = Registry()
    rules: Any = validator.schema
    quick: Any = _quick(type(validator))(rules, registry=registry, format_checker=FORMATS)
    return lambda value: next(quick.descend(value, rules), None) is None


@functools.cache
def _quick(strict: type[Validator]) -> type[Validator]:
    """Make a validator with the same rules, whose errors do not say where they are: there need not be more than one."""
    quick: Any = validators.extend(strict)  # type: ignore[no-untyped-call]
    in_full = quick.descend

    def descend(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[ValidationError]:
        if resolver is not None or not isinstance(schema, dict) or not _MOVING.isdisjoint(schema):
            errors: Iterator[ValidationError] = in_full(self, instance, schema, path, schema_path, resolver)
            return errors
        for keyword, argument in schema.items():
            rule = self.VALIDATORS.get(keyword)
            if rule is not None:
                for error in rule(self, argument, instance, schema) or ():
                    return iter((error,))
        return iter(())

    quick.descend = descend
    made: type[Validator] = quick
    return made
