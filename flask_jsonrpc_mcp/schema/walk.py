"""Build and traverse JSON Schema: subschemas, the targets of references, copies without references."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]

ANNOTATIONS = ("title", "description", "default", "examples", "deprecated")
"""Keywords that describe a value, and do not restrict it."""

ERROR_TEXTS = "errorMessage"
"""A keyword with error messages for callers, by the keyword that failed; the same as in ajv-errors."""

Secret: dict[str, Any] = {"writeOnly": True}
"""Marks an argument that must never be shown, such as a password: ``Annotated[str, Secret]``."""

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

MAX_INLINED, MAX_NESTED = 500, 64
"""Maximum number and depth of subschemas after `inline_references`; a schema with more is left as it is."""

# Where the dialects from draft 4 to 2020-12 have schemas: as the value, in a list, or by name.
_SINGLE = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_LISTED = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_APPLICATORS = _SINGLE | _LISTED | _NAMED

_DEFINITIONS = ("#/$defs/", "#/definitions/")
TYPE_NAMES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}


def is_secret(schema: Schema) -> bool:
    """Whether a value is one that nothing may show. pydantic describes its ``SecretStr`` with both of these."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def tuple_schema(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Describe an array of exactly these items."""
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def object_schema(properties: dict[str, Any], required: list[str], *, closed: bool) -> dict[str, Any]:
    """Describe an object with these members; ``closed`` if it may have no others."""
    rules = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **rules, **({"additionalProperties": False} if closed else {})}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow null besides what the schema allows; annotations stay outside."""
    notes = {name: value for name, value in schema.items() if name in ANNOTATIONS}
    rules = {name: value for name, value in schema.items() if name not in ANNOTATIONS}
    return {"anyOf": [rules, {"type": "null"}], **notes} if rules else notes


def map_parts(schema: Schema, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Copy a schema, and change everything in it that stands where a subschema should, whatever it is."""
    copied = dict(schema)
    if _APPLICATORS.isdisjoint(schema):
        return copied
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, Mapping):
            copied[keyword] = {name: change(part) for name, part in value.items()}
        elif keyword in _LISTED and isinstance(value, list):
            copied[keyword] = [change(part) for part in value]
        elif keyword in _SINGLE:
            copied[keyword] = change(value)
    return copied


def map_subschemas(schema: Schema, change: Callable[[Schema], Any]) -> dict[str, Any]:
    """Copy a schema, and change each direct subschema but ``true`` and ``false``."""
    # The exact type first, because isinstance() with an abstract class is slow.
    return map_parts(schema, lambda part: change(part) if type(part) is dict or isinstance(part, Mapping) else part)


def subschemas(schema: Schema) -> list[Schema]:
    """List the direct subschemas but ``true`` and ``false``."""
    found: list[Schema] = []
    map_subschemas(schema, found.append)
    return found


def walk(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all its subschemas, without following references."""
    yield schema
    for inner in subschemas(schema):
        yield from walk(inner)


def resolve(root: Schema, reference: object) -> Any:
    """Return the target of a JSON Pointer such as ``#/$defs/word``; ``None`` for any other reference."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in unquote(reference[2:]).split("/"):
        if isinstance(found, list):
            found = {str(index): part for index, part in enumerate(found)}
        if not isinstance(found, Mapping):
            return None
        found = found.get(step.replace("~1", "/").replace("~0", "~"))
    return found


def types_of(schema: Any, root: Schema, _open: tuple[object, ...] = ()) -> frozenset[str]:
    """Return the types that a schema allows by ``$ref``, ``enum``, ``const``, ``type`` or alternatives; else all."""
    if not isinstance(schema, Mapping):
        return TYPES
    if "$ref" in schema:
        reference = schema["$ref"]
        if reference in _open:  # adds nothing to what this same definition allows anyway
            return frozenset()
        return types_of(resolve(root, reference), root, (*_open, reference))
    if "enum" in schema:
        return frozenset(map(type_name, schema["enum"]))
    if "const" in schema:
        return frozenset({type_name(schema["const"])})
    if "type" in schema:
        named = schema["type"]
        return frozenset([named] if isinstance(named, str) else named)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if not alternatives:
        return TYPES
    return frozenset().union(*(types_of(inner, root, _open) for inner in alternatives))


def type_name(value: object) -> str:
    """Name the JSON type of a plain value."""
    return TYPE_NAMES.get(type(value), "object")


def has_references(schema: Schema) -> bool:
    """Return whether a schema has a ``$ref`` anywhere inside."""
    return any("$ref" in inner for inner in walk(schema))


def replace_references(schema: Schema, address: str) -> dict[str, Any]:
    """Copy a schema for a larger document, and change its references to start at its new location.

    :param address: The location, such as ``#/components/schemas/article``.
    """
    moved = map_subschemas(schema, lambda inner: replace_references(inner, address))
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = address + reference[1:]
    return moved


def can_be_wrapped(schema: Schema) -> bool:
    """Return whether all references in a schema stay valid in `wrap_schema`."""
    return all(
        "$id" not in inner and str(inner.get("$ref", _DEFINITIONS[0])).startswith(_DEFINITIONS)
        for inner in walk(schema)
    )


def wrap_schema(schema: Schema) -> dict[str, Any]:
    """Describe an object that has a value of this schema as its member ``result``; definitions stay at the root."""
    outer = {name: schema[name] for name in ("$schema", "$defs", "definitions") if name in schema}
    inner = {name: value for name, value in schema.items() if name not in outer}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **outer}


def inline_references(schema: Schema) -> dict[str, Any]:
    """Copy a schema with references replaced by their definitions, because many clients misread ``$ref``.

    The definitions stay where they are. A schema that is recursive, that has a ``$id`` inside, or that would become
    too large is copied as it is.
    """
    definitions = schema.get("$defs")
    if not isinstance(definitions, Mapping):
        return dict(schema)
    count = itertools.count()

    def inline(inner: Schema, depth: int = 0) -> dict[str, Any]:
        if "$id" in inner or next(count) >= MAX_INLINED or depth > MAX_NESTED:
            raise _CannotInline
        name = str(inner.get("$ref")).removeprefix(_DEFINITIONS[0])
        definition = definitions.get(name) if "$ref" in inner else None
        # Rules beside a reference apply too; merged into one schema, one of two rules of the same name would be lost.
        if not isinstance(definition, Mapping) or not set(inner) <= {"$ref", *ANNOTATIONS}:
            return map_subschemas(inner, lambda part: inline(part, depth + 1))
        inlined = inline(definition, depth + 1)
        inlined.pop("$anchor", None)  # an anchor may be defined only once
        return {**inlined, **{keyword: value for keyword, value in inner.items() if keyword != "$ref"}}

    try:
        return {**inline({**schema, "$defs": None}), "$defs": definitions}
    except _CannotInline:
        return dict(schema)


class _CannotInline(Exception):
    """There are too many subschemas, as in a recursive definition, or one has a ``$id``."""


class Definitions:
    """Collects the definitions of recursive classes while one schema is built.

    Any other class is inlined, because many clients misread ``$ref``.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self._open: dict[Hashable, str] = {}
        self._recursive: dict[Hashable, str] = {}

    def schema_of(self, kind: Hashable, name: str, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the schema of a class, or a reference to it if the class is recursive."""
        if kind in self._open:
            self._recursive[kind] = self._open[kind]
        if kind not in self._recursive:
            self._open[kind] = self._free_name(name)
            schema = build()
            name = self._open.pop(kind)
            if kind not in self._recursive:
                return schema
            self.schemas[name] = schema
        return {"$ref": f"#/$defs/{self._recursive[kind]}"}

    def adopt(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema of another library, or a reference to it if the schema is recursive."""
        if "$defs" not in schema:
            return schema
        for known, definition in self.schemas.items():
            if definition == replace_references(schema, f"#/$defs/{known}"):
                return {"$ref": f"#/$defs/{known}"}
        address = f"#/$defs/{self._free_name(name)}"
        self.schemas[address.rpartition("/")[2]] = replace_references(schema, address)
        return {"$ref": address}

    def attach(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Add the collected definitions to a schema."""
        return {**schema, "$defs": self.schemas} if self.schemas else schema

    def _free_name(self, name: str) -> str:
        taken = {*self.schemas, *self._open.values()}
        others = (f"{name}{number}" for number in itertools.count(2))
        return next(free for free in itertools.chain([name], others) if free not in taken)
