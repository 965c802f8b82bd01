"""Real MCP clients of the tasks extension: they call, watch, answer and cancel, whichever engine runs the tasks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.celery_sites import APP, celery_site
from tests.support.servers import ROOT, Server, gunicorn, need_made
from tests.support.services import Postgres, local_worker, postgres, running_broker

__all__ = ["postgres"]

MODERN = "2026-07-28"
WATCHED = {"watched": "1 of 2: waiting", "cancelled": "cancelled"}
ASKED = {"greeted": "Hello Ada", "invited": "Dear Ada", "asked": ["What is your name?", "Whom do you invite?"]}
NO_REPORT = "There is no report of this year"
NO_ROOTS = "This needs an MCP client with the capability roots"


@pytest.fixture(scope="module", params=["local", "celery"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three web workers with a worker of the package on SQLite, or with Celery on Redis and PostgreSQL."""
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if request.param == "celery":
            database: Postgres = request.getfixturevalue("postgres")
            broker = stack.enter_context(running_broker(folder))
            yield stack.enter_context(celery_site(folder, database.new_database(), broker)).server
        else:
            env = {"NOTES": str(folder), "TASKS_APP_JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{folder}/tasks.db"}
            stack.enter_context(local_worker(APP, folder, env=env))
            yield stack.enter_context(gunicorn(APP, folder, "--workers", "3", env=env))


def run_client(server: Server, environment: str, script: str, *arguments: str) -> Any:
    """Run a client of tests/clients, and return what it saw."""
    folder = ROOT / ".clients" / environment
    need_made(folder / ".installed", "clients")
    program = "python"
    if script.endswith(".mjs"):
        need_made(ROOT / "tests/clients/node_modules/.installed", "clients")
        program = "node"
    assert server.request("/mcp/tools/list").status == 200  # a client that has to wait takes it for an older one
    done = subprocess.run(
        [folder / "bin" / program, ROOT / "tests/clients" / script, f"{server.url}/mcp", *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(server.log.parent)},
        capture_output=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_fastmcp_calls_watches_answers_and_cancels(server: Server) -> None:
    seen = run_client(server, "fastmcp", "fastmcp_tasks_client.py")
    assert seen == {
        "version": MODERN,
        "echoed": 7,
        **ASKED,
        **WATCHED,
        "error": NO_REPORT,
        "protocol_error": NO_ROOTS,
    }


def test_ext_tasks_calls_watches_answers_and_cancels(server: Server) -> None:
    seen = run_client(server, "node", "typescript_tasks.mjs")
    assert seen == {
        "version": MODERN,
        "echoed": 7,
        "kind": "task",
        **ASKED,
        **WATCHED,
        "error": NO_REPORT,
        "protocol_error": NO_ROOTS,
    }


def test_the_inspector_waits_for_the_end_of_a_task(server: Server) -> None:
    """Its command line can neither answer nor cancel."""
    calls = [("echo", {"number": 7}), ("count", {"to": 3}), ("fail", {})]
    seen = run_client(server, "node", "inspector.mjs", "modern", json.dumps(calls))
    assert [result.get("structuredContent", result["content"][0]["text"]) for result in seen["results"]] == [
        7,
        {"counted": 3},
        NO_REPORT,
    ]


@pytest.fixture(scope="module")
def waiting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose requests wait for a worker if the client has no tasks."""
    folder = tmp_path_factory.mktemp("waiting")
    env = {
        "NOTES": str(folder),
        "TASKS_APP_SECRET_KEY": "key",
        "TASKS_APP_JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{folder}/tasks.db",
        "TASKS_APP_JSONRPC_MCP_TASK_WAIT": "5",
    }
    with local_worker(APP, folder, env=env), gunicorn(APP, folder, env=env) as server:
        yield server


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", "2025-11-25")])
def test_the_python_sdk_without_tasks_waits_and_asks_again(waiting_server: Server, mode: str, version: str) -> None:
    seen = run_client(waiting_server, "mcp2", "python_sdk_2_waiting.py", mode)
    plain = (lambda value: value) if mode == "auto" else (lambda value: {"result": value})
    assert seen == {
        "version": version,
        "tools": ["tasks.get", "tasks.cancel"],
        "echoed": plain(7),
        "greeted": plain("Hello Ada"),
        "invited": plain("Dear Ada"),
        "asked": ASKED["asked"],
        "held": [True, "Still running (1 of 2: waiting)"],
        "progress": ["waiting"],
        "ended": "Cancelled",
    }
