"""MCP 2026-07-28: what a request must say of itself, and what its headers repeat."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any

import pytest

from flask_jsonrpc_mcp import (
    McpBlueprint,
    mcp_tool,
)
from flask_jsonrpc_mcp.mcp.protocol import MODERN, VERSIONS
from tests.conftest import Site, asking, make_auth
from tests.support.mcp_messages import (
    META,
    SERVER_INFO,
    ModernClient,
    client_of,
    error,
    modern_headers,
    modern_meta,
    result,
)


def test_discover(shop: Site) -> None:
    shop.app.config["JSONRPC_MCP_INSTRUCTIONS"] = "Sells."
    assert result(ModernClient(shop.client).post("server/discover")) == {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}, "logging": {}},
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


def test_arguments_that_are_no_object_are_refused_before_headers_are_compared(regional: ModernClient) -> None:
    """Our choice: there is nothing in them that a header could repeat."""
    assert error(regional.call("run", ["eu"], Mcp_Param_Region="eu"))[1] == -32602


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"a": {"type": "string", "x-mcp-header": "a_b"}}, "cannot be the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": ""}}, "cannot be the name of a header"),
        ({"a": {"type": "string", "x-mcp-header": "a b"}}, "cannot be the name of a header"),
        ({"a": {"type": "number", "x-mcp-header": "A"}}, "'a' has another type"),
        ({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}, "is allowed on properties only"),
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
    assert error(refused)[1:] == (-32021, "This needs an MCP client with the capability sampling")
    assert refused.get_json()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert refused.status_code == (400 if version == MODERN else 200)
    able = client_of(version, shop.client, capabilities={"sampling": {}})
    assert result(able.call("summarise"))["content"][0]["text"] == "short"
    assert shop.invoke("summarise", {}).get_json()["error"]["code"] == "missing_capability"


def test_what_a_tool_can_require_is_known() -> None:
    with pytest.raises(ValueError, match=r"requires must be a list of elicitation, elicitation\.url, roots, sampling"):
        mcp_tool(requires=["telepathy"])(lambda: 1)


@pytest.mark.parametrize("header", ["1_000", "1e3", "+1000", "01000", "1000.5"])
def test_a_number_in_a_header_is_read_as_a_proxy_would(regional: ModernClient, header: str) -> None:
    assert error(regional.call("run", {"size": 1000}, Mcp_Param_Size=header))[:2] == (400, -32020)
