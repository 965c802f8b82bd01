"""Tasks under gunicorn with our configuration: its hooks run a worker beside the server."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apps.tasks_app import USERS
from tests.conftest import asking, basic
from tests.support.mcp_messages import modern_headers, modern_meta
from tests.support.servers import ROOT, Server, gunicorn
from tests.support.waiting import until
from tests.tasks.conftest import CAPABILITIES, LEASE

APP = "tests.apps.tasks_app:create_app()"


class TaskServer:
    """Talks to a server, and to the tools of `tasks_app` by their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / USERS).write_text(json.dumps({"ada": {"id": 1, "permissions": ["write"]}}))
        self.server: Server

    @contextmanager
    def running(self, *options: str) -> Iterator[Server]:
        env = {
            "FLASK_TASKS_FOLDER": str(self.folder),
            "FLASK_JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{self.folder}/tasks.db",
            "FLASK_JSONRPC_MCP_TASK_LEASE": str(LEASE),
            "FLASK_JSONRPC_MCP_TASK_THREADS": "0",
        }
        config = ("--config", str(ROOT / "gunicorn.conf.py"))
        with gunicorn(APP, self.folder, *config, *options, env=env) as self.server:
            yield self.server

    def send(self, method: str, params: dict[str, Any]) -> Any:
        message = asking(method, {**params, "_meta": modern_meta(**CAPABILITIES)})
        reply = self.server.request("/mcp", data=message, headers={**modern_headers(method, params), **basic("ada")})
        assert reply.status == 200, reply.body
        return reply.json()["result"]

    def start(self, tool: str, name: str) -> str:
        task_id: str = self.send("tools/call", {"name": tool, "arguments": {"name": name}})["taskId"]
        return task_id

    def start_running(self, tool: str, name: str) -> tuple[str, int]:
        """Start a task, and return its id and the process that runs it."""
        task_id = self.start(tool, name)
        return task_id, until(lambda: self.runs(name))[-1]

    def end(self, task_id: str) -> Any:
        over = ("completed", "failed", "cancelled")
        return until(lambda: task if (task := self.send("tasks/get", {"taskId": task_id}))["status"] in over else None)

    def runs(self, name: str) -> list[int]:
        file = self.folder / f"{name}.runs"
        return [int(each) for each in file.read_text().split()] if file.exists() else []

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()


@pytest.fixture
def tasks(tmp_path: Path) -> TaskServer:
    return TaskServer(tmp_path)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that ended and is not waited for yet.
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_reload_loses_no_task(tasks: TaskServer) -> None:
    """The old worker finishes what it runs, and a new one takes the rest."""
    with tasks.running("--max-requests", "5") as server:
        running, old = tasks.start_running("work", "a")
        server.process.send_signal(signal.SIGHUP)
        later, new = tasks.start_running("work", "b")
        while new == old:  # it was claimed before the reload reached the old worker
            tasks.let_go("b")
            tasks.end(later)
            (tasks.folder / "b.go").unlink()
            later, new = tasks.start_running("work", "b")
        tasks.let_go("a")
        tasks.let_go("b")
        assert tasks.end(running)["result"]["structuredContent"] == {"name": "a"}
        assert tasks.end(later)["result"]["structuredContent"] == {"name": "b"}
        until(lambda: not is_alive(old))
    assert len(tasks.runs("a")) == 1


def test_a_stop_waits_for_running_tasks_and_keeps_queued_ones(tasks: TaskServer) -> None:
    with tasks.running() as server:
        running, worker = tasks.start_running("work", "a")
        server.process.terminate()
        until(lambda: "Stopping; tasks that still run: 1" in server.log.read_text())
        tasks.let_go("a")
        assert server.process.wait(timeout=60) == 0
        assert not is_alive(worker)
    with tasks.running():
        assert tasks.end(running)["status"] == "completed"
    assert len(tasks.runs("a")) == 1


def test_a_worker_that_is_killed_is_started_again(tasks: TaskServer) -> None:
    with tasks.running():
        lost, worker = tasks.start_running("work", "a")
        os.kill(worker, signal.SIGKILL)
        assert tasks.end(tasks.start("quick", "b"))["status"] == "completed"
        assert tasks.end(lost)["status"] == "failed"


def test_nothing_outlives_a_master_that_is_killed(tasks: TaskServer) -> None:
    with tasks.running() as server:
        lost, worker = tasks.start_running("work", "a")
        again, _ = tasks.start_running("steady", "b")
        server.process.kill()
        until(lambda: not is_alive(worker))
    tasks.let_go("b")
    with tasks.running():
        assert tasks.end(lost)["status"] == "failed"
        assert tasks.end(again)["status"] == "completed"
    assert (len(tasks.runs("a")), len(tasks.runs("b"))) == (1, 2)


def test_an_app_without_tasks_gets_no_worker(tmp_path: Path) -> None:
    config = ("--config", str(ROOT / "gunicorn.conf.py"))
    with gunicorn("tests.apps.steady_app:app", tmp_path, *config) as server:
        assert server.request("/mcp/tools/list").status == 200
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")

        def has_no_worker() -> bool:
            """Return whether the supervisor, which stays, has no children."""
            pids = children.read_text().split()
            supervisors = [pid for pid in pids if b"supervisor.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            return [Path(f"/proc/{pid}/task/{pid}/children").read_text() for pid in supervisors] == [""]

        until(has_no_worker)
    assert "Traceback" not in server.log.read_text()
