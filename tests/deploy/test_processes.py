"""Under real gunicorn with eight clients in a loop: ending workers lose little, and bad clients cost others nothing."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import asking
from tests.support.conversations import COMMENT, Conversation, Exchange, text_of
from tests.support.load import INVOKE, RawClient, load, request_bytes, wait_until
from tests.support.mailboxes import CAN_ASK
from tests.support.servers import FLASK_RUN, GEVENT, GTHREAD, ROOT, Server, gunicorn, nginx, serving

APP = "tests.apps.steady_app:app"
ADMIN = {"Authorization": "Bearer demo-admin-token"}


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def find_workers(server: Server, patience: float = 30) -> set[int]:
    """Ask on fresh connections until two living workers have answered."""
    workers: set[int] = set()

    def both_answered() -> bool:
        workers.add(server.invoke("echo", {"number": 0}).json()["result"][1])
        return len([worker for worker in workers if is_alive(worker)]) == 2

    wait_until(both_answered, "two workers answer", patience)
    return {worker for worker in workers if is_alive(worker)}


def test_a_killed_worker_loses_only_what_it_held(tmp_path: Path) -> None:
    """Preloaded, so that the two seconds are the server's and not those of importing the app on a busy machine."""
    options = ("--preload", "--keep-alive", "60")
    with gunicorn(APP, tmp_path, *options) as server, load(server.port, keep_alive=True) as running:
        held: Counter[int] = Counter()
        for _ in range(3):
            victim, connections = running.connections().most_common()[-1]
            os.kill(victim, signal.SIGKILL)
            held[victim] = connections
            wait_until(lambda: not is_alive(victim), "the worker is gone", 2)  # noqa: B023
            assert held.keys().isdisjoint(find_workers(server, patience=2))
        running.connections()
        running.wait_for_answers(100)
    assert Counter(lost.worker for lost in running.lost) == held


def test_a_reload_loses_nothing(tmp_path: Path) -> None:
    """Every call on a connection of its own: on a kept one the next call can cross the closing of the last."""
    with gunicorn(APP, tmp_path) as server, load(server.port) as running:
        for _ in range(3):
            old = find_workers(server)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: not any(map(is_alive, old)), "the old workers are gone")  # noqa: B023
            assert find_workers(server).isdisjoint(old)
        running.wait_for_answers(100)
    assert running.lost == []


def test_what_runs_when_the_server_is_told_to_end_is_answered(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    with gunicorn(APP, tmp_path, env={"BEGUN": str(begun)}) as server, ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(server.invoke, "hold", {"number": number, "seconds": 2}) for number in range(8)]
        wait_until(lambda: len(list(begun.iterdir())) == 8, "all eight calls run")
        assert server.stop() == 0
        assert [call.result().json() for call in calls] == [{"result": number} for number in range(8)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server in whose log no traceback may be in the end."""
    with gunicorn(APP, tmp_path) as running:
        yield running
    log = running.log.read_text()
    assert "Shutting down" in log
    assert "Traceback" not in log
    assert log.count("Booting worker") == 2


def test_nobody_notices_clients_that_vanish(server: Server) -> None:
    length = len(request_bytes("echo", {"number": 7}))
    with load(server.port) as running:
        for sent in range(1, length + 1):
            for reset in (False, True):
                client = RawClient(server.port, "echo", {"number": 7})
                client.send(sent)
                client.vanish(reset=reset)
        for reset in (False, True):
            client = RawClient(server.port, "fill", {"megabytes": 16})
            client.send()
            client.vanish(reset=reset)
        running.wait_for_answers(200)
    assert running.lost == []


def test_nobody_notices_clients_that_never_read(server: Server) -> None:
    with load(server.port) as running:
        deaf = [RawClient(server.port, "fill", {"megabytes": 16}, receive_buffer=4096) for _ in range(4)]
        for client in deaf:
            client.send()
        running.wait_for_answers(200)
        for number, client in enumerate(deaf):
            client.vanish(reset=number % 2 == 0)
        running.wait_for_answers(100)
    assert running.lost == []


@pytest.mark.parametrize(
    ("kind", "behind_nginx"), [(FLASK_RUN, False), (GTHREAD, False), (GEVENT, False), (GTHREAD, True)]
)
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_a_batch_ends_when_its_client_has_left(kind: str, behind_nginx: bool, reset: bool, tmp_path: Path) -> None:
    """A hundred calls would take twenty seconds of a thread."""
    begun = tmp_path / "begun"
    begun.mkdir()
    batch = [asking("hold", {"number": number, "seconds": 0.2}, number) for number in range(100)]
    with ExitStack() as stack:
        server = stack.enter_context(serving(kind, APP, tmp_path, cwd=ROOT, env={"BEGUN": str(begun)}))
        front = stack.enter_context(nginx(server, tmp_path)) if behind_nginx else server
        client = RawClient(front.port, batch)
        client.send()
        wait_until(lambda: len(list(begun.iterdir())) == 1, "the first call runs")
        client.vanish(reset=reset)
        wait_until(lambda: "stopped after" in server.log.read_text(), "the batch has ended")
        assert len(list(begun.iterdir())) < 20
        assert "Traceback" not in server.log.read_text()


def test_others_are_answered_beside_clients_that_send_a_byte_now_and_then(server: Server) -> None:
    with load(server.port) as running:
        slow = [RawClient(server.port, "echo", {"number": number}) for number in range(4)]
        for _ in range(40):
            for client in slow:
                client.send(1)
            running.wait_for_answers(10)
        results = [client.result() for client in slow]
    assert running.lost == []
    assert [isinstance(result, list) and result[0] for result in results] == [0, 1, 2, 3]


def test_behind_nginx_slow_clients_hold_no_thread(tmp_path: Path) -> None:
    """With one thread in all, the first of them would keep everyone else out."""
    env = {
        "DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}",
        "SECRET_KEY": "key" * 16,
        "TRUSTED_PROXIES": "1",
        "WEB_CONCURRENCY": "1",
        "THREADS": "1",
    }
    site = {"Host": "site.example"}
    with (
        gunicorn("wsgi:app", tmp_path, "--config", "sample_app/gunicorn_conf.py", env=env) as server,
        nginx(server, tmp_path) as front,
    ):
        slow = [RawClient(front.port, "content_types.list", {}) for _ in range(4)]
        for client, missing in zip(slow, (1, 10, 50, 100), strict=True):  # some stop in the body, some in the head
            client.send(-missing)
        where = front.request("/.well-known/mcp.json", headers=site).json()["servers"][0]["endpoints"]
        assert where["jsonrpc"] == "http://site.example/jsonrpc"
        reply = front.request(INVOKE, data={"name": "content_types.list", "arguments": {}}, headers=site)
        assert reply.status == 200
        assert [client.result() for client in slow] == [reply.json()["result"]] * 4


EACH = 16
"""How many hostile clients of each kind there are."""


@pytest.fixture
def garden(tmp_path: Path) -> Iterator[Server]:
    """The sample site as ``make serve`` runs it."""
    env = {
        "DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}",
        "SECRET_KEY": "key" * 16,
        "SITE_ENV": "development",
    }
    with gunicorn("wsgi:app", tmp_path, "--config", "sample_app/gunicorn_conf.py", env=env) as running:
        yield running
    assert "Traceback" not in running.log.read_text()


def list_types(server: Server) -> Any:
    """Make an ordinary call."""
    reply = server.invoke("content_types.list", {})
    assert reply.status == 200
    return reply.json()["result"]


def test_others_are_answered_while_hostile_clients_hold_all_the_threads_they_can(garden: Server) -> None:
    """They send a byte now and then, never answer what they were asked, listen for ever, or do not read."""
    large = [{"title": f"Article {number}", "body": "x" * 100_000} for number in range(30)]
    assert garden.invoke("articles.import", {"articles": large}, ADMIN).status == 200
    slow = [RawClient(garden.port, "content_types.list", {}) for _ in range(EACH)]
    modern, older = Conversation(garden, "2026-07-28"), Conversation(garden, capabilities=CAN_ASK, headers=ADMIN)
    wanted = {"notifications": {"toolsListChanged": True}}
    silent = [older.call("articles.delete", {"id": 1}) for _ in range(EACH)]
    silent += [modern.open("subscriptions/listen", wanted) for _ in range(EACH)]
    deaf = [modern.call("articles.export", token="t", receive_buffer=4096) for _ in range(EACH)]
    for _ in range(20):
        for client in slow:
            client.send(1)
        list_types(garden)
    assert 8 <= sum(map(is_waited_for, silent)) <= 16  # a quarter of the threads of one worker, or of both
    types = list_types(garden)
    assert [client.result() for client in slow] == [types] * EACH
    for exchange in silent + deaf:
        exchange.vanish()


@pytest.mark.parametrize("sent", [request_bytes("content_types.list", {}), b"no HTTP\r\n\r\n"], ids=["HTTP", "other"])
def test_clients_that_do_not_close_their_connections_hold_up_nobody(garden: Server, sent: bytes) -> None:
    """gunicorn itself would wait for each of them, one after the other."""
    with ExitStack() as stack:
        for _ in range(60):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", garden.port)))
            idle.sendall(sent)
        list_types(garden)


def is_waited_for(exchange: Exchange) -> bool:
    """Whether the server has sent a question, or what was agreed on, and after that nothing but comments."""
    if exchange.response.headers["Content-Type"] == "application/json":
        return False  # there was no place for it
    chunks = iter(exchange)
    return "method" in next(chunks) and next(chunks) == COMMENT


CONVERSING = "tests.apps.conversing_app:create_app()"


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[Server]:
    """A server whose methods report."""
    env = {"CONVERSING_JSONRPC_MCP_MAILBOX": str(tmp_path / "mail"), "NOTES": str(tmp_path)}
    with gunicorn(CONVERSING, tmp_path, "--preload", "--graceful-timeout", "10", env=env) as running:
        yield running


class Counting:
    """A call that reports twenty times within a second or two; its first report is here already."""

    def __init__(self, server: Server, number: int) -> None:
        self.number = number
        client, arguments = Conversation(server, "2026-07-28"), {"to": 20, "pause": 0.05}
        exchange = client.call("count", arguments, id=number, token=number)
        self.worker = int(exchange.response.headers["X-Worker"])
        self.messages = exchange.messages()
        assert next(self.messages)["params"]["progress"] == 1

    def is_complete(self) -> bool:
        """Read the rest; false when it is cut."""
        try:
            *reports, answer = self.messages
        except (OSError, HTTPException, ValueError):
            return False
        if answer.get("id") != self.number:
            return False
        return [report["params"]["progress"] for report in reports] == list(range(2, 21)) and text_of(answer) == "20"


def test_streams_that_run_when_the_server_is_told_to_end_are_completed(talking: Server) -> None:
    calls = [Counting(talking, number) for number in range(8)]
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(talking.stop)
        assert all(call.is_complete() for call in calls)
        assert ended.result() == 0
    assert "Traceback" not in talking.log.read_text()


def test_streams_outlive_a_reload(talking: Server) -> None:
    calls = [Counting(talking, number) for number in range(8)]
    talking.process.send_signal(signal.SIGHUP)
    assert all(call.is_complete() for call in calls)
    wait_until(lambda: not any(is_alive(call.worker) for call in calls), "the old workers are gone")
    assert Counting(talking, 9).is_complete()
    assert "Traceback" not in talking.log.read_text()


def test_a_killed_worker_cuts_only_its_own_streams(talking: Server) -> None:
    workers: set[int] = set()
    while len(workers) < 2:  # a stream on each, both in their first second
        calls = [Counting(talking, number) for number in range(4)]
        workers = {call.worker for call in calls}
    victim = calls[0].worker
    os.kill(victim, signal.SIGKILL)
    assert [call.is_complete() for call in calls] == [call.worker != victim for call in calls]
    assert Counting(talking, 9).is_complete()


def test_a_client_that_listens_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    env = {"CONVERSING_JSONRPC_MCP_MAILBOX": str(tmp_path / "mail"), "NOTES": str(tmp_path)}
    with gunicorn(CONVERSING, tmp_path, "--graceful-timeout", "1", env=env) as server:
        wanted = {"notifications": {"toolsListChanged": True}}
        listening = Conversation(server, "2026-07-28").open("subscriptions/listen", wanted).messages()
        next(listening)
        assert server.stop() == 0
        with pytest.raises((OSError, HTTPException, StopIteration)):
            next(listening)
    assert "Traceback" not in server.log.read_text()
