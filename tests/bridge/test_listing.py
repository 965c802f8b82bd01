"""The tools of the site, as the bridge lists them, and the bridge as an MCP server."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from flask_jsonrpc_mcp.bridge import remote_server, remote_tools
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN
from tests.conftest import asking
from tests.support.stdio_client import modern

from .conftest import Bridged, Connect, call, listed, success
from .drupal_site import DrupalSite, Raw


def test_the_list_follows_every_page_of_the_site(bridge: Bridged, drupal: DrupalSite) -> None:
    names = [tool["name"] for tool in listed(bridge)]
    assert names == ["cache.rebuild", "node.get", "node.create", "node.types", "node.crash"]
    assert [seen.path for seen in drupal.seen if "list" in seen.path] == [
        "/mcp/tools/list",
        "/mcp/tools/list?cursor=Mg%3D%3D",
        "/mcp/tools/list?cursor=NA%3D%3D",
    ]


def test_what_php_writes_for_an_empty_object_is_mended(bridge: Bridged) -> None:
    rebuild, _, create, types, _ = listed(bridge)
    assert rebuild["inputSchema"] == {"type": "object", "properties": {}}
    assert create["inputSchema"]["required"] == ["title"]
    assert types["outputSchema"] == {"type": "object", "properties": {}}
    assert "annotations" not in create
    assert call(bridge, "node.types")["structuredContent"] == {}


def test_annotations_that_mcp_does_not_know_are_kept_apart(bridge: Bridged) -> None:
    rebuild, get, *_ = listed(bridge)
    assert rebuild["_meta"] == {"flask-jsonrpc-mcp/annotations": {"category": "system"}}
    assert get["annotations"] == {"readOnlyHint": True}


def test_a_version_that_wants_objects_gets_the_result_inside_of_one(bridge: Bridged) -> None:
    bridge.initialize()
    [rebuild, *_] = bridge.ask(asking("tools/list"))["result"]["tools"]
    assert rebuild["outputSchema"]["properties"] == {"result": {"type": "boolean"}}
    result = bridge.ask(asking("tools/call", {"name": "cache.rebuild"}))["result"]
    assert result == {**success(True), "structuredContent": {"result": True}}


def test_entries_that_are_no_tools_are_left_out(connect: Connect, drupal: DrupalSite) -> None:
    odd: dict[str, Any] = {
        "name": "odd",
        "title": None,
        "inputSchema": [],
        "outputSchema": [],
        "annotations": {"readOnlyHint": "yes", "title": 7, "auth": "?"},
    }
    large = {"name": "large", "description": "x" * 300_000}
    unprintable = [{"name": "\x1b[31mred"}, {"name": "left\u202eright"}]
    drupal.listed = {
        "tools": [7, {}, {"name": ""}, {"name": "x" * 257}, odd, {**odd, "title": "again"}, large, *unprintable]
    }
    assert listed(connect()) == [
        {
            "name": "odd",
            "description": "odd",
            "inputSchema": {"type": "object", "properties": {}},
            "_meta": {"flask-jsonrpc-mcp/annotations": {"auth": "?"}},
        }
    ]


@pytest.mark.parametrize(
    "page",
    [
        {"tools": [], "nextCursor": "again"},
        {"tools": [], "nextCursor": "x" * 70_000},
        {"tools": [{"name": str(number)} for number in range(10_001)]},
        {"tools": [7] * 10_001},
        {"tools": "none"},
        [],
        Raw(200, b"<html>", {"Content-Type": "text/html"}),
        Raw(200, b'{"tools": [{"name": "a", "n": NaN}]}'),
        Raw(401, b"{}"),
        Raw(404, b""),
    ],
)
def test_a_list_that_cannot_be_had_is_an_error_and_the_next_attempt_works(
    connect: Connect, drupal: DrupalSite, page: Any
) -> None:
    drupal.listed = page
    bridge = connect()
    assert bridge.ask(modern("tools/list"))["error"]["code"] == -32000
    assert call(bridge, "node.get", {"id": "1"})["isError"]
    drupal.listed = None
    assert len(listed(bridge)) == 5


def test_a_list_without_an_end_is_given_up(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_tools, "MAX_PAGES", 2)
    assert "more than 2 pages" in connect().ask(modern("tools/list"))["error"]["message"]


def test_a_cursor_that_comes_again_is_not_sent_again(connect: Connect, drupal: DrupalSite) -> None:
    drupal.listed = {"tools": [], "nextCursor": "again"}
    assert "repeats a cursor" in connect().ask(modern("tools/list"))["error"]["message"]
    assert len(drupal.seen) < 10


def test_a_list_whose_pages_are_slow_is_given_up(
    connect: Connect, drupal: DrupalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page comes in time, and there is always one more."""
    monkeypatch.setattr(remote_tools, "MAX_TIMEOUTS", 1)
    cursors = itertools.count()

    def listing() -> None:
        drupal.listed = {"tools": [], "nextCursor": str(next(cursors))}
        drupal.stopped.wait(0.1)

    drupal.listing = listing
    assert "took too long" in connect(timeout=1).ask(modern("tools/list"))["error"]["message"]
    assert next(cursors) < 500


def test_the_size_of_a_list_is_bounded_over_all_pages(connect: Connect, drupal: DrupalSite) -> None:
    cursors = itertools.count(1)

    def listing() -> None:
        number = next(cursors)
        tools = [{"name": f"{number}.{each}", "description": "x" * 200_000} for each in range(40)]
        drupal.listed = {"tools": tools, "nextCursor": str(number)}

    drupal.listing = listing
    assert "The site lists more than" in connect().ask(modern("tools/list"))["error"]["message"]
    assert next(cursors) < 10


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_a_schema_that_multiplies_itself_is_left_out(connect: Connect, drupal: DrupalSite, size: int) -> None:
    """100 kB with 200 references to them would be 20 MB."""
    properties = {str(number): {"$ref": "#/$defs/large"} for number in range(200)}
    schema = {"type": "object", "properties": properties, "$defs": {"large": {"description": "x" * size}}}
    drupal.tool("bomb", lambda params: None)
    drupal.tools["bomb"].described["inputSchema"] = schema
    tracemalloc.start()
    try:
        names = [tool["name"] for tool in listed(connect())]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "bomb" not in names
    assert peak < 100 * 2**20


@pytest.mark.parametrize("following", [lambda number: number + 1, lambda number: 0], ids=["long", "endless"])
def test_a_chain_of_references_is_passed_on_as_it_is(
    connect: Connect, drupal: DrupalSite, following: Callable[[int], int]
) -> None:
    chain = {f"d{number}": {"properties": {"q": {"$ref": f"#/$defs/d{following(number)}"}}} for number in range(240)}
    schema = {"type": "object", "properties": {"first": {"$ref": "#/$defs/d0"}}, "$defs": chain}
    drupal.tool("chained", lambda params: None, output=schema)
    drupal.tools["chained"].described["inputSchema"] = schema
    *_, chained = listed(connect())
    assert (chained["inputSchema"], chained["outputSchema"]) == (schema, schema)


def test_an_unforeseen_failure_does_not_end_the_watch_for_changes(
    connect: Connect, drupal: DrupalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = connect(lifetime=0.05)
    bridge.initialize()
    assert len(bridge.ask(asking("tools/list"))["result"]["tools"]) == 5
    failed = threading.Event()

    def fail_once(*args: Any) -> Any:
        if failed.is_set():
            return remote_tools.fetch_list(*args)
        failed.set()
        raise ZeroDivisionError

    monkeypatch.setattr(remote_server, "fetch_list", fail_once)
    assert failed.wait(60)
    del drupal.tools["node.crash"]
    assert count_from_now(drupal).acquire(timeout=60), "the site is not polled any more"
    assert bridge.receive() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def test_there_is_one_page_for_the_client(bridge: Bridged) -> None:
    assert bridge.ask(modern("tools/list", cursor="NTA="))["error"]["code"] == -32602


def test_the_tools_are_looked_at_again_and_changes_are_announced(connect: Connect, drupal: DrupalSite) -> None:
    bridge = connect(lifetime=0.05)
    bridge.initialize()
    assert len(bridge.ask(asking("tools/list"))["result"]["tools"]) == 5
    bridge.send(modern("subscriptions/listen", "s", notifications={"toolsListChanged": True}))
    assert bridge.receive() == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": "s"},
            "notifications": {"toolsListChanged": True},
        },
    }
    del drupal.tools["node.crash"]
    changed = "notifications/tools/list_changed"
    assert bridge.receive() == {"jsonrpc": "2.0", "method": changed}
    about = {"_meta": {"io.modelcontextprotocol/subscriptionId": "s"}}
    assert bridge.receive() == {"jsonrpc": "2.0", "method": changed, "params": about}
    assert len(bridge.ask(asking("tools/list"))["result"]["tools"]) == 4


@pytest.mark.parametrize(
    "page",
    [{"tools": [], "nextCursor": "x" * 70_000}, {"tools": 7}, Raw(200, b"["), Raw(None)],
    ids=["a cursor too long for a URL", "no tools", "no JSON", "no response"],
)
def test_no_list_of_the_site_ends_the_watch_for_changes(connect: Connect, drupal: DrupalSite, page: Any) -> None:
    bridge = connect(lifetime=0.05)
    bridge.initialize()
    assert len(bridge.ask(asking("tools/list"))["result"]["tools"]) == 5
    drupal.listed = page
    polled = count_from_now(drupal)
    assert polled.acquire(timeout=60)
    del drupal.tools["node.crash"]
    drupal.listed = None
    for _ in range(4):  # what a retry of the broken list may still take, and one more
        assert polled.acquire(timeout=60), "the site is not polled any more"
    assert bridge.receive() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def count_from_now(drupal: DrupalSite) -> threading.Semaphore:
    """Return a semaphore that the site releases with every request for its list."""
    requests = threading.Semaphore(0)
    drupal.listing = requests.release
    return requests


def test_a_subscription_to_nothing_is_acknowledged_and_ends_with_the_client(bridge: Bridged) -> None:
    assert bridge.ask(modern("subscriptions/listen", "s", notifications={}))["params"]["notifications"] == {}
    [end] = bridge.rest()
    assert (end["id"], end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]) == ("s", "s")


def test_a_subscription_to_nothing_is_not_told_of_changes(connect: Connect, drupal: DrupalSite) -> None:
    bridge = connect(lifetime=0.05)
    assert len(listed(bridge)) == 5
    bridge.ask(modern("subscriptions/listen", "nothing", notifications={}))
    bridge.ask(modern("subscriptions/listen", "changes", notifications={"toolsListChanged": True}))
    del drupal.tools["node.crash"]
    changed = bridge.receive()
    assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "changes"}


def test_there_are_not_more_subscriptions_than_threads(bridge: Bridged) -> None:
    for number in range(8):
        bridge.ask(modern("subscriptions/listen", f"s{number}", notifications={}))
    assert bridge.ask(modern("subscriptions/listen", 9, notifications={}))["error"]["code"] == -32004
    assert bridge.ask(modern("subscriptions/listen", 9))["error"]["code"] == -32602
    assert len(listed(bridge)) == 5


def test_tools_that_were_known_stay_known_while_the_list_is_away(connect: Connect, drupal: DrupalSite) -> None:
    bridge = connect(lifetime=0.01)
    assert len(listed(bridge)) == 5
    drupal.listed = Raw(500)
    for _ in range(3):
        assert call(bridge, "node.get", {"id": "1"}) == success({"id": "1", "title": "Hello"})


def test_nobody_waits_while_the_tools_are_looked_at_again(connect: Connect, drupal: DrupalSite) -> None:
    asked, answered, gave_up = threading.Event(), threading.Event(), threading.Event()

    def listing() -> None:
        asked.set()
        if not answered.wait(20):
            gave_up.set()

    bridge = connect(lifetime=0.05)
    assert len(listed(bridge)) == 5
    drupal.listing = listing
    assert asked.wait(60)
    assert call(bridge, "node.get", {"id": "1"}) == success({"id": "1", "title": "Hello"})
    assert len(listed(bridge)) == 5
    assert not gave_up.is_set()
    answered.set()


def test_the_bridge_introduces_itself(bridge: Bridged, drupal: DrupalSite) -> None:
    discovered = bridge.ask(modern("server/discover"))["result"]
    assert discovered["supportedVersions"] == [MODERN]
    assert discovered["capabilities"] == {"tools": {"listChanged": True}}
    identity = discovered["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert identity["name"] == drupal.url.removeprefix("http://")


@pytest.mark.parametrize("version", LEGACY)
def test_every_older_version_is_served(bridge: Bridged, version: str) -> None:
    bridge.initialize(version)
    assert len(bridge.ask(asking("tools/list"))["result"]["tools"]) == 5
    assert bridge.ask(asking("prompts/list"))["error"]["code"] == -32601
    assert bridge.ask(asking("tools/list", []))["error"]["code"] == -32600


def test_a_modern_request_must_say_what_it_is(bridge: Bridged) -> None:
    assert bridge.ask(asking("server/discover"))["error"]["code"] == -32602
    unknown = modern("server/discover")
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1900-01-01"
    assert bridge.ask(unknown)["error"]["code"] == -32022
    assert bridge.ask(modern("ping"))["error"]["code"] == -32601
