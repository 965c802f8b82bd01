"""The bridge, to a site shaped like Drupal's and to one of ours."""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from flask_jsonrpc_mcp.bridge import catalogue
from flask_jsonrpc_mcp.bridge import site as bridged_site
from flask_jsonrpc_mcp.bridge.server import Bridge
from flask_jsonrpc_mcp.bridge.settings import Settings
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN

from .conftest import asking
from .drupal_site import DrupalSite, Raw, Seen, as_json
from .servers import free_port
from .stdio_client import Connection, modern

Bridged = Connection[Bridge]
Connect = Callable[..., Bridged]


@pytest.fixture
def drupal() -> Iterator[DrupalSite]:
    with DrupalSite() as site:
        yield site


@pytest.fixture
def connect(drupal: DrupalSite) -> Iterator[Connect]:
    """Start a bridge with settings of the test's own."""
    opened: list[Bridged] = []

    def connect(**settings: Any) -> Bridged:
        opened.append(Connection(Bridge(Settings(**{"url": drupal.url, "timeout": 30, **settings}))))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.rest()
        connection.server.close()
        connection.close()


@pytest.fixture
def bridge(connect: Connect) -> Bridged:
    return connect()


def call(bridge: Bridged, name: str, arguments: Any = None, id: Any = 1) -> Any:
    """Call a tool as a modern client; the result without what every result has."""
    reply = bridge.ask(modern("tools/call", id, name=name, arguments=arguments or {}))
    if "error" in reply:
        return reply["error"]
    return {key: value for key, value in reply["result"].items() if key not in ("_meta", "resultType")}


def text_of(result: Any) -> str:
    [block] = result["content"]
    found: str = block["text"]
    return found


def success(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return {"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": False}


def failure(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def listed(bridge: Bridged) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = bridge.ask(modern("tools/list"))["result"]["tools"]
    return tools


# --- the list


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
    drupal.listed = {"tools": [7, {}, {"name": ""}, {"name": "x" * 257}, odd, {**odd, "title": "again"}]}
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
    monkeypatch.setattr(catalogue, "MAX_PAGES", 2)
    assert "no end" in connect().ask(modern("tools/list"))["error"]["message"]


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


def test_a_subscription_to_nothing_is_acknowledged_and_ends_with_the_client(bridge: Bridged) -> None:
    assert bridge.ask(modern("subscriptions/listen", "s", notifications={}))["params"]["notifications"] == {}
    [end] = bridge.rest()
    assert (end["id"], end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]) == ("s", "s")


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


# --- calls


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
    assert "'node.get' by POST, because GET was answered with 405" in caplog.messages


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


# --- what a site may answer


BROKEN: list[tuple[str, Raw]] = [
    ("HTML", Raw(200, b"<html>Maintenance</html>", {"Content-Type": "text/html"})),
    ("nothing", Raw(200)),
    ("broken JSON", Raw(200, b'{"jsonrpc": "2.0", "id": ')),
    ("NaN", Raw(200, b'{"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "result": NaN}')),
    ("a list", as_json(200, [1])),
    ("no version", as_json(200, {"id": "flask-jsonrpc-mcp", "result": 1})),
    ("another version", as_json(200, {"jsonrpc": "1.0", "id": "flask-jsonrpc-mcp", "result": 1})),
    ("another id", as_json(200, {"jsonrpc": "2.0", "id": "another", "result": 1})),
    ("no id", as_json(200, {"jsonrpc": "2.0", "result": 1})),
    ("a null id", as_json(200, {"jsonrpc": "2.0", "id": None, "result": 1})),
    ("both", as_json(200, {"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "result": 1, "error": {"code": 1}})),
    ("neither", as_json(200, {"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp"})),
    ("an odd error", as_json(200, {"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "error": "no"})),
    ("too deep", Raw(200, b"[" * 5000)),
    ("401", Raw(401, b"<h1>Unauthorized</h1>", {"WWW-Authenticate": "Basic"})),
    ("403", Raw(403, b"")),
    ("429", Raw(429, b"", {"Retry-After": "7"})),
    ("500", Raw(500, b"<h1>Error</h1>")),
    ("cut short", Raw(200, b"{", {"Content-Length": "100"})),
    ("garbage", Raw(200, b"not gzip", {"Content-Encoding": "gzip"})),
]


@pytest.mark.parametrize("raw", [raw for _, raw in BROKEN], ids=[name for name, _ in BROKEN])
def test_whatever_the_site_answers_is_an_error_of_that_one_call(bridge: Bridged, drupal: DrupalSite, raw: Raw) -> None:
    drupal.hangs_up = "Content-Length" in raw.headers
    drupal.raw.extend([raw] * 3)
    result = call(bridge, "node.get", {"id": "7"})
    assert (set(result), result["isError"]) == ({"content", "isError"}, True)
    drupal.raw.clear()
    assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (Raw(401), "The site wants other credentials (401): check MCP_BRIDGE_USER"),
        (Raw(429, b"", {"Retry-After": "7"}), "The site has had too many calls (429); try again in 7 seconds"),
        (Raw(302, b"", {"Location": "https://other.example/login?next=x"}), "redirects to https://other.example (302)"),
        (Raw(302, b"", {"Location": "/login"}), "The site redirects (302), which the bridge does not follow"),
        (Raw(200, b"<p>", {"Content-Type": "text/html"}), "something that is not JSON (text/html)"),
    ],
)
def test_what_went_wrong_is_said(bridge: Bridged, drupal: DrupalSite, raw: Raw, text: str) -> None:
    drupal.raw.append(raw)
    assert text in text_of(call(bridge, "node.create", {"title": "a"}))


@pytest.mark.parametrize(
    "raw",
    [
        Raw(200, b"<html>"),
        as_json(200, {"results": 1}),
        as_json(500, {"error": "no"}),
        Raw(401, b'{"error": {"code": "unauthorized", "message": "Valid credentials are required"}}'),
        Raw(204),
    ],
)
def test_whatever_invoke_answers_is_an_error_of_that_one_call(connect: Connect, drupal: DrupalSite, raw: Raw) -> None:
    bridge = connect(endpoint="/mcp/tools/invoke")
    drupal.raw.append(raw)
    assert call(bridge, "node.create", {"title": "a"})["isError"]
    assert call(bridge, "node.create", {"title": "a"}) == success({"id": 1, "title": "a"})


def test_every_problem_of_the_arguments_is_listed(connect: Connect, drupal: DrupalSite) -> None:
    problems = [{"path": "/limit", "message": "must be at most 100"}, {"path": "/x", "message": "is not expected here"}]
    text = "Invalid arguments: /limit: must be at most 100; /x: is not expected here"

    def refuse(id: Any) -> Raw:
        error = {"code": -32602, "message": "Invalid params", "data": {"errors": problems}}
        return as_json(200, {"jsonrpc": "2.0", "id": id, "error": error})

    drupal.raw.append(refuse("flask-jsonrpc-mcp"))
    assert call(connect(), "node.get", {"x": 1}) == failure(text)
    drupal.raw.append(as_json(400, {"error": {"code": "invalid_arguments", "message": "no", "errors": problems}}))
    assert call(connect(endpoint="/mcp/tools/invoke"), "node.get", {"x": 1}) == failure(text)


def test_an_error_may_be_without_an_id(bridge: Bridged, drupal: DrupalSite) -> None:
    drupal.raw.append(as_json(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}))
    assert call(bridge, "node.create") == failure("Parse error")


def test_an_answer_without_an_end_is_given_up(
    bridge: Bridged, drupal: DrupalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(bridge)
    monkeypatch.setattr(bridged_site, "MAX_ANSWER", 1024 * 1024)
    drupal.raw.append(Raw(200, b" " * 2_000_000))
    assert "longer than 1 MiB" in text_of(call(bridge, "node.create"))


# --- what is sent, how often, and to whom


def test_a_write_is_never_sent_twice(bridge: Bridged, drupal: DrupalSite) -> None:
    drupal.raw.extend([Raw(None), Raw(503), Raw(502), Raw(200, b"{", {"Content-Length": "100"})])
    texts = [text_of(call(bridge, "node.create", {"title": str(number)})) for number in range(3)]
    drupal.hangs_up = True
    texts.append(text_of(call(bridge, "node.create", {"title": "3"})))
    assert [seen.asked["params"]["title"] for seen in drupal.calls] == ["0", "1", "2", "3"]
    assert "may or may not have been carried out" in texts[0]
    assert "may or may not have been carried out" in texts[3]


def test_a_read_is_sent_again_when_the_connection_breaks_or_the_site_is_away(
    bridge: Bridged, drupal: DrupalSite
) -> None:
    drupal.raw.extend([Raw(None), Raw(503)])
    assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})
    assert len(drupal.calls) == 3


def test_a_site_that_closes_connections_is_no_trouble_for_writes(bridge: Bridged, drupal: DrupalSite) -> None:
    """A connection that was kept may be closed when it is used again."""
    drupal.hangs_up = True
    for number in range(20):
        assert call(bridge, "node.get", {"id": "7"})["isError"] is False
        assert call(bridge, "node.create", {"title": str(number)})["isError"] is False
    writes = [seen.asked["params"]["title"] for seen in drupal.calls if seen.verb == "POST"]
    assert writes == [str(number) for number in range(20)]


def test_a_site_that_is_down_is_an_error_and_fine_when_it_is_back(connect: Connect) -> None:
    port = free_port()
    bridge = connect(url=f"http://127.0.0.1:{port}")
    assert "cannot be reached" in text_of(call(bridge, "node.create", {"title": "a"}))
    assert "cannot be reached" in bridge.ask(modern("tools/list"))["error"]["message"]
    with DrupalSite(socket.create_server(("127.0.0.1", port))):
        assert call(bridge, "node.create", {"title": "a"})["isError"] is False


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({}, None),
        ({"user": "jürgen", "password": "pa:ss"}, "Basic " + base64.b64encode("jürgen:pa:ss".encode()).decode()),
        ({"token": "secret-token"}, "Bearer secret-token"),
    ],
)
def test_the_bridge_signs_in(connect: Connect, drupal: DrupalSite, settings: Any, header: str | None) -> None:
    call(connect(**settings), "node.get", {"id": "7"})
    assert {seen.headers.get("Authorization") for seen in drupal.seen} == {header}


def test_a_redirect_to_another_host_gets_no_credentials(connect: Connect, drupal: DrupalSite) -> None:
    with DrupalSite() as other:
        bridge = connect(token="secret-token")
        listed(bridge)
        drupal.listed = Raw(302, b"", {"Location": f"{other.url}/mcp/tools/list"})
        for status in (301, 302, 307, 308):
            drupal.raw.extend([Raw(status, b"", {"Location": f"{other.url}/jsonrpc"})] * 2)
            assert "redirects" in text_of(call(bridge, "node.get", {"id": "7"}))
            assert "redirects" in text_of(call(bridge, "node.create", {"title": "a"}))
        assert "redirects" in bridge_error(connect(token="secret-token"))
        assert other.seen == []


def bridge_error(bridge: Bridged) -> str:
    message: str = bridge.ask(modern("tools/list"))["error"]["message"]
    return message


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
    assert "what /.well-known/mcp.json says about other sites is ignored" in caplog.messages


@pytest.mark.parametrize(
    ("auth", "settings", "missing"),
    [
        ({"scopes": ["content:write"]}, {}, "needs a sign-in with the scopes content:write: set MCP_BRIDGE_TOKEN"),
        ({"level": "required"}, {}, "needs a sign-in: set MCP_BRIDGE_TOKEN"),
        (
            {"scopes": ["content:write", "content:read"], "level": "required"},
            {"token": "t", "scopes": frozenset({"content:read"})},
            "lacks content:write (MCP_BRIDGE_SCOPES has content:read)",
        ),
        ({"scopes": ["content:write"]}, {"token": "t", "scopes": frozenset()}, "(MCP_BRIDGE_SCOPES has none)"),
        ({"scopes": ["content:write"]}, {"token": "t"}, None),
        ({"scopes": ["content:write"]}, {"token": "t", "scopes": frozenset({"content:write"})}, None),
        ({"scopes": ["content:write"], "level": "optional"}, {}, None),
        ({"level": "none"}, {}, None),
        ({"scopes": "all"}, {}, None),
    ],
)
def test_scopes_are_checked_before_a_call(
    connect: Connect, drupal: DrupalSite, auth: Any, settings: Any, missing: str | None
) -> None:
    drupal.tool("guarded", lambda params: "done", annotations={"auth": auth})
    result = call(connect(**settings), "guarded")
    if missing is None:
        assert result == success("done")
    else:
        assert missing in text_of(result)
        assert drupal.calls == []


def test_the_log_has_neither_secrets_nor_arguments(
    connect: Connect, drupal: DrupalSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "flask_jsonrpc_mcp")
    bridge = connect(user="jane", password="pass-word")
    drupal.raw.extend([Raw(None), Raw(None), Raw(None), Raw(405)])
    for _ in range(3):
        call(bridge, "node.get", {"id": "argument"})
    call(bridge, "node.create", {"title": "argument"})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("flask_jsonrpc_mcp")]
    assert any(message.startswith("'node.create' ok") for message in ours)
    assert not any(secret in message for message in ours for secret in ("pass-word", "argument", "Basic"))
    assert "pass-word" not in repr(Settings(drupal.url, user="jane", password="pass-word", token=None))


# --- the bridge as an MCP server


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


# --- settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "site.example"}, "must begin with https://"),
        ({"url": "ftp://site.example"}, "must begin with https://"),
        ({"url": "https://"}, "must begin with https://"),
        ({"url": "https://[site"}, "cannot be read"),
        ({"url": "https://site.example:port"}, "cannot be read"),
        ({"url": "https://jane:secret@site.example"}, "without a password"),
        ({"url": "https://site.example/?q=1"}, "must end with its path"),
        ({"url": "http://site.example"}, "must be at https://"),
        ({"url": "http://localhost.example"}, "must be at https://"),
        ({"method": "PUT"}, "must be GET or POST"),
        ({"endpoint": "https://other.example/jsonrpc"}, "must be a path"),
        ({"endpoint": "//other.example/jsonrpc"}, "must be a path"),
        ({"user": "jane", "password": "p", "token": "t"}, "not both"),
        ({"user": "jane"}, "come together"),
        ({"password": "p"}, "come together"),
        ({"token": "two\nlines"}, "no token can have"),
        ({"token": " "}, "no token can have"),
        ({"timeout": 0}, "more than 0"),
        ({"lifetime": -1}, "more than 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        Settings(**{"url": "https://site.example", **settings})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("https://site.example", "https://site.example"),
        ("https://site.example/", "https://site.example"),
        ("https://site.example/blog/", "https://site.example/blog"),
        ("https://site.example/mcp", "https://site.example"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_address_of_a_site_may_be_given_in_many_ways(given: str, meant: str) -> None:
    assert Settings(given).url == meant


def test_plain_http_to_another_machine_must_be_asked_for() -> None:
    assert Settings("http://site.example", allow_http=True).url == "http://site.example"


def test_query_strings_of_reads_are_json(bridge: Bridged, drupal: DrupalSite) -> None:
    call(bridge, "node.get", {"id": "ü&=+ #?"})
    [seen] = drupal.calls
    [query] = parse_qs(urlsplit(seen.path).query)["query"]
    assert json.loads(query)["params"] == {"id": "ü&=+ #?"}
