"""JSON Schema validators, compiled once and never reaching outside the schema they were given."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import referencing.exceptions
from jsonschema import validators
from jsonschema.protocols import Validator
from referencing import Registry, Resource
from referencing.jsonschema import specification_with

from .dialect import DIALECT, ecma
from .formats import PARSERS, has_format
from .jsonschema_keywords import KEYWORDS
from .patterns import check_pattern

FORMATS = jsonschema.FormatChecker(formats=())
for _name in PARSERS:
    FORMATS.checks(_name)(functools.partial(has_format, name=_name))

_EMPTY: Registry[Any] = Registry()
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check a schema that was not generated here.

    :raises ValueError: when it is not valid, or has a reference that does not lead into itself.
    """
    base = _base_of(schema)
    _check_valid(base, schema)
    for inner in _schemas_within(schema, base):
        _check_dialect(inner, schema.get("$schema", DIALECT))
        _check_patterns(inner)


def compile_validator(schema: Mapping[str, Any]) -> Validator:
    """Make the validator of a schema that was checked or generated here."""
    base = _base_of(schema)
    # Without $schema: wherever jsonschema meets it, it falls back to its own keywords.
    rules = {keyword: rule for keyword, rule in schema.items() if keyword != "$schema"}
    # The empty registry matters: without one, a reference to http: or file: would be opened.
    return _strict(base)(rules, registry=_EMPTY, format_checker=FORMATS)


def knows_keyword(schema: Mapping[str, Any], keyword: str) -> bool:
    """Tell whether the dialect of a schema has a keyword."""
    return keyword in _base_of(schema).VALIDATORS


def _base_of(schema: Mapping[str, Any]) -> type[Validator]:
    dialect = schema.get("$schema", DIALECT)
    base: type[Validator] | None = validators.validator_for({"$schema": dialect}, default=None)  # type: ignore[arg-type]
    if base is None or base is jsonschema.Draft3Validator:
        raise ValueError(f"$schema {dialect!r} is not a JSON Schema dialect we know; leave it out for 2020-12")
    return base


@functools.cache
def _strict(base: type[Validator]) -> type[Validator]:
    strict: type[Validator] = validators.extend(base, KEYWORDS)  # type: ignore[no-untyped-call]
    return strict


def _check_valid(base: type[Validator], schema: Any) -> None:
    try:
        base.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"not a valid JSON Schema: {error.json_path}: {error.message[:200]}") from error


def _schemas_within(schema: Mapping[str, Any], base: type[Validator]) -> Iterator[Mapping[str, Any]]:
    """Walk over the schemas inside a schema, also those that only a reference makes one.

    :raises ValueError: when a reference leads out of it.
    """
    specification = specification_with(schema.get("$schema", DIALECT))
    root: Resource[Any] = specification.create_resource(schema)
    registry: Registry[Any] = Registry().with_resource(root.id() or "", root)
    # The crawled registry knows the anchors and inner $ids of the schema, and nothing else.
    pending = [(root, registry.crawl().resolver_with_root(root))]
    seen = set()
    while pending:
        resource, resolver = pending.pop()
        if not isinstance(resource.contents, Mapping) or id(resource.contents) in seen:
            continue
        seen.add(id(resource.contents))
        yield resource.contents
        pending += [(inner, resolver.in_subresource(inner)) for inner in resource.subresources()]
        for keyword in _REFERENCES:
            reference = resource.contents.get(keyword)
            if reference is None:
                continue
            try:
                target = resolver.lookup(reference)
            except referencing.exceptions.Unresolvable as error:
                raise ValueError(
                    f"{keyword} {reference!r} does not lead into the schema itself; nothing is ever fetched,"
                    " so copy what it names into $defs"
                ) from error
            _check_valid(base, target.contents)
            pending.append((specification.create_resource(target.contents), target.resolver))


def _check_dialect(schema: Mapping[str, Any], dialect: str) -> None:
    if schema.get("$schema", dialect) != dialect:
        raise ValueError(f"$schema {schema['$schema']!r} is another dialect than that of the schema around it")


def _check_patterns(schema: Mapping[str, Any]) -> None:
    for pattern in [*([schema["pattern"]] if "pattern" in schema else []), *schema.get("patternProperties", ())]:
        try:
            # The meta-schemas of draft 4 and 6 do not check the patterns of patternProperties.
            check_pattern(ecma(pattern).pattern)
        except re.error as error:
            raise ValueError(f"pattern {pattern!r} is not a regular expression Python can read: {error}") from error
