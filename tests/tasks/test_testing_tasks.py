"""The test kit with tasks: ``start``, ``run_tasks`` and what came of it, the same on every face."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, RpcError, TaskOptions, current_call, mcp_tool
from flask_jsonrpc_mcp.testing import FACES, CallFailed, McpTestClient
from tests.conftest import make_app, make_auth


def make_site(**config: Any) -> Flask:
    rpc = McpBlueprint(auth=make_auth())

    @rpc.method("build", access=["write"])
    @mcp_tool(task=True)
    def build(year: int) -> dict[str, Any]:
        """Build a report."""
        if year == 0:
            raise RpcError("There is no year 0", data={"first": 1})
        current_call.progress(1, 2, "half")
        return {"year": year / year, "thread": threading.current_thread().name}

    @rpc.method("crash")
    @mcp_tool(task=True)
    def crash() -> None:
        """Fail by mistake."""
        raise KeyError("paper")

    @rpc.method("publish")
    @mcp_tool(task="required")
    def publish() -> str:
        """Publish the reports, which takes long."""
        return "published"

    @rpc.method("ask")
    @mcp_tool(task=True)
    def ask() -> str:
        """Ask a question."""
        return str(current_call.elicit("Which year?", {"year": int}, key="year").content["year"])

    @rpc.method("late")
    @mcp_tool(task=TaskOptions(late=True))
    def late(quick: bool = False) -> str:
        """Ask first, and go on in a worker."""
        name = current_call.elicit("Who?", {"name": str}, key="who").content["name"]
        if not quick:
            current_call.detach()
        return f"for {name}"

    @rpc.method("count")
    @mcp_tool
    def count() -> int:
        """Count the reports."""
        return 3

    return make_app(rpc, SECRET_KEY="key", **config)


@pytest.fixture
def client() -> McpTestClient:
    return McpTestClient(make_site()).as_user("writer", "writer")


@pytest.mark.parametrize("face", FACES)
def test_a_started_task_runs_in_the_thread_of_the_test(client: McpTestClient, face: str) -> None:
    client = client.over(face)
    task = client.start("build", {"year": 2026})
    assert task.status == "working"
    assert client.run_tasks() == 1
    assert (task.status, task.message) == ("completed", None)
    assert task.result.value == {"year": 1.0, "thread": threading.current_thread().name}
    assert (task.result.name, task.result.arguments, task.result.status) == ("build", {"year": 2026}, 200)
    assert task.result.text == '{"year":1.0,"thread":"MainThread"}'
    assert client.run_tasks() == 0


@pytest.mark.parametrize("face", FACES)
def test_what_failed_is_the_same_as_in_a_plain_call(client: McpTestClient, face: str) -> None:
    client = client.over(face)
    failing, crashing = client.start("build", {"year": 0}), client.start("crash")
    client.run_tasks()
    assert failing.status == crashing.status == "completed"
    assert failing.result.error == client.call("build", {"year": 0}).error
    assert failing.result.error.data == {"first": 1}
    assert isinstance(failing.result.error.cause, RpcError)
    assert isinstance(crashing.result.error.cause, KeyError)
    with pytest.raises(CallFailed, match="because of KeyError: 'paper'"):
        assert crashing.result.value


@pytest.mark.parametrize("face", FACES)
def test_a_call_that_is_wrong_makes_no_task(client: McpTestClient, face: str) -> None:
    client = client.over(face)
    with pytest.raises(CallFailed, match="/year") as failed:
        client.start("build", {"year": "soon"})
    assert failed.value.failure.slug == "invalid_arguments"
    with pytest.raises(
        AssertionError, match="count did not become a task, but returned 3; was it registered with task="
    ):
        client.start("count")


@pytest.mark.parametrize("face", FACES)
def test_a_call_of_a_tool_that_is_always_a_task_says_to_start_it(client: McpTestClient, face: str) -> None:
    client = client.over(face)
    error = client.call("publish").error
    assert error.slug == ("missing_capability" if face == "mcp" else "http_202")
    assert error.advice == "it runs as a task: call it with start(), then run_tasks()"
    with pytest.raises(CallFailed, match=r"call it with start\(\), then run_tasks\(\)"):
        assert client.call("publish").value
    task = client.start("publish")
    client.run_tasks()
    assert task.result.value == "published"


@pytest.mark.parametrize("face", FACES)
def test_a_task_can_be_cancelled(client: McpTestClient, face: str) -> None:
    client = client.over(face)
    task = client.start("build", {"year": 2026})
    task.cancel()
    assert (task.status, client.run_tasks()) == ("cancelled", 0)
    assert task.result.error.slug == "cancelled"


def test_a_task_that_asks_is_answered(client: McpTestClient) -> None:
    task = client.start("ask")
    client.run_tasks()
    assert (task.status, repr(task)) == ("input_required", "<task of ask on mcp 2026-07-28: input_required>")
    assert task.questions["year"]["params"]["message"] == "Which year?"
    with pytest.raises(AssertionError, match="it does not ask 'name'; it asks 'year'"):
        task.answer({"name": "x"})
    with pytest.raises(AssertionError, match=r"not over, but input_required; answer 'year' with answer\(\), then call"):
        assert task.result
    task.answer({"year": {"year": 1999}})
    with pytest.raises(AssertionError, match=r"the task of ask is not over, but working; call run_tasks\(\)"):
        assert task.result
    assert client.run_tasks() == 1
    assert task.result.value == "1999"


def test_questions_before_the_task_are_answered_as_in_a_call(client: McpTestClient) -> None:
    task = client.start("late", answers={"who": {"name": "Ada"}})
    client.run_tasks()
    assert task.result.value == "for Ada"
    with pytest.raises(AssertionError, match="late did not become a task, but returned 'for Ada'"):
        client.start("late", {"quick": True}, answers={"who": {"name": "Ada"}})


def test_a_call_without_start_runs_at_once(client: McpTestClient) -> None:
    assert client.call("build", {"year": 2026}).ok
    assert client.run_tasks() == 0


def test_apps_have_databases_of_their_own_that_end_with_them() -> None:
    first, second = McpTestClient(make_site()), McpTestClient(make_site())
    first.start("crash")
    assert (second.run_tasks(), first.run_tasks()) == (0, 1)


def test_the_first_client_is_created_before_a_task_is_started(tmp_path: Path) -> None:
    def start(app: Flask) -> str:
        call = {"name": "crash", "arguments": {}}
        response = app.test_client().post("/mcp/tools/invoke", json=call, headers={"Prefer": "respond-async"})
        assert response.status_code == 202
        return response.headers["Location"]

    app = make_site()
    client, url = McpTestClient(app), start(app)
    assert McpTestClient(app).run_tasks() == 1
    assert client.run_tasks() == 0
    assert app.test_client().get(url).get_json()["task"]["status"] == "completed"

    database = f"sqlite:///{tmp_path / 'tasks.db'}"
    too_late = make_site(JSONRPC_MCP_TASKS_DATABASE=database, JSONRPC_MCP_TASK_THREADS=0)
    start(too_late)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"was started before its first McpTestClient.*create the client first"):
            McpTestClient(too_late)


def test_a_database_that_a_setting_names_is_used(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    client = McpTestClient(make_site(JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{file}"))
    client.start("crash")
    assert file.exists()
    assert client.run_tasks() == 1


def test_an_app_without_tasks_imports_nothing_of_them() -> None:
    import subprocess
    import sys

    script = """
import sys
from flask import Flask
from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.testing import McpTestClient
rpc = McpBlueprint()
rpc.tool("count")(lambda: 3)
app = Flask("site")
app.register_blueprint(rpc)
for face in ("mcp", "jsonrpc", "rest"):
    assert McpTestClient(app, face=face).call("count").value == 3
assert app.test_client().get("/mcp/tasks").status_code == 404
assert not [name for name in sys.modules if name.partition(".")[0] in ("sqlalchemy", "celery")]
assert "flask_jsonrpc_mcp.tasks" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_call_waits_for_a_worker() -> None:
    rpc = McpBlueprint()
    rpc.add_tool(lambda: threading.current_thread().name, "where", task=True)
    app = Flask(__name__)
    app.config["JSONRPC_MCP_TASK_WAIT"] = 60
    app.register_blueprint(rpc)
    assert McpTestClient(app).call("where").value == threading.current_thread().name
