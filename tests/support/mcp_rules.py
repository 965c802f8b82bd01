"""The rules of each protocol version for the messages that we send, in our own words.

They are those of the versions' JSON Schemas. The official conformance suite checks the two newest versions against the
originals as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from flask_jsonrpc_mcp.mcp.protocol import MODERN


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object with these members and, so that nothing of another version slips in, no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
OBJECT = {"type": "object"}
BASE64 = {"type": "string", "pattern": "^[A-Za-z0-9+/]*=*$"}
ID = {"type": ["string", "integer"]}
LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


CONTENTS = {
    "anyOf": [
        record({"uri": TEXT, "text": TEXT}, {"mimeType": TEXT}),
        record({"uri": TEXT, "blob": BASE64}, {"mimeType": TEXT}),
    ]
}


def implementation() -> dict[str, Any]:
    return record({"name": TEXT, "version": TEXT})


def block(version: str) -> dict[str, Any]:
    extra = {"annotations": OBJECT, **({"_meta": OBJECT} if version >= "2025-06-18" else {})}
    kinds = [
        record({"type": {"const": "text"}, "text": TEXT}, extra),
        record({"type": {"const": "image"}, "data": BASE64, "mimeType": TEXT}, extra),
        record({"type": {"const": "resource"}, "resource": CONTENTS}, extra),
    ]
    if version >= "2025-03-26":
        kinds.append(record({"type": {"const": "audio"}, "data": BASE64, "mimeType": TEXT}, extra))
    if version >= "2025-06-18":
        optional = {"title": TEXT, "description": TEXT, "mimeType": TEXT, "size": {"type": "integer"}, **extra}
        kinds.append(record({"type": {"const": "resource_link"}, "uri": TEXT, "name": TEXT}, optional))
    return {"oneOf": kinds}


def tool(version: str) -> dict[str, Any]:
    object_schema = {"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]}
    optional: dict[str, Any] = {"description": TEXT}
    if version >= "2025-03-26":
        hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        optional["annotations"] = record({}, {"title": TEXT, **dict.fromkeys(hints, FLAG)})
    if version >= "2025-06-18":
        output = OBJECT if version == MODERN else object_schema
        optional.update({"title": TEXT, "outputSchema": output, "_meta": OBJECT})
    return record({"name": TEXT, "inputSchema": object_schema}, optional)


def titled(version: str) -> dict[str, Any]:
    return {"title": TEXT} if version >= "2025-06-18" else {}


def prompt(version: str) -> dict[str, Any]:
    argument = record({"name": TEXT}, {"description": TEXT, "required": FLAG, **titled(version)})
    return record({"name": TEXT}, {"description": TEXT, "arguments": array(argument), **titled(version)})


def resource(version: str, member: str) -> dict[str, Any]:
    annotations = record({}, {"audience": array({"enum": ["user", "assistant"]}), "priority": {"type": "number"}})
    optional = {"description": TEXT, "mimeType": TEXT, "annotations": annotations, **titled(version)}
    return record({member: TEXT, "name": TEXT}, optional)


def question(version: str) -> dict[str, Any]:
    """A request to the client, but for its id."""
    form = record({"type": {"const": "object"}, "properties": OBJECT}, {"required": array(TEXT)})
    elicited: dict[str, Any] = {"message": TEXT, "requestedSchema": form}
    opened: dict[str, Any] = {"mode": {"const": "url"}, "message": TEXT, "url": TEXT}
    if version == MODERN:
        elicited["mode"] = {"const": "form"}
    else:
        opened["elicitationId"] = TEXT
    message = record({"role": {"enum": ["user", "assistant"]}, "content": block(version)})
    sampled = record({"messages": array(message), "maxTokens": {"type": "integer"}}, {"systemPrompt": TEXT})
    return {
        "oneOf": [
            record({"method": {"const": "elicitation/create"}, "params": record(elicited)}),
            record({"method": {"const": "elicitation/create"}, "params": record(opened)}),
            record({"method": {"const": "sampling/createMessage"}, "params": sampled}),
            record({"method": {"const": "roots/list"}}),
        ]
    }


def notification(version: str) -> dict[str, Any]:
    number = {"type": "number"}
    message = {"message": TEXT} if version >= "2025-03-26" else {}
    progress = record({"progressToken": ID, "progress": number}, {"total": number, **message})
    logged = record({"level": {"enum": LOG_LEVELS}, "data": True}, {"logger": TEXT})
    return {
        "oneOf": [
            record({"jsonrpc": {"const": "2.0"}, "method": {"const": "notifications/progress"}, "params": progress}),
            record({"jsonrpc": {"const": "2.0"}, "method": {"const": "notifications/message"}, "params": logged}),
        ]
    }


def modern_only(version: str, **members: Any) -> dict[str, Any]:
    return members if version == MODERN else {}


def result_rules(version: str) -> dict[str, Any]:
    """The results of a version, by method."""
    complete = modern_only(version, resultType={"const": "complete"}, _meta=OBJECT)
    cached = modern_only(version, ttlMs={"type": "integer", "minimum": 0}, cacheScope={"enum": ["public", "private"]})
    lists = {
        "tools/list": ("tools", tool(version)),
        "prompts/list": ("prompts", prompt(version)),
        "resources/list": ("resources", resource(version, "uri")),
        "resources/templates/list": ("resourceTemplates", resource(version, "uriTemplate")),
    }
    message = record({"role": {"enum": ["user", "assistant"]}, "content": block(version)})
    suggested = {"values": {**array(TEXT), "maxItems": 100}, "total": {"type": "integer"}, "hasMore": FLAG}
    called = {"content": {"type": "array", "items": block(version)}, "isError": FLAG, **complete}
    structured = {"structuredContent": True if version == MODERN else OBJECT} if version >= "2025-06-18" else {}
    rules = {
        **{
            method: record({member: array(item), **complete, **cached}, {"nextCursor": TEXT})
            for method, (member, item) in lists.items()
        },
        "tools/call": record(called, structured),
        "prompts/get": record({"description": TEXT, "messages": array(message), **complete}),
        "resources/read": record({"contents": array(CONTENTS), **complete, **cached}),
        "completion/complete": record({"completion": record(suggested), **complete}),
    }
    if version == MODERN:
        asked = {"type": "object", "additionalProperties": question(version), "minProperties": 1}
        needed = {
            "resultType": {"const": "input_required"},
            "inputRequests": asked,
            "requestState": TEXT,
            "_meta": OBJECT,
        }
        for method in ("tools/call", "prompts/get", "resources/read"):
            rules[method] = {"oneOf": [rules[method], record(needed)]}
    offered = ["tools", "logging", "prompts", "resources", *(["completions"] if version >= "2025-03-26" else [])]
    capabilities = record({name: record({}) for name in offered})
    if version == MODERN:
        versions = {"type": "array", "items": TEXT, "minItems": 1}
        discovered = {"supportedVersions": versions, "capabilities": capabilities, **complete, **cached}
        rules["server/discover"] = record(discovered, {"instructions": TEXT})
    else:
        welcome = {"protocolVersion": {"const": version}, "capabilities": capabilities, "serverInfo": implementation()}
        rules["initialize"] = record(welcome, {"instructions": TEXT})
        rules["ping"] = record({})
    return rules


ERROR = record({"code": {"type": "integer"}, "message": TEXT}, {"data": True})


def check(version: str, method: str, message: dict[str, Any]) -> None:
    """See that a reply to a method obeys the rules of a version.

    :raises ValidationError: when it does not.
    """
    _replies(version, method, "result" in message).validate(message)


def check_question(version: str, asked: dict[str, Any]) -> None:
    """See that a request to the client does, but for its id."""
    _made(question, version).validate(asked)


def check_notification(version: str, message: dict[str, Any]) -> None:
    _made(notification, version).validate(message)


@functools.cache
def _replies(version: str, method: str, is_result: bool) -> Any:
    outcome = {"result": result_rules(version)[method]} if is_result else {"error": ERROR}
    return Draft202012Validator(record({"jsonrpc": {"const": "2.0"}, "id": ID, **outcome}))


@functools.cache
def _made(rules: Callable[[str], dict[str, Any]], version: str) -> Any:
    return Draft202012Validator(rules(version))
