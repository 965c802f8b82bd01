"""Schemas of classes that may contain themselves: written in place, or under ``$defs`` once they turn out to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

_FOR_READERS = ("title", "description", "default", "examples", "deprecated")


class Definitions:
    """The recursive classes met while one schema is built.

    A class is written in place wherever it can be, because many clients read ``$ref`` badly.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self._open: dict[Hashable, str] = {}
        self._recursive: dict[Hashable, str] = {}

    def schema_of(self, kind: Hashable, name: str, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the schema of a class, or a reference to it when it contains itself."""
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

    def attach(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions that the schema's references lead to."""
        return {**schema, "$defs": self.schemas} if self.schemas else schema

    def _free_name(self, name: str) -> str:
        taken = {*self.schemas, *self._open.values()}
        names = (name if number == 1 else f"{name}{number}" for number in range(1, len(taken) + 2))
        return next(free for free in names if free not in taken)


def object_schema(properties: dict[str, Any], required: Sequence[str], *, closed: bool) -> dict[str, Any]:
    """Spell an object with these members; ``closed`` when it may have no others."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """Add a description."""
    return {**schema, "description": text}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow null besides what the schema allows; notes for readers stay outside."""
    notes = {name: value for name, value in schema.items() if name in _FOR_READERS}
    rules = {name: value for name, value in schema.items() if name not in _FOR_READERS}
    return {"anyOf": [rules, {"type": "null"}], **notes} if rules else notes
