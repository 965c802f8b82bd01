"""``flask mcp doctor``: what it says, and when it ends a build. What it finds is in test_doctor."""

from __future__ import annotations

import json

from click.testing import Result
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.cli import mcp
from tests.conftest import make_app


def site(*names: str, **config: object) -> Flask:
    rpc = McpBlueprint()
    for name in names:
        rpc.add_method(name, mcp_tool(lambda: 1), description="Do something.")
    return make_app(rpc, **{"SECRET_KEY": "key", **config})


def run(app: Flask, *options: str) -> Result:
    return app.test_cli_runner().invoke(mcp, ["doctor", *options], env={"COLUMNS": "100"})


def test_a_healthy_app_is_exit_code_0() -> None:
    ran = run(site("look"), "--no-json-output")
    assert (ran.exit_code, ran.stdout) == (0, "1 tool checked: no problems found.\n")
    assert json.loads(run(site("look")).stdout) == []


def test_findings_are_exit_code_1_each_kind_once_and_errors_first() -> None:
    app = site("a.look", "b.look", "n" * 65, SECRET_KEY=None)
    ran = run(app, "--no-json-output")
    assert ran.exit_code == 1
    assert ran.stdout == FOUND


FOUND = f"""\
error  name-long
  {"n" * 65}
  The name has 65 characters, and model APIs accept at most 64.
  Fix: give the method a shorter name.

warning  name-dots
  a.look, b.look
  Some clients and model APIs accept only letters, digits, '_' and '-' in the name of a tool.
  Fix: set JSONRPC_MCP_TOOL_NAME_STYLE = 'no-dots', or choose a name without dots.

warning  no-secret-key
  Nothing can be signed: clients from before 2026-07-28 get no session, and tools cannot ask the
  user anything.
  Fix: set SECRET_KEY, the same in every process.

3 tools checked: 1 error, 3 warnings.
To ignore what is intended, use --ignore SLUG or JSONRPC_MCP_DOCTOR_IGNORE.
"""


def test_programs_get_every_finding_by_itself() -> None:
    ran = run(site("a.look", "b.look"))
    assert ran.exit_code == 1
    assert [(found["slug"], found["tool"]) for found in json.loads(ran.stdout)] == [
        ("name-dots", "a.look"),
        ("name-dots", "b.look"),
    ]


def test_what_is_ignored_is_named() -> None:
    app = site("a.look", "b.look", JSONRPC_MCP_DOCTOR_IGNORE=["name-dots:a.look"])
    assert [found["tool"] for found in json.loads(run(app).stdout)] == ["b.look"]
    ran = run(app, "--ignore", "name-dots:b.look", "--no-json-output")
    assert (ran.exit_code, ran.stdout.splitlines()) == (
        0,
        ["2 tools checked: no problems found.", "Ignored: name-dots:a.look, name-dots:b.look"],
    )
    assert len(json.loads(run(app, "--all").stdout)) == 2


def test_a_misspelled_slug_is_refused() -> None:
    ran = run(site("look"), "--ignore", "dots")
    assert ran.exit_code == 2
    assert "there is no check 'dots' to ignore; the checks are name-dots," in ran.stderr


def test_of_several_blueprints_it_says_which() -> None:
    rpc = McpBlueprint("second", url_prefix="/second")
    rpc.add_method("c.look", mcp_tool(lambda: 1), description="Do something.")
    app = site("a.look")
    app.register_blueprint(rpc)
    assert "  mcp: a.look, second: c.look\n" in run(app, "--no-json-output").stdout


def test_what_is_only_good_to_know_does_not_end_a_build() -> None:
    """granian is installed wherever these tests run."""
    rpc = McpBlueprint()
    rpc.add_method("look", mcp_tool(lambda: 1), description="Do something.", streams=True)
    ran = run(make_app(rpc, SECRET_KEY="key"), "--no-json-output")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("info  granian-streams\n")
    assert "1 tool checked: 1 info.\n" in ran.stdout
