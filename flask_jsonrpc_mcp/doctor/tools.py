"""What can be wrong with one tool. Everything is looked at as the newest clients get it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..mcp.protocol import MODERN
from ..mcp.spelling import spell_tool
from ..methods import Method
from ..strict_json import write
from .findings import ERROR, WARNING, Place, ToolCheck

MAX_NAME = 64
"""The longest name that all model APIs take."""
MAX_DESCRIBED = 8 * 1024
"""How many bytes a description of a tool may have, schemas included: some 2,000 tokens of every conversation."""

PLAIN_KEYWORDS = ("oneOf", "anyOf", "allOf", "not", "if", "enum", "const", "$ref", "$dynamicRef", "dependentSchemas")
"""What a plain object does not have at its top level."""

WRITING = re.compile(
    "append|cancel|clear|create|delete|disable|edit|enable|erase|insert|modify|move|patch|publish|purge|put|rebuild"
    "|remove|rename|replace|reset|save|send|set|store|submit|truncate|update|upload|upsert|write"
)
"""Words of a name that promise a change."""
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def dots_in_name(place: Place, tool: Method) -> str | None:
    if "." not in _name(place, tool):
        return None
    return "some clients and model APIs take only letters, digits, '_' and '-' in the name of a tool"


def long_name(place: Place, tool: Method) -> str | None:
    if len(tool.name) <= MAX_NAME:
        return None
    return f"the name has {len(tool.name)} characters, and model APIs refuse more than {MAX_NAME}"


def no_description(place: Place, tool: Method) -> str | None:
    if tool.description != tool.name:
        return None
    return "a model decides by the description whether to call it, and there is only the name"


def references(place: Place, tool: Method) -> str | None:
    for role, schema in _schemas(place, tool):
        if any("$ref" in part or "$dynamicRef" in part for part in _parts(schema)):
            return f"its {role} has a $ref that cannot be written in place, and many clients read it as 'anything'"
    return None


def huge(place: Place, tool: Method) -> str | None:
    size = len(write(_described(place, tool)))
    if size <= MAX_DESCRIBED:
        return None
    return f"describing it takes {size:,} bytes, some {size // 4:,} tokens of every conversation that has it"


def not_plain(place: Place, tool: Method) -> str | None:
    found = [keyword for keyword in PLAIN_KEYWORDS if keyword in _described(place, tool)["inputSchema"]]
    if not found:
        return None
    return f"its inputSchema has {' and '.join(found)} at the top level, and model APIs refuse all but a plain object"


def reads_and_destroys(place: Place, tool: Method) -> str | None:
    if not (tool.read_only and tool.tool is not None and tool.tool.annotations.get("destructiveHint") is True):
        return None
    return "it says readOnlyHint and destructiveHint; GET runs it, and clients do not ask before they do"


def reads_by_a_writing_name(place: Place, tool: Method) -> str | None:
    verbs = [word for word in map(str.lower, _WORD.findall(tool.name)) if WRITING.fullmatch(word)]
    if not tool.read_only or not verbs:
        return None
    return f"it says readOnlyHint, so GET runs it and clients do not ask; its name says that it can {verbs[0]}"


def public_read(place: Place, tool: Method) -> str | None:
    return "anyone may call it, without signing in" if _is_public(place, tool) and tool.read_only else None


def public_write(place: Place, tool: Method) -> str | None:
    if not _is_public(place, tool) or tool.read_only:
        return None
    return "anyone may call it without signing in, and it does not say that it only reads"


TOOL_CHECKS = (
    ToolCheck(
        "name-dots", WARNING, dots_in_name, "set JSONRPC_MCP_TOOL_NAME_STYLE = 'no-dots', or choose a name without dots"
    ),
    ToolCheck("name-long", ERROR, long_name, "give the method a shorter name"),
    ToolCheck("no-description", WARNING, no_description, "write a docstring, or pass description="),
    ToolCheck("schema-ref", WARNING, references, "do without types that contain themselves"),
    ToolCheck("schema-huge", WARNING, huge, "take fewer arguments, shorten texts, or split the tool in two"),
    ToolCheck(
        "schema-not-plain", ERROR, not_plain, "put the alternatives into a property, or make one tool of each of them"
    ),
    ToolCheck("read-only-destructive", ERROR, reads_and_destroys, "take away the one of the two that is not true"),
    ToolCheck(
        "read-only-name",
        WARNING,
        reads_by_a_writing_name,
        "take readOnlyHint away, or rename what only reads",
    ),
    ToolCheck("public-write", ERROR, public_write, "name the permissions that it takes in access=[...]"),
    ToolCheck(
        "public-read",
        WARNING,
        public_read,
        "name permissions in access=[...], or ignore this if it is meant for all",
    ),
)


def _name(place: Place, tool: Method) -> str:
    name: str = _described(place, tool)["name"]
    return name


def _described(place: Place, tool: Method) -> dict[str, Any]:
    return spell_tool(tool, MODERN, place.setting("TOOL_NAME_STYLE"))


def _schemas(place: Place, tool: Method) -> Iterator[tuple[str, Any]]:
    described = _described(place, tool)
    for role in ("inputSchema", "outputSchema"):
        if role in described:
            # Definitions stay when what refers to them was written in place.
            yield role, {name: part for name, part in described[role].items() if name != "$defs"}


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for item in inner:
        yield from _parts(item)


def _is_public(place: Place, tool: Method) -> bool:
    return bool(place.core.authenticator.auths) and not place.core.require_auth and not tool.access
