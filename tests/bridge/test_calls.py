"""Calls by way of the bridge: by GET or POST, where, and what comes back."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from werkzeug.serving import make_server

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import asking, make_app
from tests.support.servers import free_port
from tests.support.stdio_client import modern

from .conftest import Bridged, Connect, call, failure, listed, success, text_of
from .drupal_site import DrupalSite, Raw, Seen, as_json


def test_a_read_goes_by_get_with_an_id_that_caches_do_not_mind(bridge: Bridged, drupal: DrupalSite) -> None:
    for _ in range(2):
        assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})
    first, second = drupal.calls
    assert (first.verb, urlsplit(first.path).path) == ("GET", "/jsonrpc")
    assert first.path == second.path
    assert isinstance(first.asked["id"], str)


def test_a_write_goes_by_post_with_an_id_of_its_own(bridge: Bridged, drupal: DrupalSite) -> None:
    for _ in range(2):
        assert call(bridge, "node.create", {"title": "Hello"}) == success({"id": 1, "title": "Hello"})
    first, second = drupal.calls
    assert (first.verb, first.path, first.headers["Content-Type"]) == ("POST", "/jsonrpc", "application/json")
    assert first.asked["params"] == {"title": "Hello"}
    assert {uuid.UUID(seen.asked["id"]).version for seen in (first, second)} == {4}
    assert first.asked["id"] != second.asked["id"]


def test_params_are_left_out_when_there_are_none(bridge: Bridged, drupal: DrupalSite) -> None:
    """Drupal takes an empty object for a list."""
    assert call(bridge, "cache.rebuild") == success(True)
    assert call(bridge, "node.types")["isError"] is False
    assert all("params" not in seen.asked for seen in drupal.calls)


def test_a_read_whose_url_would_be_too_long_goes_by_post(bridge: Bridged, drupal: DrupalSite) -> None:
    assert call(bridge, "node.get", {"id": "7" * 3000})["isError"] is False
    [seen] = drupal.calls
    assert seen.verb == "POST"
    room = 2000 - len(drupal.url) - len("/jsonrpc?query=") - 150
    assert call(bridge, "node.get", {"id": "7" * room})["isError"] is False
    assert drupal.calls[1].verb == "GET"
    assert len(drupal.url + drupal.calls[1].path) <= 2000


def test_everything_goes_by_post_when_told_so(connect: Connect, drupal: DrupalSite) -> None:
    assert call(connect(method="POST"), "node.get", {"id": "7"})["isError"] is False
    assert [seen.verb for seen in drupal.calls] == ["POST"]


@pytest.mark.parametrize("status", [405, 414])
def test_a_get_that_is_refused_becomes_one_post(bridge: Bridged, drupal: DrupalSite, status: int) -> None:
    drupal.raw.append(Raw(status, b"<h1>No</h1>", {"Content-Type": "text/html"}))
    assert call(bridge, "node.get", {"id": "7"})["isError"] is False
    assert [seen.verb for seen in drupal.calls] == ["GET", "POST"]


def test_a_site_that_takes_no_get_is_served_all_the_same(
    bridge: Bridged, drupal: DrupalSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    drupal.get_is_allowed = False
    assert call(bridge, "node.get", {"id": "7"})["isError"] is False
    assert "calling 'node.get' by POST, because the status of GET was 405" in caplog.messages


@pytest.mark.parametrize(
    ("endpoint", "paths"),
    [
        ("/jsonrpc", ["/jsonrpc", "/jsonrpc"]),
        ("/mcp/tools/{name}", ["/mcp/tools/node.get", "/mcp/tools/node.create"]),
        ("/mcp/tools/invoke", ["/mcp/tools/invoke", "/mcp/tools/invoke"]),
    ],
)
def test_tools_are_called_at_the_endpoint_that_is_set(
    connect: Connect, drupal: DrupalSite, endpoint: str, paths: list[str]
) -> None:
    bridge = connect(endpoint=endpoint)
    assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})
    assert call(bridge, "node.create", {"title": "a"}) == success({"id": 1, "title": "a"})
    assert "The title parameter is required." in text_of(call(bridge, "node.create"))
    assert [urlsplit(seen.path).path for seen in drupal.calls[:2]] == paths
    assert not any("well-known" in seen.path for seen in drupal.seen)


def test_a_failing_tool_is_a_result_that_says_why(bridge: Bridged) -> None:
    assert call(bridge, "node.create") == failure("Invalid Params: The title parameter is required.")
    assert call(bridge, "node.crash") == failure("Internal Error: The database is away.")


def test_an_unknown_tool_is_an_error(bridge: Bridged, drupal: DrupalSite) -> None:
    assert call(bridge, "nothing") == {"code": -32602, "message": "Unknown tool: nothing"}
    assert drupal.calls == []


@pytest.mark.parametrize("endpoint", ["/jsonrpc", "/mcp/tools/invoke"])
def test_a_tool_that_is_gone_is_unknown(connect: Connect, drupal: DrupalSite, endpoint: str) -> None:
    bridge = connect(endpoint=endpoint)
    listed(bridge)
    del drupal.tools["node.create"]
    assert call(bridge, "node.create")["code"] == -32602


def test_clients_that_refuse_dots_see_names_without(connect: Connect, drupal: DrupalSite) -> None:
    bridge = connect(tool_name_style="no-dots")
    assert "node_create" in [tool["name"] for tool in listed(bridge)]
    for name in ("node_create", "node.create"):
        assert call(bridge, name, {"title": "a"})["isError"] is False
    assert {seen.asked["method"] for seen in drupal.calls} == {"node.create"}


def test_names_that_would_be_the_same_without_dots_keep_them(
    connect: Connect, drupal: DrupalSite, caplog: pytest.LogCaptureFixture
) -> None:
    drupal.tool("node_get", lambda params: "another")
    bridge = connect(tool_name_style="no-dots")
    names = [tool["name"] for tool in listed(bridge)]
    assert names == ["cache_rebuild", "node.get", "node_create", "node_types", "node_crash", "node_get"]
    assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})
    assert call(bridge, "node_get") == success("another")
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning == "these names keep their dots, because they would not be unique without: 'node.get'"


@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": "node.get", "arguments": []}])
def test_a_call_that_is_none_is_an_error(bridge: Bridged, params: Any) -> None:
    assert bridge.ask(modern("tools/call", **params))["error"]["code"] == -32602


def test_thirty_calls_at_once_come_back_with_their_own_ids(bridge: Bridged, drupal: DrupalSite) -> None:
    everyone = threading.Barrier(30, timeout=60)

    def meet(params: dict[str, Any]) -> Any:
        everyone.wait()
        return params["number"]

    drupal.tool("meet", meet)
    calls = [modern("tools/call", f"id-{n}", name="meet", arguments={"number": n}) for n in range(30)]
    bridge.send(*calls)
    replies = [bridge.receive() for _ in calls]
    assert {reply["id"]: reply["result"]["structuredContent"] for reply in replies} == {
        f"id-{number}": number for number in range(30)
    }


def test_a_call_that_is_cancelled_before_it_is_sent_is_never_sent(connect: Connect, drupal: DrupalSite) -> None:
    asked, cancelled = threading.Event(), threading.Event()

    def listing() -> None:
        asked.set()
        assert cancelled.wait(60)

    drupal.listing = listing
    bridge = connect()
    assert asked.wait(60)
    bridge.send(modern("tools/call", "c", name="node.create", arguments={"title": "a"}))
    bridge.send(asking("notifications/cancelled", {"requestId": "c"}, id=...))
    cancelled.set()
    assert bridge.rest() == []
    assert drupal.calls == []


def test_query_strings_of_reads_are_json(bridge: Bridged, drupal: DrupalSite) -> None:
    call(bridge, "node.get", {"id": "ü&=+ #?"})
    [seen] = drupal.calls
    [query] = parse_qs(urlsplit(seen.path).query)["query"]
    assert json.loads(query)["params"] == {"id": "ü&=+ #?"}


def well_known(drupal: DrupalSite, *servers: Any) -> None:
    """Let the site say of itself where things are."""
    usual = drupal.respond

    def respond(seen: Seen) -> Raw:
        if seen.path == "/.well-known/mcp.json":
            return as_json(200, {"servers": list(servers)})
        path = urlsplit(seen.path).path.removeprefix("/api")
        query = urlsplit(seen.path).query
        return usual(Seen(seen.verb, path + (f"?{query}" if query else ""), seen.headers, seen.asked))

    drupal.respond = respond  # type: ignore[method-assign]


def test_what_a_site_says_of_itself_is_where_its_tools_are(connect: Connect, drupal: DrupalSite) -> None:
    urls = {"list": f"{drupal.url}/api/mcp/tools/list", "jsonrpc": f"{drupal.url}/api/jsonrpc"}
    well_known(drupal, 7, {"endpoints": {}}, {"endpoints": urls})
    assert call(connect(), "node.create", {"title": "a"})["isError"] is False
    assert [seen.path for seen in drupal.calls] == ["/api/jsonrpc"]


def test_of_several_servers_the_one_at_the_address_is_meant(connect: Connect, drupal: DrupalSite) -> None:
    def at(prefix: str) -> Any:
        base = drupal.url + prefix
        return {"endpoints": {"list": f"{base}/mcp/tools/list", "tool": base + "/mcp/tools/{name}"}}

    well_known(drupal, at("/api"), at(""))
    assert call(connect(), "node.create", {"title": "a"})["isError"] is False
    assert [seen.path for seen in drupal.calls] == ["/mcp/tools/node.create"]


def test_what_a_site_says_about_other_sites_is_not_believed(
    connect: Connect, drupal: DrupalSite, caplog: pytest.LogCaptureFixture
) -> None:
    with DrupalSite() as other:
        urls = {"list": f"{drupal.url}/mcp/tools/list", "jsonrpc": f"{other.url}/jsonrpc"}
        well_known(drupal, {"endpoints": urls}, {"endpoints": {"list": "//[", "jsonrpc": "/jsonrpc"}})
        assert call(connect(token="secret-token"), "node.create", {"title": "a"})["isError"] is False
        assert other.seen == []
    assert "ignored the endpoints of other sites in /.well-known/mcp.json" in caplog.messages


@pytest.mark.parametrize("endpoint", ["/jsonrpc", "/mcp/tools/{name}", "/mcp/tools/invoke"])
def test_a_tool_that_a_person_must_confirm_does_not_run_by_way_of_the_bridge(connect: Connect, endpoint: str) -> None:
    rpc, deleted = McpBlueprint(), []
    rpc.add_tool(lambda number: deleted.append(number), "delete", confirm="Delete {number}?")
    rpc.add_tool(lambda number: deleted.append(number), "trash", confirm="Trash {number}?", confirm_required=False)
    port = free_port()
    server = make_server("127.0.0.1", port, make_app(rpc, SECRET_KEY="key"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        try:
            bridge = connect(url=f"http://127.0.0.1:{port}", endpoint=endpoint)
            assert "the user must confirm this first" in text_of(call(bridge, "delete", {"number": 7}))
            assert call(bridge, "trash", {"number": 8})["isError"] is False
        finally:
            server.shutdown()
    assert deleted == [8]
