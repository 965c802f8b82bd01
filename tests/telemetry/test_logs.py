"""Log records: their fields, so that a formatter for JSON need not parse texts, and where they are seen."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import click
import pytest
from flask import Flask

import flask_jsonrpc_mcp
from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Site, basic, make_auth
from tests.support import faces
from tests.support.servers import FLASK_RUN, serving

APP = """
from flask import Flask
from flask_jsonrpc_mcp import McpBlueprint

rpc = McpBlueprint()
rpc.add_tool(lambda: "pong", "ping")
app = Flask(__name__)
app.register_blueprint(rpc)
"""


def test_the_record_of_a_call_has_its_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(McpBlueprint(auth=make_auth()))
    site.tool(lambda: "pong", name="ping")
    with caplog.at_level(logging.INFO):
        faces.rest("ping", {}).send(site.client, basic("writer"))
    [record] = caplog.records
    facts = {name: record.__dict__[name] for name in ("tool", "face", "caller", "outcome", "id", "ms")}
    assert (facts.pop("ms") >= 0, len(facts.pop("id"))) == (True, 12)
    assert facts == {"tool": "ping", "face": "rest", "caller": "writer", "outcome": "ok"}


def test_every_log_record_of_the_package_has_fields() -> None:
    package = Path(flask_jsonrpc_mcp.__file__).parent
    levels = {"debug", "info", "warning", "error", "exception", "critical"}
    without = []
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            is_logger = ast.unparse(node.func.value).endswith("logger")
            if is_logger and node.func.attr in levels and "extra" not in {word.arg for word in node.keywords}:
                without.append(f"{file.name}:{node.lineno}")
    assert without == []


def test_flask_run_shows_the_line_of_each_call(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with serving(FLASK_RUN, "app:app", tmp_path) as server:
        assert server.invoke("ping", {}).json() == {"result": "pong"}
    assert "call face=rest name='ping'" in server.log.read_text()


@pytest.mark.parametrize(
    ("command", "level", "expected"),
    [
        ("run", "NOTSET", "INFO"),
        ("run", "WARNING", "WARNING"),
        ("run", "DEBUG", "DEBUG"),
        ("routes", "NOTSET", "NOTSET"),
    ],
)
def test_an_app_keeps_the_level_it_has_chosen_and_other_commands_stay_silent(
    command: str, level: str, expected: str
) -> None:
    app = Flask(f"app for {command} {level}")
    app.logger.setLevel(level)
    with click.Context(click.Command(command), info_name=command):
        app.register_blueprint(McpBlueprint())
    assert logging.getLevelName(app.logger.level) == expected
