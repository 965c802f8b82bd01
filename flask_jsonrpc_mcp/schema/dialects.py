"""Check JSON Schemas that were not generated here, in any of its dialects, when a method is registered."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

import jsonschema
import jsonschema_specifications  # type: ignore[import-untyped]
import referencing.exceptions
from jsonschema import validators
from jsonschema.protocols import Validator
from referencing import Registry, Resource
from referencing.jsonschema import specification_with

from .texts import compile_pattern
from .walk import Schema, map_parts, map_subschemas, subschemas, walk

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of schemas that name no other."""

DYNAMIC = {"$dynamicRef", "$recursiveRef"}
REFERENCES = {"$ref", *DYNAMIC}


def check_schema(schema: Schema) -> None:
    """Check a schema that was not generated here.

    :raises ValueError: if it is not valid, or has a reference that points out of it.
    """
    _check_valid(schema, dialect_of(schema))
    inside: Iterable[Schema] = list(walk(schema))
    if not all(map(REFERENCES.isdisjoint, inside)):
        inside = _follow_references(schema)
    dialect = schema.get("$schema", DIALECT)
    for inner in inside:
        if inner.get("$schema", dialect) != dialect:
            raise ValueError(f"$schema {inner['$schema']!r} is another dialect than that of the outer schema")
        for pattern in (*([inner["pattern"]] if "pattern" in inner else ()), *inner.get("patternProperties", ())):
            try:
                compile_pattern(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"pattern {pattern!r} is not a regular expression Python can read: {error}") from error


def dialect_of(schema: Schema) -> type[Validator]:
    named = schema.get("$schema", DIALECT)
    dialect: type[Validator] | None = validators.validator_for({"$schema": named}, default=None)  # type: ignore[arg-type]
    if dialect is None or dialect is jsonschema.Draft3Validator:
        raise ValueError(f"$schema {named!r} is not a supported JSON Schema dialect; remove it to use 2020-12")
    return dialect


def _check_valid(schema: Schema, dialect: type[Validator]) -> None:
    if dialect is jsonschema.Draft202012Validator and _is_valid(schema):
        return
    try:
        dialect.check_schema(schema)  # type: ignore[arg-type]
    except jsonschema.SchemaError as error:
        raise ValueError(f"not a valid JSON Schema: {error.json_path}: {error.message[:200]}") from error


def _is_valid(schema: Any) -> bool:
    """Check each keyword by itself. To validate with the meta-schema takes fifty times as long."""
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    for keyword, value in schema.items():
        is_allowed = _is_allowed_cached if isinstance(value, (str, int, float)) else _is_allowed
        if not is_allowed(keyword, value):
            return False
    parts: list[Any] = []
    map_parts(schema, parts.append)
    return all(map(_is_valid, parts))


def _is_allowed(keyword: str, value: Any) -> bool:
    rules = _rules_of_keywords()
    return keyword not in rules or rules[keyword].is_valid(value)


# Most keywords have one of a few values, such as "type": "string". Typed, because 1 == True.
_is_allowed_cached = functools.lru_cache(maxsize=1024, typed=True)(_is_allowed)


@functools.cache
def _rules_of_keywords() -> dict[str, Validator]:
    """Read from the vocabularies of 2020-12, which its meta-schema refers to, what the value of each keyword must be.

    The subschemas in a list or an object are left to `_is_valid`. There are no formats; patterns, the only ones that
    matter, are compiled by `check_schema` itself.
    """
    meta = jsonschema.Draft202012Validator.META_SCHEMA
    properties, definitions = dict(meta["properties"]), {}
    for part in meta["allOf"]:
        vocabulary = jsonschema_specifications.REGISTRY.contents(urljoin(DIALECT, part["$ref"]))
        properties.update(vocabulary["properties"])
        definitions.update(vocabulary.get("$defs", {}))

    def inlined(rule: Schema) -> Any:
        if "$dynamicRef" in rule:
            return True
        if "$ref" in rule:
            others = {keyword: value for keyword, value in rule.items() if keyword != "$ref"}
            return inlined({**definitions[rule["$ref"].rpartition("/")[2]], **others})
        return map_subschemas(rule, inlined)

    is_schema = {"type": meta["type"]}
    return {
        keyword: jsonschema.Draft202012Validator(is_schema if "$dynamicRef" in rule else inlined(rule))
        for keyword, rule in properties.items()
        if rule is not True
    }


def _follow_references(schema: Schema) -> Iterator[Schema]:
    """Yield a schema, its subschemas, and the targets of its references, which can be anywhere in the schema.

    :raises ValueError: if a reference points out of the schema.
    """
    specification = specification_with(schema.get("$schema", DIALECT))
    root: Resource[Any] = specification.create_resource(schema)
    registry: Registry[Any] = Registry().with_resource(root.id() or "", root)
    # The crawled registry knows the anchors and inner $ids of the schema, and nothing else.
    pending: list[tuple[Any, Any]] = [(schema, registry.crawl().resolver_with_root(root))]
    valid, seen = {id(inner) for inner in walk(schema)}, set()
    while pending:
        inner, resolver = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if id(inner) not in valid:
            _check_valid(inner, dialect_of(schema))
        if not isinstance(inner, Mapping):
            continue
        yield inner
        pending += [(part, resolver.in_subresource(specification.create_resource(part))) for part in subschemas(inner)]
        for keyword in inner.keys() & REFERENCES:
            try:
                target = resolver.lookup(inner[keyword])
            except referencing.exceptions.Unresolvable as error:
                raise ValueError(
                    f"{keyword} {inner[keyword]!r} does not point into the schema itself; nothing is ever fetched,"
                    " so copy its target into $defs"
                ) from error
            pending.append((target.contents, target.resolver))
