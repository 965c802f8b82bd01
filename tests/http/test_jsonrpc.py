"""The JSON-RPC face: ``/jsonrpc`` by POST and GET, one URL per tool, and what HTTP says about it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, RpcError, mcp_tool
from tests.conftest import Site, asking, basic, make_auth


@pytest.fixture
def specified(site: Site) -> Site:
    """The methods of the examples in section 7 of the specification."""
    rpc = site.rpc

    @rpc.method
    def subtract(minuend: int, subtrahend: int) -> int:
        return minuend - subtrahend

    @rpc.method("sum")
    def total(a: int, b: int, c: int) -> int:
        return a + b + c

    @rpc.method
    def get_data() -> list[Any]:
        return ["hello", 5]

    @rpc.method
    def update(a: int, b: int, c: int, d: int, e: int) -> None: ...

    @rpc.method
    def notify_hello(a: int) -> None: ...

    @rpc.method
    def notify_sum(a: int, b: int, c: int) -> None: ...

    return site


METHOD_NOT_FOUND = '{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "%s"}'
PARSE_ERROR = '{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}'
INVALID_REQUEST = '{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}'

SECTION_7 = [
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
        '{"jsonrpc": "2.0", "result": 19, "id": 1}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
        '{"jsonrpc": "2.0", "result": -19, "id": 2}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
        '{"jsonrpc": "2.0", "result": 19, "id": 3}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
        '{"jsonrpc": "2.0", "result": 19, "id": 4}',
    ),
    ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', ""),
    ('{"jsonrpc": "2.0", "method": "foobar"}', ""),
    ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', METHOD_NOT_FOUND % 1),
    ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', PARSE_ERROR),
    ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', INVALID_REQUEST),
    (
        '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method"]',
        PARSE_ERROR,
    ),
    ("[]", INVALID_REQUEST),
    ("[1]", f"[{INVALID_REQUEST}]"),
    ("[1,2,3]", f"[{INVALID_REQUEST}, {INVALID_REQUEST}, {INVALID_REQUEST}]"),
    (
        '[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
        ' {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},'
        ' {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},'
        ' {"foo": "boo"},'
        ' {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},'
        ' {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]',
        '[{"jsonrpc": "2.0", "result": 7, "id": "1"}, {"jsonrpc": "2.0", "result": 19, "id": "2"},'
        f' {INVALID_REQUEST}, {METHOD_NOT_FOUND % 5}, {{"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}}]',
    ),
    (
        '[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},'
        ' {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]',
        "",
    ),
]


@pytest.mark.parametrize(("sent", "expected"), SECTION_7)
def test_the_examples_of_the_specification(specified: Site, sent: str, expected: str) -> None:
    """JSON-RPC 2.0, section 7: byte for byte but for the spaces between tokens, members in the order shown."""
    response = specified.rpc_post(sent)
    compact = json.dumps(json.loads(expected), separators=(",", ":")) if expected else ""
    assert response.text == compact
    if not expected:
        assert response.status_code == 204
    elif expected in (PARSE_ERROR, INVALID_REQUEST):
        assert response.status_code == 400
    else:
        assert response.status_code == 200
        assert response.content_type == "application/json"


@pytest.fixture
def shop(site: Site) -> Site:
    """A tool that reads, one that writes, and a method that is no tool."""
    site.sold = []  # type: ignore[attr-defined]

    @site.rpc.method("price")
    @mcp_tool(annotations={"readOnlyHint": True})
    def price(item: str, count: int = 1) -> int:
        if item == "gold":
            raise RpcError("gold is not for sale", code=-32010, data={"item": item})
        if item == "bug":
            raise ValueError("secret")
        return len(item) * count

    @site.rpc.method("sell")
    @mcp_tool(annotations={"destructiveHint": True})
    def sell(item: str) -> int:
        site.sold.append(item)  # type: ignore[attr-defined]
        return len(site.sold)  # type: ignore[attr-defined]

    @site.rpc.method("internal")
    def internal() -> str:
        return "not a tool"

    return site


@pytest.mark.parametrize(
    ("params", "status", "error"),
    [
        (
            {},
            200,
            {
                "code": -32602,
                "message": "Invalid params",
                "data": {"errors": [{"path": "/item", "message": "is required"}]},
            },
        ),
        (
            {"item": 1, "x": 2},
            200,
            {
                "code": -32602,
                "message": "Invalid params",
                "data": {
                    "errors": [
                        {"path": "/item", "message": "must be of type string, not integer"},
                        {"path": "/x", "message": "is not expected here"},
                    ]
                },
            },
        ),
        (
            ["a", 1, 2],
            200,
            {
                "code": -32602,
                "message": "Invalid params",
                "data": {"errors": [{"path": "", "message": "takes at most 2 arguments, got 3"}]},
            },
        ),
        ({"item": "gold"}, 200, {"code": -32010, "message": "gold is not for sale", "data": {"item": "gold"}}),
    ],
)
def test_errors_have_code_text_and_details(shop: Site, params: Any, status: int, error: dict[str, Any]) -> None:
    response = shop.rpc_post(asking("price", params, id="x"))
    assert response.status_code == status
    assert response.get_json() == {"jsonrpc": "2.0", "error": error, "id": "x"}
    assert response.headers["Cache-Control"] == "no-store"


def test_the_unexpected_is_told_as_an_id(shop: Site) -> None:
    error = shop.rpc_post(asking("price", ["bug"])).get_json()["error"]
    assert error["code"] == -32603
    assert re.fullmatch(r"Internal error, see the server log for id [0-9a-f]{12}", error["message"])
    assert set(error) == {"code", "message"}


def test_a_method_that_is_no_tool_is_called_here_only(shop: Site) -> None:
    assert shop.rpc_post(asking("internal")).get_json()["result"] == "not a tool"
    response = shop.rpc_post(asking("internal"), "/mcp/tools/internal")
    assert response.status_code == 404


def test_get_runs_what_only_reads(shop: Site) -> None:
    response = shop.rpc_get(asking("price", {"item": "egg"}))
    assert (response.status_code, response.get_json()) == (200, {"jsonrpc": "2.0", "result": 3, "id": 1})
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/jsonrpc", "/mcp/tools/sell"])
def test_a_link_to_a_method_that_writes_changes_nothing(shop: Site, path: str) -> None:
    for response in (
        shop.rpc_get(asking("sell", ["egg"]), path),
        shop.client.head(path, query_string={"query": json.dumps(asking("sell", ["egg"]))}),
    ):
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"
    assert shop.rpc_get(asking("sell", ["egg"]), path).get_json()["error"]["code"] == -32600
    assert shop.sold == []  # type: ignore[attr-defined]


def test_a_method_that_is_no_tool_says_nothing_about_reading(shop: Site) -> None:
    assert shop.rpc_get(asking("internal")).status_code == 405


def test_a_batch_by_get_runs_only_what_reads(shop: Site) -> None:
    response = shop.rpc_get([asking("price", ["egg"], 1), asking("sell", ["egg"], 2)])
    assert response.status_code == 200
    assert [reply.get("result") for reply in response.get_json()] == [3, None]
    assert shop.sold == []  # type: ignore[attr-defined]


def test_a_notification_by_get_is_204_unless_it_would_write(shop: Site) -> None:
    assert shop.rpc_get(asking("price", ["egg"], id=...)).status_code == 204
    refused = shop.rpc_get(asking("sell", ["egg"], id=...))
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    assert shop.sold == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(("allowed", "price", "sell"), [("all", 200, 200), ("none", 405, 405), ("read-only", 200, 405)])
def test_what_get_may_run_is_a_setting(shop: Site, allowed: str, price: int, sell: int) -> None:
    shop.app.config["JSONRPC_MCP_GET_METHODS"] = allowed
    assert shop.rpc_get(asking("price", ["egg"])).status_code == price
    assert shop.rpc_get(asking("sell", ["egg"])).status_code == sell
    assert len(shop.sold) == (1 if allowed == "all" else 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", -32600),
        ("?query", -32700),
        ("?query=", -32700),
        ("?query={", -32700),
        ("?query=NaN", -32700),
        ("?query=%ff", -32700),
        ("?query=%22%ff%22", -32700),
        ("?query=1", -32600),
        ("?query=[]", -32600),
        ("?query={}&query={}", -32600),
        ("?other={}", -32600),
    ],
)
def test_a_query_that_cannot_be_read(shop: Site, query: str, code: int) -> None:
    response = shop.client.get("/jsonrpc" + query)
    assert response.status_code == 400
    assert response.get_json()["error"]["code"] == code
    assert response.get_json()["id"] is None


@pytest.mark.parametrize("mimetype", ["application/json", "application/json-rpc", "application/jsonrequest"])
def test_the_labels_of_json_rpc(shop: Site, mimetype: str) -> None:
    body = json.dumps(asking("price", ["egg"]))
    assert shop.client.post("/jsonrpc", data=body, content_type=mimetype).get_json()["result"] == 3


@pytest.mark.parametrize(
    ("verb", "path", "kwargs", "status"),
    [
        ("PUT", "/jsonrpc", {}, 405),
        ("DELETE", "/mcp/tools/price", {}, 405),
        ("POST", "/jsonrpc", {"data": b"{}", "content_type": "text/plain"}, 415),
        ("POST", "/jsonrpc", {"data": b" " * 5_000_000, "content_type": "application/json"}, 413),
        ("POST", "/jsonrpc", {"json": {}, "headers": {"Origin": "https://evil.example"}}, 403),
    ],
)
def test_refusals_of_http_are_json_rpc_errors(shop: Site, verb: str, path: str, kwargs: Any, status: int) -> None:
    response = shop.client.open(path, method=verb, **kwargs)
    assert response.status_code == status
    body = response.get_json()
    assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", None, -32600)
    assert ("Allow" in response.headers) == (status == 405)


@pytest.fixture
def guarded_shop() -> Site:
    site = Site(McpBlueprint(auth=make_auth()))
    site.tool(lambda: "hello", name="public")
    site.tool(lambda: "written", name="write", access=["write"])
    return site


def test_an_anonymous_call_of_what_is_not_public_is_401(guarded_shop: Site) -> None:
    for name in ("write", "absent"):
        response = guarded_shop.rpc_post(asking(name, {"bad": 1}))
        assert response.status_code == 401
        assert "WWW-Authenticate" in response.headers
        assert response.get_json()["error"] == {"code": -32601, "message": "Method not found"}
        batch = guarded_shop.rpc_post([asking(name), asking("public")])
        assert batch.status_code == 200
        assert [reply.get("error", {}).get("code") for reply in batch.get_json()] == [-32601, None]


def test_signed_in_without_the_permission_it_is_not_there(guarded_shop: Site) -> None:
    replies = [guarded_shop.rpc_post(asking(name, {"bad": 1}), headers=basic("reader")) for name in ("write", "absent")]
    assert replies[0].data == replies[1].data
    assert [reply.status_code for reply in replies] == [200, 200]


def test_wrong_credentials_are_401(guarded_shop: Site) -> None:
    response = guarded_shop.rpc_post(asking("public"), headers=basic("reader", "wrong"))
    assert response.status_code == 401
    assert "WWW-Authenticate" in response.headers
    assert response.get_json()["error"]["message"] == "Valid credentials are required"


@pytest.mark.parametrize("send", ["rpc_post", "rpc_get"])
def test_a_tool_has_its_own_url(shop: Site, send: str) -> None:
    response = getattr(shop, send)(asking("price", {"item": "egg"}), "/mcp/tools/price")
    assert (response.status_code, response.get_json()) == (200, {"jsonrpc": "2.0", "result": 3, "id": 1})


def test_a_tools_url_takes_notifications_and_refuses_batches(shop: Site) -> None:
    assert shop.rpc_post(asking("sell", ["egg"], id=...), "/mcp/tools/sell").status_code == 204
    response = shop.rpc_post([asking("sell", ["egg"])], "/mcp/tools/sell")
    assert (response.status_code, response.get_json()["error"]["code"]) == (400, -32600)
    assert shop.sold == ["egg"]  # type: ignore[attr-defined]


def test_a_notification_at_the_url_of_another_tool_or_of_none_is_refused(shop: Site) -> None:
    assert shop.rpc_post(asking("sell", ["egg"], id=...), "/mcp/tools/price").status_code == 400
    assert shop.rpc_post(asking("nope", id=...), "/mcp/tools/nope").status_code == 404
    assert shop.sold == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("caller", [None, "reader"])
@pytest.mark.parametrize("path", ["public", "write", "absent"])
@pytest.mark.parametrize("named", ["public", "write", "absent"])
def test_url_and_body_must_name_the_same_tool(guarded_shop: Site, caller: str | None, path: str, named: str) -> None:
    """The Drupal original checks the tool of the URL and then runs the method of the body."""
    headers = basic(caller) if caller else {}
    response = guarded_shop.rpc_post(asking(named), f"/mcp/tools/{path}", headers=headers)
    body = response.get_json()
    if path != named:
        assert (response.status_code, body["error"]["code"]) == (400, -32600)
    elif path == "public":
        assert (response.status_code, body["result"]) == (200, "hello")
    else:
        assert (response.status_code, body["error"]["code"], body["id"]) == (404 if caller else 401, -32601, 1)


def test_nothing_runs_when_they_differ(shop: Site) -> None:
    for payload in (
        asking("sell", ["egg"]),
        [asking("sell", ["egg"])],
        [asking("price", ["a"]), asking("sell", ["b"])],
    ):
        assert shop.rpc_post(payload, "/mcp/tools/price").status_code == 400
    assert shop.rpc_get(asking("sell", ["egg"]), "/mcp/tools/price").status_code == 400
    assert shop.sold == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("verb", "name", "allowed"),
    [
        ("POST", "list", "GET, HEAD, OPTIONS"),
        ("POST", "describe", "GET, HEAD, OPTIONS"),
        ("GET", "invoke", "OPTIONS, POST"),
    ],
)
def test_list_describe_and_invoke_stay_what_they_are(shop: Site, verb: str, name: str, allowed: str) -> None:
    response = shop.client.open(f"/mcp/tools/{name}", method=verb, json=asking(name) if verb == "POST" else None)
    assert response.status_code == 405
    assert response.headers["Allow"] == allowed


@pytest.fixture
def cached() -> Site:
    auth = make_auth()
    site = Site(McpBlueprint(auth=auth))

    def counter(step: int = 1) -> int:
        site.count = getattr(site, "count", 0) + step  # type: ignore[attr-defined]
        return 7

    read = mcp_tool(annotations={"readOnlyHint": True})
    site.rpc.add_method("public", read(counter), max_age=60)
    site.rpc.add_method("private", counter, max_age=60, access=["write"])
    site.rpc.add_method("unsaid", counter)
    return site


@pytest.mark.parametrize(
    ("name", "caller", "cache_control"),
    [
        ("public", None, "public, max-age=60"),
        ("public", "reader", "private, max-age=60"),
        ("private", "writer", "private, max-age=60"),
        ("unsaid", None, "no-store"),
        ("absent", "reader", "no-store"),
    ],
)
@pytest.mark.parametrize("path", ["/jsonrpc", "/mcp/tools/{}"])
def test_replies_to_get_can_be_kept_as_the_method_says(
    cached: Site, name: str, caller: str | None, cache_control: str, path: str
) -> None:
    headers = basic(caller) if caller else {}
    response = cached.rpc_get(asking(name), path.format(name), headers=headers)
    assert response.headers["Cache-Control"] == cache_control
    if cache_control != "no-store":
        assert response.headers["Vary"] == "Authorization, Origin"
        fresh = {**headers, "If-None-Match": response.headers["ETag"]}
        again = cached.rpc_get(asking(name), path.format(name), headers=fresh)
        assert (again.status_code, again.data) == (304, b"")


def test_only_single_successes_by_get_are_kept(cached: Site) -> None:
    for response in (
        cached.rpc_post(asking("public")),
        cached.rpc_get([asking("public")]),
        cached.rpc_get(asking("public", {"step": "x"})),
        cached.rpc_get(asking("public", id=...)),
    ):
        assert response.headers["Cache-Control"] == "no-store"


def test_head_has_the_headers_of_get(cached: Site) -> None:
    query = {"query": json.dumps(asking("public"))}
    head, get = cached.client.head("/jsonrpc", query_string=query), cached.client.get("/jsonrpc", query_string=query)
    assert head.data == b""
    assert head.headers["ETag"] == get.headers["ETag"]
