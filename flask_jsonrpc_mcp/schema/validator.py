"""Validate values when a method is called.

jsonschema validates, but some of its keywords are replaced by ours. Callers choose the values, so the time to validate
one must be linear in its size. And each error has the path of the member it is about, and no copy of the value.

jsonschema-rs, from the ``speed`` extra, only accepts values. Those that it rejects go to jsonschema, so the errors are
the same with and without the extra. It is used only for schemas that `types` generated, because the two libraries
differ in some keywords.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from jsonschema import ValidationError, validators
from jsonschema.protocols import Validator
from referencing import Registry

from ..problems import MAX_PROBLEMS
from .dialects import DYNAMIC, REFERENCES, dialect_of
from .shape import running_validation
from .texts import compile_pattern, has_format, matches
from .walk import TYPE_NAMES, Schema, map_subschemas, walk

jsonschema_rs: Any
try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None

Errors: TypeAlias = Iterable[ValidationError]
Check: TypeAlias = Callable[[Any, Any, Any, Any], Errors | None]
"""A keyword as jsonschema calls it: with the validator, the keyword's value, the instance and its schema."""

_LIMITS: dict[type, str] = {str: "maxLength", list: "maxItems", dict: "maxProperties"}
_OF_OBJECTS = ("required", "properties", "patternProperties", "additionalProperties", "unevaluatedProperties")
_OF_LISTS = ("items", "prefixItems", "additionalItems", "contains", "uniqueItems", "unevaluatedItems")
_KINDS: dict[str, type] = {**dict.fromkeys(_OF_OBJECTS, dict), **dict.fromkeys(_OF_LISTS, list)}


def compile_fast_accept(schema: Schema) -> Callable[[Any], bool] | None:
    """Compile a schema of `types` with jsonschema-rs; ``None`` if that is not installed or cannot be used."""
    # In recursive schemas, which are the ones with $defs, jsonschema-rs goes deeper than jsonschema.
    if jsonschema_rs is None or "$defs" in schema:
        return None
    keywords = {"pattern": _fast_keyword(matches), "format": _fast_keyword(has_format)}
    accepts: Callable[[Any], bool] = jsonschema_rs.Draft202012Validator(schema, keywords=keywords).is_valid
    return accepts


def _fast_keyword(fits: Callable[[object, str], bool]) -> type:
    """Build a keyword for jsonschema-rs, which calls it after the limits of the same value."""

    class Keyword:
        def __init__(self, parent: Schema, rule: str, path: object) -> None:
            self._rule = rule

        def validate(self, instance: object) -> None:
            if not fits(instance, self._rule):
                raise ValueError

    return Keyword


def compile_validator(schema: Schema) -> Validator:
    """Compile the validator of a schema that was checked or generated here."""
    dialect, keywords = dialect_of(schema), {keyword for inner in walk(schema) for keyword in inner}
    # A dynamic reference can have several targets only if subschemas have ids.
    caches = "$id" not in keywords or keywords.isdisjoint(DYNAMIC)
    if "$schema" in keywords:
        schema = _without_dialect(schema)
    # Without this empty registry, jsonschema would fetch references to http: and file:.
    registry: Registry[Any] = Registry()
    return _with_our_keywords(dialect, caches=caches)(schema, registry=registry)


def _without_dialect(schema: Schema) -> dict[str, Any]:
    """Copy a schema without ``$schema``, at which jsonschema would switch back to its own keywords."""
    copied = map_subschemas(schema, _without_dialect)
    copied.pop("$schema", None)
    return copied


@functools.cache
def _with_our_keywords(dialect: type[Validator], *, caches: bool) -> type[Validator]:
    """Build the validator class of a dialect.

    :param caches: Each reference has one target, so its result is cached for each value.
    """
    checks: dict[str, Any] = {name: _OURS.get(name, check) for name, check in dialect.VALIDATORS.items()}
    checks |= {name: _fail_fast(checks[name]) for name in ("not", "contains") if name in checks}
    if caches:
        checks |= {name: _cached(checks[name]) for name in REFERENCES if name in checks}
    checks |= {name: _guarded(name, check) for name, check in checks.items() if name not in ("type", *_LIMITS.values())}
    extended: type[Validator] = validators.extend(dialect, checks)  # type: ignore[no-untyped-call]
    return extended


def _is_too_large(value: Any, schema: Schema) -> bool:
    """Return whether a value exceeds the limit in a schema; then the other keywords are not checked."""
    limit = _LIMITS.get(type(value), "")
    return limit in schema and len(value) > schema[limit]


class NoAlternative(ValidationError):
    """The error of a value that fits no alternative."""

    def __init__(self, validator: Any, schemas: Sequence[Any], instance: Any) -> None:
        super().__init__("fits no alternative")
        self._found_by = validator, schemas, instance

    # Lazy, because a list can have a million such items, and only the first are reported.
    @cached_property
    def alternatives(self) -> list[list[ValidationError]]:
        """The first errors of each alternative but ``false``."""
        validator, schemas, instance = self._found_by
        found = (validator.evolve(schema=schema).iter_errors(instance) for schema in schemas if schema is not False)
        return [list(itertools.islice(errors, MAX_PROBLEMS)) for errors in found]


def _guarded(name: str, check: Check) -> Check:
    """Skip values that the keyword does not apply to, and values that exceed a limit in the schema."""
    kind: Any = _KINDS.get(name, object)

    def guarded(validator: Any, rules: Any, instance: Any, schema: Schema) -> Errors | None:
        limit: Any = _LIMITS.get(type(instance))
        if not isinstance(instance, kind) or (limit in schema and len(instance) > schema[limit]):
            return None
        if running_validation.get().collecting:
            return _collect(name, check, validator, rules, instance, schema)
        return check(validator, rules, instance, schema)

    return guarded


def _cached(check: Check) -> Check:
    """Cache the result of a reference for each object and list, which a recursive schema can reach by many paths."""

    def cached(validator: Any, reference: Any, instance: Any, schema: Schema) -> Errors:
        errors = iter(check(validator, reference, instance, schema) or ())
        validation = running_validation.get()
        if validation.collecting or not isinstance(instance, (dict, list)):
            yield from errors
            return
        known = validation.fits.setdefault(id(schema), {})
        fits = known.get(id(instance))
        if fits is None or not (fits or validation.fail_fast):
            first = next(errors, None)
            known[id(instance)] = first is None
            if first is not None:
                yield first
                yield from errors
        elif not fits:
            yield ValidationError("does not fit")

    return cached


def _fits(validator: Any, rules: Any, instance: Any) -> bool:
    with running_validation.get().nested(fail_fast=True):
        # Not is_valid(), nor any() around this function: each frame counts, where a value may have 64 levels.
        return next(validator.evolve(schema=rules).iter_errors(instance), None) is None


def _fail_fast(check: Check) -> Check:
    """Run a check with ``fail_fast``: the errors inside ``not`` and ``contains`` are not reported."""

    def fast(validator: Any, rules: Any, instance: Any, schema: Schema) -> Errors:
        with running_validation.get().nested(fail_fast=True):
            return list(check(validator, rules, instance, schema) or ())

    return fast


def _type(validator: Any, types: str | Sequence[str], instance: Any, schema: Schema) -> Errors:
    own = TYPE_NAMES.get(type(instance))
    for name in (types,) if isinstance(types, str) else types:
        if name == own or validator.is_type(instance, name):
            return ()
    return [ValidationError("has a wrong type")]


def _text_rule(fits: Callable[[object, str], bool]) -> Check:
    def check(validator: Any, rule: str, instance: Any, schema: Schema) -> Errors:
        if not fits(instance, rule):
            yield ValidationError("does not fit")

    return check


def _required(validator: Any, names: Sequence[str], instance: Any, schema: Schema) -> Errors:
    for name in names:
        if name not in instance:
            yield ValidationError("is missing", path=[name])


def _properties(validator: Any, properties: Mapping[str, Any], instance: Any, schema: Schema) -> Errors:
    for name, rules in properties.items():
        if name in instance:
            yield from _member(validator, instance, name, rules)


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Schema) -> Errors:
    for pattern, rules in patterns.items():
        for name in _names_like(pattern, instance, schema):
            yield from _member(validator, instance, name, rules)


def _additional_properties(validator: Any, rules: Any, instance: Any, schema: Schema) -> Errors:
    known = set(schema.get("properties", ()))
    for pattern in schema.get("patternProperties", ()):
        known.update(_names_like(pattern, instance, schema))
    for name in _names(instance, schema):
        if name not in known:
            yield from _member(validator, instance, name, rules)


def _names(instance: dict[str, Any], schema: Schema) -> Iterable[str]:
    """List the names of members but those that are longer than ``propertyNames`` allows."""
    limits = schema.get("propertyNames")
    if not isinstance(limits, Mapping) or "maxLength" not in limits:
        return instance
    return [name for name in instance if not _is_too_large(name, limits)]


def _names_like(pattern: str, instance: dict[str, Any], schema: Schema) -> Iterable[str]:
    return filter(compile_pattern(pattern).search, _names(instance, schema))


def _member(validator: Any, instance: Any, place: Any, rules: Any) -> Errors:
    if rules is False:
        return [ValidationError("is not allowed", validator="false", path=[place])]
    errors: Errors = validator.descend(instance[place], rules, path=place, schema_path=place)
    return errors


def _unique_items(validator: Any, unique: bool, instance: Any, schema: Schema) -> Errors:
    if unique and len(set(map(_canonical, instance))) != len(instance):
        yield ValidationError("has the same item twice")


def _canonical(value: Any) -> str:
    """Serialise a value so that equal JSON values give equal texts: 1 and 1.0 are equal, 1 and true are not.

    A set of numbers would be slow for a caller who sends numbers with the same hash; hashes of texts are random.
    """
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(name)}:{_canonical(value[name])}' for name in sorted(value))}}}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value) + 0.0  # + 0.0 makes -0.0 the same as 0.0
        except OverflowError:
            return str(value)
        return repr(number) if number == value else str(value)
    return json.dumps(value)


def _all_of(validator: Any, schemas: Sequence[Any], instance: Any, schema: Schema) -> Errors:
    limiting = [inner for inner in schemas if isinstance(inner, Mapping) and _is_too_large(instance, inner)]
    for index, inner in enumerate(schemas):
        if not limiting or inner in limiting:
            yield from validator.descend(instance, inner, schema_path=index)


def _any_of(validator: Any, schemas: Sequence[Any], instance: Any, schema: Schema) -> Errors:
    for inner in schemas:
        if _fits(validator, inner, instance):
            return
    yield NoAlternative(validator, schemas, instance)


def _one_of(validator: Any, schemas: Sequence[Any], instance: Any, schema: Schema) -> Errors:
    fitting = [inner for inner in schemas if _fits(validator, inner, instance)]
    if not fitting:
        yield NoAlternative(validator, schemas, instance)
    elif len(fitting) > 1:
        yield ValidationError("fits several alternatives")


def _if(validator: Any, condition: Any, instance: Any, schema: Schema) -> Errors:
    branch = "else"
    if _fits(validator, condition, instance):
        branch = "then"
        yield from validator.descend(instance, condition)  # has no errors, but may evaluate members
    if branch in schema:
        yield from validator.descend(instance, schema[branch], schema_path=branch)


def _unevaluated(keyword: str) -> Check:
    """Build ``unevaluatedProperties`` or ``unevaluatedItems``: rules for what no other keyword evaluates."""

    def check(validator: Any, rules: Any, instance: Any, schema: Schema) -> Errors:
        others = {name: value for name, value in schema.items() if name != keyword}
        with running_validation.get().nested(collecting=True) as collecting:
            list(validator.evolve(schema=others).iter_errors(instance))
        for place in range(len(instance)) if isinstance(instance, list) else instance:
            if place not in collecting.collected:
                yield from _member(validator, instance, place, rules)

    return check


def _collect(name: str, check: Check, validator: Any, rules: Any, instance: Any, schema: Schema) -> Errors | None:
    """Collect the members, or the items, that a keyword evaluates."""
    places: Iterable[Any] = ()
    match name:
        case "properties":
            places = instance.keys() & rules.keys()
        case "patternProperties":
            places = itertools.chain.from_iterable(_names_like(pattern, instance, schema) for pattern in rules)
        case "additionalProperties" | "unevaluatedProperties":
            places = instance
        case "items" | "prefixItems" if isinstance(rules, list):
            places = range(len(rules))
        case "items" | "unevaluatedItems":
            places = range(len(instance))
        case "additionalItems" if "items" in schema:  # without it, the keyword is ignored
            places = range(len(instance))
        case "contains":
            places = [index for index, item in enumerate(instance) if _fits(validator, rules, item)]
        case "anyOf" | "oneOf":
            return _all_of(validator, [inner for inner in rules if _fits(validator, inner, instance)], instance, schema)
        case "allOf" | "if" | "dependentSchemas" | "$ref" | "$dynamicRef" | "$recursiveRef":
            return check(validator, rules, instance, schema)
    running_validation.get().collected.update(places)
    return None


_OURS: dict[str, Check] = {
    "type": _type,
    "pattern": _text_rule(matches),
    "format": _text_rule(has_format),
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "if": _if,
    "unevaluatedProperties": _unevaluated("unevaluatedProperties"),
    "unevaluatedItems": _unevaluated("unevaluatedItems"),
}
