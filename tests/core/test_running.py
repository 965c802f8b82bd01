"""Time limits, and what a running method knows of its call."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flask import g, request

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call
from tests.conftest import Site, asking, basic, make_auth
from tests.support.mcp_messages import client_of


class Gate:
    """A method that waits until it is let go, and says what it saw."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.ended = threading.Semaphore(0)
        self.saw_cancelled: list[bool] = []

    def __call__(self) -> str:
        try:
            self.open.wait(60)
            self.saw_cancelled.append(current_call.cancelled)
            return "late"
        finally:
            self.ended.release()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def slow_site(gate: Gate, **config: Any) -> Site:
    site = Site(McpBlueprint(), SECRET_KEY="key", **config)
    site.tool(gate, name="slow", timeout=0.05)
    site.tool(lambda: "quick", name="quick", timeout=60)
    return site


def test_the_caller_is_answered_in_time(gate: Gate) -> None:
    site = slow_site(gate)
    text = "The method has not ended after 0.05 seconds"
    rest = site.invoke("slow", {})
    assert (rest.status_code, rest.get_json()["error"]) == (504, {"code": "timeout", "message": text})
    rpc = site.rpc_post(asking("slow"))
    assert (rpc.status_code, rpc.get_json()["error"]) == (200, {"code": -32003, "message": text})
    for version in ("2026-07-28", "2025-11-25"):
        result = client_of(version, site.client).call("slow").get_json()["result"]
        assert (result["isError"], result["content"][0]["text"]) == (True, text)
    assert site.invoke("quick", {}).get_json() == {"result": "quick"}


def test_what_still_runs_can_see_that_nobody_waits(gate: Gate) -> None:
    site = slow_site(gate)
    site.invoke("slow", {})
    gate.open.set()
    assert gate.ended.acquire(timeout=30)
    assert gate.saw_cancelled == [True]


def test_too_many_that_still_run_are_refused(gate: Gate) -> None:
    site = slow_site(gate, JSONRPC_MCP_MAX_OVERDUE=2)
    assert [site.invoke("slow", {}).status_code for _ in range(3)] == [504, 504, 503]
    refused = site.rpc_post(asking("quick"))
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert refused.get_json()["error"]["code"] == -32004
    gate.open.set()
    for _ in range(2):
        assert gate.ended.acquire(timeout=30)
    # The count goes back when the threads end, which is a moment after the method has.
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.current_thread() and len(thread.name) == 12:
            thread.join(timeout=30)
    assert site.invoke("quick", {}).status_code == 200


def test_a_method_with_a_time_limit_runs_in_the_request_as_any_other() -> None:
    auth = make_auth()
    site = Site(McpBlueprint(auth=auth))
    ended: list[Any] = []

    @site.app.before_request
    def before() -> None:
        g.session = "open"

    @site.app.teardown_request
    def teardown(error: BaseException | None) -> None:
        ended.append(g.made)

    def look() -> list[Any]:
        g.made = "in the method"
        return [g.session, request.path, auth.current_user()]

    site.tool(look, timeout=60)
    response = site.invoke("look", {}, headers=basic("writer"))
    assert response.get_json() == {"result": ["open", "/mcp/tools/invoke", "writer"]}
    assert ended == ["in the method"]


def fail() -> None:
    raise RpcError("expected")


async def later() -> str:
    return "async"


def items() -> Iterator[int]:
    yield from (1, 2)


@pytest.mark.parametrize(
    ("func", "status", "body"),
    [
        (fail, 500, "Tool execution failed: expected"),
        (lambda: sys.exit(3), 500, "Internal error"),
        (later, 200, "async"),
        (items, 200, [1, 2]),
    ],
)
def test_within_its_time_a_method_ends_as_any_other(func: Any, status: int, body: Any) -> None:
    site = Site(McpBlueprint())
    site.tool(func, name="f", timeout=60)
    response = site.invoke("f", {})
    assert response.status_code == status
    answer = response.get_json()
    assert body in answer["error"]["message"] if status == 500 else answer["result"] == body


@pytest.mark.parametrize("timeout", [0, -1, "5", True, float("nan")])
def test_a_time_limit_must_be_seconds(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        McpBlueprint().add_method("f", lambda: 1, timeout=timeout)


def test_outside_of_a_call_there_is_no_current_call() -> None:
    with pytest.raises(RuntimeError, match="only available while a tool, prompt or resource runs"):
        _ = current_call.cancelled


def test_a_method_knows_its_call(site: Site) -> None:
    site.tool(lambda: [current_call.cancelled, current_call.name, current_call.face], name="me")
    assert site.invoke("me", {}).get_json() == {"result": [False, "me", "rest"]}


class Ear(logging.Handler):
    """Hears of the first failure that is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.error = record.exc_info[1]
            self.heard.set()


def test_what_an_overdue_method_raises_is_logged() -> None:
    site, go, ear = Site(McpBlueprint()), threading.Event(), Ear()

    def fail_late() -> None:
        go.wait(30)
        raise ValueError("not lost")

    site.tool(fail_late, timeout=0.05)
    site.app.logger.addHandler(ear)
    try:
        assert site.invoke("fail_late", {}).status_code == 504
        go.set()
        assert ear.heard.wait(30)
    finally:
        site.app.logger.removeHandler(ear)
    assert str(ear.error) == "not lost"
