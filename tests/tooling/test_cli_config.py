"""``flask mcp config``: what to paste into AI clients, without secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.cli import mcp
from tests.conftest import make_app

CLIENTS = [
    "claude-code",
    "claude-desktop",
    "codex",
    "cursor",
    "gemini-cli",
    "goose",
    "inspector",
    "vscode",
    "windsurf",
]


def run(*arguments: str, app: Flask | None = None, **env: str) -> Result:
    app = app or make_app(McpBlueprint(), JSONRPC_MCP_SERVER_NAME="garden")
    return app.test_cli_runner().invoke(mcp, ["config", *arguments], env=env)


def config(*arguments: str, app: Flask | None = None) -> Any:
    ran = run(*arguments, app=app)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def test_claude_code_reads_variables_of_its_environment() -> None:
    assert config("claude-code", "--token-env", "GARDEN_TOKEN", "--header", "X-Region=REGION") == {
        "mcpServers": {
            "garden": {
                "type": "http",
                "url": "http://127.0.0.1:5000/mcp",
                "headers": {"Authorization": "Bearer ${GARDEN_TOKEN}", "X-Region": "${REGION}"},
            }
        }
    }
    notes = run("claude-code", "--token-env", "GARDEN_TOKEN").stderr
    assert "Set GARDEN_TOKEN in the environment" in notes
    command = "claude mcp add --transport http garden http://127.0.0.1:5000/mcp"
    assert f'Or run: {command} --header "Authorization: Bearer $GARDEN_TOKEN"' in notes


def test_vscode_asks_for_what_is_secret() -> None:
    assert config("vscode", "--url", "https://site.example/", "--token-env", "GARDEN_TOKEN") == {
        "inputs": [{"type": "promptString", "id": "GARDEN_TOKEN", "description": "GARDEN_TOKEN", "password": True}],
        "servers": {
            "garden": {
                "type": "http",
                "url": "https://site.example/mcp",
                "headers": {"Authorization": "Bearer ${input:GARDEN_TOKEN}"},
            }
        },
    }


def test_the_inspector_is_a_command_for_a_shell() -> None:
    assert run("inspector", "--token-env", "GARDEN_TOKEN").stdout == (
        "npx @modelcontextprotocol/inspector --cli http://127.0.0.1:5000/mcp --transport http --method tools/list"
        ' --header "Authorization: Bearer $GARDEN_TOKEN"\n'
    )


def test_claude_desktop_starts_the_app_from_any_folder(tmp_path: Path) -> None:
    """The command of the snippet is run from another folder, with another command at its end."""
    (tmp_path / "shop.py").write_text(
        "from flask import Flask\n"
        "from flask_jsonrpc_mcp import McpBlueprint\n"
        "rpc = McpBlueprint()\n"
        "rpc.add_method('one', lambda: 1)\n"
        "def make():\n"
        "    app = Flask('shop')\n"
        "    app.register_blueprint(rpc)\n"
        "    return app\n"
    )
    command = [sys.executable, "-m", "flask", "--app", "shop.py:make", "mcp", "config", "claude-desktop"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    entry = json.loads(printed.stdout)["mcpServers"]["shop"]
    assert entry["args"][-2:] == ["mcp", "stdio"]
    called = subprocess.run(
        [entry["command"], *entry["args"][:-1], "call", "one"], cwd="/", capture_output=True, text=True
    )
    assert called.stdout == "1\n", called.stderr


@pytest.mark.parametrize("file", ["wsgi.py", "app.py"])
def test_claude_desktop_finds_the_app_that_flask_would(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).touch()
    assert config("claude-desktop")["mcpServers"]["garden"]["args"][:2] == ["--app", str(tmp_path / file)]


def test_claude_desktop_reaches_a_site_elsewhere_by_the_bridge() -> None:
    snippet = config("claude-desktop", "--url", "https://site.example", "--token-env", "GARDEN_TOKEN")
    entry = snippet["mcpServers"]["garden"]
    assert Path(entry.pop("command")).name == "flask-jsonrpc-mcp"
    assert entry == {
        "args": ["bridge", "https://site.example"],
        "env": {"MCP_BRIDGE_TOKEN": "(the value of GARDEN_TOKEN)"},
    }


def test_claude_desktop_sends_headers_by_mcp_remote() -> None:
    """Which takes each in one argument; the rest of it, where a space may be, is in a variable."""
    sent = ["--token-env", "GARDEN_TOKEN", "--header", "X-Region=REGION"]
    snippet = config("claude-desktop", "--url", "https://site.example", *sent)
    assert snippet["mcpServers"]["garden"] == {
        "command": "npx",
        "args": [
            *("mcp-remote", "https://site.example/mcp"),
            *("--header", "Authorization:${GARDEN_TOKEN}", "--header", "X-Region:${REGION}"),
        ],
        "env": {"GARDEN_TOKEN": "Bearer (the value of GARDEN_TOKEN)", "REGION": "(the value of REGION)"},
    }


@pytest.mark.parametrize(
    ("client", "url", "reference"),
    [
        ("cursor", "url", "${env:GARDEN_TOKEN}"),
        ("gemini-cli", "httpUrl", "${GARDEN_TOKEN}"),
        ("windsurf", "serverUrl", "${env:GARDEN_TOKEN}"),
    ],
)
def test_each_client_has_its_own_words(client: str, url: str, reference: str) -> None:
    assert config(client) == {"mcpServers": {"garden": {url: "http://127.0.0.1:5000/mcp"}}}
    assert config(client, "--token-env", "GARDEN_TOKEN")["mcpServers"]["garden"] == {
        url: "http://127.0.0.1:5000/mcp",
        "headers": {"Authorization": f"Bearer {reference}"},
    }


def test_codex_reads_toml_and_variables() -> None:
    sent = ["--token-env", "GARDEN_TOKEN", "--header", "X-Region=REGION"]
    assert run("codex", *sent).stdout == (
        "[mcp_servers.garden]\n"
        'url = "http://127.0.0.1:5000/mcp"\n'
        'bearer_token_env_var = "GARDEN_TOKEN"\n'
        'env_http_headers = { X-Region = "REGION" }\n'
    )
    assert run("codex", "--name", "Elm Street").stdout.startswith('[mcp_servers."Elm Street"]\n')


def test_goose_reads_yaml_and_the_variables_that_it_is_told_of() -> None:
    assert run("goose", "--token-env", "GARDEN_TOKEN").stdout == (
        "extensions:\n"
        "  garden:\n"
        '    name: "garden"\n'
        '    description: ""\n'
        '    type: "streamable_http"\n'
        "    enabled: true\n"
        "    timeout: 300\n"
        '    uri: "http://127.0.0.1:5000/mcp"\n'
        '    headers: {"Authorization": "Bearer ${GARDEN_TOKEN}"}\n'
        '    env_keys: ["GARDEN_TOKEN"]\n'
    )


@pytest.mark.parametrize("url", ["https://site.example", "https://site.example/", "https://site.example/api/mcp"])
def test_a_url_is_completed_to_that_of_the_endpoint(url: str) -> None:
    app = make_app(McpBlueprint(url_prefix="/api"))
    assert config("vscode", "--url", url, app=app)["servers"]["site"]["url"] == "https://site.example/api/mcp"


def test_a_prefix_with_variables_needs_the_whole_url() -> None:
    app = make_app(McpBlueprint(url_prefix="/<tenant>"))
    assert run("vscode", "--url", "https://site.example", app=app).exit_code == 2
    url = "https://site.example/elm/mcp"
    assert config("vscode", "--url", url, app=app)["servers"]["site"]["url"] == url


def test_a_server_can_have_another_name() -> None:
    assert "elm" in config("vscode", "--name", "elm")["servers"]


@pytest.mark.parametrize("client", CLIENTS)
def test_no_secret_is_printed(client: str) -> None:
    ran = run(client, "--token-env", "GARDEN_TOKEN", GARDEN_TOKEN="s3cret")
    assert ran.exit_code == 0
    assert "s3cret" not in ran.output


@pytest.mark.parametrize("options", [["--token-env", "s3cret-token"], ["--header", "X-Api-Key=s3cret-token"]])
def test_a_secret_in_place_of_a_variable_is_refused_and_not_repeated(options: list[str]) -> None:
    ran = run("claude-code", *options)
    assert ran.exit_code == 2
    assert "s3cret" not in ran.output


def test_a_url_that_is_none_is_refused() -> None:
    assert run("vscode", "--url", "site.example").exit_code == 2


def test_a_client_that_nobody_knows_is_refused() -> None:
    ran = run("teletype")
    assert ran.exit_code == 2
    assert "claude-code" in ran.stderr
