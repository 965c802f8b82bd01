"""Schemas of classes that may contain themselves: written in place, or under ``$defs`` once they turn out to."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

_NOTES = ("title", "description", "default", "examples")


class Definitions:
    """The recursive classes met while one schema is built.

    A class is written in place wherever it can be, because many clients read ``$ref`` badly.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self._built: dict[Hashable, dict[str, Any]] = {}
        self._open: dict[Hashable, str] = {}
        self._recursive: set[str] = set()

    def schema_of(self, kind: Hashable, name: str, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the schema of a class, or a reference to it while it is being built."""
        if kind in self._built:
            return self._built[kind]
        if kind in self._open:
            name = self._open[kind]
            self._recursive.add(name)
            return {"$ref": f"#/$defs/{name}"}
        name = self._open[kind] = self._free_name(name)
        schema = build()
        del self._open[kind]
        if name in self._recursive:
            self.schemas[name] = schema
            schema = {"$ref": f"#/$defs/{name}"}
        self._built[kind] = schema
        return schema

    def attach(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions that the schema's references lead to."""
        return {**schema, "$defs": self.schemas} if self.schemas else schema

    def _free_name(self, name: str) -> str:
        taken = {*self.schemas, *self._open.values()}
        names = (name if number == 1 else f"{name}{number}" for number in range(1, len(taken) + 2))
        return next(free for free in names if free not in taken)


def described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """Add a description."""
    return {**schema, "description": text}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow null besides what the schema allows; notes for readers stay outside."""
    notes = {name: value for name, value in schema.items() if name in _NOTES}
    rules = {name: value for name, value in schema.items() if name not in _NOTES}
    return {"anyOf": [rules, {"type": "null"}], **notes} if rules else notes
