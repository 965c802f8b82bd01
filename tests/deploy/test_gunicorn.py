"""Under real gunicorn: what a method does to itself, bodies that cannot be read, and our configuration for any app."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from tests.conftest import asking
from tests.support.servers import ROOT, Server, free_port, gunicorn, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with gunicorn("tests.apps.misbehaving_app:app", tmp_path_factory.mktemp("gunicorn")) as running:
        yield running


@pytest.mark.parametrize(("name", "arguments"), [("exit", {"code": 3}), ("exit", {"code": 4}), ("interrupt", {})])
def test_a_method_that_ends_the_process_ends_only_its_call(server: Server, name: str, arguments: object) -> None:
    """With exit code 3 or 4 gunicorn would take it for a failed boot and stop the whole server."""
    for _ in range(6):
        reply = server.invoke(name, arguments)
        assert reply.status == 500
        assert reply.json()["error"]["code"] == "execution_error"
    assert server.invoke("worker", {}).status == 200
    assert server.log.read_text().count("Booting worker") <= 2  # no worker was ever replaced


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("Transfer-Encoding: chunked", b"zz\r\n", b"400"),
        ("Transfer-Encoding: chunked", b"5\r\n{\r\n", b"400"),
        ("Content-Length: 50", b'{"name"', b"400"),
        ("Content-Length: 5000", b'{"name": "worker", "arguments": {}}', b"400"),
        ("Content-Length: 99999999", b"", b"413"),
        ("Transfer-Encoding: chunked", b"100000\r\n" + b" " * 0x100000 + b"\r\n", b"413"),
    ],
    ids=[
        "bad chunk",
        "short chunk",
        "cut short",
        "cut short after the JSON",
        "declared too large",
        "chunked too large",
    ],
)
def test_a_body_that_cannot_be_read_is_answered_in_json(server: Server, head: str, body: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        lines = (
            f"POST /mcp/tools/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{head}\r\n\r\n"
        )
        connection.sendall(lines.encode())
        try:
            for _ in range(5 if len(body) > 1000 else 1):
                connection.sendall(body)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before we had sent it all
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.split(b" ", 2)[1] == status
    assert b'{"error":{"code":' in answer


def test_the_log_of_the_server_has_each_failure_under_its_id(server: Server) -> None:
    message = server.invoke("exit", {"code": 1}).json()["error"]["message"]
    assert message[-12:] in server.log.read_text()


def initialize(server: Server) -> str:
    params = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return server.request("/mcp", data=asking("initialize", params)).headers["Mcp-Session-Id"]


def ping(server: Server, session: str) -> int:
    """Ping on a connection of its own."""
    return server.request("/mcp", data=asking("ping"), headers={"Mcp-Session-Id": session}).status


def test_a_session_of_one_worker_works_on_all_and_after_a_restart(tmp_path: Path) -> None:
    app = "tests.apps.misbehaving_app:app"
    with gunicorn(app, tmp_path, "--workers", "3") as server:
        session = initialize(server)
        assert [ping(server, session) for _ in range(40)] == [200] * 40
        workers: set[int] = set()
        while len(workers) < 3:
            workers.add(server.invoke("worker", {}).json()["result"])
        for worker in workers:  # whichever of them made it
            os.kill(worker, signal.SIGKILL)
        assert [ping(server, session) for _ in range(10)] == [200] * 10
        assert server.stop() == 0
    with gunicorn(app, tmp_path) as restarted:
        assert ping(restarted, session) == 200
        altered = session[:10] + ("A" if session[10] != "A" else "B") + session[11:]
        assert ping(restarted, altered) == 404


APP_OF_SOMEONE_ELSE = """
from flask import Flask, current_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_jsonrpc_mcp import McpBlueprint

rpc = McpBlueprint()


@rpc.tool
def ends_streams() -> bool:
    return current_app.config["JSONRPC_MCP_IS_ENDING"] is not None


app = Flask(__name__)
app.register_blueprint(rpc)
inside_middleware = DispatcherMiddleware(app)
"""


@pytest.mark.parametrize(("name", "ends_streams"), [("app", True), ("inside_middleware", False)])
def test_our_configuration_runs_any_app(name: str, ends_streams: bool, tmp_path: Path) -> None:
    (tmp_path / "myapp.py").write_text(APP_OF_SOMEONE_ELSE)
    port = free_port()
    options = ["--config", str(ROOT / "gunicorn.conf.py"), "--bind", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "gunicorn", *options, f"myapp:{name}"]
    with running(command, port, tmp_path, env={"WEB_CONCURRENCY": "3"}) as server:
        assert server.invoke("ends_streams", {}).json() == {"result": ends_streams}
        assert server.stop() == 0
    log = server.log.read_text()
    assert log.count("Booting worker") == 3
    assert "sample" not in log
