"""How each protocol version spells tools, prompts, resources and results: one named rule per difference.

What is declared here once would be refused, or read wrongly, by some client: a null cursor, an output schema or a
structured result that is no object, a free-form annotation, a reference into ``$defs``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from ..calls import Result
from ..declarations import HINTS
from ..errors import InvalidParams, RpcError
from ..prompts import Prompt
from ..registry import alias_of
from ..resources import Resource
from ..settings import NO_DOTS
from ..strict_json import write
from . import protocol

ANNOTATIONS_KEY = "flask-jsonrpc-mcp/annotations"
"""Where in ``_meta`` the annotations are that MCP does not know."""

MAX_INLINED = 2_000
"""A schema that inlining would give more parts than this stays as it is."""

_DEFINITIONS = "#/$defs/"
_NOTES = ("title", "description", "default", "examples", "deprecated")


class HasSchema(Protocol):
    @property
    def schema(self) -> Mapping[str, Any]: ...


class Described(Protocol):
    """What can be listed as a tool: a method of ours, or one of another site."""

    @property
    def name(self) -> str: ...

    @property
    def descriptor(self) -> dict[str, Any]: ...

    @property
    def params(self) -> HasSchema: ...

    @property
    def output(self) -> HasSchema | None: ...


def spell_tool(method: Described, version: str, name_style: str | None = None) -> dict[str, Any]:
    """Describe a tool to a client of a version."""
    described = dict(method.descriptor)
    if name_style == NO_DOTS:
        described["name"] = alias_of(method.name)
    described["inputSchema"] = inline_references(method.params.schema)
    described.pop("outputSchema", None)
    if not protocol.has_structured_content(version):
        described.pop("title", None)
    elif method.output is not None:
        schema = inline_references(method.output.schema)
        # Before 2026-07-28 there were only objects: anything else goes inside of one.
        if version == protocol.MODERN or _is_of_objects(schema):
            described["outputSchema"] = schema
        elif can_be_wrapped(schema):
            described["outputSchema"] = wrap_schema(schema)
    known, free = split_annotations(described.pop("annotations", {}))
    if known and protocol.has_annotations(version):
        described["annotations"] = known
    if free and protocol.has_structured_content(version):
        described["_meta"] = {ANNOTATIONS_KEY: free}
    return described


def spell_prompt(prompt: Prompt, version: str) -> dict[str, Any]:
    """Describe a prompt to a client of a version."""
    described = dict(prompt.descriptor)
    if not protocol.has_structured_content(version):
        described = _without(described, "title")
        if "arguments" in described:
            described["arguments"] = [_without(argument, "title") for argument in described["arguments"]]
    return described


def spell_resource(resource: Resource, version: str) -> dict[str, Any]:
    """Describe a resource to a client of a version."""
    return resource.descriptor if protocol.has_structured_content(version) else _without(resource.descriptor, "title")


def spell_result(result: Result, version: str) -> dict[str, Any]:
    """Spell what a tool returned: as structured content, and as content that a model reads."""
    spelled: dict[str, Any] = {}
    if result.content is not None:
        spelled["content"] = [downgrade_block(block, version) for block in result.content]
    else:
        spelled["content"] = [{"type": "text", "text": as_text(result.value)}]
    has_value = result.content is None or result.value is not None
    if has_value and protocol.has_structured_content(version):
        value = result.value
        if version != protocol.MODERN and not (
            isinstance(value, dict) if result.schema is None else _is_of_objects(result.schema)
        ):
            value = {"result": value}
        spelled["structuredContent"] = value
    spelled["isError"] = False
    if result.meta is not None:
        spelled["_meta"] = dict(result.meta)
    return spelled


def spell_failure(error: RpcError) -> dict[str, Any]:
    """Spell a failure of a tool: a result, because a model can read it and try again."""
    text = error.message
    if isinstance(error, InvalidParams):
        text = "Invalid arguments: " + "; ".join(str(problem) for problem in error.problems)
    return {"content": [{"type": "text", "text": text}], "isError": True}


def split_annotations(annotations: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell the annotations that MCP knows from those that are an app's own."""
    known = {name: value for name, value in annotations.items() if name in HINTS or name == "title"}
    return known, {name: value for name, value in annotations.items() if name not in known}


def can_be_wrapped(schema: Any) -> bool:
    """Tell whether all references in a schema would still lead where they do when it is one level deeper."""
    if isinstance(schema, list):
        return all(can_be_wrapped(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    reference = schema.get("$ref", _DEFINITIONS)
    known = isinstance(reference, str) and reference.startswith((_DEFINITIONS, "#/definitions/"))
    return known and "$id" not in schema and all(can_be_wrapped(item) for item in schema.values())


def wrap_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an object with the result inside; what references lead to stays at the root."""
    outer = {name: schema[name] for name in ("$schema", "$defs", "definitions") if name in schema}
    inner = {name: value for name, value in schema.items() if name not in outer}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **outer}


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Put definitions in the place of references to them, because many clients read ``$ref`` badly.

    The definitions stay where they are. A schema stays as it is when it is recursive, when it has another base
    address inside, or when it would become too long.
    """
    definitions = schema.get("$defs")
    if not isinstance(definitions, Mapping) or "$id" in json.dumps(schema):
        return dict(schema)
    inliner = _Inliner(definitions)
    try:
        return {name: value if name == "$defs" else inliner.inlined(value) for name, value in schema.items()}
    except _CannotInline:
        return dict(schema)


def downgrade_block(block: dict[str, Any], version: str) -> dict[str, Any]:
    """Show content that a version does not know yet as a text."""
    if block["type"] == "resource_link" and not protocol.has_structured_content(version):
        return {"type": "text", "text": f"{block['name']}: {block['uri']}"}
    if block["type"] == "audio" and not protocol.has_annotations(version):
        return {"type": "text", "text": f"[audio of type {block['mimeType']}]"}
    return block


def as_text(value: Any) -> str:
    """Show a value as text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else write(value).decode("utf-8")


def _is_of_objects(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def _without(described: Mapping[str, Any], member: str) -> dict[str, Any]:
    return {name: value for name, value in described.items() if name != member}


class _CannotInline(Exception):
    """The definitions contain themselves, or are too many."""


class _Inliner:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self._left = MAX_INLINED

    def inlined(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _CannotInline
        if isinstance(value, list):
            return [self.inlined(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        name = str(value.get("$ref")).removeprefix(_DEFINITIONS)
        definition = self._definitions.get(name) if "$ref" in value else None
        # Beside a reference both hold; in one schema, one of two rules of the same name would be lost.
        if isinstance(definition, Mapping) and set(value) <= {"$ref", *_NOTES}:
            notes = {key: item for key, item in value.items() if key != "$ref"}
            return {**self._definition(name, definition), **notes}
        return {key: self.inlined(item) for key, item in value.items()}

    def _definition(self, name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
        if name in self._open:
            raise _CannotInline
        self._open.append(name)
        # Without its anchor: there must be one of each in a schema.
        inlined = {key: self.inlined(item) for key, item in definition.items() if key != "$anchor"}
        self._open.pop()
        return inlined
