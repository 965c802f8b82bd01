"""``flask mcp call --background`` and ``flask mcp tasks``, in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, RpcError, TaskOptions, current_call, mcp_tool
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.cli.task_commands import STATUSES
from flask_jsonrpc_mcp.tasks.records import CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED, QUEUED, RUNNING
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import PERMISSIONS, make_app, make_auth

NO_WORKER = "No worker is running; start one with: flask mcp worker"


def make_blueprint() -> McpBlueprint:
    rpc = McpBlueprint(auth=make_auth())

    @rpc.user_loader
    def find_user(name: str) -> str | None:
        return name if name in PERMISSIONS else None

    @rpc.method("reports.build", access=["write"])
    @mcp_tool(task=TaskOptions(queue="reports"))
    def build(year: int) -> dict[str, int]:
        """Build a report."""
        if year < 1900:
            raise RpcError("There are no books that old")
        return {"pages": year % 100}

    @rpc.method("reports.quick")
    @mcp_tool(task=TaskOptions(late=True))
    def quick(now: bool) -> str:
        """Build a report at once, or in a worker."""
        if not now:
            current_call.detach()
        return "built"

    @rpc.method("reports.ask")
    @mcp_tool(task=True)
    def ask() -> str:
        """Ask for the year."""
        return str(current_call.elicit("Which year?", {"year": int}, key="year").content)

    @rpc.method("reports.count")
    @mcp_tool
    def count() -> int:
        """Count the reports."""
        return 3

    return rpc


@pytest.fixture
def app(tmp_path: Path) -> Flask:
    return make_app(make_blueprint(), JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{tmp_path / 'tasks.db'}", SECRET_KEY="key")


@pytest.fixture
def worker(app: Flask) -> McpTestClient:
    return McpTestClient(app)


def run(app: Flask, *arguments: str) -> Result:
    return app.test_cli_runner().invoke(mcp, arguments)


def answer(app: Flask, *arguments: str) -> Any:
    ran = run(app, *arguments)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def refusal(app: Flask, *arguments: str) -> str:
    ran = run(app, *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    return ran.stderr.rpartition("Error: ")[2].strip()


def start(app: Flask, *arguments: str) -> str:
    ran = run(app, "call", *arguments, "--background")
    assert (ran.exit_code, ran.stderr.strip()) == (0, NO_WORKER)
    return ran.stdout.strip()


def test_a_call_in_the_background_prints_the_id_of_its_task(app: Flask, worker: McpTestClient) -> None:
    task_id = start(app, "reports.build", "year=2026", "--user", "writer")
    shown = answer(app, "tasks", "show", task_id)
    assert shown.pop("message") in (None, "Waiting for a worker; none is running")  # by how long it has waited
    times = {shown.pop(name) for name in ("created", "updated", "expires")}
    assert len(times) == 2
    facts = {
        "id": task_id,
        "tool": "reports.build",
        "progress": None,
        "status": "queued",
        "user": "writer",
        "blueprint": "mcp",
        "face": "cli",
        "address": None,
        "queue": "reports",
        "runs": 0,
        "worker": None,
        "questions": None,
        "result": None,
        "error": None,
    }
    assert shown == facts
    assert worker.run_tasks() == 1
    done = answer(app, "tasks", "show", task_id)
    assert (done["status"], done["runs"], done["result"]) == ("completed", 1, {"pages": 26})


def test_a_program_can_have_the_task_as_json(app: Flask) -> None:
    ran = run(app, "call", "reports.build", "year=2026", "--background", "--json-output")
    task = json.loads(ran.stdout)["task"]
    assert (task["tool"], task["status"], task["user"]) == ("reports.build", "queued", "developer")


def test_what_cannot_be_a_task_is_said_at_once(app: Flask, worker: McpTestClient) -> None:
    text = "--background needs a tool with task=, which reports.count is not"
    assert refusal(app, "call", "reports.count", "--background") == text
    wrong = run(app, "call", "reports.build", "year=soon", "--background")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "/year" in wrong.stderr
    assert worker.run_tasks() == 0
    assert answer(app, "call", "reports.quick", "now=yes", "--background") == "built"
    assert answer(app, "tasks", "list") == []


def test_a_task_of_the_command_line_cannot_ask(app: Flask, worker: McpTestClient) -> None:
    task_id = start(app, "reports.ask")
    worker.run_tasks()
    shown = answer(app, "tasks", "show", task_id)
    assert (shown["status"], shown["error"]["slug"]) == ("failed", "missing_capability")


def test_operators_see_the_tasks_of_all_callers(app: Flask, worker: McpTestClient) -> None:
    failing = start(app, "reports.build", "year=1")
    worker.run_tasks()
    of_writer = worker.as_user("writer", "writer").start("reports.build", {"year": 2026})
    of_nobody = worker.start("reports.ask")
    worker.run_tasks()
    waiting = start(app, "reports.build", "year=2000", "--user", "admin")
    listed = answer(app, "tasks", "list")
    assert [(task["id"], task["status"], task["user"]) for task in listed] == [
        (waiting, "queued", "admin"),
        (of_nobody.id, "input_required", None),
        (of_writer.id, "completed", "writer"),
        (failing, "completed", "developer"),
    ]
    assert [task["id"] for task in answer(app, "tasks", "list", "--user", "writer")] == [of_writer.id]
    assert [task["id"] for task in answer(app, "tasks", "list", "--status", "queued")] == [waiting]
    assert [task["id"] for task in answer(app, "tasks", "list", "--limit", "1")] == [waiting]
    assert answer(app, "tasks", "show", of_nobody.id)["questions"] == ["year"]
    assert answer(app, "tasks", "show", failing)["error"] == {
        "code": -32000,
        "slug": "execution_error",
        "message": "There are no books that old",
    }


def test_people_get_a_table(app: Flask, worker: McpTestClient) -> None:
    assert run(app, "tasks", "list", "--no-json-output").stdout == "There are no tasks\n"
    failing, waiting = start(app, "reports.build", "year=1"), ""
    worker.run_tasks()
    waiting = start(app, "reports.build", "year=2000", "--user", "admin")
    ran = run(app, "tasks", "list", "--no-json-output")
    heading, first, second = ran.stdout.splitlines()
    assert heading.split() == ["ID", "Tool", "Status", "User", "Age", "Message"]
    assert first.startswith(f"{waiting[:12]}  reports.build  queued     admin      0 s")
    assert second.startswith(f"{failing[:12]}  reports.build  completed  developer  0 s")
    assert ran.stderr.strip() == NO_WORKER
    shown = run(app, "tasks", "show", waiting[:12], "--no-json-output").stdout.splitlines()
    assert shown[:2] == [f"id: {waiting}", "tool: reports.build"]


def test_arguments_are_shown_only_on_request_and_only_until_the_end(app: Flask, worker: McpTestClient) -> None:
    task_id = start(app, "reports.build", "year=2026")
    assert "arguments" not in answer(app, "tasks", "show", task_id)
    assert answer(app, "tasks", "show", task_id, "--arguments")["arguments"] == {"year": 2026}
    worker.run_tasks()
    assert answer(app, "tasks", "show", task_id, "--arguments")["arguments"] is None


def test_a_task_is_cancelled_by_the_beginning_of_its_id(app: Flask, worker: McpTestClient) -> None:
    task_id = start(app, "reports.build", "year=2026")
    assert run(app, "tasks", "cancel", task_id[:12]).stdout == "Cancelled\n"
    again = run(app, "tasks", "cancel", task_id)
    assert (again.exit_code, again.stderr) == (1, "Error: The task is over already: cancelled\n")
    assert worker.run_tasks() == 0


def test_an_id_that_is_unknown_or_not_unique_is_refused(app: Flask) -> None:
    assert refusal(app, "tasks", "show", "%") == "There is no task '%'; it may have expired"
    for command, dashed in (("show", "-9"), ("cancel", "-9"), ("show", "--9")):  # as one of many ids begins
        assert refusal(app, "tasks", command, dashed) == f"There is no task {dashed!r}; it may have expired"
    assert refusal(app, "tasks", "cancel", "") == "There is no task ''; it may have expired"
    ids = [start(app, "reports.build", f"year={2000 + number}") for number in range(65)]
    letter = next(each[0] for each in ids if sum(other[0] == each[0] for other in ids) > 1)
    assert refusal(app, "tasks", "show", "--", letter) == (
        f"The ids of several tasks begin with {letter!r}; write more of the id"
    )


def test_an_app_with_another_engine_is_told_to_start_its_worker(tmp_path: Path) -> None:
    class Engine:
        def offer(self, task_id: str, queue: str | None) -> None: ...

    database = f"sqlite:///{tmp_path}/tasks.db"
    by_setting, by_blueprint = McpBlueprint(), McpBlueprint(tasks=Engine())
    for rpc, engine in ((by_setting, Engine()), (by_blueprint, "local")):
        rpc.add_tool(lambda: 1, "tool", task=True)
        app = make_app(rpc, JSONRPC_MCP_TASKS=engine, JSONRPC_MCP_TASKS_DATABASE=database)
        told = "No worker is running; start one of your engine, such as: celery -A make_celery worker"
        assert run(app, "tasks", "workers", "--no-json-output").stdout == f"{told}\n"
        assert run(app, "call", "tool", "--background").stderr.strip() == told


def test_workers_are_listed(app: Flask, worker: McpTestClient) -> None:
    from flask_jsonrpc_mcp.tasks import tasks_of

    assert answer(app, "tasks", "workers") == []
    assert run(app, "tasks", "workers", "--no-json-output").stdout == f"{NO_WORKER}\n"
    tasks_of(app).records.see_worker(
        "w1", {"kind": "worker", "host": "garden", "pid": 7, "places": 4, "queues": ["a", "b"], "seen": 4e9}
    )
    [listed] = answer(app, "tasks", "workers")
    assert (listed["host"], listed["pid"], listed["places"], listed["queues"]) == ("garden", 7, 4, ["a", "b"])
    heading, row = run(app, "tasks", "workers", "--no-json-output").stdout.splitlines()
    assert heading.split() == ["Host", "PID", "Kind", "Places", "Queues", "Seen"]
    assert row.startswith("garden  7    worker  4       a, b    ")


def test_an_app_without_such_tools_has_no_tasks() -> None:
    rpc = McpBlueprint()
    rpc.tool("count")(lambda: 3)
    for command in (("list",), ("show", "x"), ("cancel", "x"), ("workers",)):
        assert refusal(make_app(rpc), "tasks", *command) == "This app has no tool with task=, so it has no tasks"


def test_the_statuses_to_choose_from_are_those_of_the_records() -> None:
    assert STATUSES == (QUEUED, RUNNING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED)
