"""The official Python client over standard input and output, and the bridge, to the sample site under gunicorn."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_clients import LEGACY, MODERN, failure, known_members, success
from tests.deploy.test_sample_app import FOR_ADMINS, FOR_EDITORS, PUBLIC
from tests.support.servers import ROOT, Server, gunicorn, need_made, reserve

ADMIN = {"MCP_BRIDGE_USER": "admin", "MCP_BRIDGE_PASSWORD": "admin"}
EDITOR = {"MCP_BRIDGE_TOKEN": "demo-editor-token"}


class Visitor:
    """The client, with a bridge of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.welcome = self.receive()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client has ended"
        return json.loads(line)

    def ask(self, **step: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        return self.receive()

    def names(self) -> set[str]:
        return {tool["name"] for tool in self.ask(list=True)}

    def call(self, name: str, **arguments: Any) -> Any:
        return known_members(self.ask(call=[name, arguments]))


@contextmanager
def visit(url: str, folder: Path, mode: str = "auto", **env: str) -> Iterator[Visitor]:
    """Start the client, which starts the bridge; both end at the end of their input."""
    bridge = [sys.executable, "-m", "flask_jsonrpc_mcp", "bridge"]
    # What the client is started from is where the bridge finds the package.
    settings = {"MCP_BRIDGE_URL": url, "MCP_BRIDGE_TIMEOUT": "300", "PYTHONPATH": str(ROOT), **env}
    with converse(bridge, folder, mode, **settings) as visitor:
        yield visitor


@contextmanager
def converse(server: list[str], folder: Path, mode: str, **env: str) -> Iterator[Visitor]:
    """Start the client, which starts a server on standard input and output; both end at the end of their input."""
    environment = ROOT / ".clients/mcp2"
    need_made(environment / ".installed", "clients")
    script = ROOT / "tests/clients/python_sdk_2_stdio.py"
    with (folder / "client.log").open("w") as log:
        process = subprocess.Popen(
            [environment / "bin/python", script, json.dumps(server), mode, json.dumps(env)],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        try:
            yield Visitor(process)
        except BaseException:
            process.kill()
            raise
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, (folder / "client.log").read_text()


@contextmanager
def sample_site(folder: Path, listener: socket.socket | None = None) -> Iterator[Server]:
    env = {
        "DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}",
        "SECRET_KEY": "key" * 16,
        "SITE_ENV": "development",
        "FLASK_JSONRPC_MCP_PAGE_SIZE": "3",
    }
    log = ("--access-logfile", str(folder / "access.log"), "--access-logformat", "%(m)s %(U)s %(q)s")
    with gunicorn(
        "wsgi:app", folder, "--config", "sample_app/gunicorn_conf.py", *log, env=env, listener=listener
    ) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with sample_site(tmp_path_factory.mktemp("bridged")) as running:
        yield running


@pytest.fixture(scope="module", params=[("auto", MODERN), ("legacy", LEGACY)], ids=["modern", "legacy"])
def editor(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visitor]:
    """An editor's client, of both eras."""
    mode, version = request.param
    with visit(server.url, tmp_path_factory.mktemp("editor"), mode, **EDITOR) as visitor:
        assert visitor.welcome == {"version": version, "server": f"127.0.0.1:{server.port}"}
        yield visitor


class AccessLog:
    """What the site logs from now on of calls, such as ``POST /jsonrpc``; a line may come after its answer."""

    def __init__(self, server: Server) -> None:
        self._file = server.log.parent / "access.log"
        self._start = len(self._file.read_text())

    def calls(self) -> list[str]:
        deadline = time.monotonic() + 60
        while True:
            lines = self._file.read_text()[self._start :].splitlines()
            calls = [" ".join(line.split()[:2]) for line in lines if "/jsonrpc" in line]
            if calls or time.monotonic() > deadline:
                return calls


def test_the_client_sees_the_tools_of_every_page(editor: Visitor, server: Server) -> None:
    """There are three of a page."""
    assert editor.names() == PUBLIC | FOR_EDITORS


def test_a_read_is_a_get(editor: Visitor, server: Server) -> None:
    expected = server.invoke("articles.list", {"limit": 2}).json()["result"]
    log = AccessLog(server)
    assert editor.call("articles.list", limit=2) == success(expected, editor.welcome["version"])
    assert log.calls() == ["GET /jsonrpc"]


def test_a_write_is_a_post(editor: Visitor, server: Server) -> None:
    log = AccessLog(server)
    assert editor.call("articles.create", title="By way of the bridge")["structuredContent"]["author"] == "editor"
    assert log.calls() == ["POST /jsonrpc"]


def test_a_long_read_is_a_post(editor: Visitor, server: Server) -> None:
    log = AccessLog(server)
    assert "isError" in editor.call("articles.search", query="compost " * 375)
    assert log.calls() == ["POST /jsonrpc"]


def test_failures_are_results_that_say_why(editor: Visitor) -> None:
    assert editor.call("articles.get", id=999) == failure("Article 999 does not exist")
    assert editor.call("articles.list", limit=1000, ofset=10) == failure(
        "Invalid arguments: /limit: must be at most 100; /ofset: is not expected here"
    )
    assert editor.call("cache.rebuild")["error"] == -32602


def test_thirty_calls_at_once_come_back_with_their_own_answers(editor: Visitor) -> None:
    results = editor.ask(calls=[["articles.get", {"id": 1 + number % 10}] for number in range(30)])
    assert [result["structuredContent"]["id"] for result in results] == [1 + number % 10 for number in range(30)]


def test_the_bridge_signs_in_with_a_password(server: Server, tmp_path: Path) -> None:
    with visit(server.url, tmp_path, **ADMIN) as visitor:
        assert visitor.names() == PUBLIC | FOR_EDITORS | FOR_ADMINS
        assert visitor.call("cache.rebuild") == success(True, MODERN)


def test_a_wrong_password_is_told_and_not_shown(server: Server, tmp_path: Path) -> None:
    wrong = {"MCP_BRIDGE_USER": "admin", "MCP_BRIDGE_PASSWORD": "not-the-password"}
    with visit(server.url, tmp_path, **wrong) as visitor:
        told = visitor.ask(list=True)
        assert "The site answered with 401 Unauthorized" in told["message"]
        assert visitor.call("articles.get", id=1)["isError"]
    assert "not-the-password" not in (tmp_path / "client.log").read_text()


def test_a_site_that_is_down_is_told_and_works_when_it_is_back_and_after_a_restart(tmp_path: Path) -> None:
    with reserve() as reserved, visit(f"http://127.0.0.1:{reserved.getsockname()[1]}", tmp_path, **EDITOR) as visitor:
        assert "cannot be reached" in visitor.ask(list=True)["message"]
        assert "cannot be reached" in visitor.call("articles.get", id=1)["content"][0]["text"]
        reserved.listen(256)
        for attempt in ("first", "second"):
            with sample_site(tmp_path, reserved.dup()):
                assert visitor.names() == PUBLIC | FOR_EDITORS
                assert visitor.call("articles.get", id=1)["structuredContent"]["id"] == 1
                assert visitor.call("articles.create", title=attempt)["structuredContent"]["title"] == attempt
