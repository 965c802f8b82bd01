"""A quick start: what a plain app does not need is not imported before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.servers import ROOT

APP = """
import sys
sys.modules.update(dict.fromkeys(%(hidden)r))

from typing import Annotated
from flask import Flask
from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

rpc = McpBlueprint()

@rpc.method("add")
@mcp_tool
def add(a: Annotated[int, "The first"], b: int = 2, note: str | None = None) -> dict[str, int]:
    return {"sum": a + b}

app = Flask("site")
app.register_blueprint(rpc)

def invoke(arguments):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": arguments}
    return app.test_client().post("/jsonrpc", json=asked).json

def imported(*names):
    return [name for name in names if sys.modules.get(name) is not None]
"""
EXTRA = ("jsonschema_rs", "orjson")


def run(script: str, hidden: tuple[str, ...]) -> object:
    """Run a script after the app above, without some libraries, and read what it printed."""
    command = [sys.executable, "-c", APP % {"hidden": hidden} + "import json\n" + script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_commands_and_tools_for_developers_are_not_imported_by_a_server() -> None:
    names = [f"flask_jsonrpc_mcp.{name}" for name in ("cli", "doctor", "testing", "bridge", "stdio", "program")]
    assert run(f"print(json.dumps(imported(*{names!r})))", ()) == []


def test_libraries_for_other_hints_are_not_imported_for_plain_ones() -> None:
    calls = "invoke({'a': 1}), invoke({'a': 'one'})\n"
    assert run(calls + "print(json.dumps(imported('pydantic', 'annotated_types')))", ()) == []


@pytest.mark.parametrize("hidden", [(), EXTRA], ids=["with the extra", "without"])
def test_the_first_call_is_told_what_is_wrong_with_its_arguments(hidden: tuple[str, ...]) -> None:
    answer = run("print(json.dumps(invoke({'a': 'one', 'c': 3})['error']))", hidden)
    errors = [
        {"path": "/a", "message": "must be of type integer, not string"},
        {"path": "/c", "message": "is not expected here"},
    ]
    assert answer == {"code": -32602, "message": "Invalid params", "data": {"errors": errors}}
