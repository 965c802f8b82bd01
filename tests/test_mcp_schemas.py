"""Every message we send in each protocol version obeys the rules of that version.

The rules are those of the versions' JSON Schemas for the messages that we send, in our own words. The official
conformance suite checks the two newest versions against the originals as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import jsonschema
import pytest

from flask_jsonrpc_mcp import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    McpBlueprint,
    ResourceLink,
    RpcError,
    TextContent,
    mcp_tool,
)
from flask_jsonrpc_mcp.mcp.protocol import MODERN, VERSIONS

from .conftest import Site, asking, basic, make_auth
from .mcp_messages import LegacyClient, client_of


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object with these members and, so that nothing of another version slips in, no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
OBJECT = {"type": "object"}
BASE64 = {"type": "string", "pattern": "^[A-Za-z0-9+/]*=*$"}
ID = {"type": ["string", "integer"]}


def implementation() -> dict[str, Any]:
    return record({"name": TEXT, "version": TEXT})


def block(version: str) -> dict[str, Any]:
    extra = {"annotations": OBJECT, **({"_meta": OBJECT} if version >= "2025-06-18" else {})}
    contents = {
        "anyOf": [
            record({"uri": TEXT, "text": TEXT}, {"mimeType": TEXT}),
            record({"uri": TEXT, "blob": BASE64}, {"mimeType": TEXT}),
        ]
    }
    kinds = [
        record({"type": {"const": "text"}, "text": TEXT}, extra),
        record({"type": {"const": "image"}, "data": BASE64, "mimeType": TEXT}, extra),
        record({"type": {"const": "resource"}, "resource": contents}, extra),
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


def modern_only(version: str, **members: Any) -> dict[str, Any]:
    return members if version == MODERN else {}


def result_rules(version: str) -> dict[str, Any]:
    """The results of a version, by method."""
    complete = modern_only(version, resultType={"const": "complete"}, _meta=OBJECT)
    cached = modern_only(version, ttlMs={"type": "integer", "minimum": 0}, cacheScope={"enum": ["public", "private"]})
    listed = {"tools": {"type": "array", "items": tool(version)}, **complete, **cached}
    called = {"content": {"type": "array", "items": block(version)}, "isError": FLAG, **complete}
    structured = {"structuredContent": True if version == MODERN else OBJECT} if version >= "2025-06-18" else {}
    rules = {
        "tools/list": record(listed, {"nextCursor": TEXT}),
        "tools/call": record(called, structured),
    }
    capabilities = record({"tools": record({}), "logging": record({})})
    if version == MODERN:
        versions = {"type": "array", "items": TEXT, "minItems": 1}
        discovered = {"supportedVersions": versions, "capabilities": capabilities, **complete, **cached}
        rules["server/discover"] = record(discovered, {"instructions": TEXT})
    else:
        welcome = {"protocolVersion": {"const": version}, "capabilities": capabilities, "serverInfo": implementation()}
        rules["initialize"] = record(welcome, {"instructions": TEXT})
        rules["ping"] = record({})
    return rules


def check(version: str, method: str, message: dict[str, Any]) -> None:
    outcome = {"result": result_rules(version)[method]} if "result" in message else {"error": ERROR}
    jsonschema.validate(message, record({"jsonrpc": {"const": "2.0"}, "id": ID, **outcome}))


ERROR = record({"code": {"type": "integer"}, "message": TEXT}, {"data": True})


@pytest.fixture(scope="module")
def site() -> Site:
    site = Site(
        McpBlueprint(auth=make_auth()), SECRET_KEY="key", JSONRPC_MCP_PAGE_SIZE=3, JSONRPC_MCP_INSTRUCTIONS="Try."
    )

    @site.rpc.method("typed")
    @mcp_tool(title="Typed", annotations={"readOnlyHint": True, "title": "T", "own": [1]})
    def typed(a: Annotated[int, "A number"], b: str | None = None) -> dict[str, Any]:
        """Take and give objects."""
        if a < 0:
            raise RpcError("negative")
        return {"a": a, "b": b}

    for name, value in {
        "text": "x",
        "number": 1,
        "null": None,
        "array": [1, "a"],
        "block": TextContent("x", annotations={"priority": 1}),
        "blocks": [
            ImageContent(b"1"),
            AudioContent(b"2"),
            ResourceLink("a:b", "c"),
            EmbeddedResource("a:b", b"c"),
            "d",
        ],
    }.items():
        site.tool(lambda value=value: value, name=name, params={})

    @site.rpc.method("words")
    @mcp_tool
    def words() -> Iterator[str]:
        yield "a"

    return site


@pytest.mark.parametrize("version", VERSIONS)
def test_every_message_obeys_its_version(site: Site, version: str) -> None:
    client = client_of(version, site.client)
    opening = client.initialize() if isinstance(client, LegacyClient) else client.post("server/discover")
    check(version, "initialize" if isinstance(client, LegacyClient) else "server/discover", opening.get_json())
    if isinstance(client, LegacyClient):
        check(version, "ping", client.post("ping").get_json())
    names, cursor = [], None
    while True:
        page = (client.list() if cursor is None else client.list(cursor=cursor)).get_json()
        check(version, "tools/list", page)
        names += [listed["name"] for listed in page["result"]["tools"]]
        cursor = page["result"].get("nextCursor")
        if cursor is None:
            break
    assert len(names) == 8
    for name in [*names, "absent"]:
        check(version, "tools/call", client.call(name).get_json())
    for arguments in ({"a": 1}, {"a": -1}, {"a": "x"}):
        check(version, "tools/call", client.call("typed", arguments).get_json())
    for failure in (client.list(cursor="!"), client.post("nope", {})):
        check(version, "tools/list", failure.get_json())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_without_a_request_has_no_id(site: Site, version: str) -> None:
    """The schemas of MCP refuse a null id."""
    for response in (
        site.client.post("/mcp", data=b"{", content_type="application/json"),
        site.client.post("/mcp", json=asking("ping"), headers=basic("admin", "wrong")),
        site.client.get("/mcp"),
    ):
        jsonschema.validate(response.get_json(), record({"jsonrpc": {"const": "2.0"}, "error": ERROR}))


def test_the_rules_refuse_what_belongs_to_another_version() -> None:
    """Else the checks above would prove nothing."""
    called = {"content": [], "isError": False}
    for version, result in (
        (MODERN, called),
        ("2025-11-25", {**called, "resultType": "complete"}),
        ("2025-11-25", {**called, "structuredContent": [1]}),
        ("2025-03-26", {**called, "structuredContent": {}}),
        ("2024-11-05", {**called, "content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            check(version, "tools/call", {"jsonrpc": "2.0", "id": 1, "result": result})
