"""Real mailboxes for tests: a Redis, workers that share one, and what an SQLite file has in it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, current_call
from flask_jsonrpc_mcp.mailbox import FILE
from tests.conftest import Site
from tests.support.answering import listening
from tests.support.mcp_messages import LegacyClient
from tests.support.servers import Server, free_port, gunicorn, need

CAN_ASK: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
ADA = {"action": "accept", "content": {"name": "Ada"}}


@contextmanager
def running_redis(folder: Path, port: int | None = None) -> Iterator[Server]:
    port = free_port() if port is None else port
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    options += ["--unixsocket", str(folder / "redis.socket")]
    process = subprocess.Popen([need("redis-server"), *options], stdout=subprocess.DEVNULL)
    server = Server(process, port, folder / "redis.log")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def redis_url(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}"


@contextmanager
def conversing(folder: Path, place: str, *options: str, **config: Any) -> Iterator[Server]:
    """Run the conversing app with three workers."""
    env = {f"CONVERSING_JSONRPC_MCP_{name}": str(value) for name, value in config.items()}
    env |= {"CONVERSING_JSONRPC_MCP_MAILBOX": place, "NOTES": str(folder)}
    app = "tests.apps.conversing_app:create_app()"
    with gunicorn(app, folder, "--workers", "3", "--preload", *options, env=env) as server:
        yield server


def messages_in(mail: Path) -> list[tuple[str, Any, float]]:
    """The kind, the value and the time of expiry of all messages in an SQLite file, the oldest first."""
    file = mail / FILE
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT kind, text, expires FROM messages ORDER BY id").fetchall()
    return [(kind, None if text is None else json.loads(text), expires) for kind, text, expires in rows]


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    monkeypatch.setattr("time.time", lambda: now)


def read_event(event: bytes) -> Any:
    return None if event == b":\n\n" else json.loads(event.removeprefix(b"data: "))


class Asking:
    """A site whose only tool asks for a name, and a client of it that can be asked."""

    def __init__(self, mailbox: object, auth: Any = None, **config: Any) -> None:
        self.site = Site(McpBlueprint(auth=auth), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=mailbox, **config)
        self.site.tool(lambda: current_call.elicit("Who?", {"name": str}).content["name"], name="ask")
        self.site.tool(lambda: "plain", name="plain")
        self.client = self.connect()

    def connect(self, **options: Any) -> LegacyClient:
        client = LegacyClient(self.site.app.test_client(), capabilities=CAN_ASK, **options)
        client.initialize()
        return client

    def asked(
        self, respond: Callable[[dict[str, Any]], object], client: LegacyClient | None = None, name: str = "ask"
    ) -> Any:
        """Call a tool, let ``respond`` answer its questions, and return the reply; ``None`` if there is none.

        :param respond: Raises ``BrokenPipeError`` to leave.
        """
        client = self.client if client is None else client
        replies = []

        def hear(chunk: bytes) -> None:
            message = read_event(chunk)
            if message is None:
                return
            if "method" in message:
                respond(message)
            else:
                replies.append(message)

        with listening(client.client, hear):
            response = client.call(name)
        assert response.mimetype == "text/event-stream", response.text
        return replies[0] if replies else None

    def answer(self, question: dict[str, Any], client: LegacyClient | None = None, **answer: Any) -> int:
        """Answer on a connection of its own."""
        client = self.client if client is None else client
        other = LegacyClient(self.site.app.test_client(), session=client.session, headers=client.headers)
        return other.send({"jsonrpc": "2.0", "id": question["id"], **answer}).status_code
