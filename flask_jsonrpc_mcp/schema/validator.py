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
from referencing.jsonschema import EMPTY_REGISTRY, specification_with

from .formats import FORMATS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def compile_validator(schema: Mapping[str, Any], *, ours: bool = False) -> Validator:
    """Make the validator of a schema.

    :param ours: The schema was generated here, so it needs no check against its meta-schema (two milliseconds each).
    :raises ValueError: when the schema is not valid, or has a reference that does not lead into itself.
    """
    dialect = schema.get("$schema", DIALECT)
    base = validators.validator_for({"$schema": dialect}, default=None)  # type: ignore[arg-type]
    if base is None:
        raise ValueError(f"$schema {dialect!r} is not a JSON Schema dialect; leave it out for 2020-12")
    if not ours:
        try:
            base.check_schema(dict(schema))
        except jsonschema.SchemaError as error:
            raise ValueError(f"not a valid JSON Schema: {error.json_path}: {error.message[:200]}") from error
        _check_references(schema, dialect)
        _check_patterns(schema)
    # The empty registry matters: without one, a reference to http: or file: would be opened.
    return _strict(base)(schema, registry=EMPTY_REGISTRY, format_checker=FORMATS)


@functools.cache
def _strict(base: type[Validator]) -> type[Validator]:
    strict: type[Validator] = validators.extend(base, {"pattern": _pattern})  # type: ignore[no-untyped-call]
    return strict


def _pattern(validator: Validator, pattern: str, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    if validator.is_type(instance, "string") and not _ecma(pattern).search(instance):
        yield jsonschema.ValidationError(f"does not match {pattern!r}")


@functools.lru_cache(maxsize=512)
def _ecma(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with ECMA's ``$``, which is the very end; Python's also matches before a final newline."""
    return re.compile(_ESCAPE_CLASS_OR_END.sub(lambda match: r"\Z" if match[0] == "$" else match[0], pattern))


_ESCAPE_CLASS_OR_END = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


def _check_references(schema: Mapping[str, Any], dialect: str) -> None:
    root: Resource[Any] = specification_with(dialect).create_resource(schema)
    registry: Registry[Any] = Registry().with_resource(root.id() or "", root)
    # The crawled registry knows the anchors and inner $ids of the schema, and nothing else.
    pending = [(root, registry.crawl().resolver_with_root(root))]
    while pending:
        resource, resolver = pending.pop()
        reference = resource.contents.get("$ref") if isinstance(resource.contents, Mapping) else None
        if reference is not None:
            try:
                resolver.lookup(reference)
            except referencing.exceptions.Unresolvable as error:
                raise ValueError(
                    f"$ref {reference!r} does not lead into the schema itself; nothing is ever fetched,"
                    " so copy what it names into $defs"
                ) from error
        pending += [(inner, resolver.in_subresource(inner)) for inner in resource.subresources()]


def _check_patterns(value: Any) -> None:
    if isinstance(value, Mapping):
        pattern = value.get("pattern")
        if isinstance(pattern, str):
            try:
                _ecma(pattern)
            except re.error as error:
                raise ValueError(f"pattern {pattern!r} is not a regular expression Python can read: {error}") from error
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        _check_patterns(inner)
