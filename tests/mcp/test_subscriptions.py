"""``subscriptions/listen``: clients hear of changes that any worker makes, and only of what they asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, g
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from flask_jsonrpc_mcp import Call, McpBlueprint, mcp_tool, method_called
from flask_jsonrpc_mcp.errors import Unauthorized
from flask_jsonrpc_mcp.levels import waiting_slot
from flask_jsonrpc_mcp.mcp import streams, subscriptions
from tests.conftest import PERMISSIONS, Site, asking, basic, make_auth
from tests.support.conversations import COMMENT, Conversation, Exchange
from tests.support.load import PATIENCE, wait_until
from tests.support.mailboxes import conversing, redis_url, running_redis
from tests.support.mcp_messages import META, LegacyClient, ModernClient, error, events, result
from tests.support.servers import Server, free_port, served_here

MODERN = "2026-07-28"
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
SUBSCRIPTION = META + "subscriptionId"


def announcing(place: object, auth: Any = None, rate_limit: tuple[str, Limiter] | None = None, **config: Any) -> Site:
    """A site that tells of changes."""
    settings = {"JSONRPC_MCP_SUBSCRIPTIONS": True, "JSONRPC_MCP_MAILBOX": place, **config}
    per_caller, limiter = rate_limit or (None, None)
    rpc = McpBlueprint(auth=auth, limiter=limiter, rate_limit=per_caller)
    site = Site(rpc, SECRET_KEY="key", **settings)
    if limiter is not None:
        limiter.init_app(site.app)
    site.tool(lambda: 1, name="tool")
    site.rpc.prompt("prompt")(lambda: "prompt")
    site.rpc.add_resource("notes://today", lambda: "today", name="today")
    site.rpc.add_resource("notes://{number}", lambda number: number, name="note", access=["write"] if auth else [])
    return site


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE", 0.05)
    monkeypatch.setattr(subscriptions, "POLL_EVERY", 0.01)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return announcing(tmp_path / "mail")


class Listening:
    """A client that listens to a site over the network."""

    def __init__(self, site: Site, wanted: Any, **client: Any) -> None:
        self._site, self._wanted, self._client = site, wanted, client
        self._stack = ExitStack()

    def __enter__(self) -> Listening:
        client = Conversation(self._stack.enter_context(served_here(self._site.app)), MODERN, **self._client)
        exchange = client.open("subscriptions/listen", {"notifications": self._wanted})
        self._stack.callback(exchange.vanish)
        self.chunks = iter(exchange)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def next(self) -> Any:
        """Read a message; comments are left out."""
        deadline = time.monotonic() + PATIENCE
        while (message := next(self.chunks)) == COMMENT:
            assert time.monotonic() < deadline, "nothing but comments"
        return message


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


FINAL = {"jsonrpc": "2.0", "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: 1}}, "id": 1}

SECRET_NOTE = {"resourceSubscriptions": ["notes://7"]}
"""For writers only."""


@pytest.fixture
def identified_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "IDENTIFY_EVERY", 0)


def test_a_subscription_ends_when_the_permission_for_a_resource_is_gone(
    tmp_path: Path, identified_often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = announcing(tmp_path / "mail", make_auth())
    with Listening(site, SECRET_NOTE, headers=basic("writer")) as listening, site.app.app_context():
        listening.next()
        site.rpc.notify_changed("notes://7")
        assert listening.next() == news("resources/updated", uri="notes://7")
        monkeypatch.setitem(PERMISSIONS, "writer", [])
        assert listening.next() == FINAL
        with pytest.raises(StopIteration):
            listening.next()
    with Listening(site, SECRET_NOTE, headers=basic("writer")) as listening:
        assert listening.next() == acknowledged({})


def test_a_subscription_ends_when_the_account_is_gone(
    tmp_path: Path, identified_often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = announcing(tmp_path / "mail", make_auth())
    with Listening(site, ALL, headers=basic("writer")) as listening:
        listening.next()
        monkeypatch.delitem(PERMISSIONS, "writer")
        assert listening.next()["error"]["code"] == Unauthorized.code
        with pytest.raises(StopIteration):
            listening.next()


@pytest.mark.parametrize("answer", ["", "closed"])
def test_what_the_app_keeps_in_g_is_not_believed_for_longer(
    tmp_path: Path, identified_often: None, answer: str
) -> None:
    """Its ``before_request`` functions may keep the user there, and may refuse them."""
    site, granted = announcing(tmp_path / "mail", make_auth()), ["write"]

    @site.app.before_request
    def load_permissions() -> str | None:
        g.setdefault("permissions", list(granted))
        return None if granted else answer or None

    site.rpc.permissions_loader(lambda user: g.permissions)
    with Listening(site, SECRET_NOTE, headers=basic("writer")) as listening:
        listening.next()
        granted.clear()
        end = listening.next()
        assert end == FINAL if answer == "" else end["error"]["code"] == Unauthorized.code


def test_subscriptions_are_logged_and_counted_like_calls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limiter = Limiter(get_remote_address, storage_uri="memory://")
    site = announcing(tmp_path / "mail", make_auth(), rate_limit=("3/minute", limiter), JSONRPC_MCP_MAX_WAITING=1)
    caplog.set_level(logging.INFO, logger=site.app.logger.name)
    calls: list[tuple[Call, str]] = []

    def receive(app: Flask, call: Call, outcome: str, **more: object) -> None:
        calls.append((call, outcome))

    with method_called.connected_to(receive, site.app):
        writer = ModernClient(site.app.test_client(), headers=basic("writer"))
        with Listening(site, ALL, headers=basic("writer")) as listening:
            listening.next()
            assert writer.post("subscriptions/listen", {"notifications": ALL}).get_json()["error"]["code"] == -32004
            assert writer.post("subscriptions/listen", {"notifications": []}).status_code == 400  # no subscription
            assert result(writer.call("tool"))["isError"] is False
            assert error(writer.post("subscriptions/listen", {"notifications": ALL}))[:2] == (429, -32005)
        wait_until(lambda: len(calls) == 4, "the one that listened has gone")
    subscriptions = [(call, outcome) for call, outcome in calls if call.kind == "subscription"]
    assert [outcome for _, outcome in subscriptions] == ["overloaded", "rate_limited", "ok"]
    for call, outcome in subscriptions:
        assert (call.name, call.caller.name) == ("subscriptions/listen", "writer")
        [line] = [message for message in caplog.messages if call.id in message]
        assert f"name='subscriptions/listen' caller='writer' outcome={outcome} " in line


def refused(site: Site) -> Any:
    """Try to listen where there is no place."""
    response = ModernClient(site.app.test_client()).post("subscriptions/listen", {"notifications": ALL})
    assert (response.status_code, response.mimetype) == (200, "application/json")
    return response


def test_only_so_many_listen_at_a_time_and_who_goes_frees_a_place(tmp_path: Path) -> None:
    """Refused in the body only: with a status of its own the TypeScript client would give up the whole server."""
    site = announcing(tmp_path / "mail", JSONRPC_MCP_MAX_WAITING=1)

    def has_listened() -> bool:
        with Listening(site, ALL) as listening:
            try:
                listening.next()
            except AssertionError:  # refused: the client before has gone, and that is not noticed yet
                return False
            response = refused(site)
            assert response.headers["Retry-After"] == "5"
            assert (response.get_json()["id"], response.get_json()["error"]["code"]) == (1, -32004)
            return True

    for _ in range(3):
        wait_until(has_listened, "a place is free")


def test_nobody_listens_where_no_thread_may_wait(tmp_path: Path) -> None:
    refused(announcing(tmp_path / "mail", JSONRPC_MCP_MAX_WAITING=0))


def test_a_quiet_subscription_is_kept_alive_by_comments(site: Site) -> None:
    with Listening(site, ALL) as listening:
        assert listening.next() == acknowledged(ALL)
        assert [next(listening.chunks), next(listening.chunks)] == [COMMENT] * 2


class Uwsgi:
    """WSGI middleware with uWSGI's mark; notes which threads write, and is left by its client after a few writes."""

    def __init__(self, site: Site, chunks: int) -> None:
        self._app, self._chunks = site.app.wsgi_app, chunks
        self.writers: list[int] = []
        site.app.wsgi_app = self  # type: ignore[method-assign]

    def __call__(self, environ: Any, start_response: Any) -> Any:
        def start(*args: Any) -> Any:
            write = start_response(*args)

            def note_and_write(data: bytes) -> None:
                self.writers.append(threading.get_ident())
                if len(self.writers) == self._chunks:
                    raise OSError("write error")
                write(data)

            return note_and_write

        return self._app({**environ, "uwsgi.version": b"2.0"}, start)


def test_under_uwsgi_the_thread_of_the_request_writes_the_comments_and_notices_who_leaves(tmp_path: Path) -> None:
    """Its ``write`` fails in any other thread."""
    site = announcing(tmp_path / "mail", JSONRPC_MCP_MAX_WAITING=1)
    for _ in range(2):  # the place is free again
        server = Uwsgi(site, chunks=4)
        response = ModernClient(site.app.test_client()).post("subscriptions/listen", {"notifications": ALL})
        assert server.writers == [threading.get_ident()] * 4
        assert response.text.endswith("\n\n" + ":\n\n" * 2)


def test_a_subscription_ends_at_once_where_the_server_can_send_nothing_before_the_end(tmp_path: Path) -> None:
    site = announcing(tmp_path / "mail", JSONRPC_MCP_MAX_WAITING=1)
    serve: Any = site.app.wsgi_app

    def without_write(environ: Any, start_response: Any) -> Any:
        def start(*args: Any) -> None:
            start_response(*args)

        return serve(environ, start)

    site.app.wsgi_app = without_write  # type: ignore[method-assign]
    for _ in range(2):  # the place is free again
        response = ModernClient(site.app.test_client()).post("subscriptions/listen", {"notifications": ALL})
        (reply,) = events(response)
        assert reply["id"] == 1
        assert reply["error"]["message"] == "This HTTP server cannot send events before the response is complete"


def test_an_app_that_reads_or_drops_the_response_leaves_no_place_taken(tmp_path: Path) -> None:
    site = announcing(tmp_path / "mail", JSONRPC_MCP_MAX_WAITING=1)
    reading = [True, True]

    @site.app.after_request
    def read_or_drop(response: Response) -> Response:
        if reading and reading.pop():
            response.get_data()
            return response
        return Response("dropped")

    client = ModernClient(site.client)
    for _ in range(2):
        (reply,) = events(client.post("subscriptions/listen", {"notifications": ALL}))
        assert reply["error"]["message"] == "This HTTP server cannot send events before the response is complete"
    responses = [client.post("subscriptions/listen", {"notifications": ALL}).text for _ in range(2)]
    assert responses == ["dropped"] * 2
    with site.app.app_context(), waiting_slot():
        pass


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
        assert listening.next() == FINAL
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


def test_a_redis_that_goes_down_ends_the_subscription(tmp_path: Path) -> None:
    with running_redis(tmp_path) as redis, Listening(announcing(redis_url(redis)), ALL) as listening:
        listening.next()
        redis.stop()
        assert listening.next() == FINAL
        with pytest.raises(StopIteration):
            listening.next()


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three workers, each with two places for those who listen."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with conversing(folder, str(folder / "mail"), "--graceful-timeout", "1", MAX_WAITING=2) as running:
            yield running
    else:
        with (
            running_redis(folder) as store,
            conversing(folder, redis_url(store), "--graceful-timeout", "1", MAX_WAITING=2) as running,
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
