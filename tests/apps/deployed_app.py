"""An app whose tools run as tasks, for tests with real servers, workers and clients.

What its methods live through is in files of the folder that ``NOTES`` names: one line per run in ``runs``, and empty
files that a test waits for, or makes for a method that waits.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, RpcError, TaskOptions, current_call, mcp_tool
from flask_jsonrpc_mcp.tasks import records, service
from flask_jsonrpc_mcp.tasks.celery_tasks import CeleryTasks
from tests.support.celery_apps import add_celery

rpc = McpBlueprint()

PATIENCE = 120
"""Seconds after which a method that waits for a test gives up."""


if "OFFER_AFTER" in os.environ:  # a test cannot wait for the minutes after which a task is offered again
    for module in (records, service):
        vars(module)["FIRST_OFFER"] = int(os.environ["OFFER_AFTER"])


class DyingTasks(CeleryTasks):
    """Ends its process instead of the first offer, if there is the file "die"."""

    def offer(self, task_id: str, queue: str | None) -> None:
        try:
            (notes() / "die").unlink()
        except FileNotFoundError:
            super().offer(task_id, queue)
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def notes() -> Path:
    return Path(os.environ["NOTES"])


def record_run(key: object) -> None:
    """Write down that a method runs; a short line is appended as a whole, whatever runs beside it."""
    with (notes() / "runs").open("a") as runs:
        runs.write(f"{key} {os.getpid()} {os.environ.get('MACHINE', '')}\n")


@rpc.method("echo")
@mcp_tool(task=True)
def echo(number: int, seconds: float = 0) -> int:
    """Return the number, after some time."""
    record_run(number)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if current_call.cancelled:
            raise RpcError("Given up")
        time.sleep(0.01)
    return number


@rpc.method("echo_again")
@mcp_tool(task=True, annotations={"idempotentHint": True})
def echo_again(number: int, seconds: float = 0) -> int:
    """Do the same; it may run again."""
    return echo(number, seconds)


@rpc.method("clock")
@mcp_tool(task=True)
def clock() -> float:
    """Return when this runs."""
    return time.time()


@rpc.method("plain_clock")
@mcp_tool
def plain_clock() -> float:
    """Return when this runs, in the request."""
    return time.time()


@rpc.method("count")
@mcp_tool(task=True)
def count(to: int) -> dict[str, int]:
    """Count, and report each number."""
    for number in range(1, to + 1):
        current_call.progress(number, to, f"number {number}")
    return {"counted": to}


def hold(key: str) -> str:
    """Wait until the test says so, or the task is cancelled."""
    record_run(key)
    current_call.progress(1, 2, "waiting")
    (notes() / f"{key}-begun").touch()
    deadline = time.monotonic() + PATIENCE
    while not (notes() / f"{key}-released").exists():
        if current_call.cancelled:
            (notes() / f"{key}-cancelled").touch()
            raise RpcError("Given up")
        if time.monotonic() > deadline:
            raise RpcError("Not released")
        time.sleep(0.01)
    return key


rpc.add_method("hold", mcp_tool(task=True)(hold))


@rpc.method("hold_again")
@mcp_tool(task=True, annotations={"idempotentHint": True})
def hold_again(key: str) -> str:
    """Do the same; it may run again."""
    return hold(key)


@rpc.method("poison")
@mcp_tool(task=True, annotations={"idempotentHint": True})
def poison(key: str) -> None:
    """End the worker."""
    record_run(key)
    os.kill(os.getpid(), signal.SIGKILL)


@rpc.method("greet")
@mcp_tool(task=True)
def greet() -> str:
    """Greet the person at the client, who is asked in the task."""
    answer = current_call.elicit("What is your name?", {"name": str})
    return f"Hello {answer.content['name']}" if answer.accepted else f"Hello ({answer.action})"


@rpc.method("invite")
@mcp_tool(task=TaskOptions(late=True))
def invite() -> str:
    """Invite the person at the client, who is asked before there is a task."""
    answer = current_call.elicit("Whom do you invite?", {"name": str})
    current_call.detach()
    return f"Dear {answer.content['name']}"


@rpc.method("fail")
@mcp_tool(task=True)
def fail() -> str:
    """Fail."""
    raise RpcError("There is no report of this year")


@rpc.method("ask_for_roots")
@mcp_tool(task=True)
def ask_for_roots() -> int:
    """Ask for what these clients cannot answer, which is an error of the protocol."""
    return len(current_call.roots())


def create_app(**config: Any) -> Flask:
    app = Flask(__name__)
    app.config.from_mapping(SECRET_KEY="key", JSONRPC_MCP_SUBSCRIPTIONS=True, JSONRPC_MCP_MAX_TASKS=10_000)
    app.config.from_mapping(config)
    app.config.from_prefixed_env("TASKS_APP")
    if app.config.get("JSONRPC_MCP_TASKS") == "dying":
        app.config["JSONRPC_MCP_TASKS"] = DyingTasks()
    if "CELERY" in app.config:
        add_celery(app)
    app.register_blueprint(rpc)
    return app
