"""Progress and log messages as events before the answer: by the Flask client, or by a server where both sides wait."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from flask import Response, g

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from flask_jsonrpc_mcp.mcp import streams
from tests.conftest import Site, asking, basic, make_auth
from tests.support.answering import listening
from tests.support.conversations import COMMENT, Conversation, text_of
from tests.support.load import wait_until
from tests.support.mcp_messages import META, LegacyClient, ModernClient, client_of, error, events, result
from tests.support.servers import served_here

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


@pytest.mark.parametrize("live", [False, True], ids=["with its result", "live"])
@pytest.mark.parametrize("version", BOTH)
def test_a_stream_is_labelled_so_that_nobody_buffers_or_stores_it(version: str, live: bool) -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_ALLOWED_ORIGINS=["https://app.example"])
    site.tool(count)
    site.tool(spell)
    client = client_of(version, site.client, headers={"Origin": "https://app.example"})
    name, arguments = ("spell", {"word": "elm"}) if live else ("count", {"to": 1})
    with call(client, name, arguments, **TOKEN) as response:
        assert response.mimetype == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        # Of what is complete, a proxy may buffer what it likes.
        assert response.headers.get("X-Accel-Buffering") == ("no" if live else None)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
        # Of what is complete, a server or the app may say how long it is.
        assert "Content-Length" not in response.headers or not live


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("token", [None, True, 1.5, [], {}, "x" * 1001, 10**1000], ids=lambda token: str(token)[:9])
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
    site.tool(spell)
    client = client_of(version, site.client)
    if isinstance(client, LegacyClient):
        client.initialize()

    def fail(*args: Any) -> Any:
        raise OSError("secret")

    monkeypatch.setattr("flask_jsonrpc_mcp.mcp.versions.complete", fail)
    with caplog.at_level(logging.ERROR):
        *_, reported = events(call(client, "count", {"to": 1}, **TOKEN))
        plain = call(client, "count", {"to": 0}, **TOKEN).get_json()
        *_, begun = events(call(client, "spell", {"word": "elm"}, **TOKEN))
        silent = call(client, "spell", {"word": ""}, **TOKEN).get_json()
    for reply in (reported, plain, begun, silent):
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


def test_a_method_that_takes_too_long_is_answered_in_its_stream() -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key")
    pause = Pause()
    site.tool(pause, name="pause", timeout=0.1)
    for version in BOTH:
        _, answer = events(call(client_of(version, site.client), "pause", **TOKEN))
        assert answer["result"]["isError"] is True
        assert answer["result"]["content"][0]["text"] == "The method has not ended after 0.1 seconds"
    wait_until(lambda: pause.ended == ["cancelled"] * 2, "the methods have seen that nobody waits")


@pytest.mark.parametrize("busy", [False, True])
def test_an_older_client_gives_a_request_up_by_another_one(site: Site, busy: bool) -> None:
    """Also while the method reports all the time."""
    ended = []

    def work() -> Iterator[str]:
        try:
            yield "begun"
            while not current_call.cancelled:
                if busy:
                    yield "busy"
                threading.Event().wait(0.001)
        finally:
            ended.append(True)

    site.tool(work)
    with served_here(site.app) as server:
        client = Conversation(server)
        messages = client.call("work", token="t").messages()
        assert next(messages)["params"]["message"] == "begun"
        cancel = asking("notifications/cancelled", {"requestId": 1, "reason": "changed my mind"}, id=...)
        assert client.send(cancel).status == 202
        assert all("id" not in message for message in messages)  # who gave up gets no answer
    assert ended == [True]


@pytest.mark.parametrize("options", [{}, {"streams": True}], ids=["ordinary", "live"])
@pytest.mark.parametrize("token", ["t", None], ids=["with progress", "plain"])
def test_a_method_sees_that_an_older_client_has_given_it_up(site: Site, options: Any, token: Any) -> None:
    """Whether anything is sent while it runs or not, and the client gets no answer."""
    begun, pause = threading.Event(), Pause()

    def wait() -> str:
        begun.set()
        return pause()

    site.tool(wait, **options)
    with served_here(site.app) as server:
        client = Conversation(server)
        exchange = client.call("wait", token=token)
        assert begun.wait(30)
        assert client.send(asking("notifications/cancelled", {"requestId": 1}, id=...)).status == 202
        assert all("id" not in message for message in exchange.messages())
    assert pause.ended == ["cancelled"]


def test_a_method_that_does_not_look_gives_no_answer_to_a_client_that_has_given_it_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.call.POLL_EVERY", 0)
    go_on = threading.Event()

    def wait() -> str:
        current_call.progress(1)
        go_on.wait(30)
        return "done"

    site.tool(wait, streams=True)
    with served_here(site.app) as server:
        client = Conversation(server)
        messages = client.call("wait", token="t").messages()
        assert next(messages)["params"]["progress"] == 1
        assert client.send(asking("notifications/cancelled", {"requestId": 1}, id=...)).status == 202
        go_on.set()
        assert list(messages) == []


@pytest.mark.parametrize("version", BOTH)
def test_a_client_that_leaves_closes_the_generator_and_the_request_is_torn_down(version: str) -> None:
    watched = Watched()
    errors: list[BaseException | None] = []
    watched.site.app.teardown_request(errors.append)

    def endless() -> Iterator[int]:
        try:
            yield from range(1, 1_000_000)
        finally:
            watched.history.append("method ended")

    watched.site.tool(endless)
    client = client_of(version, watched.site.client)
    if isinstance(client, LegacyClient):
        client.initialize()
    watched.history.clear()
    errors.clear()

    def leave(chunk: bytes) -> None:
        raise BrokenPipeError

    with listening(watched.site.client, leave) as heard:
        call(client, "endless", **TOKEN)
    assert len(heard) == 1  # and no answer to a client that has gone
    assert watched.history == ORDERLY
    assert errors == [None]


def test_nobody_gives_up_the_request_of_another_session(site: Site) -> None:
    go_on = threading.Event()

    def wait() -> Iterator[str]:
        yield "begun"
        while not go_on.wait(0.01):
            if current_call.cancelled:
                raise RpcError("cancelled")
        yield "done"

    site.tool(wait)
    with served_here(site.app) as server:
        client, stranger = Conversation(server), Conversation(server)
        stream = iter(client.call("wait", token="t"))
        assert next(stream)["params"]["message"] == "begun"
        assert stranger.send(asking("notifications/cancelled", {"requestId": 1}, id=...)).status == 202
        assert next(stream) == COMMENT  # by then it has looked
        go_on.set()
        *_, answer = stream
    assert text_of(answer) == "begundone"


def test_reports_that_wait_for_the_result_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BACKLOG", 5_000)

    def chatter() -> str:
        for number in range(1, 1001):
            current_call.progress(number, message="x" * 100)
        return "done"

    site.tool(chatter)
    response = call(ModernClient(site.client), "chatter", **TOKEN)
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
        self.site.tool(lambda: self.use(), name="use-live", streams=True)
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
both_ways = pytest.mark.parametrize("name", ["use", "use-live"])


@both_ways
def test_a_request_is_torn_down_once_when_its_answer_was_plain(name: str) -> None:
    watched = Watched()
    watched.pause = Pause(reports=False)
    watched.pause.go_on.set()
    assert result(call(ModernClient(watched.site.client), name, **TOKEN))["isError"] is False
    assert watched.history == ORDERLY


def test_nothing_of_a_stream_is_left_for_the_next_request() -> None:
    watched = Watched()

    def leave() -> Iterator[str]:
        g.left = True
        yield "left"

    watched.site.tool(leave)
    client = ModernClient(watched.site.client)
    for _ in range(3):
        assert len(events(call(client, "leave", **TOKEN))) == 2
        names = result(client.call("names"))["structuredContent"]
        assert "left" not in names
    with pytest.raises(RuntimeError, match="application context"):
        _ = g.left


@both_ways
def test_a_response_that_the_app_drops_leaves_nothing_behind(name: str) -> None:
    """An ``after_request`` that answers something else gets our response, and nobody closes that one.

    An ordinary method has run by then; one that runs while its response is sent does not run at all.
    """
    watched = Watched()
    watched.pause.go_on.set()
    dropping = [True]

    @watched.site.app.after_request
    def drop(response: Response) -> Response:
        return Response("dropped") if dropping else response

    client = ModernClient(watched.site.client)
    assert call(client, name, **TOKEN).text == "dropped"
    assert watched.pause.ended == (["done"] if name == "use" else [])
    dropping.clear()
    assert set(result(client.call("names"))["structuredContent"]) - {"flask_httpauth_user"} == {"resource"}
    assert watched.history.count("teardown_request") == 2
    with pytest.raises(RuntimeError, match="application context"):
        _ = g.resource


@both_ways
def test_an_app_that_reads_the_whole_stream_gets_all_of_it(name: str) -> None:
    """As those do that compress or sign responses."""
    watched = Watched()
    watched.pause.go_on.set()
    lengths = []

    @watched.site.app.after_request
    def read(response: Response) -> Response:
        lengths.append(len(response.get_data()))
        return response

    response = call(ModernClient(watched.site.client), name, **TOKEN)
    assert len(events(response)) == 2
    assert lengths == [len(response.data)]
    assert watched.history == ORDERLY


@both_ways
def test_an_app_that_wraps_the_body_of_a_response_gets_all_of_it(name: str) -> None:
    """As those do that compress a response while it is sent."""
    watched = Watched()
    watched.pause.go_on.set()

    @watched.site.app.after_request
    def shout(response: Response) -> Response:
        body = response.iter_encoded()
        response.response = (chunk.upper() for chunk in body)
        response.headers.pop("Content-Length", None)
        return response

    response = call(ModernClient(watched.site.client), name, **TOKEN)
    assert response.text.startswith("DATA: ")
    assert response.text.count("DATA: ") == 2


@both_ways
def test_functions_that_run_when_a_response_is_closed_run_after_its_last_event(name: str) -> None:
    watched = Watched()
    watched.pause.go_on.set()

    @watched.site.app.after_request
    def note_end(response: Response) -> Response:
        response.call_on_close(lambda: watched.history.append("response closed"))
        return response

    with call(ModernClient(watched.site.client), name, **TOKEN) as response:
        assert len(events(response)) == 2
    assert watched.history == [*ORDERLY, "response closed"]


@both_ways
def test_an_app_may_have_a_response_class_of_its_own(name: str) -> None:
    class OwnResponse(Response):
        default_mimetype = "text/plain"

        @property
        def is_own(self) -> bool:
            return True

    watched, seen = Watched(), []
    watched.pause.go_on.set()
    watched.site.app.response_class = OwnResponse

    @watched.site.app.after_request
    def look(response: OwnResponse) -> OwnResponse:
        seen.append(response.is_own)
        return response

    with listening(watched.site.client, lambda chunk: None) as heard:
        response = call(ModernClient(watched.site.client), name, **TOKEN)
    assert len(events(response)) == 2
    assert len(heard) == (2 if name == "use-live" else 0)
    assert watched.history == ORDERLY
    assert seen == [True]


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


@pytest.mark.parametrize("live", [False, True], ids=["ordinary", "live"])
def test_a_method_that_asks_and_reports_never_goes_back(site: Site, live: bool) -> None:
    """An older client is asked on the stream of its request, and the method runs again on the same stream."""

    def ask() -> str:
        current_call.progress(1, message="before the question")
        name = current_call.elicit("Who?", {"name": str}).content["name"]
        current_call.progress(2, message="after it")
        return str(name)

    site.tool(ask, **({"streams": True} if live else {}))
    seen = []
    with served_here(site.app) as server:
        client = Conversation(server, capabilities={"elicitation": {}})
        for message in client.call("ask", token="t").messages():
            if message.get("method") == "elicitation/create":
                assert client.answer(message, result={"action": "accept", "content": {"name": "Ada"}}) == 202
            seen.append(message)
    reports = [message["params"] for message in seen if message.get("method") == "notifications/progress"]
    assert [report["message"] for report in reports] == ["before the question", "after it"]
    assert text_of(seen[-1]) == "Ada"


def test_a_silent_method_always_gets_its_answer_through(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a comment begins the stream in the moment in which the method ends."""
    monkeypatch.setattr(streams, "KEEP_ALIVE", 0.001)
    site.tool(lambda: threading.Event().wait(0.001), name="silent", streams=True)
    client = ModernClient(site.client)
    for _ in range(100):
        response = call(client, "silent", **TOKEN)
        plain = response.mimetype == "application/json"
        reply = response.get_json() if plain else events(response)[-1]
        assert reply["result"]["isError"] is False


class Server:
    """WSGI middleware that is like another server: with its environment, and with or without ``write``."""

    def __init__(self, site: Site, environ: dict[str, Any] | None = None, *, has_write: bool = True) -> None:
        self._app, self._has_write, self._environ = site.app.wsgi_app, has_write, environ or {}
        self.writers: set[int] = set()
        site.app.wsgi_app = self  # type: ignore[method-assign]

    def __call__(self, environ: Any, start_response: Any) -> Any:
        def start(*args: Any) -> Any:
            write = start_response(*args)

            def note_and_write(data: bytes) -> None:
                self.writers.add(threading.get_ident())
                write(data)

            return note_and_write if self._has_write else None

        return self._app({**environ, **self._environ}, start)


def report_and_wait() -> str:
    current_call.progress(1)
    threading.Event().wait(0.1)
    return "done"


async def report_and_await() -> str:
    return report_and_wait()


UWSGI = {"uwsgi.version": b"2.0"}


@pytest.mark.parametrize(
    ("func", "options"),
    [(report_and_wait, {}), (report_and_wait, {"timeout": 30}), (report_and_await, {})],
    ids=["plain", "with a timeout", "async"],
)
@pytest.mark.parametrize("environ", [UWSGI, {}], ids=["uWSGI", "others"])
def test_under_uwsgi_only_the_thread_of_the_request_writes(
    site: Site, monkeypatch: pytest.MonkeyPatch, environ: dict[str, Any], func: Any, options: dict[str, Any]
) -> None:
    """Its ``write`` fails in any other; under other servers a second thread writes comments, at least."""
    monkeypatch.setattr(streams, "KEEP_ALIVE", 0.01)
    site.tool(func, name="work", streams=True, **options)
    server = Server(site, environ)
    report, answer = events(call(ModernClient(site.client), "work", **TOKEN))
    assert report["params"]["progress"] == 1
    assert text_of(answer) == "done"
    assert threading.get_ident() in server.writers
    assert (len(server.writers) == 1) is (environ is UWSGI)


def test_a_client_that_reads_nothing_for_too_long_is_disconnected(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE", 0.05)
    monkeypatch.setattr(streams, "CHECK_EVERY", 0.1)
    monkeypatch.setattr(streams, "SEND_TIMEOUT", 0.3)
    ended = threading.Event()

    def flood() -> None:
        number = 0
        while not current_call.cancelled:
            current_call.progress(number := number + 1, message="x" * 65536)
        ended.set()

    site.tool(flood, streams=True)
    with served_here(site.app) as server:
        exchange = Conversation(server, BOTH[0]).call("flood", token="t", receive_buffer=4096)
        assert ended.wait(30)
        exchange.vanish()


def test_no_comment_is_sent_to_a_client_whose_buffers_are_full(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would block the thread that notices that the client does not read."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with suppress(BlockingIOError):
        while ours.send(bytes(65536)):
            pass
    checks: list[bool] = []

    def check(connection: socket.socket, is_writable: Any = streams._is_writable) -> bool:
        checks.append(is_writable(connection))
        return checks[-1]

    monkeypatch.setattr(streams, "KEEP_ALIVE", 0.01)
    monkeypatch.setattr(streams, "_is_writable", check)
    server = Server(site, {"gunicorn.socket": ours})

    def be_silent() -> str:
        wait_until(lambda: len(checks) >= 3, "there was time for a comment")
        assert (checks[:3], server.writers) == ([False] * 3, set())
        with suppress(BlockingIOError):
            while theirs.recv(65536):
                pass
        wait_until(lambda: server.writers, "a comment is sent")
        return "done"

    site.tool(be_silent, name="silent", streams=True)
    with ours, theirs:
        assert text_of(events(call(ModernClient(site.client), "silent", **TOKEN))[-1]) == "done"


@pytest.mark.parametrize("name", ["spell", "ask"])
def test_without_write_events_come_with_the_result_and_an_older_client_cannot_be_asked(site: Site, name: str) -> None:
    site.tool(lambda: iter("elm"), name="spell")
    site.tool(lambda: current_call.elicit("Who?", {"name": str}).action, name="ask")
    Server(site, has_write=False)
    client = LegacyClient(site.client, capabilities={"elicitation": {}})
    *reports, answer = events(call(client, name, **TOKEN))
    if name == "spell":
        assert [report["params"]["message"] for report in reports] == ["e", "l", "m"]
        assert text_of(answer) == "elm"
    else:
        assert reports == []
        assert answer["result"]["isError"] is True
        assert text_of(answer) == "This HTTP server cannot send events before the response is complete"
