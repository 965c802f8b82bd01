"""Answers that begin before the method has ended: progress and log messages as events, through the Flask client."""

from __future__ import annotations

import contextvars
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from flask import Response, g

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from flask_jsonrpc_mcp.faces.mcp import streams

from .conftest import Site, asking, basic, make_auth
from .load import wait_until
from .mcp_messages import META, LegacyClient, ModernClient, client_of, error, events, result

ERAS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
BOTH = ["2026-07-28", "2025-11-25"]
TOKEN = {"progressToken": "import-7"}


def count(to: int) -> int:
    """Count, and say so."""
    for number in range(1, to + 1):
        current_call.progress(number, to, f"{number} of {to}")
    return to


@pytest.fixture
def site() -> Site:
    site = Site(McpBlueprint(), SECRET_KEY="key")
    site.tool(count)
    return site


def call(client: ModernClient | LegacyClient, name: str, arguments: Any = None, **meta: Any) -> Any:
    return client.post("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta})


def progress(token: Any, number: int, total: int) -> dict[str, Any]:
    params = {"progressToken": token, "progress": number, "total": total, "message": f"{number} of {total}"}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def logged(level: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": data, **more}}


@pytest.mark.parametrize("token", ["import-7", 0, 7, ""])
@pytest.mark.parametrize("version", BOTH)
def test_progress_comes_in_order_before_the_answer(site: Site, version: str, token: Any) -> None:
    response = call(client_of(version, site.client), "count", {"to": 3}, progressToken=token)
    *reports, answer = events(response)
    assert reports == [progress(token, number, 3) for number in (1, 2, 3)]
    assert (answer["id"], answer["result"]["content"]) == (1, [{"type": "text", "text": "3"}])


@pytest.mark.parametrize("version", ERAS)
def test_a_message_with_the_progress_is_left_out_before_it_was_known(site: Site, version: str) -> None:
    first = events(call(client_of(version, site.client), "count", {"to": 1}, **TOKEN))[0]
    assert ("message" in first["params"]) is (version >= "2025-03-26")


@pytest.mark.parametrize("version", BOTH)
def test_a_stream_is_labelled_so_that_nobody_buffers_or_stores_it(version: str) -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_ALLOWED_ORIGINS=["https://app.example"])
    site.tool(count)
    client = client_of(version, site.client, headers={"Origin": "https://app.example"})
    with call(client, "count", {"to": 1}, **TOKEN) as response:
        assert response.mimetype == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert "Content-Length" not in response.headers


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("token", [None, True, 1.5, [], {}])
def test_whoever_does_not_ask_for_progress_gets_plain_json(site: Site, version: str, token: Any) -> None:
    meta = {} if token is None else {"progressToken": token}
    assert result(call(client_of(version, site.client), "count", {"to": 3}, **meta))["isError"] is False


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
def test_whoever_reads_no_events_gets_plain_json(site: Site, version: str, accept: str) -> None:
    client = client_of(version, site.client, headers={"Accept": accept})
    assert result(call(client, "count", {"to": 3}, **TOKEN))["isError"] is False


@pytest.mark.parametrize("version", BOTH)
def test_a_call_that_reports_nothing_is_plain_json(site: Site, version: str) -> None:
    assert result(call(client_of(version, site.client), "count", {"to": 0}, **TOKEN))["isError"] is False


def test_progress_only_ever_increases(site: Site) -> None:
    def wander() -> None:
        for done in (1, 3, 2, 3, 3.5, -1, 4):
            current_call.progress(done)

    site.tool(wander)
    *reports, _ = events(call(ModernClient(site.client), "wander", **TOKEN))
    assert [report["params"] for report in reports] == [{**TOKEN, "progress": done} for done in (1, 3, 3.5, 4)]


@pytest.mark.parametrize("done", [float("nan"), float("inf"), "1", None])
def test_progress_is_counted_in_numbers(site: Site, done: Any) -> None:
    site.tool(lambda: current_call.progress(done), name="odd")
    assert result(call(ModernClient(site.client), "odd", **TOKEN))["isError"] is True


@pytest.mark.parametrize("message", ["caf\udce9.txt", 7, b"bytes"])
def test_whoever_listens_a_message_of_progress_is_shown_as_well_as_it_can_be(site: Site, message: Any) -> None:
    """A method that only reports progress works alike for those who want to hear of it and those who do not."""
    site.tool(lambda: current_call.progress(1, message=message), name="odd")
    report, reply = events(call(ModernClient(site.client), "odd", **TOKEN))
    assert isinstance(report["params"]["message"], str)
    assert reply["result"]["isError"] is False


def test_progress_goes_nowhere_on_the_other_faces(site: Site) -> None:
    assert site.invoke("count", {"to": 3}).get_json() == {"result": 3}
    assert site.rpc_post(asking("count", {"to": 3})).get_json()["result"] == 3


def tell(level: str = "info") -> str:
    current_call.log(level, {"step": 1}, "importer")
    return "told"


@pytest.mark.parametrize(("wanted", "comes"), [("debug", True), ("info", True), ("notice", False), ("error", False)])
def test_a_request_says_which_log_messages_it_wants(site: Site, wanted: str, comes: bool) -> None:
    site.tool(tell)
    response = call(ModernClient(site.client), "tell", **{META + "logLevel": wanted})
    if comes:
        assert events(response)[0] == logged("info", {"step": 1}, logger="importer")
    else:
        assert result(response)["isError"] is False


def test_without_a_level_there_are_no_log_messages(site: Site) -> None:
    site.tool(tell)
    assert result(call(ModernClient(site.client), "tell"))["isError"] is False
    assert result(call(ModernClient(site.client), "tell", **TOKEN))["isError"] is False


@pytest.mark.parametrize("level", ["loud", 1, True, ["info"], {}])
def test_a_level_that_there_is_not_is_refused(site: Site, level: Any) -> None:
    site.tool(tell)
    assert error(call(ModernClient(site.client), "tell", **{META + "logLevel": level}))[:2] == (400, -32602)
    assert error(LegacyClient(site.client).post("logging/setLevel", {"level": level}))[1] == -32602


def test_an_older_client_sets_the_level_of_its_session(site: Site) -> None:
    site.tool(tell)
    client, other = LegacyClient(site.client), LegacyClient(site.client)
    assert result(client.call("tell"))["isError"] is False
    assert result(client.post("logging/setLevel", {"level": "info"})) == {}
    message, answer = events(client.call("tell"))
    assert message == logged("info", {"step": 1}, logger="importer")
    assert answer["result"]["content"][0]["text"] == "told"
    assert result(other.call("tell"))["isError"] is False
    result(client.post("logging/setLevel", {"level": "error"}))
    assert result(client.call("tell"))["isError"] is False


def test_log_messages_for_an_older_client_that_reads_no_events_are_dropped(site: Site) -> None:
    site.tool(tell)
    client = LegacyClient(site.client)
    client.post("logging/setLevel", {"level": "info"})
    client.headers["Accept"] = "application/json"
    assert result(client.call("tell"))["isError"] is False


def spell(word: str) -> Iterator[str]:
    """Spell a word."""
    yield from word


async def spell_slowly(word: str) -> AsyncIterator[str]:
    """Spell a word."""
    for letter in word:
        yield letter


@pytest.mark.parametrize("func", [spell, spell_slowly])
@pytest.mark.parametrize("version", BOTH)
def test_the_items_of_a_generator_are_its_progress(site: Site, func: Any, version: str) -> None:
    site.tool(func, name="spell")
    *reports, answer = events(call(client_of(version, site.client), "spell", {"word": "elm"}, **TOKEN))
    assert [report["params"] for report in reports] == [
        {**TOKEN, "progress": number, "message": letter} for number, letter in enumerate("elm", 1)
    ]
    assert answer["result"]["content"][0]["text"] == "elm"


def test_items_that_are_no_text_are_shown_as_json(site: Site) -> None:
    site.tool(lambda: iter([{"row": 1}, {"row": 2}]), name="rows")
    *reports, answer = events(call(ModernClient(site.client), "rows", **TOKEN))
    assert [report["params"]["message"] for report in reports] == ['{"row":1}', '{"row":2}']
    assert answer["result"]["structuredContent"] == [{"row": 1}, {"row": 2}]


@pytest.mark.parametrize("version", BOTH)
def test_a_method_that_fails_after_the_stream_has_begun_says_so_in_it(site: Site, version: str) -> None:
    def fail(expected: bool) -> None:
        current_call.progress(1)
        raise RpcError("no such feed") if expected else ValueError("secret")

    site.tool(fail)
    client = client_of(version, site.client)
    _, answer = events(call(client, "fail", {"expected": True}, **TOKEN))
    assert (answer["result"]["isError"], answer["result"]["content"][0]["text"]) == (True, "no such feed")
    _, answer = events(call(client, "fail", {"expected": False}, **TOKEN))
    assert answer["result"]["isError"] is True
    assert "secret" not in str(answer)


@pytest.mark.parametrize("version", BOTH)
def test_what_is_wrong_before_the_stream_begins_has_its_status(site: Site, version: str) -> None:
    client = client_of(version, site.client)
    unknown = call(client, "absent", **TOKEN)
    assert unknown.mimetype == "application/json"
    assert error(unknown)[:2] == (400 if version == "2026-07-28" else 200, -32602)
    if isinstance(client, ModernClient):
        params = {"name": "count", "arguments": {"to": 1}, "_meta": TOKEN}
        assert error(client.post("tools/call", params, Mcp_Name="other"))[:2] == (400, -32020)


@pytest.mark.parametrize("version", BOTH)
def test_a_fault_outside_of_the_method_is_answered_with_its_id(
    version: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the stream begins and after: once it has, there is no status left to say it with."""
    site = Site(McpBlueprint(), SECRET_KEY="key")
    site.tool(count)
    client = client_of(version, site.client)

    def fail(*args: Any) -> Any:
        raise OSError("secret")

    monkeypatch.setattr("flask_jsonrpc_mcp.mcp.tools.spell_result", fail)
    with caplog.at_level(logging.ERROR):
        *_, begun = events(call(client, "count", {"to": 1}, **TOKEN))
        plain = call(client, "count", {"to": 0}, **TOKEN).get_json()
    for reply in (begun, plain):
        assert (reply["id"], reply["error"]["code"]) == (1, -32603)
        assert "secret" not in str(reply)
        assert reply["error"]["message"].rpartition(" ")[2] in caplog.text


class Pause:
    """A method that reports, waits until it is let go or cancelled, and says how it ended."""

    def __init__(self, *, reports: bool = True) -> None:
        self.reports = reports
        self.go_on = threading.Event()
        self.ended: list[str] = []

    def __call__(self) -> str:
        if self.reports:
            current_call.progress(1)
        while not self.go_on.wait(0.01):
            if current_call.cancelled:
                self.ended.append("cancelled")
                return "given up"
        self.ended.append("done")
        return "done"


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TICK", 0.02)


@pytest.mark.usefixtures("quick_ticks")
@pytest.mark.parametrize("reports", [True, False])
def test_a_quiet_stream_is_kept_alive_by_comments(site: Site, reports: bool) -> None:
    pause = Pause(reports=reports)
    site.tool(pause, name="pause")
    with call(ModernClient(site.client), "pause", **TOKEN) as response:
        lines = iter(response.response)
        if reports:
            assert b"progress" in next(lines)
        assert [next(lines), next(lines)] == [b":\n\n"] * 2
        pause.go_on.set()
        assert b"done" in b"".join(lines)


def test_a_method_that_takes_too_long_is_answered_in_its_stream() -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key")
    pause = Pause()
    site.tool(pause, name="pause", timeout=0.1)
    for version in BOTH:
        _, answer = events(call(client_of(version, site.client), "pause", **TOKEN))
        assert answer["result"]["isError"] is True
        assert answer["result"]["content"][0]["text"] == "The method has not ended after 0.1 seconds"
    wait_until(lambda: pause.ended == ["cancelled"] * 2, "the methods have seen that nobody waits")


def test_a_client_that_goes_away_cancels_the_method(site: Site) -> None:
    pause = Pause()
    site.tool(pause, name="pause")
    with call(ModernClient(site.client), "pause", **TOKEN) as response:
        next(iter(response.response))
    assert pause.ended == ["cancelled"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_client_that_goes_away_ends_a_generator(site: Site, asynchronous: bool) -> None:
    """It need not look: its items are asked for one by one."""
    ended: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            number = 0
            while True:
                yield (number := number + 1)
        finally:
            ended.append("ended")

    async def async_numbers() -> AsyncIterator[int]:
        for number in numbers():
            yield number

    site.tool(async_numbers if asynchronous else numbers, name="numbers")
    with call(ModernClient(site.client), "numbers", **TOKEN) as response:
        next(iter(response.response))
    assert ended == ["ended"]


@pytest.mark.usefixtures("quick_ticks")
@pytest.mark.parametrize("busy", [False, True])
def test_an_older_client_gives_a_request_up_by_another_one(site: Site, busy: bool) -> None:
    """Also while the method reports all the time."""
    ended = []

    def work() -> None:
        done = 0
        while not current_call.cancelled:
            if busy or not done:
                current_call.progress(done := done + 1)
            threading.Event().wait(0.001)
        ended.append(True)

    site.tool(work)
    client = LegacyClient(site.client)
    with call(client, "work", **TOKEN) as response:
        cancel = asking("notifications/cancelled", {"requestId": 1, "reason": "changed my mind"}, id=...)
        other = LegacyClient(site.app.test_client(), session=client.session)
        assert other.send(cancel).status_code == 202
        rest = b"".join(response.response)
    assert ended == [True]
    assert b'"id"' not in rest  # who gave up gets no answer


def test_nobody_gives_up_the_request_of_another_session(site: Site) -> None:
    pause = Pause()
    site.tool(pause, name="pause")
    client, stranger = LegacyClient(site.client), LegacyClient(site.app.test_client())
    with call(client, "pause", **TOKEN) as response:
        lines = iter(response.response)
        next(lines)
        stranger.initialize()
        stranger.send(asking("notifications/cancelled", {"requestId": 1}, id=...))
        assert next(lines) == b":\n\n"  # it has looked
        pause.go_on.set()
        assert b"done" in b"".join(lines)


def test_what_a_slow_reader_has_not_read_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BACKLOG", 5_000)
    reported = threading.Event()

    def chatter() -> str:
        for number in range(1, 1001):
            current_call.progress(number, message="x" * 100)
        reported.set()
        return "done"

    site.tool(chatter)
    with call(ModernClient(site.client), "chatter", **TOKEN) as response:
        assert reported.wait(30)  # and nobody has read anything yet
        *reports, answer = events(response)
    numbers = [report["params"]["progress"] for report in reports]
    assert len(response.data) < 20_000  # of some 200,000
    assert numbers == sorted(numbers)
    assert numbers[-1] == 1000  # the newest are there
    assert answer["result"]["content"][0]["text"] == "done"


def test_log_messages_kept_for_an_older_client_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BACKLOG", 5_000)

    def chatter() -> None:
        for _ in range(1000):
            current_call.log("info", "x" * 100)

    site.tool(chatter)
    client = LegacyClient(site.client)
    client.post("logging/setLevel", {"level": "info"})
    response = client.call("chatter")
    assert len(events(response)) > 10
    assert len(response.data) < 10_000


class Resource:
    """What apps keep in g for a request, such as a database session."""

    def __init__(self) -> None:
        self.closed = False


class Watched:
    """A site with a resource per request, whose method uses it until its end."""

    def __init__(self) -> None:
        self.site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
        self.history: list[str] = []
        self.pause = Pause()
        self.site.app.before_request(self.open)
        self.site.app.teardown_request(lambda error: self.history.append("teardown_request"))
        self.site.app.teardown_appcontext(self.close)
        self.site.tool(lambda: self.use(), name="use")
        self.site.tool(lambda: sorted(g), name="names")

    def open(self) -> None:
        assert "resource" not in g
        g.resource = Resource()
        self.resource = g.resource

    def close(self, error: BaseException | None) -> None:
        resource = g.pop("resource", None)
        if resource is not None:
            resource.closed = True
            self.history.append("closed")

    def use(self) -> str:
        assert g.resource is self.resource
        try:
            return self.pause()
        finally:
            assert not g.resource.closed
            self.history.append("method ended")


ORDERLY = ["method ended", "teardown_request", "closed"]


@pytest.mark.parametrize("version", BOTH)
def test_a_request_is_torn_down_once_and_after_its_method(version: str) -> None:
    watched = Watched()
    client = client_of(version, watched.site.client)
    if isinstance(client, LegacyClient):
        client.initialize()
        watched.history.clear()
    with call(client, "use", **TOKEN) as response:
        assert watched.history == []
        watched.pause.go_on.set()
        assert len(events(response)) == 2
    assert watched.history == ORDERLY


def test_a_request_is_torn_down_once_when_its_client_goes_away() -> None:
    watched = Watched()
    with call(ModernClient(watched.site.client), "use", **TOKEN) as response:
        next(iter(response.response))
    assert watched.pause.ended == ["cancelled"]
    assert watched.history == ORDERLY


def test_a_request_is_torn_down_once_when_its_answer_was_plain() -> None:
    watched = Watched()
    watched.pause = Pause(reports=False)
    watched.pause.go_on.set()
    assert result(call(ModernClient(watched.site.client), "use", **TOKEN))["isError"] is False
    assert watched.history == ORDERLY


def test_nothing_of_a_stream_is_left_for_the_next_request() -> None:
    watched = Watched()
    watched.pause.go_on.set()
    kept: contextvars.ContextVar[str] = contextvars.ContextVar("kept", default="nothing")

    def leave() -> str:
        before = kept.get()
        kept.set("something")
        g.left = True
        current_call.progress(1)
        return before

    watched.site.tool(leave)
    client = ModernClient(watched.site.client)
    for _ in range(3):
        _, answer = events(call(client, "leave", **TOKEN))
        assert answer["result"]["content"][0]["text"] == "nothing"
        names = result(client.call("names"))["structuredContent"]
        assert "left" not in names
    assert kept.get() == "nothing"
    with pytest.raises(RuntimeError, match="application context"):
        _ = g.left


def test_a_response_that_the_app_drops_leaves_nothing_behind() -> None:
    """An ``after_request`` that fails or answers something else gets our response, and nobody closes that one."""
    watched = Watched()
    watched.pause.go_on.set()
    dropping = [True]

    @watched.site.app.after_request
    def drop(response: Response) -> Response:
        return Response("dropped") if dropping else response

    client = ModernClient(watched.site.client)
    assert call(client, "use", **TOKEN).text == "dropped"
    dropping.clear()
    assert result(client.call("names"))["structuredContent"] == ["resource"]
    assert watched.history.count("teardown_request") == 2
    with pytest.raises(RuntimeError, match="application context"):
        _ = g.resource


def test_an_app_that_reads_the_whole_stream_gets_all_of_it() -> None:
    """As those do that compress or sign responses."""
    watched = Watched()
    watched.pause.go_on.set()
    lengths = []

    @watched.site.app.after_request
    def read(response: Response) -> Response:
        lengths.append(len(response.get_data()))
        return response

    response = call(ModernClient(watched.site.client), "use", **TOKEN)
    assert len(events(response)) == 2
    assert lengths == [len(response.data)]
    assert watched.history == ORDERLY


def test_a_streaming_method_knows_its_user() -> None:
    auth = make_auth()
    site = Site(McpBlueprint(auth=auth), SECRET_KEY="key")

    @site.rpc.method(access=["write"])
    @mcp_tool
    def whoami() -> str:
        current_call.progress(1)
        return str(auth.current_user())

    for version in BOTH:
        client = client_of(version, site.client, headers=basic("writer"))
        *_, answer = events(call(client, "whoami", **TOKEN))
        assert answer["result"]["content"][0]["text"] == "writer"


@pytest.mark.parametrize("version", BOTH)
def test_prompts_and_resources_report_too(site: Site, version: str) -> None:
    @site.rpc.prompt
    def summarise() -> str:
        """Summarise."""
        current_call.progress(1)
        return "Summarise this"

    @site.rpc.resource("feed://today")
    def today() -> str:
        """Today's feed."""
        current_call.progress(1)
        return "news"

    client = client_of(version, site.client)
    for method, params in (("prompts/get", {"name": "summarise"}), ("resources/read", {"uri": "feed://today"})):
        report, answer = events(client.post(method, {**params, "_meta": TOKEN}))
        assert report["params"] == {**TOKEN, "progress": 1}
        assert "result" in answer


def test_a_notification_with_a_token_is_heard_and_that_is_all(site: Site) -> None:
    client = LegacyClient(site.client)
    client.initialize()
    params = {"name": "count", "arguments": {"to": 1}, "_meta": TOKEN}
    assert client.send(asking("tools/call", params, id=...)).status_code == 202
    modern = ModernClient(site.client)
    sent = {**modern.headers, "Accept": "text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    assert site.client.post("/mcp", json=asking("tools/call", params, id=...), headers=sent).status_code == 202


def test_a_method_that_asks_and_reports_never_goes_back(site: Site) -> None:
    """An older client is asked on the stream of its request, and the method runs again on the same stream."""

    def ask() -> str:
        current_call.progress(1, message="before the question")
        name = current_call.elicit("Who?", {"name": str}).content["name"]
        current_call.progress(2, message="after it")
        return str(name)

    site.tool(ask)
    client = LegacyClient(site.client, capabilities={"elicitation": {}})
    seen = []
    with call(client, "ask", **TOKEN) as response:
        other = LegacyClient(site.app.test_client(), session=client.session)
        for line in response.response:
            message = {} if line == b":\n\n" else json.loads(line.removeprefix(b"data: "))
            if message.get("method") == "elicitation/create":
                answer = {"action": "accept", "content": {"name": "Ada"}}
                assert other.send({"jsonrpc": "2.0", "id": message["id"], "result": answer}).status_code == 202
            seen.append(message)
    reports = [message["params"] for message in seen if message.get("method") == "notifications/progress"]
    assert [report["message"] for report in reports] == ["before the question", "after it"]
    assert seen[-1]["result"]["content"][0]["text"] == "Ada"


def test_a_backlog_loses_reports_and_never_questions() -> None:
    backlog, long = streams.Backlog(), "x" * (streams.MAX_BACKLOG // 2)
    for number in (1, 2, 3):
        backlog.add({"id": number, "method": "sampling/createMessage", "params": {"messages": long}})
        backlog.add({"method": "notifications/message", "params": {"data": long}})
    kept = [json.loads(message) for message in backlog.take()]
    assert [message["id"] for message in kept if "id" in message] == [1, 2, 3]
    assert len(kept) == 4
    assert not backlog
