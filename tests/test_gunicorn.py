"""Under real gunicorn with two workers: what a method does to itself, and bodies that cannot be read."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from .servers import Server, gunicorn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with gunicorn("tests.misbehaving_app:app", tmp_path_factory.mktemp("gunicorn")) as running:
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
        ("Content-Length: 99999999", b"", b"413"),
        ("Transfer-Encoding: chunked", b"100000\r\n" + b" " * 0x100000 + b"\r\n", b"413"),
    ],
    ids=["bad chunk", "short chunk", "cut short", "declared too large", "chunked too large"],
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
