"""``/mcp/tools/<name>`` with the arguments themselves: a JSON object by POST, a query string by GET."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from flask_jsonrpc_mcp import McpBlueprint, RpcError
from tests.conftest import Site, asking, basic, make_auth


@pytest.fixture
def shop() -> Site:
    site = Site(McpBlueprint(auth=make_auth()))

    @site.rpc.tool(read_only=True, max_age=60)
    def price(
        item: str,
        count: int = 1,
        discount: float | None = None,
        tags: list[str] | None = None,
        sizes: list[int] = [],  # noqa: B006 (never changed)
        paid: bool = False,
        kind: Literal[1, 2] = 1,
        options: dict[str, int] = {},  # noqa: B006
    ) -> dict[str, Any]:
        """Look a price up."""
        return {key: value for key, value in locals().items() if key != "site"}

    @site.rpc.tool(read_only=True)
    def search(query: str) -> str:
        """Search."""
        return query

    @site.rpc.tool
    def sell(item: str) -> str:
        """Sell."""
        if item == "egg":
            raise RpcError("Eggs are sold out", status=409)
        if item == "ham":
            raise RpcError("No ham today")
        return f"sold {item}"

    @site.rpc.tool(access=["write"])
    def write() -> str:
        """Write."""
        return "written"

    return site


DEFAULTS: dict[str, Any] = {
    "count": 1,
    "discount": None,
    "tags": None,
    "sizes": [],
    "paid": False,
    "kind": 1,
    "options": {},
}


def test_post_takes_the_arguments_and_answers_with_the_result(shop: Site) -> None:
    response = shop.client.post("/mcp/tools/sell", json={"item": "tea"})
    assert (response.status_code, response.get_json()) == (200, {"result": "sold tea"})
    assert response.headers["Cache-Control"] == "no-store"


def test_a_body_with_the_member_jsonrpc_is_a_json_rpc_request(shop: Site) -> None:
    response = shop.rpc_post(asking("sell", {"item": "tea"}), "/mcp/tools/sell")
    assert response.get_json() == {"jsonrpc": "2.0", "result": "sold tea", "id": 1}


@pytest.mark.parametrize(
    ("name", "body", "status", "error"),
    [
        ("sell", {"item": "egg"}, 409, {"code": "conflict", "message": "Eggs are sold out"}),
        (
            "sell",
            {"item": "ham"},
            500,
            {"code": "execution_error", "message": "Tool execution failed: No ham today"},
        ),
        (
            "sell",
            {"item": 7, "hue": 3},
            400,
            {
                "code": "invalid_arguments",
                "message": "Invalid arguments: /item: must be of type string, not integer; /hue: is not expected here",
                "errors": [
                    {"path": "/item", "message": "must be of type string, not integer"},
                    {"path": "/hue", "message": "is not expected here"},
                ],
            },
        ),
        ("write", {}, 404, {"code": "tool_not_found", "message": "Tool 'write' not found or access denied"}),
        ("absent", {}, 404, {"code": "tool_not_found", "message": "Tool 'absent' not found or access denied"}),
    ],
)
def test_failures_have_the_shape_of_rest(shop: Site, name: str, body: Any, status: int, error: Any) -> None:
    response = shop.client.post(f"/mcp/tools/{name}", json=body, headers=basic("reader"))
    assert (response.status_code, response.get_json()) == (status, {"error": error})


@pytest.mark.parametrize("send", ["post", "get"])
def test_a_challenge_has_the_shape_of_rest_too(shop: Site, send: str) -> None:
    body: dict[str, Any] = {"json": {}} if send == "post" else {}
    for response in (
        getattr(shop.client, send)("/mcp/tools/write", **body),
        getattr(shop.client, send)("/mcp/tools/sell", **body, headers=basic("reader", "wrong")),
    ):
        assert (response.status_code, response.get_json()["error"]["code"]) == (401, "unauthorized")
        assert response.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    ("query", "given"),
    [
        ("item=tea", {"item": "tea"}),
        ("item=7", {"item": "7"}),
        ("item=tea&count=3&discount=0.5", {"item": "tea", "count": 3, "discount": 0.5}),
        ("item=tea&discount=null", {"item": "tea"}),
        ("item=tea&tags=a&tags=1", {"item": "tea", "tags": ["a", "1"]}),
        ("item=tea&tags=a", {"item": "tea", "tags": ["a"]}),
        ("item=tea&sizes=1&sizes=2", {"item": "tea", "sizes": [1, 2]}),
        ("item=tea&paid=true&kind=2", {"item": "tea", "paid": True, "kind": 2}),
        ('item=tea&options={"a":1}', {"item": "tea", "options": {"a": 1}}),
        ("item=caf%C3%A9+au+lait", {"item": "café au lait"}),
    ],
)
def test_a_query_string_gets_the_types_of_the_schema(shop: Site, query: str, given: dict[str, Any]) -> None:
    response = shop.client.get(f"/mcp/tools/price?{query}")
    assert (response.status_code, response.get_json()) == (200, {"result": {**DEFAULTS, **given}})


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        ("", [{"path": "/item", "message": "is required"}]),
        (
            "item=tea&count=many&paid=yes",
            [
                {"path": "/count", "message": "must be of type integer, not string"},
                {"path": "/paid", "message": "must be of type boolean, not string"},
            ],
        ),
        ("item=a&item=b", [{"path": "/item", "message": "must be of type string, not array"}]),
        ("item=a&sizes=x", [{"path": "/sizes/0", "message": "must be of type integer, not string"}]),
        ("item=a&other=1", [{"path": "/other", "message": "is not expected here"}]),
    ],
)
def test_a_query_string_that_does_not_fit_lists_every_problem(
    shop: Site, query: str, errors: list[dict[str, str]]
) -> None:
    response = shop.client.get(f"/mcp/tools/price?{query}")
    assert (response.status_code, response.get_json()["error"]["errors"]) == (400, errors)


def test_a_query_string_that_is_not_utf_8_is_refused(shop: Site) -> None:
    response = shop.client.get("/mcp/tools/price?item=%ff")
    assert (response.status_code, response.get_json()["error"]["code"]) == (400, "invalid_request")


def test_a_tool_may_have_an_argument_called_query(shop: Site) -> None:
    assert shop.client.get("/mcp/tools/search?query=5").get_json() == {"result": "5"}
    assert shop.client.get("/mcp/tools/search?query={}").get_json() == {"result": "{}"}
    by_rpc = shop.rpc_get(asking("search", {"query": "tea"}), "/mcp/tools/search")
    assert by_rpc.get_json() == {"jsonrpc": "2.0", "result": "tea", "id": 1}


@pytest.mark.parametrize(("allowed", "price", "sell"), [("read-only", 200, 405), ("all", 200, 200), ("none", 405, 405)])
def test_get_runs_what_the_setting_allows(shop: Site, allowed: str, price: int, sell: int) -> None:
    shop.app.config["JSONRPC_MCP_GET_METHODS"] = allowed
    assert shop.client.get("/mcp/tools/price?item=tea").status_code == price
    response = shop.client.get("/mcp/tools/sell?item=tea")
    assert response.status_code == sell
    if sell == 405:
        assert response.headers["Allow"] == "POST"
        assert response.get_json() == {"error": {"code": "method_not_allowed", "message": "Only POST can be used here"}}


def test_a_response_to_get_is_cached_as_the_tool_says(shop: Site) -> None:
    response = shop.client.get("/mcp/tools/price?item=tea")
    assert response.headers["Cache-Control"] == "public, max-age=60"
    again = shop.client.get("/mcp/tools/price?item=tea", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert shop.client.get("/mcp/tools/price").headers["Cache-Control"] == "no-store"
    assert shop.client.get("/mcp/tools/search?query=x").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, -32700),
        (b"[]", "application/json", 400, -32600),
        (b"7", "application/json", 400, -32600),
        (b"item=tea", "application/x-www-form-urlencoded", 415, -32600),
    ],
)
def test_a_body_that_is_not_an_object_is_answered_as_before(
    shop: Site, body: bytes, content_type: str, status: int, code: int
) -> None:
    response = shop.client.post("/mcp/tools/sell", data=body, content_type=content_type)
    assert (response.status_code, response.get_json()["error"]["code"]) == (status, code)
