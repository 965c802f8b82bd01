"""Mistakes with tasks that raise when the app is set up, and name the fix."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, TaskOptions, mcp_tool
from tests.conftest import make_app


def report() -> None: ...


@pytest.mark.parametrize("task", [1, "requested", {"late": True}, TaskOptions])
def test_the_option_is_true_required_or_options(task: Any) -> None:
    with pytest.raises(TypeError, match=r"report\(\): task must be True, 'required' or TaskOptions"):
        McpBlueprint().add_tool(report, task=task)


def test_a_tool_of_an_endpoint_has_no_tasks() -> None:
    rpc, options = McpBlueprint(), {"task": True}
    message = "^{}: task= is not possible, because the endpoint needs the credentials of the caller.* @rpc.tool"
    with pytest.raises(ValueError, match=message.format("add_view 'shelves.get'")):
        rpc.add_view("shelves.get", "get_shelf", **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message.format("add_openapi")):
        rpc.add_openapi({}, include=["*"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttl": 0}, "ttl must be a whole number of seconds from 1 to 3153600000, not 0"),
        ({"ttl": 10**12}, "ttl must be a whole number of seconds from 1 to 3153600000, not 1000000000000"),
        ({"ttl": True}, "ttl must be a whole number"),
        ({"queue": ""}, "queue must be a name of at most 100 characters, not ''"),
        ({"late": 1}, "late must be True or False, not 1"),
        ({"required": "yes"}, "required must be True or False"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TaskOptions(**options)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TypeError, match=r"report\(\): task= needs SQLAlchemy; install flask-jsonrpc-mcp\[tasks\]"):
        mcp_tool(task=True)(report)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"JSONRPC_MCP_TASKS": "redis"}, "JSONRPC_MCP_TASKS must be 'local', 'celery' or an object with offer"),
        ({"JSONRPC_MCP_TASKS_DATABASE": "nowhere"}, "JSONRPC_MCP_TASKS_DATABASE must be an SQLAlchemy URL"),
        ({"JSONRPC_MCP_TASKS_DATABASE": "sqlite://"}, "JSONRPC_MCP_TASKS_DATABASE must be a file"),
        ({"JSONRPC_MCP_TASKS_DATABASE": "nosuch://db/app"}, "JSONRPC_MCP_TASKS_DATABASE must be .*nosuch"),
        ({"JSONRPC_MCP_TASK_LEASE": 0}, "JSONRPC_MCP_TASK_LEASE must be a whole number of at least 1"),
        ({"JSONRPC_MCP_TASK_TTL": 10**12}, "JSONRPC_MCP_TASK_TTL must be at most 3153600000, not 1000000000000"),
        ({"JSONRPC_MCP_TASK_THREADS": -1}, "JSONRPC_MCP_TASK_THREADS must be a whole number of at least 0"),
    ],
)
def test_settings_are_checked_when_the_blueprint_is_registered(settings: dict[str, Any], message: str) -> None:
    rpc = McpBlueprint()
    rpc.add_tool(report, task=True)
    with pytest.raises(ValueError, match=message):
        make_app(rpc, **settings)


def test_a_mark_above_the_method_makes_tasks_too() -> None:
    rpc = McpBlueprint()
    mcp_tool(task=True)(rpc.method("report")(lambda: None))
    app = make_app(rpc)
    [server] = app.test_client().get("/.well-known/mcp.json").get_json()["servers"]
    assert server["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}


def test_an_app_without_tasks_imports_nothing_of_them() -> None:
    script = """
import sys
from flask import Flask
from flask_jsonrpc_mcp import McpBlueprint

rpc = McpBlueprint()
rpc.add_tool(lambda: 1, "tool")
app = Flask("site")
app.register_blueprint(rpc)
assert app.test_client().post("/mcp/tools/invoke", json={"name": "tool", "arguments": {}}).status_code == 200
print([name for name in sys.modules if name.startswith(("sqlalchemy", "flask_jsonrpc_mcp.tasks"))])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[]", ran.stderr
