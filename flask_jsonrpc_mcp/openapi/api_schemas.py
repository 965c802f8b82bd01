"""Convert the schemas of OpenAPI 3.0, OpenAPI 3.1 and Swagger 2 to JSON Schema for the arguments of a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..schema.walk import Schema, has_references, inline_references, map_subschemas, nullable, resolve

# Keywords without a meaning in JSON Schema, or without one for a model. A title repeats the name of the property.
_DROPPED = (
    *(
        "discriminator",
        "xml",
        "externalDocs",
        "nullable",
        "x-nullable",
        "example",
        "title",
        "$schema",
        "$id",
        "$anchor",
    ),
    *("readOnly", "writeOnly", "deprecated", "collectionFormat", "allowEmptyValue"),
)


class SchemaReader:
    """Converts schemas of one document, and collects the definitions that they refer to.

    :param document: The document that references point into.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Inline the references of a converted schema; recursive ones stay, with their definitions."""
        if not self._definitions:
            return schema
        inlined = inline_references({**schema, "$defs": self._definitions})
        bare = {keyword: value for keyword, value in inlined.items() if keyword != "$defs"}
        return inlined if has_references(bare) else bare

    def resolve(self, part: Any) -> Any:
        """Follow the references of a part of the document that is not a schema, such as a parameter.

        :raises ValueError: if one leads out of the document, or nowhere.
        """
        followed = 0
        while isinstance(part, Mapping) and isinstance(part.get("$ref"), str):
            reference, part = part["$ref"], resolve(self._document, part["$ref"])
            followed += 1
            if part is None or followed > 20:
                raise ValueError(f"the reference {reference!r} cannot be resolved in the document")
        return part

    def convert(self, schema: Any) -> Any:
        """Convert a schema.

        :raises ValueError: for a reference that leads out of the document, or nowhere.
        """
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(schema.get("$ref"), str):
            notes = {key: schema[key] for key in ("description", "default") if key in schema}
            return {"$ref": f"#/$defs/{self._define(schema['$ref'])}", **notes}
        converted = map_subschemas(_without_read_only(schema), self.convert)
        for keyword in [key for key in converted if key in _DROPPED or key.startswith("x-")]:
            del converted[keyword]
        if "example" in schema and "examples" not in schema:
            converted["examples"] = [schema["example"]]
        _read_limits(converted)
        if "pattern" in converted and not _is_regular(converted["pattern"]):
            del converted["pattern"]
        return nullable(converted) if schema.get("nullable") or schema.get("x-nullable") else converted

    def _define(self, reference: str) -> str:
        name = self._names.get(reference)
        if name is None:
            target = self.resolve({"$ref": reference})
            base = re.sub(r"[^A-Za-z0-9._-]", "_", reference.rpartition("/")[2]) or "schema"
            name = self._names[reference] = base if base not in self._definitions else f"{base}{len(self._definitions)}"
            self._definitions[name] = {}  # taken, also by a reference to itself
            self._definitions[name] = self.convert(target)
        return name


def _read_limits(schema: dict[str, Any]) -> None:
    """In OpenAPI 3.0 and Swagger 2, an exclusive limit is a flag beside the limit."""
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)


def _without_read_only(schema: Schema) -> Schema:
    """Remove the properties that only responses have."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return schema
    hidden = {name for name, rules in properties.items() if isinstance(rules, Mapping) and rules.get("readOnly")}
    if not hidden:
        return schema
    return {
        **schema,
        "properties": {name: rules for name, rules in properties.items() if name not in hidden},
        "required": [name for name in schema.get("required", ()) if name not in hidden],
    }


def _is_regular(pattern: Any) -> bool:
    try:
        re.compile(pattern)
    except (re.error, TypeError):
        return False  # a feature of ECMAScript; the endpoint itself checks it
    return True
