"""Streams of one process under several servers: what comes when, who notices that a client leaves, and what is kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.conversations import COMMENT, Conversation, Exchange, text_of
from tests.support.load import wait_until
from tests.support.servers import FLASK_RUN, GEVENT, GRANIAN, GTHREAD, ROOT, WAITRESS, Server, serving

APP = "tests.apps.streaming_app:app"
MODERN, LEGACY = "2026-07-28", "2025-11-25"

both_eras = pytest.mark.parametrize("version", [MODERN, LEGACY])

FLOOD = 1024
"""Reports of 64 kB: more than all the buffers between a method and its reader hold together."""


def started(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in whose log no traceback may be in the end, and whose requests are torn down once."""
    folder = tmp_path_factory.mktemp("streams")
    with serving(kind, APP, folder, cwd=ROOT, env={"NOTES": str(folder)}) as running:
        yield running
    assert "Traceback" not in running.log.read_text()
    assert list(folder.glob("*-torn-down-again")) == []


@pytest.fixture(scope="module", params=[FLASK_RUN, GTHREAD, GEVENT, WAITRESS])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from started(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def granian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose ``start_response`` returns no ``write``."""
    yield from started(GRANIAN, tmp_path_factory)


def go_on(server: Server, key: str) -> None:
    """Let a method go on that waits."""
    (server.log.parent / f"{key}-go").touch()


def noted(server: Server, what: str) -> str:
    """Wait for what a method notes."""
    file = server.log.parent / what
    wait_until(file.exists, what)
    return file.read_text()


def call(server: Server, name: str, version: str, key: str, **more: Any) -> Exchange:
    receive_buffer = more.pop("receive_buffer", None)
    return Conversation(server, version).call(name, {"key": key, **more}, token="t", receive_buffer=receive_buffer)


def shown(message: Any) -> Any:
    return message["params"]["message"]


@both_eras
@pytest.mark.parametrize(
    ("name", "first", "second"), [("steps", "first", "second"), ("letters", "a", "b")], ids=["streams", "generator"]
)
def test_events_arrive_while_the_method_runs(server: Server, version: str, name: str, first: str, second: str) -> None:
    key = f"{name}-{version}"
    messages = call(server, name, version, key).messages()
    assert shown(next(messages)) == first
    assert not (server.log.parent / f"{key}-torn-down").exists()
    go_on(server, key)  # it waits for this before it goes on
    assert shown(next(messages)) == second
    assert next(messages)["result"]["isError"] is False
    assert list(messages) == []
    assert noted(server, f"{key}-torn-down") == "error=None own_thread=True"


@both_eras
@pytest.mark.parametrize("name", ["steps", "together"], ids=["streams", "ordinary"])
def test_a_method_runs_in_the_thread_of_its_request(server: Server, version: str, name: str) -> None:
    key = f"thread-{name}-{version}"
    go_on(server, key)
    first, second, answer = call(server, name, version, key).messages()
    assert (shown(first), shown(second)) == ("first", "second")
    of_request, of_method = json.loads(text_of(answer))
    assert of_request == of_method
    assert noted(server, f"{key}-torn-down") == "error=None own_thread=True"


@pytest.mark.parametrize(
    ("name", "version"),
    [("stay", MODERN), ("numbers", LEGACY), ("async_numbers", MODERN)],
    ids=["streams", "generator", "async generator"],
)
def test_a_client_that_leaves_cancels_its_method(server: Server, name: str, version: str) -> None:
    """A method sees it by ``current_call.cancelled``; a generator need not look, and is closed."""
    key = f"{name}-{version}"
    exchange = call(server, name, version, key)
    assert next(exchange.messages())["params"]["progress"] == 1
    exchange.vanish()
    noted(server, f"{key}-cancelled")
    assert noted(server, f"{key}-torn-down").endswith("own_thread=True")


def test_a_silent_stream_is_kept_alive_by_comments(server: Server) -> None:
    """While the method neither reports nor looks at anything of ours."""
    events = iter(call(server, "silent", MODERN, "silent"))
    assert next(events) == COMMENT
    go_on(server, "silent")
    answer = next(event for event in events if event != COMMENT)
    assert text_of(answer) == "done"


def listen(server: Server) -> Exchange:
    """Listen to changes of the tools."""
    wanted = {"notifications": {"toolsListChanged": True}}
    return Conversation(server, MODERN).open("subscriptions/listen", wanted)


def is_refused(exchange: Exchange) -> bool:
    """Whether there was no place for a client that wants to listen."""
    if exchange.response.headers["Content-Type"] == "text/event-stream; charset=utf-8":
        return False
    assert exchange.json()["error"]["code"] == -32004
    return True


def listen_when_possible(server: Server) -> Exchange:
    """Listen as soon as there is a place."""
    tried: list[Exchange] = []

    def is_listening() -> bool:
        tried.append(listen(server))
        return not is_refused(tried[-1])

    wait_until(is_listening, "a place is free")
    return tried[-1]


def test_a_client_that_listens_hears_of_changes_and_frees_its_place_when_it_leaves(server: Server) -> None:
    """There are two places."""
    for _ in range(3):
        exchange = listen_when_possible(server)
        messages = exchange.messages()
        assert next(messages)["method"] == "notifications/subscriptions/acknowledged"
        assert server.invoke("change", {}).status == 200
        assert next(messages)["method"] == "notifications/tools/list_changed"
        exchange.vanish()


def test_a_slow_reader_holds_its_method_up_and_no_memory(server: Server) -> None:
    """Nothing is dropped: a write waits for the reader."""
    before = peak(server)
    exchange = call(server, "flood", MODERN, "slow", reports=FLOOD, receive_buffer=65536)
    assert stalled(server, lambda: int(noted(server, "slow-sent"))) < FLOOD
    grown = peak(server) - before
    *_, answer = numbered(exchange.messages())
    assert text_of(answer) == "flooded"
    assert grown < 40_000  # of 64 MB
    assert noted(server, "slow-torn-down") == "error=None own_thread=True"


def test_a_reader_that_leaves_lets_a_method_go_that_waits_for_it(server: Server) -> None:
    exchange = call(server, "flood", MODERN, "left", reports=FLOOD, receive_buffer=4096)
    assert stalled(server, lambda: int(noted(server, "left-sent"))) < FLOOD
    exchange.vanish()
    assert noted(server, "left-torn-down").endswith("own_thread=True")


@pytest.mark.parametrize("server", [FLASK_RUN, GTHREAD, GEVENT], indirect=True)
def test_readers_that_have_stopped_take_the_places_of_those_that_wait(server: Server) -> None:
    """There are two places, so the third is disconnected. waitress does not show us its sockets."""
    wait_until(lambda: waiting(server) == 0, "those that have listened are gone")
    deaf = [call(server, "flood", MODERN, f"deaf-{number}", reports=FLOOD, receive_buffer=4096) for number in range(3)]
    ended = [server.log.parent / f"deaf-{number}-torn-down" for number in range(3)]
    wait_until(lambda: any(file.exists() for file in ended), "one is disconnected")
    assert is_refused(listen(server))
    assert (waiting(server), sum(file.exists() for file in ended)) == (2, 1)
    for exchange in deaf:
        exchange.vanish()
    wait_until(lambda: all(file.exists() for file in ended), "the methods end")
    wait_until(lambda: waiting(server) == 0, "both places are free")


def waiting(server: Server) -> int:
    """How many places are taken."""
    taken: int = server.invoke("waiting", {}).json()["result"]
    return taken


def numbered(messages: Iterator[Any]) -> Iterator[Any]:
    """Go through the reports of a flood, all of which must be there and in order; what follows is passed on."""
    for number, report in enumerate(itertools.islice(messages, FLOOD), 1):
        assert report["params"]["progress"] == number
    yield from messages


def peak(server: Server) -> int:
    """The most memory that the server has used so far, in kilobytes; one that is busy must answer too."""
    kilobytes: int = server.invoke("peak", {}).json()["result"]
    return kilobytes


def stalled(server: Server, count: Callable[[], int]) -> int:
    """Return what a number is once it stays the same while the server answers many other requests."""
    while True:
        reached = count()
        for _ in range(50):
            peak(server)
        if count() == reached:
            return reached


@both_eras
@pytest.mark.parametrize(
    ("name", "expected"),
    [("steps", ["first", "second"]), ("together", ["first", "second"]), ("letters", ["a", "b"])],
    ids=["streams", "ordinary", "generator"],
)
def test_without_write_events_arrive_with_the_result(
    granian: Server, version: str, name: str, expected: list[str]
) -> None:
    key = f"{name}-{version}"
    go_on(granian, key)
    *reports, answer = call(granian, name, version, key).messages()
    assert [shown(report) for report in reports] == expected
    assert answer["result"]["isError"] is False
    assert noted(granian, f"{key}-torn-down") == "error=None own_thread=True"


def test_without_write_a_client_that_listens_gets_an_answer_at_once(granian: Server) -> None:
    for _ in range(2):  # also the second time: its place is free again
        (answer,) = listen(granian).messages()
        assert answer["id"] == 1
        assert answer["error"]["message"] == "This HTTP server cannot send events before the response is complete"
