"""Event streams of two gunicorn workers: clients that vanish, many at once, and nginx in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversations import Conversation, Exchange, text_of
from tests.support.load import wait_until
from tests.support.servers import Server, gunicorn, nginx

APP = "tests.apps.conversing_app:create_app()"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
THREADS = 16
"""Of two workers with eight each."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in whose log no traceback may be in the end."""
    folder = tmp_path_factory.mktemp("streams")
    env = {"CONVERSING_JSONRPC_MCP_MAILBOX": str(folder / "mail"), "NOTES": str(folder)}
    with gunicorn(APP, folder, "--preload", env=env) as running:
        yield running
    log = running.log.read_text()
    assert "Shutting down" in log
    assert "Traceback" not in log
    assert log.count("Booting worker") == 2


def noted(server: Server, what: str) -> None:
    wait_until(lambda: (server.log.parent / what).exists(), what)


def workers(server: Server) -> dict[int, dict[str, int]]:
    """What both workers say of themselves."""
    found: dict[int, dict[str, int]] = {}

    def both_answered() -> bool:
        told = server.invoke("worker", {}).json()["result"]
        found[told["pid"]] = told
        return len(found) == 2

    wait_until(both_answered, "two workers answer")
    return found


def stay(server: Server, key: str, version: str = MODERN, *, busy: bool = False) -> Exchange:
    """Begin a call that ends only when its client has gone."""
    exchange = Conversation(server, version).call("stay", {"key": key, "busy": busy}, token="t")
    assert next(exchange.messages())["method"] == "notifications/progress"
    return exchange


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "busy"])
def test_a_client_that_goes_away_cancels_its_method_and_frees_the_thread(
    server: Server, reset: bool, busy: bool
) -> None:
    keys = [f"{reset}-{busy}-{number}" for number in range(THREADS + 4)]  # more than there are threads
    # A few at a time: one worker may get all of them.
    for some in (keys[first : first + 5] for first in range(0, len(keys), 5)):
        exchanges = [stay(server, key, busy=busy) for key in some]
        for exchange in exchanges:
            exchange.vanish(reset=reset)
        for key in some:
            noted(server, f"{key}-cancelled")
            noted(server, f"{key}-torn-down")


def test_two_hundred_calls_with_progress_at_once_all_complete_in_order(server: Server) -> None:
    before = workers(server)
    clients = {version: Conversation(server, version) for version in (MODERN, LEGACY)}
    calls = [
        clients[(MODERN, LEGACY)[number % 2]].call("count", {"to": 20, "pause": 0.001}, id=number, token=f"t{number}")
        for number in range(200)
    ]
    for number, call in enumerate(calls):
        *reports, answer = call.messages()
        assert [report["params"]["progress"] for report in reports] == list(range(1, 21))
        assert {report["params"]["progressToken"] for report in reports} == {f"t{number}"}
        assert (answer["id"], text_of(answer)) == (number, "20")
    after = workers(server)
    assert growth(before, after) < 30_000
    wait_until(lambda: all(worker["threads"] <= 12 for worker in workers(server).values()), "no thread is left")


def growth(before: dict[int, dict[str, int]], after: dict[int, dict[str, int]]) -> int:
    """By how many kilobytes the worker has grown that has grown most."""
    return max(after[pid]["kilobytes"] - before[pid]["kilobytes"] for pid in before)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_streams_pass_through_nginx_as_they_come(server: Server, tmp_path: Path, version: str) -> None:
    with nginx(server, tmp_path) as front:
        exchange = stay(front, f"nginx-{version}", version)  # which ends only when we go
        assert exchange.response.headers["Cache-Control"] == "no-store"
        exchange.vanish()
        noted(server, f"nginx-{version}-cancelled")
        reports: list[Any] = list(Conversation(front, version).call("count", {"to": 3}, token="t").messages())
        assert len(reports) == 4
