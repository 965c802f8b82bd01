"""``flask mcp worker``: which tasks it runs, how it ends, and when it is not needed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.cli import mcp
from tests.conftest import make_app
from tests.support.waiting import until
from tests.tasks.conftest import Deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    yield made
    made.close()


def test_a_burst_runs_what_is_queued_for_its_queues_and_ends(deployment: Deployment) -> None:
    client = deployment.client()
    loading, other = client.start("load", name="a"), client.start("quick", name="b")
    assert client.get(loading)["ttlMs"] == 60_000

    def burst(queues: str) -> None:
        command = [*deployment.command(), "--burst", "--queues", queues]
        subprocess.run(command, env={**os.environ, **deployment.environment()}, check=True, timeout=120)

    burst("imports")
    assert (client.get(loading)["status"], client.get(other)["status"]) == ("completed", "working")
    burst("default")
    assert client.get(other)["status"] == "completed"


def test_a_worker_says_that_it_runs(deployment: Deployment) -> None:
    """Without that, it looks as if it had not started."""
    with deployment.worker() as worker:
        until(lambda: "Running tasks, at most 4 at a time; CTRL+C to stop" in worker.log.read_text())


def test_a_second_signal_lets_go_of_what_runs(deployment: Deployment) -> None:
    """Another worker need not wait for the end of the lease."""
    client = deployment.client()
    with deployment.worker(JSONRPC_MCP_TASK_LEASE=600) as worker:
        again, lost = client.start("steady", name="a"), client.start("work", name="b")
        until(lambda: deployment.runs("a") and deployment.runs("b"))
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: deployment.stopping in worker.log.read_text())
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(timeout=60) == 1
    deployment.let_go("a")
    assert client.end(lost)["status"] == "failed"
    with deployment.worker():
        assert client.end(again)["status"] == "completed"


def test_an_app_without_tasks_needs_no_worker() -> None:
    ran = make_app(McpBlueprint()).test_cli_runner().invoke(mcp, ["worker"])
    assert ran.exit_code == 2
    assert "This app has no tool with task=, so there is nothing for a worker to run" in ran.output


class Engine:
    def offer(self, task_id: str, queue: str | None) -> None: ...


@pytest.mark.parametrize(("setting", "own"), [(Engine(), None), ("local", Engine())])
def test_an_app_with_another_engine_needs_no_worker_of_ours(setting: object, own: Engine | None) -> None:
    rpc = McpBlueprint(tasks=own)
    rpc.add_tool(lambda: 1, "tool", task=True)
    ran = make_app(rpc, JSONRPC_MCP_TASKS=setting).test_cli_runner().invoke(mcp, ["worker", "--burst"])
    assert ran.exit_code == 2
    assert "The tasks of this app have another engine; start a worker of it, such as: celery -A" in ran.output
