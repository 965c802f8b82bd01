"""An app on standard input and output: what its methods hear of the client's leaving."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.cli.app_server import AppServer
from flask_jsonrpc_mcp.cli.callers import Session, session

from .conftest import asking, make_app
from .stdio_client import Connection, modern


@dataclass(frozen=True)
class Waiting:
    """A connection with a call of a method that waits."""

    connection: Connection[AppServer]
    go_on: threading.Event
    saw: list[bool]


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    rpc = McpBlueprint()
    runs, go_on, saw = threading.Event(), threading.Event(), list[bool]()

    @rpc.method("wait")
    @mcp_tool
    def wait() -> bool:
        """Wait, and tell whether anyone else still does."""
        runs.set()
        assert go_on.wait(60)
        saw.append(current_call.cancelled)
        return saw[-1]

    app = make_app(rpc)

    @contextmanager
    def open_session() -> Iterator[Session]:
        with app.app_context(), session(None, None, None, anyone=True) as current:
            yield current

    connection = Connection(AppServer(open_session))
    connection.send(modern("tools/call", "w", name="wait"))
    assert runs.wait(60)
    yield Waiting(connection, go_on, saw)
    connection.close()


def test_a_method_that_runs_at_the_end_of_the_input_is_not_cancelled(waiting: Waiting) -> None:
    """Whoever pipes a request into the program waits for its answer."""
    waiting.connection.loop.close(when_idle=lambda: None)
    waiting.go_on.set()
    assert waiting.connection.receive()["result"]["structuredContent"] is False
    waiting.connection.rest()


def test_a_method_is_told_that_its_request_was_cancelled(waiting: Waiting) -> None:
    waiting.connection.send(asking("notifications/cancelled", {"requestId": "w"}, id=...))
    waiting.go_on.set()
    assert waiting.connection.rest() == []
    assert waiting.saw == [True]
