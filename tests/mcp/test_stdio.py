"""The loop on standard input and output, around a server that does what it is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from flask_jsonrpc_mcp import stdio
from flask_jsonrpc_mcp.envelope import notification
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from flask_jsonrpc_mcp.stdio import Client, Loop, read_lines, serve
from tests.conftest import asking
from tests.support.servers import ROOT
from tests.support.stdio_client import Connection, modern
from tests.support.stdio_server import ObedientServer

Obedient = Connection[ObedientServer]


@pytest.fixture
def connection() -> Iterator[Obedient]:
    opened = Connection(ObedientServer())
    yield opened
    opened.close()


@pytest.fixture
def legacy(connection: Obedient) -> Obedient:
    return connection.initialize()


def code(reply: Any) -> int:
    found: int = reply["error"]["code"]
    return found


def test_a_client_of_before_2026_is_not_served_before_it_is_initialised(connection: Obedient) -> None:
    assert code(connection.ask(asking("echo"))) == -32600
    assert connection.server.ran == []
    connection.initialize()
    assert connection.ask(asking("echo", {"text": "hello"}))["result"] == {"version": LEGACY[0], "text": "hello"}


def test_ping_is_answered_before_and_after_the_handshake(connection: Obedient) -> None:
    assert connection.ask(asking("ping", id="p")) == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert connection.initialize().ask(asking("ping"))["result"] == {}


def test_a_modern_client_needs_no_handshake(connection: Obedient) -> None:
    assert connection.ask(modern("echo", text="hello"))["result"] == {"version": None, "text": "hello"}


def test_both_eras_are_served_on_one_connection(legacy: Obedient) -> None:
    replies = [legacy.ask(modern("echo")), legacy.ask(asking("echo")), legacy.ask(modern("echo"))]
    assert [reply["result"]["version"] for reply in replies] == [None, LEGACY[0], None]


@pytest.mark.parametrize("method", ["ping", "initialize"])
def test_a_modern_request_for_what_modern_clients_do_not_have_is_left_to_the_server(
    connection: Obedient, method: str
) -> None:
    assert code(connection.ask(modern(method))) == -32601


def test_a_handshake_that_is_none_is_refused_and_leaves_the_client_uninitialised(connection: Obedient) -> None:
    assert code(connection.ask(asking("initialize", {}))) == -32602
    assert code(connection.ask(asking("initialize", {}, id=...))) == -32600
    assert code(connection.ask(asking("echo"))) == -32600


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"{", -32700),
        (b'{"jsonrpc": "2.0", "method": "echo\xff", "id": 1}', -32700),
        (b'{"jsonrpc": "2.0", "method": "echo", "id": NaN}', -32700),
        (b"[" * 10_000, -32700),
        (b"7", -32600),
        (b"{}", -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "method": "echo", "id": 1}]', -32600),
        (None, -32600),
    ],
)
def test_a_line_that_is_no_request_is_answered_without_an_id_and_the_loop_goes_on(
    legacy: Obedient, line: bytes | None, expected: int
) -> None:
    """MCP's schema has no null ids."""
    legacy.loop.receive(line)
    reply = legacy.receive()
    assert (code(reply), set(reply)) == (expected, {"jsonrpc", "error"})
    assert "result" in legacy.ask(asking("echo"))


def test_an_id_that_is_null_is_refused(legacy: Obedient) -> None:
    reply = legacy.ask(asking("echo", id=None))
    assert (code(reply), "id" in reply, legacy.server.ran) == (-32600, False, [])


def test_empty_lines_are_passed_over(legacy: Obedient) -> None:
    legacy.send(b"", b"  \r")
    assert legacy.ask(asking("echo", id=5))["id"] == 5


def test_requests_are_answered_at_the_same_time_each_under_its_own_id(legacy: Obedient) -> None:
    legacy.send(asking("meet", id=1), asking("meet", id="1"))
    assert [legacy.receive()["id"] for _ in range(2)] in ([1, "1"], ["1", 1])


def test_an_id_that_is_still_in_use_is_refused(legacy: Obedient) -> None:
    legacy.send(asking("meet", id=1))
    assert code(legacy.ask(asking("meet", id=1))) == -32600
    legacy.send(asking("meet", id=2))
    assert {legacy.receive()["id"] for _ in range(2)} == {1, 2}


def test_too_many_requests_at_once_are_refused(connection: Obedient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_UNANSWERED", 1)
    connection.send(modern("meet", id=1))
    reply = connection.ask(modern("meet", id=2))
    assert (code(reply), reply["id"]) == (-32004, 2)
    connection.server.meeting.wait()


def test_a_cancelled_request_counts_as_long_as_it_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a client that cancels all it sends could queue requests without end."""
    monkeypatch.setattr(stdio, "MAX_RUNNING", 1)
    monkeypatch.setattr(stdio, "MAX_UNANSWERED", 2)
    crowded = Connection(ObedientServer())
    crowded.send(modern("meet", id=1), modern("echo", id=2))
    crowded.send(asking("notifications/cancelled", {"requestId": 2}, id=...))
    assert code(crowded.ask(modern("echo", id=3))) == -32004
    assert code(crowded.ask(modern("echo", id=2))) == -32600
    crowded.server.meeting.wait()
    assert [reply["id"] for reply in crowded.rest()] == [1]
    assert crowded.server.ran == ["meet"]
    crowded.close()


def test_a_mistake_of_the_server_is_answered_without_its_text(legacy: Obedient) -> None:
    for method in ("fail", "garble"):
        reply = legacy.ask(asking(method))
        assert code(reply) == -32603
        assert "secret" not in str(reply)


def test_a_thread_outlives_a_response_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was lost would be missed by all requests to come."""
    written: SimpleQueue[bytes] = SimpleQueue()

    class Target(FileIO):
        def write(self, data: Any) -> int:
            written.put(bytes(data))
            if written.qsize() == 1:
                raise MemoryError
            return len(data)

    monkeypatch.setattr(stdio, "MAX_RUNNING", 1)
    with Target(os.devnull, "w") as target:
        loop = Loop(ObedientServer(), Client(target, on_broken=lambda: None))
        for number in (1, 2):
            loop.receive(json.dumps(modern("echo", number)).encode())
        loop.wait()
    assert [json.loads(written.get())["id"] for _ in range(2)] == [1, 2]


def test_a_cancelled_request_gets_no_answer_and_what_runs_is_told(legacy: Obedient) -> None:
    assert legacy.ask(asking("wait", id="w"))["params"] == {"data": "waiting"}
    legacy.send(asking("notifications/cancelled", {"requestId": "w", "reason": "no need"}, id=...))
    assert legacy.server.told.wait(60)
    assert [reply["id"] for reply in [legacy.ask(asking("echo", id="e")), *legacy.rest()]] == ["e"]


def test_a_request_that_is_cancelled_before_its_turn_never_runs(
    connection: Obedient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_RUNNING", 1)
    crowded = Connection(ObedientServer())
    crowded.send(modern("wait", id=1), modern("echo", id=2))
    crowded.receive()
    for cancelled in (2, 1):
        crowded.send(asking("notifications/cancelled", {"requestId": cancelled}, id=...))
    assert (crowded.rest(), crowded.server.ran) == ([], ["wait"])
    crowded.close()


@pytest.mark.parametrize("params", [{}, {"requestId": []}, {"requestId": True}, {"requestId": "unknown"}, [1]])
def test_cancelling_what_does_not_run_changes_nothing(legacy: Obedient, params: Any) -> None:
    legacy.send(asking("meet", id=1), asking("notifications/cancelled", params, id=...), asking("meet", id=2))
    assert {legacy.receive()["id"] for _ in range(2)} == {1, 2}


def test_a_running_request_may_ask_the_client(legacy: Obedient) -> None:
    question = legacy.ask(asking("ask", {}, id=1))
    assert (question["method"], question["params"]) == ("roots/list", {})
    legacy.send({"jsonrpc": "2.0", "id": "another", "result": 1}, {"jsonrpc": "2.0", "id": [], "result": 2})
    reply = legacy.ask({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
    assert (reply["id"], reply["result"]) == (1, {"heard": {"roots": []}})


@pytest.mark.parametrize(
    ("error", "text"), [({"code": -1, "message": "no"}, "no"), ("broken", "The client answered with an error")]
)
def test_an_error_of_the_client_reaches_who_asked(legacy: Obedient, error: Any, text: str) -> None:
    question = legacy.ask(asking("ask", {}))
    assert legacy.ask({"jsonrpc": "2.0", "id": question["id"], "error": error})["error"]["message"] == text


def test_a_question_that_is_not_answered_in_time_is_taken_back(legacy: Obedient) -> None:
    question = legacy.ask(asking("ask", {"timeout": 0.01}))
    taken_back = legacy.receive()
    assert (taken_back["method"], taken_back["params"]["requestId"]) == ("notifications/cancelled", question["id"])
    assert legacy.receive()["error"]["message"] == "The client did not answer"
    legacy.send({"jsonrpc": "2.0", "id": question["id"], "result": "too late"})
    assert legacy.rest() == []


def test_a_question_of_a_cancelled_request_is_over(legacy: Obedient) -> None:
    legacy.ask(asking("ask", {}, id=1))
    legacy.send(asking("notifications/cancelled", {"requestId": 1}, id=...))
    assert legacy.rest() == []  # which waits for what runs


def test_a_question_is_over_when_the_client_has_gone(legacy: Obedient) -> None:
    legacy.ask(asking("ask", {}, id=1))
    [reply] = legacy.rest()
    assert reply["error"]["message"] == "The client did not answer"
    assert legacy.server.exchange is not None
    with pytest.raises(Exception, match="did not answer"):
        legacy.server.exchange.ask({"method": "roots/list"})


def test_nothing_is_said_about_a_request_after_its_answer(legacy: Obedient) -> None:
    legacy.ask(asking("echo"))
    assert legacy.server.exchange is not None
    legacy.server.exchange.send(notification("notifications/message", {"data": "late"}))
    assert legacy.rest() == []


def test_what_runs_is_answered_after_the_end_of_the_input(legacy: Obedient) -> None:
    legacy.ask(asking("wait", id="w"))
    late, reply = legacy.rest()
    assert late["params"] == {"data": "waited"}
    assert (reply["id"], reply["result"]) == ("w", {"cancelled": False})


def test_a_batch_is_answered_as_one_in_the_version_that_has_them(connection: Obedient) -> None:
    connection.initialize("2025-03-26")
    connection.send(
        [
            asking("echo", {"text": "a"}, id=1),
            asking("notifications/anything", id=...),
            asking("ping", id=2),
            asking("initialize", {}, id=3),
            {"jsonrpc": "2.0", "id": "server-99", "result": {}},
            7,
            asking("nothing", id=4),
        ]
    )
    one, two, three, seven, four = connection.receive()
    assert one["result"] == {"version": "2025-03-26", "text": "a"}
    assert (two["id"], two["result"]) == (2, {})
    assert (three["id"], code(three)) == (3, -32600)
    assert (code(seven), "id" in seven) == (-32600, False)
    assert (four["id"], code(four)) == (4, -32601)


def test_a_batch_of_nothing_but_notifications_is_not_answered(connection: Obedient) -> None:
    connection.initialize("2025-03-26")
    connection.send([asking("notifications/anything", id=...)])
    assert connection.rest() == []


def test_a_client_may_be_told_of_changes_once_it_is_initialised(connection: Obedient) -> None:
    client = connection.server.client
    assert client is not None
    connection.send(asking("notifications/initialized", id=...))
    assert not client.is_initialized
    connection.initialize()
    assert client.is_initialized
    client.send(notification("notifications/tools/list_changed"))
    assert connection.receive() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def test_lines_are_read_whole_whatever_pieces_they_come_in() -> None:
    reading, writing = os.pipe()
    with FileIO(reading) as source, FileIO(writing, "w") as target:
        found = read_lines(source, limit=10)
        target.write(b"one\ntw")
        assert next(found) == b"one"
        target.write(b"o\n" + b"x" * 11 + b"\nthree\n" + b"y" * 30)
        assert [next(found) for _ in range(3)] == [b"two", None, b"three"]
        target.write(b"\nlast")
        target.close()
        assert list(found) == [None, b"last"]


def test_a_line_without_an_end_is_no_burden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_CHUNK", 4)
    reading, writing = os.pipe()
    with FileIO(reading) as source, FileIO(writing, "w") as target:
        target.write(b"z" * 100)
        target.close()
        assert list(read_lines(source, limit=10)) == [None]


def test_serving_ends_when_everything_is_read_and_answered() -> None:
    sent, said = os.pipe(), os.pipe()
    with FileIO(sent[1], "w") as sending:
        for number in range(3):
            sending.write(json.dumps(modern("echo", number)).encode() + b"\n")
    with FileIO(sent[0]) as source, FileIO(said[1], "w") as target:
        serve(ObedientServer(), source, target)
    with os.fdopen(said[0], "rb") as reading:
        assert {json.loads(line)["id"] for line in reading} == {0, 1, 2}


def test_serving_ends_when_what_runs_does_not_end_in_time() -> None:
    sent, said = os.pipe(), os.pipe()
    server = ObedientServer()
    with FileIO(sent[1], "w") as sending:
        sending.write(json.dumps(modern("meet")).encode() + b"\n")
    with FileIO(sent[0]) as source, FileIO(said[1], "w") as target:
        serve(server, source, target, grace=0.01)
        server.meeting.wait()
    os.close(said[0])


def test_serving_ends_when_nobody_reads() -> None:
    sent, said = os.pipe(), os.pipe()
    os.close(said[0])
    with FileIO(sent[0]) as source, FileIO(said[1], "w") as target, FileIO(sent[1], "w") as sending:
        sending.write(json.dumps(modern("echo")).encode() + b"\n")
        serve(ObedientServer(), source, target)  # although the input stays open


def test_a_program_waits_for_streams_that_do_not_block() -> None:
    """Its parent may have opened them so, and reading nothing is not the end."""
    sent, said = os.pipe(), os.pipe()
    for descriptor in (sent[0], said[1]):
        os.set_blocking(descriptor, False)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.stdio_server"], cwd=ROOT, stdin=sent[0], stdout=said[1]
    ):
        os.close(sent[0])
        os.close(said[1])
        with os.fdopen(sent[1], "wb") as sending, os.fdopen(said[0], "rb") as reading:
            for number in range(2):
                sending.write(json.dumps(modern("echo", number, text="x" * 200_000)).encode() + b"\n")
                sending.flush()
                assert json.loads(reading.readline())["id"] == number


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (tmp_path / "stderr").open("wb") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-m", "tests.support.stdio_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    with running:
        yield running
        running.kill()


def send(program: subprocess.Popen[bytes], message: Any) -> None:
    assert program.stdin is not None
    program.stdin.write(json.dumps(message).encode() + b"\n")
    program.stdin.flush()


def receive(program: subprocess.Popen[bytes]) -> Any:
    assert program.stdout is not None
    return json.loads(program.stdout.readline())


def test_a_program_ends_with_0_at_the_end_of_its_input(program: subprocess.Popen[bytes]) -> None:
    send(program, modern("wait"))
    assert program.stdin is not None
    assert receive(program)["params"] == {"data": "waiting"}
    program.stdin.close()
    assert receive(program)["params"] == {"data": "waited"}
    assert receive(program)["result"] == {"cancelled": False}
    assert program.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_program_cleanly_whatever_runs(
    program: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    send(program, modern("meet"))
    send(program, modern("echo", id=2))
    assert receive(program)["id"] == 2
    program.send_signal(number)
    assert program.wait(60) == 0
    assert (tmp_path / "stderr").read_text() == ""


def test_what_code_prints_goes_to_standard_error(program: subprocess.Popen[bytes], tmp_path: Path) -> None:
    send(program, modern("chatter"))
    assert receive(program)["result"] == {"read": ""}
    rest, _ = program.communicate(timeout=60)
    assert rest == b""
    assert sorted((tmp_path / "stderr").read_text().split()) == ["echoed", "printed", "written"]
