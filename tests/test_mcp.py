"""MCP on one URL: what both eras share, and what tells them apart."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from flask import Flask
from flask_httpauth import HTTPTokenAuth, MultiAuth

from flask_jsonrpc_mcp import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    McpBlueprint,
    ResourceLink,
    RpcError,
    TextContent,
    ToolResult,
    mcp_tool,
    method_called,
)
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS

from .conftest import Site, asking, basic, make_auth
from .mcp_messages import META, SERVER_INFO, LegacyClient, ModernClient, client_of, modern_headers, modern_meta


@pytest.fixture
def shop() -> Site:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_SERVER_NAME="shop", JSONRPC_MCP_SERVER_VERSION="2.1")

    @site.rpc.method("price")
    @mcp_tool(title="Price", annotations={"readOnlyHint": True, "shelf": 7})
    def price(item: Annotated[str, {"maxLength": 5}], count: int = 1) -> dict[str, Any]:
        """Tell a price."""
        if item == "gold":
            raise RpcError("gold is not for sale")
        if item == "bug":
            raise ValueError("secret")
        return {"price": len(item) * count}

    @site.rpc.method("items")
    @mcp_tool
    def items() -> list[str]:
        """List what there is."""
        return ["egg", "ham"]

    return site


def result(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.get_json()["result"]


def error(response: Any) -> tuple[int, int, str]:
    body = response.get_json()
    assert set(body) <= {"jsonrpc", "id", "error"}
    return response.status_code, body["error"]["code"], body["error"]["message"]


# What both eras share


@pytest.mark.parametrize("version", VERSIONS)
def test_tools_are_listed_and_called(shop: Site, version: str) -> None:
    client = client_of(version, shop.client)
    tools = result(client.list())["tools"]
    assert [tool["name"] for tool in tools] == ["price", "items"]
    called = result(client.call("price", {"item": "egg", "count": 2}))
    assert called["content"] == [{"type": "text", "text": '{"price":6}'}]
    assert called["isError"] is False
    if version >= "2025-06-18":
        assert called["structuredContent"] == {"price": 6}
    else:
        assert "structuredContent" not in called


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_that_is_no_object_is_wrapped_for_older_versions(shop: Site, version: str) -> None:
    client = client_of(version, shop.client)
    tool = result(client.list())["tools"][1]
    called = result(client.call("items"))
    assert called["content"] == [{"type": "text", "text": '["egg","ham"]'}]
    declared = {"type": "array", "items": {"type": "string"}}
    if version == MODERN:
        assert (tool["outputSchema"], called["structuredContent"]) == (declared, ["egg", "ham"])
    elif version >= "2025-06-18":
        assert tool["outputSchema"] == {"type": "object", "properties": {"result": declared}, "required": ["result"]}
        assert called["structuredContent"] == {"result": ["egg", "ham"]}
    else:
        assert "outputSchema" not in tool


@pytest.mark.parametrize("version", VERSIONS)
def test_free_form_annotations_go_under_meta(shop: Site, version: str) -> None:
    tool = result(client_of(version, shop.client).list())["tools"][0]
    assert tool.get("annotations") == (None if version == "2024-11-05" else {"readOnlyHint": True})
    free = {"flask-jsonrpc-mcp/annotations": {"shelf": 7}}
    assert tool.get("_meta") == (free if version >= "2025-06-18" else None)
    assert tool.get("title") == ("Price" if version >= "2025-06-18" else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_end_without_a_cursor(shop: Site, version: str) -> None:
    shop.app.config["JSONRPC_MCP_PAGE_SIZE"] = 1
    client = client_of(version, shop.client)
    first = result(client.list())
    second = result(client.list(cursor=first["nextCursor"]))
    assert [tool["name"] for page in (first, second) for tool in page["tools"]] == ["price", "items"]
    assert "nextCursor" not in second


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cursor", ["!!!", "", 5, {}])
def test_a_bad_cursor_is_invalid_params(shop: Site, version: str, cursor: Any) -> None:
    assert error(client_of(version, shop.client).list(cursor=cursor))[1] == -32602


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"item": "gold"}, "gold is not for sale"),
        (
            {"item": "abcdef", "x": 1},
            "Invalid arguments: /item: must have at most 5 characters; /x: is not expected here",
        ),
        ({}, "Invalid arguments: /item: is required"),
    ],
)
def test_failures_a_model_can_mend_are_results(shop: Site, version: str, arguments: Any, text: str) -> None:
    failed = result(client_of(version, shop.client).call("price", arguments))
    assert failed["isError"] is True
    assert failed["content"] == [{"type": "text", "text": text}]
    assert "structuredContent" not in failed


@pytest.mark.parametrize("version", VERSIONS)
def test_the_unexpected_is_a_result_that_tells_nothing(shop: Site, version: str) -> None:
    failed = result(client_of(version, shop.client).call("price", {"item": "bug"}))
    assert failed["isError"] is True
    assert failed["content"][0]["text"].startswith("Internal error, see the server log for id ")
    assert "secret" not in json.dumps(failed)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"name": "absent"}, "Unknown tool: absent"),
        ({"name": "absent", "arguments": {"x": 1}}, "Unknown tool: absent"),
        ({}, "params.name must be the name of a tool"),
        ({"name": "price", "arguments": []}, "params.arguments must be an object"),
    ],
)
def test_a_call_that_is_wrong_itself_is_an_error(shop: Site, version: str, params: Any, message: str) -> None:
    client = client_of(version, shop.client)
    name = params.get("name")
    if isinstance(client, ModernClient) and name is None:
        response = client.post("tools/call", params, Mcp_Name="x")
        assert error(response)[:2] == (400, -32020)
        return
    status, code, text = error(client.post("tools/call", params))
    assert (status, code, text) == (400 if version == MODERN else 200, -32602, message)


@pytest.mark.parametrize("version", VERSIONS)
def test_arguments_may_be_left_out(shop: Site, version: str) -> None:
    assert result(client_of(version, shop.client).post("tools/call", {"name": "items"}))["isError"] is False


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_method_is_not_found(shop: Site, version: str) -> None:
    response = client_of(version, shop.client).post("tools/eat", {})
    assert error(response) == (404 if version == MODERN else 200, -32601, "Method not found")


@pytest.mark.parametrize("version", VERSIONS)
def test_callers_see_their_tools(version: str) -> None:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
    site.tool(lambda: "hello", name="public")
    site.tool(lambda: "written", name="write", access=["write"])
    anonymous = client_of(version, site.client)
    assert [tool["name"] for tool in result(anonymous.list())["tools"]] == ["public"]
    for name in ("write", "absent"):
        response = anonymous.call(name)
        assert error(response) == (401, -32602, f"Unknown tool: {name}")
        assert "WWW-Authenticate" in response.headers
    reader = client_of(version, site.client, headers=basic("reader"))
    assert error(reader.call("write"))[1:] == (-32602, "Unknown tool: write")
    assert "WWW-Authenticate" not in reader.call("write").headers
    writer = client_of(version, site.client, headers=basic("writer"))
    assert result(writer.call("write"))["content"][0]["text"] == "written"
    wrong = client_of(version, site.client, headers=basic("writer", "wrong"))
    assert wrong.list().status_code == 401


@pytest.mark.parametrize("verb", ["GET", "DELETE", "PUT"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_other_verbs_are_405(shop: Site, verb: str, path: str) -> None:
    response = shop.client.open(path, method=verb)
    assert response.status_code == 405
    assert response.headers["Allow"] == "OPTIONS, POST"
    assert "id" not in response.get_json()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"", 400, -32700),
        (b"1", 400, -32600),
        (b"{}", 400, -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', 400, -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', 400, -32600),
        (b"[]", 400, -32600),
    ],
)
@pytest.mark.parametrize("modern", [True, False])
def test_what_is_no_request_is_an_error_without_an_id(
    shop: Site, body: bytes, status: int, code: int, modern: bool
) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    headers = {"MCP-Protocol-Version": MODERN} if modern else {"Mcp-Session-Id": str(client.session)}
    response = shop.client.post("/mcp", data=body, content_type="application/json", headers=headers)
    assert error(response)[:2] == (status, code)
    assert response.get_json().get("id", 1) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_trace_context_reaches_the_signal(shop: Site, version: str) -> None:
    heard = []

    def listen(sender: Flask, call: Any, **facts: Any) -> None:
        heard.append((call.face, call.meta.get("traceparent")))

    client = client_of(version, shop.client)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}
    with method_called.connected_to(listen, shop.app):
        if isinstance(client, ModernClient):
            params = {"name": "items", "_meta": {**modern_meta(), **trace}}
            headers = modern_headers("tools/call", params)
            shop.client.post("/mcp", json=asking("tools/call", params), headers=headers)
        else:
            client.post("tools/call", {"name": "items", "_meta": trace})
    assert heard == [("mcp", trace["traceparent"])]


BLOCKS: list[tuple[Any, dict[str, Any]]] = [
    (TextContent("hi"), {"type": "text", "text": "hi"}),
    (ImageContent(b"png"), {"type": "image", "data": "cG5n", "mimeType": "image/png"}),
    (AudioContent(b"wav", "audio/wav"), {"type": "audio", "data": "d2F2", "mimeType": "audio/wav"}),
    (
        ResourceLink("file:///a", "a", description="A file", size=3),
        {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "A file", "size": 3},
    ),
    (EmbeddedResource("a://b", "text"), {"type": "resource", "resource": {"uri": "a://b", "text": "text"}}),
    (
        EmbeddedResource("a://b", b"\x00", "x/y"),
        {"type": "resource", "resource": {"uri": "a://b", "mimeType": "x/y", "blob": "AA=="}},
    ),
    (
        TextContent("hi", annotations={"priority": 1}, meta={"a": 1}),
        {"type": "text", "text": "hi", "annotations": {"priority": 1}, "_meta": {"a": 1}},
    ),
]


@pytest.mark.parametrize(("block", "spelled"), BLOCKS, ids=lambda part: str(part)[:40])
@pytest.mark.parametrize("version", [MODERN, "2025-06-18"])
def test_a_method_may_return_content(shop: Site, block: Any, spelled: dict[str, Any], version: str) -> None:
    shop.tool(lambda: block, name="one")
    shop.tool(lambda: [block, "and text"], name="several")
    client = client_of(version, shop.client)
    one, several = result(client.call("one")), result(client.call("several"))
    assert one["content"] == [spelled]
    assert several["content"] == [spelled, {"type": "text", "text": "and text"}]
    assert "structuredContent" not in one
    assert shop.invoke("one", {}).get_json() == {"result": [spelled]}


def test_a_value_with_content_of_its_own(shop: Site) -> None:
    def chart() -> ToolResult:
        return ToolResult({"total": 3}, content=[ImageContent(b"png"), "three"], meta={"source": "ledger"})

    shop.tool(chart)
    called = result(ModernClient(shop.client).call("chart"))
    assert called["structuredContent"] == {"total": 3}
    assert [block["type"] for block in called["content"]] == ["image", "text"]
    assert called["_meta"]["source"] == "ledger"
    assert shop.invoke("chart", {}).get_json() == {"result": {"total": 3}}
    assert "outputSchema" not in result(ModernClient(shop.client).list())["tools"][-1]


def test_content_that_is_none_is_the_methods_fault(shop: Site) -> None:
    shop.tool(lambda: [TextContent("a"), 5], name="mixed")
    assert result(ModernClient(shop.client).call("mixed"))["isError"] is True
    assert shop.invoke("mixed", {}).status_code == 500


@pytest.mark.parametrize("version", ["2025-03-26", "2024-11-05"])
def test_content_an_older_version_does_not_know_is_told_as_text(shop: Site, version: str) -> None:
    shop.tool(lambda: [ResourceLink("file:///a", "a"), AudioContent(b"wav")], name="new")
    link, audio = result(client_of(version, shop.client).call("new"))["content"]
    assert link == {"type": "text", "text": "a: file:///a"}
    assert audio["type"] == ("audio" if version == "2025-03-26" else "text")


@dataclass
class Node:
    children: list[Node] = field(default_factory=list)


def test_references_are_inlined_where_that_ends(shop: Site) -> None:
    address = {"$anchor": "address", "type": "object", "properties": {"city": {"type": "string"}}}
    params = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"address": address, "pair": {"type": "array", "items": {"$ref": "#/$defs/address"}}},
        "properties": {"home": {"$ref": "#/$defs/address", "description": "Home"}, "all": {"$ref": "#/$defs/pair"}},
        "if": {"required": ["home"]},
        "then": {"required": ["all"]},
    }
    shop.rpc.add_method("move", mcp_tool(lambda **kwargs: kwargs), params=params)
    shop.tool(
        lambda tree: 1,
        name="tree",
        params={
            "properties": {"tree": {"$ref": "#/$defs/n"}},
            "required": ["tree"],
            "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}},
        },
    )
    move, tree = result(ModernClient(shop.client).list())["tools"][-2:]
    schema = move["inputSchema"]
    assert schema["properties"]["home"] == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "description": "Home",
    }
    assert schema["properties"]["all"]["items"] == {"type": "object", "properties": {"city": {"type": "string"}}}
    assert schema["$defs"] == params["$defs"]
    assert {"$schema", "if", "then"} <= set(schema)
    assert tree["inputSchema"]["properties"]["tree"] == {"$ref": "#/$defs/n"}
    assert result(ModernClient(shop.client).call("move", {"home": {"city": 5}, "all": []}))["isError"] is True


def test_a_schema_that_would_grow_too_long_keeps_its_references(shop: Site) -> None:
    """Ten levels of two references each would be a thousand copies."""
    levels = {
        f"l{n}": {"properties": {"a": {"$ref": f"#/$defs/l{n + 1}"}, "b": {"$ref": f"#/$defs/l{n + 1}"}}}
        for n in range(10)
    }
    params = {"properties": {"x": {"$ref": "#/$defs/l0"}}, "$defs": {**levels, "l10": {"type": "string"}}}
    shop.rpc.add_method("wide", mcp_tool(lambda **kwargs: kwargs), params=params)
    tool = result(ModernClient(shop.client).list())["tools"][-1]
    assert tool["inputSchema"]["properties"] == params["properties"]


def test_a_wrapped_output_keeps_its_definitions_at_the_root(shop: Site) -> None:
    def grow() -> Node:
        return Node([Node()])

    shop.tool(grow)
    client = LegacyClient(shop.client)
    schema = result(client.list())["tools"][-1]["outputSchema"]
    assert (schema["type"], list(schema["$defs"])) == ("object", ["Node"])
    assert schema["properties"]["result"] == {"$ref": "#/$defs/Node"}
    assert result(client.call("grow"))["structuredContent"] == {"result": {"children": [{"children": []}]}}


@pytest.mark.parametrize("version", VERSIONS)
def test_names_without_dots(version: str) -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_TOOL_NAME_STYLE="no-dots")
    site.tool(lambda: "made", name="articles.create")
    client = client_of(version, site.client)
    [tool] = result(client.list())["tools"]
    assert tool["name"] == "articles_create"
    assert result(client.call("articles_create"))["content"][0]["text"] == "made"
    assert site.names() == ["articles.create"]


def test_names_that_are_the_same_without_dots_raise_at_start() -> None:
    rpc = McpBlueprint()
    rpc.add_method("a.b", mcp_tool(lambda: 1))
    rpc.add_method("a_b", mcp_tool(lambda: 2))
    with pytest.raises(ValueError, match=r"without dots, 'a_b' and 'a\.b' are both 'a_b'"):
        Site(rpc, JSONRPC_MCP_TOOL_NAME_STYLE="no-dots")
    late = Site(McpBlueprint(), JSONRPC_MCP_TOOL_NAME_STYLE="no-dots")
    late.tool(lambda: 1, name="a.b")
    with pytest.raises(ValueError, match="are both 'a_b'"):
        late.tool(lambda: 2, name="a_b")


# 2026-07-28


def test_discover(shop: Site) -> None:
    shop.app.config["JSONRPC_MCP_INSTRUCTIONS"] = "Sells."
    assert result(ModernClient(shop.client).post("server/discover")) == {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "public",
        "_meta": {SERVER_INFO: {"name": "shop", "version": "2.1"}},
        "instructions": "Sells.",
    }


def test_modern_results_say_what_they_are_and_for_how_long(shop: Site) -> None:
    shop.app.config["JSONRPC_MCP_LIST_MAX_AGE"] = 60
    client = ModernClient(shop.client)
    listed, called = result(client.list()), result(client.call("items"))
    identity = {SERVER_INFO: {"name": "shop", "version": "2.1"}}
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 60_000, "public")
    assert (called["resultType"], called["_meta"], listed["_meta"]) == ("complete", identity, identity)


def test_a_list_that_can_differ_between_callers_is_private() -> None:
    with_auth = Site(McpBlueprint(auth=make_auth()))
    with_loader = Site(McpBlueprint())
    with_loader.rpc.permissions_loader(lambda user: [])
    for site in (with_auth, with_loader):
        for method in ("tools/list", "server/discover"):
            assert result(ModernClient(site.client).post(method))["cacheScope"] == "private"


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {META + "protocolVersion": MODERN},
        {META + "clientCapabilities": {}},
        {META + "protocolVersion": 5, META + "clientCapabilities": {}},
        {META + "protocolVersion": MODERN, META + "clientCapabilities": []},
    ],
)
def test_a_request_must_say_its_version_and_capabilities(shop: Site, meta: Any) -> None:
    params = {} if meta is None else {"_meta": meta}
    response = shop.client.post("/mcp", json=asking("tools/list", params), headers=modern_headers("tools/list", {}))
    assert error(response)[:2] == (400, -32602)


def test_the_clients_name_may_be_left_out(shop: Site) -> None:
    meta = {key: value for key, value in modern_meta().items() if not key.endswith("clientInfo")}
    headers = modern_headers("tools/list", {})
    assert shop.client.post("/mcp", json=asking("tools/list", {"_meta": meta}), headers=headers).status_code == 200


def test_an_unknown_version_is_answered_with_those_we_speak(shop: Site) -> None:
    body = asking("tools/list", {"_meta": modern_meta("2099-01-01")})
    response = shop.client.post("/mcp", json=body, headers=modern_headers("tools/list", {}, "2099-01-01"))
    assert error(response) == (400, -32022, "Unsupported protocol version")
    assert response.get_json()["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP_Protocol_Version": None},
        {"MCP_Protocol_Version": "2025-11-25"},
        {"MCP_Protocol_Version": "2099-01-01"},
        {"Mcp_Method": None},
        {"Mcp_Method": "tools/list"},
        {"Mcp_Method": "TOOLS/CALL"},
        {"Mcp_Method": "tools/call, tools/call"},
        {"Mcp_Name": None},
        {"Mcp_Name": "price"},
        {"Mcp_Name": "items,items"},
        {"Mcp_Name": "=?base64?!!!?="},
        {"Mcp_Name": "=?base64?" + b64encode(b"price").decode() + "?="},
        {"Mcp_Name": "it\xe9ms"},
    ],
    ids=str,
)
def test_headers_that_say_something_else_are_a_mismatch(shop: Site, headers: dict[str, str | None]) -> None:
    assert error(ModernClient(shop.client).call("items", **headers))[:2] == (400, -32020)


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp_Name": "=?base64?" + b64encode(b"items").decode() + "?="},
        {"Mcp_Name": "  items\t"},
        {"Mcp_Method": " tools/call "},
        {"MCP_PROTOCOL_VERSION": MODERN},
    ],
    ids=str,
)
def test_headers_that_say_the_same_in_another_way(shop: Site, headers: dict[str, str | None]) -> None:
    assert ModernClient(shop.client).call("items", **headers).status_code == 200


@pytest.fixture
def regional(shop: Site) -> ModernClient:
    def run(
        region: Annotated[str, {"x-mcp-header": "Region"}] = "",
        size: Annotated[int, {"x-mcp-header": "Size"}] = 0,
        dry: Annotated[bool, {"x-mcp-header": "Dry-Run"}] = False,
    ) -> list[Any]:
        return [region, size, dry]

    shop.tool(run)
    return ModernClient(shop.client)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": "eu"}, {"Mcp_Param_Region": "eu"}),
        ({"region": "é"}, {"Mcp_Param_Region": "=?base64?w6k=?="}),
        ({"region": "eu", "size": 42}, {"Mcp_Param_Region": "eu", "Mcp_Param_Size": "42.0"}),
        ({"dry": True}, {"Mcp_Param_Dry_Run": "true"}),
        ({"dry": False}, {"Mcp_Param_Dry_Run": "false"}),
        ({}, {"Mcp_Param_Unknown": "whatever"}),
    ],
    ids=str,
)
def test_arguments_repeated_in_headers(regional: ModernClient, arguments: Any, headers: dict[str, str | None]) -> None:
    assert result(regional.call("run", arguments, **headers))["isError"] is False


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {}),
        ({"region": "eu"}, {"Mcp_Param_Region": "us"}),
        ({"region": "eu"}, {"Mcp_Param_Region": "eu,eu"}),
        ({"region": "eu"}, {"Mcp_Param_Region": "=?base64?e?="}),
        ({"region": "é"}, {"Mcp_Param_Region": "\xe9"}),
        ({}, {"Mcp_Param_Region": "eu"}),
        ({"size": 42}, {"Mcp_Param_Size": "43"}),
        ({"size": 42}, {"Mcp_Param_Size": "many"}),
        ({"dry": True}, {"Mcp_Param_Dry_Run": "True"}),
    ],
    ids=str,
)
def test_arguments_that_differ_from_their_headers(
    regional: ModernClient, arguments: Any, headers: dict[str, str | None]
) -> None:
    assert error(regional.call("run", arguments, **headers))[:2] == (400, -32020)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"a": {"type": "string", "x-mcp-header": "a_b"}}, "cannot be the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": ""}}, "cannot be the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "a b"}}, "cannot be the name of a header"),
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "'a' is none of these"),
        ({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}, "may only stand on properties"),
        (
            {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}},
            "the same x-mcp-header",
        ),
    ],
)
def test_a_mark_that_clients_would_refuse_raises(properties: Any, says: str) -> None:
    def troubled(**kwargs: Any) -> None: ...

    with pytest.raises(ValueError, match=says) as caught:
        McpBlueprint().add_method("f", troubled, params={"properties": properties})
    assert "troubled()" in str(caught.value)


def test_a_nested_argument_can_be_repeated_in_a_header(shop: Site) -> None:
    nested = {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}}
    shop.rpc.add_method("run", mcp_tool(lambda **kwargs: kwargs), params={"properties": {"place": nested}})
    client = ModernClient(shop.client)
    assert client.call("run", {"place": {"zone": "a"}}, Mcp_Param_Zone="a").status_code == 200
    assert client.call("run", {"place": {"zone": "a"}}).status_code == 400
    assert client.call("run", {"place": 5}).status_code == 200


def test_the_legacy_methods_are_gone(shop: Site) -> None:
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
        assert error(ModernClient(shop.client).post(method))[:2] == (404, -32601)


def test_a_modern_notification_is_heard(shop: Site) -> None:
    body = asking("notifications/cancelled", {"_meta": modern_meta()}, id=...)
    response = shop.client.post("/mcp", json=body, headers={"MCP-Protocol-Version": MODERN})
    assert (response.status_code, response.data) == (202, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_can_require_what_a_client_can_do(shop: Site, version: str) -> None:
    shop.rpc.add_method("summarise", mcp_tool(requires=["sampling"])(lambda: "short"))
    refused = client_of(version, shop.client).call("summarise")
    assert error(refused)[1:] == (-32021, "This tool needs a client with sampling")
    assert refused.get_json()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert refused.status_code == (400 if version == MODERN else 200)
    able = client_of(version, shop.client, capabilities={"sampling": {}})
    assert result(able.call("summarise"))["content"][0]["text"] == "short"
    assert shop.invoke("summarise", {}).get_json()["error"]["code"] == "missing_capability"


def test_what_a_tool_can_require_is_known() -> None:
    with pytest.raises(ValueError, match="requires must be a list of elicitation, roots, sampling"):
        mcp_tool(requires=["telepathy"])(lambda: 1)


# Before 2026-07-28


@pytest.mark.parametrize("version", LEGACY)
def test_the_handshake(shop: Site, version: str) -> None:
    client = LegacyClient(shop.client, version)
    assert result(client.initialize()) == {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "shop", "version": "2.1"},
    }
    assert client.session is not None
    assert client.session.isascii()
    assert client.session.isprintable()
    heard = client.send(asking("notifications/initialized", id=...))
    assert (heard.status_code, heard.data) == (202, b"")
    assert result(client.post("ping")) == {}


@pytest.mark.parametrize("wanted", ["2099-01-01", "1999-01-01", "x", MODERN])
def test_an_unknown_version_gets_our_newest_of_that_era(shop: Site, wanted: str) -> None:
    assert result(LegacyClient(shop.client, wanted).initialize())["protocolVersion"] == LEGACY[0]


@pytest.mark.parametrize("params", [{}, {"protocolVersion": 1}, {"protocolVersion": LEGACY[0]}, []])
def test_a_handshake_that_says_too_little(shop: Site, params: Any) -> None:
    response = shop.client.post("/mcp", json=asking("initialize", params))
    assert error(response)[:2] == (200, -32602)
    assert "Mcp-Session-Id" not in response.headers


def test_a_handshake_needs_an_answer(shop: Site) -> None:
    assert shop.client.post("/mcp", json=asking("initialize", {}, id=...)).status_code == 400


def test_without_a_session_nothing_runs(shop: Site) -> None:
    client = LegacyClient(shop.client, session="unsigned")
    client.session = None
    for payload in (asking("tools/list"), asking("ping"), asking("notifications/initialized", id=...)):
        response = client.send(payload)
        assert response.status_code == 400
        assert "initialize" in response.get_json()["error"]["message"]


def test_an_altered_session_is_not_found(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    token = str(client.session)
    for position in range(0, len(token), 7):
        other = "A" if token[position] != "A" else "B"
        client.session = token[:position] + other + token[position + 1 :]
        assert client.send(asking("ping")).status_code == 404
    for altered in (token[:-1], token + "A", "x", ""):
        client.session = altered
        assert client.send(asking("ping")).status_code == 404
    client.session = token
    assert client.send(asking("ping")).status_code == 200


def test_an_expired_session_is_not_found(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    assert client.send(asking("ping")).status_code == 200
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: 4_000_000_000)
    assert client.send(asking("ping")).status_code == 404


def test_a_session_belongs_to_its_caller() -> None:
    """Also: signed in against anonymous, and the same name by another scheme."""
    tokens = HTTPTokenAuth("Bearer")
    tokens.verify_token(lambda token: token)
    site = Site(McpBlueprint(auth=MultiAuth(make_auth(), tokens)), SECRET_KEY="key")
    callers = [{}, basic("reader"), basic("writer"), {"Authorization": "Bearer reader"}]
    for owner in callers:
        client = LegacyClient(site.client, headers=dict(owner))
        client.initialize()
        for caller in callers:
            client.headers = dict(caller)
            assert client.send(asking("ping")).status_code == (200 if caller == owner else 404)


def test_a_session_belongs_to_its_blueprint() -> None:
    app = Flask("site")
    app.secret_key = "key"
    rpc = McpBlueprint()
    app.register_blueprint(rpc, url_prefix="/a")
    app.register_blueprint(rpc, name="b", url_prefix="/b")
    params = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    token = app.test_client().post("/a/mcp", json=asking("initialize", params)).headers["Mcp-Session-Id"]
    statuses = [
        app.test_client().post(f"/{name}/mcp", json=asking("ping"), headers={"Mcp-Session-Id": token}).status_code
        for name in ("a", "b")
    ]
    assert statuses == [200, 404]


def test_a_session_outlives_a_change_of_the_key(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    shop.app.config.update(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["key"])
    assert client.send(asking("ping")).status_code == 200
    shop.app.config.update(SECRET_KEY_FALLBACKS=[])
    assert client.send(asking("ping")).status_code == 404


def test_a_clients_capabilities_cannot_make_a_session_long(shop: Site) -> None:
    client = LegacyClient(shop.client, capabilities={"sampling": {"x": "y" * 10_000}, "z" * 10_000: {}})
    client.initialize()
    assert len(str(client.session)) < 400


def test_without_a_secret_key_there_are_no_sessions(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(McpBlueprint())
    site.tool(lambda: [1], name="one")
    client = LegacyClient(site.client)
    assert result(client.initialize())["protocolVersion"] == LEGACY[0]
    assert client.session is None
    assert result(client.send(asking("tools/call", {"name": "one"})))["structuredContent"] == {"result": [1]}
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "SECRET_KEY" in warnings[0]


@pytest.mark.parametrize("version", LEGACY)
def test_batches_only_where_the_version_had_them(shop: Site, version: str) -> None:
    client = LegacyClient(shop.client, version)
    client.initialize()
    batch = [asking("ping", id=1), asking("notifications/initialized", id=...), asking("nope", id="b"), 5]
    response = client.send(batch)
    if version != "2025-03-26":
        assert error(response)[:2] == (400, -32600)
        return
    replies = response.get_json()
    assert [(reply.get("id"), reply.get("error", {}).get("code")) for reply in replies] == [
        (1, None),
        ("b", -32601),
        (None, -32600),
    ]
    assert client.send([asking("notifications/initialized", id=...)]).status_code == 202
    assert client.send([]).status_code == 400
    assert client.send([asking("ping")] * 101).status_code == 400


def test_a_header_with_an_unknown_version_is_told_the_known_ones(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    response = client.send(asking("ping"), **{"MCP-Protocol-Version": "2099-01-01"})
    assert error(response)[:2] == (400, -32022)
    assert response.get_json()["error"]["data"]["supported"] == list(VERSIONS)


def test_an_answer_of_the_client_is_heard(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    assert client.send({"jsonrpc": "2.0", "id": 5, "result": {}}).status_code == 202


# Pages of other sites


def test_an_allowed_page_may_call(shop: Site) -> None:
    shop.app.config["JSONRPC_MCP_ALLOWED_ORIGINS"] = ["https://app.example"]
    page = {"Origin": "https://app.example"}
    asked = "authorization, content-type, mcp-method, mcp-name, mcp-param-region, mcp-protocol-version"
    preflight = shop.client.options(
        "/mcp",
        headers={**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked},
    )
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert preflight.headers["Access-Control-Allow-Headers"] == asked
    client = LegacyClient(shop.client, headers=page)
    response = client.initialize()
    assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "Mcp-Session-Id" in response.headers["Access-Control-Expose-Headers"]
    assert "Origin" in response.headers["Vary"]
    assert "Access-Control-Allow-Credentials" not in response.headers


def test_no_other_page_is_told_anything(shop: Site) -> None:
    shop.app.config["JSONRPC_MCP_ALLOWED_ORIGINS"] = ["https://app.example"]
    for origin in ("https://evil.example", "http://localhost", "null"):
        for response in (
            shop.client.options("/mcp", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}),
            shop.client.post("/mcp", json=asking("ping"), headers={"Origin": origin}),
        ):
            assert not [name for name, _ in response.headers if name.startswith("Access-Control")]
    assert shop.client.post("/mcp", json={}, headers={"Origin": "https://evil.example"}).status_code == 403


# What reviews found


def test_calls_of_unknown_tools_are_reported_like_all_others(shop: Site) -> None:
    heard = []

    def listen(sender: Flask, call: Any, outcome: str, **facts: Any) -> None:
        heard.append((call.name, outcome))

    with method_called.connected_to(listen, shop.app):
        for version in (MODERN, LEGACY[0]):
            client_of(version, shop.client).call("absent")
    assert heard == [("absent", "tool_not_found")] * 2


def test_what_declares_its_output_must_give_it_beside_content(shop: Site) -> None:
    output = {"type": "object", "required": ["n"]}
    shop.tool(lambda: TextContent("hi"), name="forgets", output=output)
    shop.tool(lambda: ToolResult({"n": 1}, content="one text"), name="gives", output=output)
    client = ModernClient(shop.client)
    assert result(client.call("forgets"))["isError"] is True
    given = result(client.call("gives"))
    assert given["structuredContent"] == {"n": 1}
    assert given["content"] == [{"type": "text", "text": "one text"}]


@pytest.mark.parametrize("version", [MODERN, "2025-03-26"])
def test_meta_that_is_none_is_the_methods_fault(shop: Site, version: str) -> None:
    shop.tool(lambda: ToolResult(1, meta="oops"), name="odd")  # type: ignore[arg-type]
    assert result(client_of(version, shop.client).call("odd"))["isError"] is True


def test_every_problem_of_many_arguments_is_told(shop: Site) -> None:
    names = [f"{'x' * 50}{number}" for number in range(18)]
    shop.rpc.add_method(
        "many", mcp_tool(lambda **kwargs: 1), params={"properties": {name: {} for name in names}, "required": names}
    )
    text = result(ModernClient(shop.client).call("many"))["content"][0]["text"]
    assert all(f"/{name}: is required" in text for name in names)


def test_a_reference_with_rules_beside_it_stays_one(shop: Site) -> None:
    """Both the definition's rules and those beside the reference hold; one schema could show only one of them."""
    params = {
        "properties": {"x": {"$ref": "#/$defs/n", "minimum": 5}},
        "$defs": {"n": {"type": "integer", "minimum": 10}},
    }
    shop.rpc.add_method("bounded", mcp_tool(lambda **kwargs: kwargs), params=params)
    tool = result(ModernClient(shop.client).list())["tools"][-1]
    assert tool["inputSchema"]["properties"] == params["properties"]


def test_a_chain_of_doubling_definitions_is_not_followed(shop: Site) -> None:
    """Twenty levels would be a million copies; the bound must hold while they are made."""
    chain = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(40)}
    params = {"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**chain, "a40": {"type": "string"}}}
    shop.rpc.add_method("deep", mcp_tool(lambda **kwargs: kwargs), params=params)
    assert result(ModernClient(shop.client).list())["tools"][-1]["inputSchema"]["properties"] == params["properties"]


@pytest.mark.parametrize(
    "output",
    [
        {"type": "array", "items": {"$ref": "#"}},
        {"$id": "https://x.example/y", "$defs": {"n": {}}, "type": "array", "items": {"$ref": "#/$defs/n"}},
    ],
)
def test_an_output_whose_references_cannot_move_is_not_declared_to_older_versions(shop: Site, output: Any) -> None:
    shop.tool(lambda: [[], [[]]], name="nested", output=output)
    legacy = LegacyClient(shop.client)
    assert "outputSchema" not in result(legacy.list())["tools"][-1]
    assert result(legacy.call("nested"))["structuredContent"] == {"result": [[], [[]]]}
    assert result(ModernClient(shop.client).list())["tools"][-1]["outputSchema"] == output


@pytest.mark.parametrize("header", ["1_000", "1e3", "+1000", "01000", "1000.5"])
def test_a_number_in_a_header_is_read_as_a_proxy_would(regional: ModernClient, header: str) -> None:
    assert error(regional.call("run", {"size": 1000}, Mcp_Param_Size=header))[:2] == (400, -32020)


def test_two_kinds_of_tokens_are_two_callers() -> None:
    class User:
        id = 1

    bearer, keyed = HTTPTokenAuth("Bearer"), HTTPTokenAuth(header="X-API-Key")
    for auth in (bearer, keyed):
        auth.verify_token(lambda token: User())
    site = Site(McpBlueprint(auth=MultiAuth(bearer, keyed)), SECRET_KEY="key")
    client = LegacyClient(site.client, headers={"Authorization": "Bearer x"})
    client.initialize()
    assert client.send(asking("ping")).status_code == 200
    client.headers = {"X-API-Key": "x"}
    assert client.send(asking("ping")).status_code == 404
