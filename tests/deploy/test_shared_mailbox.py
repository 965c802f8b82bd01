"""Workers that share a mailbox: whichever gets a request, it reaches the call that another one runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp.mcp.protocol import MODERN
from tests.conftest import asking
from tests.support.conversations import Conversation, text_of
from tests.support.mailboxes import (
    ADA,
    CAN_ASK,
    Asking,
    conversing,
    messages_in,
    redis_url,
    running_redis,
    set_clock,
)
from tests.support.mcp_messages import result
from tests.support.servers import Server


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three workers that share a mailbox: an SQLite file, or a real Redis."""
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        is_file = request.param == "sqlite"
        place = str(folder / "mail") if is_file else redis_url(stack.enter_context(running_redis(folder)))
        yield stack.enter_context(conversing(folder, place, MAX_WAITING=8))


def greeted(server: Server, name: str) -> str:
    """Be greeted: ask for it, answer the question that comes, and return the greeting."""
    client = Conversation(server, capabilities=CAN_ASK)
    messages = client.call("greet").messages()
    question = next(messages)
    assert client.answer(question, result={"action": "accept", "content": {"name": name}}) == 202
    (reply,) = messages
    return text_of(reply)


def test_answers_find_their_call_over_three_workers(server: Server) -> None:
    names = [f"name-{number}" for number in range(18)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda name: greeted(server, name), names)) == [f"Hello {name}" for name in names]


def test_a_request_is_given_up_from_any_worker(server: Server) -> None:
    def give_up(number: int) -> bool:
        client = Conversation(server)
        for message in client.call("stay", {"key": f"stay-{number}", "busy": number % 2 == 0}, token=1).messages():
            assert "id" not in message  # who gave up gets no answer
            if message["params"]["progress"] == 1:
                assert client.send(asking("notifications/cancelled", {"requestId": 1}, id=...)).status == 202
        return (server.log.parent / f"stay-{number}-cancelled").exists()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(give_up, range(4)))


def test_the_level_of_a_session_is_known_to_all_workers(server: Server) -> None:
    client = Conversation(server)
    assert client.open("logging/setLevel", {"level": "info"}).json()["result"] == {}
    for _ in range(9):
        message, reply = client.call("count", {"to": 1}).messages()
        assert message["params"] == {"level": "info", "data": "counted 1"}
        assert text_of(reply) == "1"


def test_a_question_that_is_answered_to_all_workers_at_once_runs_its_tool_once(server: Server) -> None:
    client = Conversation(server, MODERN, CAN_ASK)
    together = threading.Barrier(9)

    def answer(state: str) -> tuple[int, Any]:
        together.wait()
        params = {"name": "greet", "arguments": {}, "requestState": state, "inputResponses": {"question-1": ADA}}
        exchange = client.open("tools/call", params)
        return exchange.status, exchange.json().get("result", {}).get("structuredContent")

    for _ in range(5):
        state = client.call("greet").json()["result"]["requestState"]
        with ThreadPoolExecutor(9) as pool:
            outcomes = sorted(pool.map(answer, [state] * 9))
        assert outcomes == [(200, "Hello Ada")] + [(400, None)] * 8


def test_killed_workers_leave_only_what_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = tmp_path / "mail"
    with conversing(tmp_path, str(mail)) as server:
        client = Conversation(server, capabilities=CAN_ASK)
        questions = [next(client.call("greet").messages()) for _ in range(3)]
        for worker in workers_of(server):
            os.kill(worker, signal.SIGKILL)
        for question in questions:  # no call will take the answers
            assert client.answer(question, result=ADA) == 202
        assert greeted(server, "Grace") == "Hello Grace"
        left = messages_in(mail)
    assert [kind for kind, _, _ in left] == ["question"] * 3 + ["answer"] * 3  # no call waits for these
    set_clock(monkeypatch, max(expires for _, _, expires in left) + 1)
    another = Asking(mail).client.post("logging/setLevel", {"level": "info"})
    assert result(another) == {}
    assert [kind for kind, _, _ in messages_in(mail)] == ["level"]


def workers_of(server: Server) -> set[int]:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return {int(child) for child in children}
