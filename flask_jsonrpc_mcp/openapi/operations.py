"""Read an OpenAPI 3 or Swagger 2 document: choose some of its operations, and convert its schemas to JSON Schema."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ..lookup import did_you_mean
from ..schema.walk import Schema, has_references, inline_references, map_subschemas, nullable, resolve

METHODS = ("get", "post", "put", "patch", "delete")
"""The HTTP methods whose operations can be tools."""

TAG = "tag:"

# Keywords without a meaning in JSON Schema, or without one for a model. A title repeats the name of the property.
_DROPPED = frozenset(
    (
        *("discriminator", "xml", "externalDocs", "nullable", "x-nullable", "example", "title"),
        *("$schema", "$id", "$anchor", "readOnly", "writeOnly", "deprecated", "collectionFormat", "allowEmptyValue"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of an API.

    :param id: Its ``operationId``; made from the method and the path if it has none.
    :param method: The HTTP method in upper case.
    :param path: The path with its variables, such as ``/books/{id}``, as the document has it.
    :param spec: The operation object of the document, with the parameters of its path.
    :param document: The whole document.
    """

    id: str
    method: str
    path: str
    tags: tuple[str, ...] = ()
    summary: str = ""
    description: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.id} ({self.method} {self.path})"

    @property
    def is_swagger(self) -> bool:
        """Whether the document is Swagger 2."""
        return "swagger" in self.document

    @property
    def paths(self) -> list[str]:
        """The paths that the app may have it at: below the base path of the API, or without it."""
        if self.is_swagger:
            bases = [str(self.document.get("basePath", ""))]
        else:
            servers = self.spec.get("servers") or self.document.get("servers") or ()
            urls = [str(server.get("url", "")) for server in servers if isinstance(server, Mapping)]
            bases = [urlsplit(url).path for url in urls]
        return list(dict.fromkeys([*(base.rstrip("/") + self.path for base in bases), self.path]))

    def matches(self, pattern: str) -> bool:
        """Return whether a pattern of ``include`` chooses it."""
        method, _, path = pattern.partition(" ")
        if fnmatchcase(self.method, method.upper()) and fnmatchcase(self.path, path):
            return True
        return any(fnmatchcase(name, pattern) for name in (self.id, *(TAG + tag for tag in self.tags)))


Include: TypeAlias = Iterable[str] | Callable[[Operation], bool]
"""Patterns such as ``get_*``, ``tag:books`` and ``GET /books/*``, or a function of the operation."""


def read_operations(document: Any) -> list[Operation]:
    """Read all operations of a document, in its order.

    :raises ValueError: if it is not an OpenAPI 3 or Swagger 2 document.
    """
    if isinstance(document, (str, os.PathLike)):
        raise TypeError("the document must be a dict or a function that returns one, not a path; load the file first")
    version = str(document.get("openapi", document.get("swagger", ""))) if isinstance(document, Mapping) else ""
    if not version.startswith(("2.", "3.")):
        raise ValueError('this is not an OpenAPI document: the member "openapi" must be 3.x, or "swagger" 2.0')
    paths = document.get("paths") or {}
    if not isinstance(paths, Mapping):
        raise ValueError('the member "paths" of the OpenAPI document must be an object')
    return [operation for path, item in paths.items() for operation in _read_path(path, item, document)]


def _read_path(path: str, item: Any, document: Mapping[str, Any]) -> Iterator[Operation]:
    if not isinstance(item, Mapping):
        return
    for method in METHODS:
        spec = item.get(method)
        if not isinstance(spec, Mapping):
            continue
        own = {_place(parameter): parameter for parameter in spec.get("parameters", ())}
        shared = {_place(parameter): parameter for parameter in item.get("parameters", ())}
        yield Operation(
            id=str(spec.get("operationId") or f"{method}_{re.sub(r'[^A-Za-z0-9]+', '_', path).strip('_')}"),
            method=method.upper(),
            path=path,
            tags=tuple(map(str, spec.get("tags", ()))),
            summary=_text(spec.get("summary")),
            description=_text(spec.get("description")),
            spec={**spec, "parameters": list({**shared, **own}.values())},
            document=document,
        )


def _place(parameter: Any) -> tuple[str, str]:
    """A parameter of an operation replaces the one of its path that has the same name and place."""
    if not isinstance(parameter, Mapping):
        return "", ""
    return str(parameter.get("$ref") or parameter.get("in")), str(parameter.get("name"))


def _text(text: Any) -> str:
    """Remove invisible characters, which a tool must not have in its texts."""
    kept = (char if char.isprintable() or char in "\n\t" else " " if char.isspace() else "" for char in str(text or ""))
    return "".join(kept).replace(" \n", "\n").strip()


def choose(operations: Iterable[Operation], include: Include) -> list[Operation]:
    """Return the operations that ``include`` chooses.

    :raises TypeError: if it is neither a list of patterns nor a function.
    :raises ValueError: if nothing is chosen, or a pattern chooses nothing.
    """
    known = list(operations)
    if callable(include):
        chosen = [operation for operation in known if include(operation)]
        if not chosen:
            raise ValueError(f"include chooses none of the {len(known)} operations of the document")
        return chosen
    if isinstance(include, str):
        raise TypeError(f"include must be a list of patterns or a function; write include=[{include!r}]")
    patterns = list(include)
    if not patterns:
        raise ValueError("include is empty; list patterns such as 'get_*', 'tag:books' or 'GET /books/*'")
    for pattern in patterns:
        if not any(operation.matches(pattern) for operation in known):
            names = [operation.id for operation in known] + [TAG + tag for each in known for tag in each.tags]
            names += [f"{each.method} {each.path}" for each in known if "/" in pattern]
            raise ValueError(
                f"include: no operation matches {pattern!r}; {did_you_mean(pattern, dict.fromkeys(names))}"
            )
    return [operation for operation in known if any(operation.matches(pattern) for pattern in patterns)]


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
