"""An app whose tools run as tasks, for tests that watch them from outside: by files in ``TASKS_FOLDER``."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask, current_app
from flask_httpauth import HTTPBasicAuth

from flask_jsonrpc_mcp import Elicit, McpBlueprint, RpcError, TaskOptions, current_call
from flask_jsonrpc_mcp.telemetry.audit import Audit
from tests.support.celery_apps import add_celery

USERS = "users.json"
AUDIT = "audit.jsonl"
WAIT = 60
"""For how many seconds a tool waits for a file at most."""


def folder() -> Path:
    return Path(current_app.config["TASKS_FOLDER"])


def note(name: str) -> None:
    """Leave a line for each run of a tool."""
    with (folder() / f"{name}.runs").open("a") as runs:
        runs.write(f"{os.getpid()}\n")


def wait_for(name: str) -> None:
    deadline = time.monotonic() + WAIT
    while not (folder() / f"{name}.go").exists():
        if time.monotonic() > deadline:
            raise RpcError(f"{name} was not let go")
        time.sleep(0.02)


class FolderAudit(Audit):
    """An audit trail of all processes, in one file."""

    def write(self, record: Mapping[str, Any]) -> None:
        with (folder() / AUDIT).open("a") as trail:
            trail.write(json.dumps(record) + "\n")


def find_user(username: str) -> dict[str, Any] | None:
    users = json.loads((folder() / USERS).read_text())
    return {"username": username, **users[username]} if username in users else None


def make_auth() -> HTTPBasicAuth:
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> dict[str, Any] | None:
        return find_user(username) if password == username else None

    @auth.get_user_roles
    def permissions(user: dict[str, Any]) -> list[str]:
        return list(user["permissions"])

    return auth


def make_blueprint() -> McpBlueprint:
    auth = make_auth()
    rpc = McpBlueprint(auth=auth, audit=FolderAudit(arguments=True))
    rpc.user_loader(find_user)

    @rpc.tool(task=True)
    def work(name: str) -> dict[str, Any]:
        """Note the run, and go on when the test says so."""
        note(name)
        wait_for(name)
        return {"name": name}

    @rpc.tool(task=True, idempotent=True)
    def steady(name: str) -> dict[str, Any]:
        """Do the same, and be harmless to run again."""
        return work(name)

    @rpc.tool(task=True)
    def quick(name: str) -> str:
        note(name)
        return name

    @rpc.tool(task=True, idempotent=True)
    def poison(name: str) -> None:
        """End the process that runs this."""
        note(name)
        os.kill(os.getpid(), signal.SIGKILL)

    @rpc.tool(task=True)
    def patient(name: str) -> str:
        """Run until it is cancelled."""
        note(name)
        deadline = time.monotonic() + WAIT
        while not current_call.cancelled and time.monotonic() < deadline:
            time.sleep(0.02)
        note(f"{name}-cancelled")
        raise RpcError("Given up")

    @rpc.tool(task=True)
    def holder(name: str, seconds: float) -> str:
        """Hold the lock of the interpreter, so that no other thread of the process runs."""
        note(name)
        ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
        return name

    @rpc.tool(task=True)
    def ask(name: str) -> str:
        note(name)
        answer = current_call.elicit("Which colour?", {"colour": str}, key="colour")
        return str(answer.content["colour"]) if answer.accepted else answer.action

    @rpc.tool(task=True)
    def ask_two(name: str) -> str:
        note(name)
        answers = current_call.ask(first=Elicit("First?", {"n": int}), second=Elicit("Second?", {"n": int}))
        return f"{answers['first'].content['n']} {answers['second'].content['n']}"

    @rpc.tool(task=True)
    def size(characters: int) -> str:
        return "x" * characters

    @rpc.tool(task=True)
    def broken(kind: str) -> Any:
        return {"nan": float("nan"), "object": object()}[kind]

    @rpc.tool(task=True, access=["write"])
    def write(name: str) -> str:
        note(name)
        return str(auth.current_user()["username"])

    @rpc.tool(task=TaskOptions(queue="imports", ttl=60))
    def load(name: str) -> str:
        return quick(name)

    @rpc.tool
    def plain(name: str) -> str:
        return name

    return rpc


def create_app(settings: Mapping[str, Any] | None = None) -> Flask:
    app = Flask(__name__)
    app.config.from_prefixed_env()
    app.config.from_mapping(settings or {})
    shift = float(app.config.get("TASKS_CLOCK_SHIFT", 0))
    if shift:  # in a process of its own
        real = time.time
        time.time = lambda: real() + shift
    if "CELERY" in app.config:
        add_celery(app)
    app.register_blueprint(make_blueprint())
    other = McpBlueprint("other", url_prefix="/other", auth=make_auth())
    other.user_loader(find_user)
    other.add_tool(lambda: "other", "other", task=True)
    app.register_blueprint(other)
    return app
