"""What differs between protocol versions: descriptions of tools, prompts and resources, results, content blocks.

Each rule here is about something that some client rejects or misreads: an output schema or structured content that is
not an object, a free-form annotation, a reference to ``$defs``.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from ..ask import Question
from ..call import Result
from ..config import NO_DOTS
from ..envelope import Prepared
from ..errors import InvalidParams, RpcError
from ..method import HINTS
from ..prompts import Prompt
from ..registry import alias_of
from ..resources import Resource
from ..schema.walk import can_be_wrapped, inline_references, wrap_schema
from ..strict_json import write
from . import protocol
from .protocol import MODERN, RequestContext

ANNOTATIONS_KEY = "flask-jsonrpc-mcp/annotations"
"""The key of ``_meta`` for annotations that MCP does not define."""

CACHEABLE = frozenset(
    [
        protocol.DISCOVER,
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    ]
)
"""The methods whose results have ``ttlMs`` and ``cacheScope`` since 2026-07-28."""


def has_annotations(version: str) -> bool:
    """Tool annotations, audio content and the ``completions`` capability came with 2025-03-26."""
    return version >= "2025-03-26"


def has_structured_content(version: str) -> bool:
    """Titles, output schemas, structured content, resource links and ``_meta`` of tools came with 2025-06-18."""
    return version >= "2025-06-18"


def has_icons(version: str) -> bool:
    """Icons of tools came with 2025-11-25."""
    return version >= "2025-11-25"


def describe_tool(descriptor: Mapping[str, Any], version: str, name_style: str | None = None) -> dict[str, Any]:
    """Describe a tool to a client of a version.

    :param descriptor: The tool as 2026-07-28 lists it; of a method of ours, or of a remote site.
    """
    described = dict(descriptor)
    if name_style == NO_DOTS:
        described["name"] = alias_of(described["name"])
    described["inputSchema"] = inline_references(described["inputSchema"])
    output = described.pop("outputSchema", None)
    if not has_icons(version):
        described.pop("icons", None)
    if not has_structured_content(version):
        described.pop("title", None)
    elif output is not None:
        schema = inline_references(output)
        # Before 2026-07-28 an output schema must be an object.
        if version == MODERN or schema.get("type") == "object":
            described["outputSchema"] = schema
        elif can_be_wrapped(schema):
            described["outputSchema"] = wrap_schema(schema)
    known, free = split_annotations(described.pop("annotations", {}))
    if known and has_annotations(version):
        described["annotations"] = known
    meta = described.pop("_meta", {})
    if free:
        meta = {**meta, ANNOTATIONS_KEY: free}
    if meta and has_structured_content(version):
        described["_meta"] = meta
    return described


def describe_prompt(prompt: Prompt, version: str) -> dict[str, Any]:
    """Describe a prompt to a client of a version."""
    described = dict(prompt.descriptor)
    if not has_structured_content(version):
        described = _without(described, "title")
        if "arguments" in described:
            described["arguments"] = [_without(argument, "title") for argument in described["arguments"]]
    return described


def describe_resource(resource: Resource, version: str) -> dict[str, Any]:
    """Describe a resource or template to a client of a version."""
    return resource.descriptor if has_structured_content(version) else _without(resource.descriptor, "title")


def split_annotations(annotations: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the annotations that MCP defines from the app's own."""
    known = {name: value for name, value in annotations.items() if name in HINTS or name == "title"}
    return known, {name: value for name, value in annotations.items() if name not in known}


def tool_result(result: Result, version: str) -> dict[str, Any]:
    """Build the result of ``tools/call``: structured content, and content blocks for the model."""
    if result.content is not None:
        content = [content_block(block, version) for block in result.content]
    else:
        content = [{"type": "text", "text": as_text(result.value)}]
    built: dict[str, Any] = {"content": content}
    has_value = result.content is None or result.value is not None
    if has_value and has_structured_content(version):
        value = result.value
        is_object = isinstance(value, dict) if result.schema is None else result.schema.get("type") == "object"
        built["structuredContent"] = value if version == MODERN or is_object else {"result": value}
    built["isError"] = False
    if result.meta is not None:
        built["_meta"] = dict(result.meta)
    return built


def tool_failure(error: RpcError) -> dict[str, Any]:
    """Build the result of a failed ``tools/call``. Not a JSON-RPC error, so that the model sees it and can retry."""
    text = error.message
    if isinstance(error, InvalidParams):
        text = "Invalid arguments: " + "; ".join(str(problem) for problem in error.problems)
    return {"content": [{"type": "text", "text": text}], "isError": True}


def content_block(block: dict[str, Any], version: str) -> dict[str, Any]:
    """Replace a content block that a version does not have with a text."""
    if block["type"] == "resource_link" and not has_structured_content(version):
        return {"type": "text", "text": f"{block['name']}: {block['uri']}"}
    if block["type"] == "audio" and not has_annotations(version):
        return {"type": "text", "text": f"[audio of type {block['mimeType']}]"}
    return block


def question_request(question: Question, version: str) -> dict[str, Any]:
    """Build the request that asks a question, without its id."""
    params = question.params
    if version != MODERN and "mode" in params:
        if params["mode"] == "form":
            del params["mode"]
        else:
            params["elicitationId"] = secrets.token_hex(16)
    for message in params.get("messages", ()):
        message["content"] = content_block(message["content"], version)
    return {"method": question.method, "params": params} if params else {"method": question.method}


def complete(result: Any, method: str, context: RequestContext) -> Any:
    """Add the members that every result has since 2026-07-28."""
    if context.version != MODERN or not isinstance(result, (dict, Prepared)):
        return result
    extra: dict[str, Any] = {"resultType": "complete"}
    if method in CACHEABLE:
        # A result that has its own ttlMs keeps it.
        extra["ttlMs"] = context.setting("LIST_MAX_AGE") * 1000
        extra["cacheScope"] = "private" if context.registry.auth.tells_callers_apart else "public"
    meta = {protocol.SERVER_INFO: context.server_info}
    if isinstance(result, Prepared):
        # Pages are cached without these members, because several apps with other settings may share a blueprint.
        return Prepared(result.body[:-1] + b"," + write({**extra, "_meta": meta})[1:])
    return {**extra, **result, "_meta": {**result["_meta"], **meta} if "_meta" in result else meta}


def as_text(value: Any) -> str:
    """Return a string as it is, and any other value as JSON."""
    return value if isinstance(value, str) else write(value).decode("utf-8")


def _without(described: Mapping[str, Any], member: str) -> dict[str, Any]:
    return {name: value for name, value in described.items() if name != member}
