"""MCP on one URL: what clients of both eras see."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask

from flask_jsonrpc_mcp import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    McpBlueprint,
    ResourceLink,
    TextContent,
    ToolResult,
    mcp_tool,
    method_called,
)
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from tests.conftest import Site, asking, basic, make_auth
from tests.support.mcp_messages import (
    LegacyClient,
    ModernClient,
    client_of,
    error,
    modern_headers,
    modern_meta,
    result,
)


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
def test_clients_see_that_a_tool_asks_before_it_runs(shop: Site, version: str) -> None:
    """Without the question itself, whose placeholders are the app's own."""
    shop.rpc.add_tool(lambda: None, "close", confirm="Close the shop?", annotations={"hours": "late"})
    tool = result(client_of(version, shop.client).list())["tools"][-1]
    own = {"flask-jsonrpc-mcp/confirm": True, "flask-jsonrpc-mcp/annotations": {"hours": "late"}}
    assert (tool["name"], tool.get("_meta")) == ("close", own if version >= "2025-06-18" else None)


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
        ({}, "params.name must be a string"),
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


def test_a_method_that_is_removed_leaves_the_name_of_a_tool_without_dots() -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_TOOL_NAME_STYLE="no-dots")
    site.rpc.add_method("a_b", lambda: "a method")
    site.tool(lambda: "a tool", name="a.b")
    site.rpc.remove_method("a_b")
    client = client_of(MODERN, site.client)
    assert [tool["name"] for tool in result(client.list())["tools"]] == ["a_b"]
    assert result(client.call("a_b"))["content"][0]["text"] == "a tool"


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
