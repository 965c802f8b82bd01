"""The program ``flask-jsonrpc-mcp``, as a person or an MCP client starts it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flask_jsonrpc_mcp import McpBlueprint, program
from flask_jsonrpc_mcp.bridge.site import Site
from flask_jsonrpc_mcp.version import __version__
from tests.bridge.drupal_site import DrupalSite
from tests.conftest import asking, make_app
from tests.support.servers import ROOT, Place, served_here
from tests.support.stdio_client import modern

MODULE = (sys.executable, "-m", "flask_jsonrpc_mcp")
SCRIPT = (str(Path(sys.executable).parent / "flask-jsonrpc-mcp"),)


def run(*command: str, lines: tuple[Any, ...], env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run the program with these lines as its input, until it ends by itself."""
    sent = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    env = {**os.environ, **env}
    done = subprocess.run(command, input=sent, cwd=ROOT, env=env, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done


def test_standard_output_has_nothing_but_the_protocol(tmp_path: Path) -> None:
    """The site is misbehaving, the input too, and the log is as loud as it can be."""
    with DrupalSite() as site:
        done = run(
            *SCRIPT,
            "bridge",
            site.url,
            "--log-level=debug",
            lines=(
                b"not JSON",
                modern("tools/list", "list"),
                modern("tools/call", "read", name="node.get", arguments={"id": "an-argument"}),
                modern("tools/call", "write", name="node.create", arguments={"title": "an-argument"}),
                modern("tools/call", "crash", name="node.crash"),
                asking("tools/list", id="early"),
                asking("ping", id="ping"),
            ),
            env={"MCP_BRIDGE_TOKEN": "secret-token"},
        )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert {reply.get("id") for reply in replies} == {None, "list", "read", "write", "crash", "early", "ping"}
    log = done.stderr.decode()
    assert f"5 tools of {site.url}" in log
    assert "'node.create' ok" in log
    assert "secret-token" not in log
    assert "an-argument" not in log


@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_the_site_and_all_settings_may_come_from_the_environment(command: tuple[str, ...]) -> None:
    with DrupalSite() as site:
        env = {
            "MCP_BRIDGE_URL": site.url,
            "MCP_BRIDGE_METHOD": "post",
            "MCP_BRIDGE_ENDPOINT": "/mcp/tools/{name}",
            "MCP_BRIDGE_USER": "jane",
            "MCP_BRIDGE_PASSWORD": "secret",
            "MCP_BRIDGE_TIMEOUT": "10",
            "MCP_BRIDGE_LIFETIME": "10",
            "MCP_BRIDGE_SCOPES": "a b",
            "MCP_BRIDGE_LOG_LEVEL": "error",
        }
        call = modern("tools/call", name="node.get", arguments={"id": "7"})
        done = run(*command, "bridge", lines=(call,), env=env)
        [seen] = site.calls
    assert json.loads(done.stdout)["result"]["isError"] is False
    assert (seen.verb, seen.path, seen.headers["Authorization"][:6]) == ("POST", "/mcp/tools/node.get", "Basic ")
    assert done.stderr == b""


@pytest.mark.parametrize("site_is_slow", [False, True])
def test_a_signal_ends_it_cleanly_and_without_waiting_for_the_site(site_is_slow: bool) -> None:
    asked, ended = threading.Event(), threading.Event()

    def listing() -> None:
        asked.set()
        if site_is_slow:
            ended.wait(300)

    with DrupalSite() as site:
        site.listing = listing
        command = [*MODULE, "bridge", site.url, "--log-level=error"]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(json.dumps(asking("ping")).encode() + b"\n")
            running.stdin.flush()
            running.stdout.readline()
            assert asked.wait(60)
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 0
            ended.set()
            assert running.stderr is not None
            assert running.stderr.read() == b""


class TestRemoteTools:
    """The commands that list and call the tools of a site, at a terminal or in a script."""

    def run(self, *arguments: str, **env: str) -> Result:
        return CliRunner(env={"COLUMNS": "80", **env}).invoke(program.main, arguments)

    def url(self, place: Place) -> str:
        return f"http://127.0.0.1:{place.port}"

    def test_a_site_cannot_control_the_terminal(self) -> None:
        with DrupalSite() as site:
            site.listed = {"tools": [{"name": "look", "description": "Look \x1b[31mhere \u202eback."}]}
            shown = self.run("list", site.url, "--no-json-output").stdout
        assert shown == "Tools:\n  look  Look \\u001b[31mhere \\u202eback.\n"

    def test_the_tools_of_a_site_are_listed_as_those_of_an_app(self) -> None:
        rpc = McpBlueprint()
        rpc.add_tool(lambda: 1, name="stays.find", description="Find stays.", read_only=True)
        with served_here(make_app(rpc)) as place:
            shown = self.run("list", self.url(place), "--no-json-output")
            listed = json.loads(self.run("list", f"{self.url(place)}/mcp").stdout)
        assert (shown.exit_code, shown.stdout) == (0, "Tools:\n  stays.find  Find stays.  [read-only]\n")
        assert [(tool["name"], tool["kind"], tool["access"]) for tool in listed] == [("stays.find", "tool", [])]

    def test_a_tool_of_a_site_is_called_with_arguments_of_its_schema(self) -> None:
        rpc = McpBlueprint()

        @rpc.tool("echo")
        def echo(text: str, number: int = 1) -> dict[str, Any]:
            return {"text": text, "number": number}

        with served_here(make_app(rpc)) as place:
            called = self.run("call", self.url(place), "echo", "text=7", "number=7")
            wrong = self.run("call", self.url(place), "echo", "tekst=7", "number=x")
            unknown = self.run("call", self.url(place), "ecko")
        assert json.loads(called.stdout) == {"text": "7", "number": 7}
        assert (wrong.exit_code, wrong.stderr.splitlines()) == (
            2,
            [
                "The arguments of echo are not valid:",
                "  /number  must be of type integer, not string",
                "  /text  is required",
                "  /tekst  is not expected here; did you mean text?",
            ],
        )
        assert unknown.exit_code == 2
        assert "There is no tool 'ecko'; did you mean echo?" in unknown.stderr

    def test_a_person_needs_no_confirmation_where_the_bridge_does(self) -> None:
        rpc = McpBlueprint()
        rpc.add_tool(lambda: "deleted", name="delete", confirm="Delete all?")
        with served_here(make_app(rpc)) as place:
            assert self.run("call", self.url(place), "delete", "--no-json-output").stdout == "deleted\n"

    def test_credentials_come_from_the_environment_and_failures_are_exit_code_1(self) -> None:
        with DrupalSite() as site:
            failed = self.run("call", site.url, "node.crash", MCP_BRIDGE_TOKEN="s3cret")
            seen = site.calls[-1]
        assert seen.headers["Authorization"] == "Bearer s3cret"
        assert (failed.exit_code, failed.stdout) == (1, "")
        assert failed.stderr.startswith("node.crash failed: ")
        gone = self.run("list", site.url)
        assert gone.exit_code == 1
        assert "cannot be reached" in gone.stderr


def test_help_tells_every_setting_and_its_variable() -> None:
    shown = CliRunner().invoke(program.main, ["bridge", "--help"]).output
    settings = {field.name for field in dataclasses.fields(Site)} - {"for_person"} | {"log_level"}
    for name in settings:
        assert f"MCP_BRIDGE_{name.upper()}" in "".join(shown.split())
    assert "bridge" in CliRunner().invoke(program.main, ["--help"]).output
    assert __version__ in CliRunner().invoke(program.main, ["--version"]).output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["bridge"], "Missing argument 'URL'"),
        (["bridge", "site.example"], "must begin with https://"),
        (["bridge", "http://site.example"], "--allow-http"),
        (["bridge", "https://site.example", "--user", "jane"], "together"),
        (["bridge", "https://site.example", "--method", "PUT"], "'PUT' is not one of"),
        (["bridge", "https://site.example", "--tool-name-style", "loud"], "'loud' is not one of"),
    ],
)
def test_a_mistake_is_explained(arguments: list[str], problem: str) -> None:
    result = CliRunner(env={"MCP_BRIDGE_URL": None}).invoke(program.main, arguments)
    assert result.exit_code == 2
    assert problem in result.output


def test_a_bridge_without_its_extra_says_what_to_install() -> None:
    script = "import sys; sys.modules['httpx'] = None; from flask_jsonrpc_mcp.program import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", script, "bridge", "https://site.example"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 1
    assert "pip install 'flask-jsonrpc-mcp[bridge]'" in ran.stderr
