"""``flask mcp config``: what to paste into an AI client. Secrets stay in the environment."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from flask import Flask, current_app
from flask.cli import ScriptInfo, with_appcontext

from ..settings import server_name
from .callers import blueprint_option, find_blueprint, mcp_path

DEVELOPMENT_SERVER = "http://127.0.0.1:5000"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Server:
    """What a client has to know.

    :param token_variable: The environment variable that holds a bearer token, where the server wants one.
    """

    name: str
    url: str
    app: str
    token_variable: str | None

    def headers(self, spell_variable: str) -> dict[str, str]:
        """The headers that sign in, with the variable as a client spells it, such as ``${NAME}``."""
        if self.token_variable is None:
            return {}
        return {"Authorization": f"Bearer {spell_variable.replace('NAME', self.token_variable)}"}


@dataclass(frozen=True)
class Snippet:
    """A text to paste, and what to know about it."""

    text: str
    notes: list[str]


def claude_code(server: Server) -> Snippet:
    entry: dict[str, Any] = {"type": "http", "url": server.url}
    if server.token_variable:
        entry["headers"] = server.headers("${NAME}")
    return Snippet(
        _json({"mcpServers": {server.name: entry}}),
        ["Save it as .mcp.json in the folder where you start Claude Code.", *_set_variable(server, "Claude Code")],
    )


def vscode(server: Server) -> Snippet:
    entry: dict[str, Any] = {"type": "http", "url": server.url}
    config: dict[str, Any] = {"servers": {server.name: entry}}
    notes = ["Save it as .vscode/mcp.json."]
    if server.token_variable:
        entry["headers"] = server.headers("${input:NAME}")
        asked = {"type": "promptString", "id": server.token_variable, "description": "Bearer token", "password": True}
        config = {"inputs": [asked], **config}
        notes.append("VS Code asks for the token when it starts the server, and keeps it in its own safe place.")
    return Snippet(_json(config), notes)


def inspector(server: Server) -> Snippet:
    command = (
        f"npx @modelcontextprotocol/inspector --cli {shlex.quote(server.url)} --transport http --method tools/list"
    )
    for name, value in server.headers("$NAME").items():
        # In double quotes, so that the shell puts the token in.
        command += f' --header "{name}: {value}"'
    return Snippet(
        command, ["Run it in a shell; without --cli and --method it opens a browser.", *_set_variable(server)]
    )


def claude_desktop(server: Server) -> Snippet:
    """The app itself on stdio."""
    entry = {"command": _program("flask"), "args": ["--app", server.app, "mcp", "stdio"]}
    return Snippet(
        _json({"mcpServers": {server.name: entry}}),
        [
            "Add it to claude_desktop_config.json (Settings, Developer, Edit Config); the app runs inside of it.",
            'What your app reads from the environment goes beside "args": "env": {"DATABASE_URL": "..."}',
            "For a site that runs elsewhere, say where: --url https://site.example",
        ],
    )


def claude_desktop_bridge(server: Server) -> Snippet:
    """A site that runs elsewhere."""
    entry: dict[str, Any] = {
        "command": _program("flask-jsonrpc-mcp"),
        "args": ["bridge", server.url.removesuffix("/mcp")],
    }
    notes = ["Add it to claude_desktop_config.json (Settings, Developer, Edit Config)."]
    if server.token_variable:
        entry["env"] = {"MCP_BRIDGE_TOKEN": f"(the value of {server.token_variable})"}
        notes.append("Put the token in by hand: Claude Desktop reads no variables of your shell.")
    return Snippet(_json({"mcpServers": {server.name: entry}}), notes)


CLIENTS: dict[str, Callable[[Server], Snippet]] = {
    "claude-code": claude_code,
    "claude-desktop": claude_desktop,
    "inspector": inspector,
    "vscode": vscode,
}


@click.command("config")
@click.argument("client", type=click.Choice(sorted(CLIENTS)))
@click.option("--url", metavar="URL", help=f"Where the app is served; {DEVELOPMENT_SERVER} if not given.")
@click.option("--token-env", metavar="NAME", help="Sign in with the bearer token in this environment variable.")
@click.option("--name", metavar="NAME", help="What the client calls the server; by default the app's name.")
@blueprint_option
@with_appcontext
def print_config(client: str, url: str | None, token_env: str | None, name: str | None, blueprint: str | None) -> None:
    """Print what to paste into an AI client. The snippet goes to stdout, where to paste it to stderr."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    if token_env is not None and not _VARIABLE.fullmatch(token_env):
        # It may be the token itself, which must not be repeated.
        raise click.UsageError("--token-env takes the name of an environment variable, not the token itself")
    server = Server(
        name or server_name(),
        _endpoint(url or DEVELOPMENT_SERVER, _path(app, blueprint)),
        _importable(click.get_current_context().ensure_object(ScriptInfo), app),
        token_env,
    )
    snippet = claude_desktop_bridge(server) if client == "claude-desktop" and url else CLIENTS[client](server)
    for note in snippet.notes:
        click.secho(note, dim=True, err=True)
    click.echo(snippet.text)


def _path(app: Flask, blueprint: str | None) -> str:
    name, _ = find_blueprint(app, blueprint)
    path = mcp_path(app, name)
    if path is None:
        raise click.UsageError("The prefix of this blueprint has variables; give the whole URL of its /mcp as --url")
    return path


def _endpoint(url: str, path: str) -> str:
    """Complete the URL of a site to that of its MCP endpoint."""
    if not re.match(r"https?://[^/]", url):
        raise click.UsageError(f"--url must be such as https://site.example, not {url!r}")
    bare = url.rstrip("/")
    return bare if bare.endswith(path) else bare + path


def _importable(info: ScriptInfo, app: Flask) -> str:
    """Spell ``--app`` so that it works from every folder."""
    given = info.app_import_path
    if given is None:
        found = [file for file in ("wsgi.py", "app.py") if Path(file).is_file()]
        return str(Path(found[0]).resolve()) if found else app.import_name
    # As Flask splits it: the colon of C:\ stays.
    path, *attribute = re.split(r":(?![\\/])", given, maxsplit=1)
    return ":".join([str(Path(path).absolute()), *attribute])


def _program(name: str) -> str:
    """Find a program of this environment, which may not be on the client's path."""
    beside_python = Path(sys.executable).with_name(name)
    return str(beside_python) if beside_python.exists() else shutil.which(name) or name


def _set_variable(server: Server, client: str = "it") -> list[str]:
    variable = server.token_variable
    return [f"Set {variable} in the environment before you start {client}."] if variable else []


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
