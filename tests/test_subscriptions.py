"""``subscriptions/listen``: clients hear of changes that any worker makes, and only of what they asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.faces.mcp import streams

from .conftest import Site, asking, basic, make_auth
from .conversations import Conversation, Exchange
from .load import wait_until
from .mcp_messages import META, LegacyClient, ModernClient, error, result
from .servers import Server, free_port
from .test_mailbox import conversing, read_event, redis, redis_url, running_redis  # noqa: F401 (a fixture)

MODERN = "2026-07-28"
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
SUBSCRIPTION = META + "subscriptionId"


def announcing(place: object, auth: Any = None, **config: Any) -> Site:
    """A site that tells of changes."""
    settings = {"JSONRPC_MCP_SUBSCRIPTIONS": True, "JSONRPC_MCP_MAILBOX": place, **config}
    site = Site(McpBlueprint(auth=auth), SECRET_KEY="key", **settings)
    site.tool(lambda: 1, name="tool")
    site.rpc.prompt("prompt")(lambda: "prompt")
    site.rpc.add_resource("notes://today", lambda: "today", name="today")
    site.rpc.add_resource("notes://{number}", lambda number: number, name="note", access=["write"] if auth else [])
    return site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(streams, "LOOK_AGAIN", 0.01)
    return announcing(tmp_path / "mail")


class Listening:
    """A stream of news; comments are left out."""

    def __init__(self, site: Site, wanted: Any, **client: Any) -> None:
        params = {"notifications": wanted}
        self.response: Any = ModernClient(site.app.test_client(), **client).post("subscriptions/listen", params)
        assert self.response.mimetype == "text/event-stream", self.response.text
        chunks: Iterator[Any] = iter(self.response.response)
        self._messages = filter(None, map(read_event, chunks))

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *error: object) -> None:
        self.response.close()

    def next(self) -> Any:
        return next(self._messages)


def news(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {"_meta": {SUBSCRIPTION: 1}, **params}}


def acknowledged(agreed: Any) -> dict[str, Any]:
    return news("subscriptions/acknowledged", notifications=agreed)


@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        ({}, {}),
        (ALL, ALL),
        ({"toolsListChanged": True, "promptsListChanged": False, "unknown": True}, {"toolsListChanged": True}),
        (
            {"resourceSubscriptions": ["notes://today", "notes://today", "absent://", "tools", "notes://7"]},
            {"resourceSubscriptions": ["notes://today", "notes://7"]},
        ),
    ],
)
def test_a_subscription_begins_with_what_was_agreed_on(site: Site, wanted: Any, agreed: Any) -> None:
    with Listening(site, wanted) as listening:
        assert listening.next() == acknowledged(agreed)


@pytest.mark.parametrize(
    "wanted", [None, [], "all", {"resourceSubscriptions": "notes://today"}, {"resourceSubscriptions": [1]}]
)
def test_a_subscription_that_says_nothing_is_refused(site: Site, wanted: Any) -> None:
    response = ModernClient(site.client).post("subscriptions/listen", {"notifications": wanted})
    assert error(response)[:2] == (400, -32602)


def test_a_client_hears_of_what_it_asked_for_and_of_nothing_else(site: Site) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["notes://7"]}
    with Listening(site, wanted) as listening, site.app.app_context():
        listening.next()
        for what in ("prompts", "resources", "notes://today", "notes://8"):
            site.rpc.notify_changed(what)
        site.rpc.notify_changed("notes://7")
        assert listening.next() == news("resources/updated", uri="notes://7")
        site.rpc.notify_changed("tools")
        assert listening.next() == news("tools/list_changed")


def test_adding_and_removing_is_heard_of(site: Site) -> None:
    with Listening(site, ALL) as listening, site.app.app_context():
        listening.next()
        site.rpc.add_method("new", mcp_tool(lambda: 1))
        assert listening.next() == news("tools/list_changed")
        site.rpc.remove_method("new")
        assert listening.next() == news("tools/list_changed")
        site.rpc.add_prompt("new", lambda: "new")
        assert listening.next() == news("prompts/list_changed")
        site.rpc.remove_prompt("new")
        assert listening.next() == news("prompts/list_changed")
        site.rpc.add_resource("new://", lambda: "new", name="new")
        assert listening.next() == news("resources/list_changed")
        site.rpc.remove_resource("new://")
        assert listening.next() == news("resources/list_changed")


def test_what_was_before_is_no_news(site: Site) -> None:
    with site.app.app_context():
        site.rpc.notify_changed("tools")
    with Listening(site, ALL) as listening, site.app.app_context():
        listening.next()
        site.rpc.notify_changed("prompts")
        assert listening.next() == news("prompts/list_changed")


def test_blueprints_of_one_app_are_told_apart(site: Site) -> None:
    other = McpBlueprint("other", url_prefix="/other")
    site.app = announcing(site.app.config["JSONRPC_MCP_MAILBOX"]).app
    site.app.register_blueprint(other)
    with Listening(site, ALL) as listening, site.app.app_context():
        listening.next()
        other.notify_changed("tools")
        site.rpc.notify_changed("prompts")
        assert listening.next() == news("prompts/list_changed")


def test_nobody_hears_of_a_resource_that_they_may_not_read(tmp_path: Path) -> None:
    site = announcing(tmp_path / "mail", make_auth())
    wanted = {"resourceSubscriptions": ["notes://today", "notes://7"]}
    for headers, visible in ((basic("reader"), ["notes://today"]), (basic("writer"), ["notes://today", "notes://7"])):
        with Listening(site, wanted, headers=headers) as listening:
            assert listening.next() == acknowledged({"resourceSubscriptions": visible})


def test_only_so_many_listen_at_a_time_and_who_goes_frees_a_place(tmp_path: Path) -> None:
    """Refused in the body only: with a status of its own the TypeScript client would give up the whole server."""
    site = announcing(tmp_path / "mail", JSONRPC_MCP_MAX_LISTENERS=1)
    for _ in range(3):
        with Listening(site, ALL) as listening:
            listening.next()
            refused = ModernClient(site.app.test_client()).post("subscriptions/listen", {"notifications": ALL})
            assert (refused.status_code, refused.headers["Retry-After"]) == (200, "5")
            assert (refused.get_json()["id"], refused.get_json()["error"]["code"]) == (1, -32004)


def test_a_quiet_subscription_is_kept_alive_by_comments(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TICK", 0.02)
    with Listening(site, ALL) as listening:
        chunks = iter(listening.response.response)
        assert [next(chunks), next(chunks), next(chunks)][1:] == [b":\n\n"] * 2


def test_unless_it_is_switched_on_there_is_nothing_to_subscribe_to(tmp_path: Path) -> None:
    site = announcing(tmp_path / "mail", JSONRPC_MCP_SUBSCRIPTIONS=False)
    client = ModernClient(site.client)
    assert error(client.post("subscriptions/listen", {"notifications": ALL}))[:2] == (404, -32601)
    declared = result(client.post("server/discover"))["capabilities"]
    assert (declared["tools"], declared["prompts"], declared["resources"]) == ({}, {}, {})
    assert error(LegacyClient(site.client).post("resources/subscribe", {"uri": "notes://today"}))[1] == -32601
    with site.app.app_context():
        site.rpc.notify_changed("tools")
    assert not (tmp_path / "mail").exists()


def test_what_can_be_listened_to_is_declared(site: Site) -> None:
    declared = result(ModernClient(site.client).post("server/discover"))["capabilities"]
    assert (declared["tools"], declared["prompts"]) == ({"listChanged": True}, {"listChanged": True})
    assert declared["resources"] == {"listChanged": True, "subscribe": True}


def test_an_older_client_may_subscribe_to_a_resource_that_it_may_read(tmp_path: Path) -> None:
    """The versions before have no request that we could tell it on, so it is told nothing."""
    site = announcing(tmp_path / "mail", make_auth())
    writer, reader = (LegacyClient(site.client, headers=basic(name)) for name in ("writer", "reader"))
    for method in ("resources/subscribe", "resources/unsubscribe"):
        assert result(writer.post(method, {"uri": "notes://7"})) == {}
        assert error(reader.post(method, {"uri": "notes://7"}))[1] == -32002
        assert error(writer.post(method, {"uri": "absent://"}))[1] == -32002
        assert error(writer.post(method, {}))[1] == -32602


def test_a_change_outside_of_an_app_tells_nobody(site: Site) -> None:
    """As when a blueprint's module is imported."""
    site.rpc.add_method("new", mcp_tool(lambda: 1))
    assert "new" in site.names()


def test_a_notification_to_listen_is_heard_and_that_is_all(site: Site) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    asked = asking("subscriptions/listen", {"notifications": ALL}, id=...)
    assert site.client.post("/mcp", json=asked, headers=headers).status_code == 202


def test_without_redis_there_is_a_clear_refusal_and_changes_go_on(caplog: pytest.LogCaptureFixture) -> None:
    site = announcing(f"redis://127.0.0.1:{free_port()}")
    refused = ModernClient(site.client).post("subscriptions/listen", {"notifications": ALL})
    assert (refused.status_code, refused.get_json()["id"]) == (200, 1)
    assert refused.get_json()["error"]["message"].startswith("This server cannot do that")
    with site.app.app_context():
        site.rpc.notify_changed("tools")
    assert "cannot be reached" in caplog.text


def test_a_server_that_stops_tells_those_who_listen(tmp_path: Path) -> None:
    """Else every restart would wait for them, and they would take it for a fault."""
    stopping: list[bool] = []
    site = announcing(str(tmp_path), JSONRPC_MCP_IS_ENDING=lambda: bool(stopping))
    with Listening(site, ALL) as listening:
        listening.next()
        stopping.append(True)
        assert listening.next() == {
            "jsonrpc": "2.0",
            "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: 1}},
            "id": 1,
        }
        with pytest.raises(StopIteration):
            listening.next()


def test_a_subscription_is_about_a_bounded_number_of_resources(tmp_path: Path) -> None:
    wanted = {"notifications": {"resourceSubscriptions": [f"a://{number}" for number in range(101)]}}
    response = ModernClient(announcing(str(tmp_path)).client).post("subscriptions/listen", wanted)
    assert error(response)[:2] == (400, -32602)


@pytest.mark.parametrize("value", [True, "yes"])
def test_whether_the_server_stops_is_told_by_a_function(value: Any) -> None:
    with pytest.raises(ValueError, match="JSONRPC_MCP_IS_ENDING must be a function"):
        Site(McpBlueprint(), JSONRPC_MCP_IS_ENDING=value)


def test_a_redis_that_goes_down_ends_the_subscription(redis: Server) -> None:  # noqa: F811
    site = announcing(redis_url(redis))
    with Listening(site, ALL) as listening:
        listening.next()
        redis.stop()
        assert listening.next()["result"] == {"resultType": "complete", "_meta": {SUBSCRIPTION: 1}}
        with pytest.raises(StopIteration):
            listening.next()


@pytest.fixture(scope="module", params=["files", "redis"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three workers, each with two places for those who listen."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "files":
        with conversing(folder, str(folder / "mail"), "--graceful-timeout", "1") as running:
            yield running
    else:
        with (
            running_redis(folder) as store,
            conversing(folder, redis_url(store), "--graceful-timeout", "1") as running,
        ):
            yield running


def listen(server: Server, number: int, **wanted: Any) -> list[Exchange]:
    """Listen so many times, on whichever worker has a place left."""
    taken: list[Exchange] = []

    def take_another() -> bool:
        exchange = Conversation(server, MODERN).open("subscriptions/listen", {"notifications": wanted})
        if exchange.response.headers["Content-Type"].startswith("text/event-stream"):
            taken.append(exchange)
        return len(taken) == number

    wait_until(take_another, f"{number} listen")
    return taken


def test_a_change_in_one_worker_is_heard_in_all(server: Server) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["notes://today"]}
    listening = listen(server, 3, **wanted)
    streams_of_news = [exchange.messages() for exchange in listening]
    for messages in streams_of_news:
        assert next(messages)["method"] == "notifications/subscriptions/acknowledged"
    for what, method in (
        ("tools", "tools/list_changed"),
        ("notes://today", "resources/updated"),
        ("add", "tools/list_changed"),
    ):
        assert server.invoke("change", {"what": what}).status == 200
        for messages in streams_of_news:
            assert next(messages)["method"] == f"notifications/{method}"
    for exchange in listening:
        exchange.vanish()


@pytest.mark.parametrize("reset", [False, True])
def test_listeners_that_go_away_free_their_places(server: Server, reset: bool) -> None:
    """Six places in all: twice as many come and go, and nobody else notices."""
    for _ in range(2):
        listening = listen(server, 6, **ALL)
        assert server.invoke("worker", {}).status == 200
        for exchange in listening:
            exchange.vanish(reset=reset)
    assert "Traceback" not in server.log.read_text()
