"""``flask mcp config``: configuration to paste into MCP clients.

It has the names of the environment variables that hold secrets, never a secret.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from flask import current_app
from flask.cli import ScriptInfo, with_appcontext

from ..config import server_info
from .callers import blueprint_option, find_blueprint, mcp_path
from .output import echo_json

DEVELOPMENT_SERVER = "http://127.0.0.1:5000"
CLAUDE_DESKTOP_FILE = "Add it to claude_desktop_config.json (Settings, Developer, Edit Config)."

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Server:
    """What a client has to know.

    :param site: The URL of the blueprint, without ``/mcp``.
    :param app: A value for Flask's ``--app``; ``None`` if the site runs elsewhere.
    :param headers: By name, the beginning of each header and the variable that has the rest.
    """

    name: str
    site: str
    app: str | None
    headers: dict[str, tuple[str, str]]

    @property
    def variables(self) -> list[str]:
        return [variable for _, variable in self.headers.values()]

    @property
    def set_first(self) -> list[str]:
        return [f"Set {' and '.join(self.variables)} in the environment first."] if self.headers else []

    def http(self, reference: str) -> dict[str, Any]:
        """Return the entry of an HTTP server; ``reference`` is how the client refers to a variable."""
        headers = {name: start + reference % variable for name, (start, variable) in self.headers.items()}
        return {"type": "http", "url": f"{self.site}/mcp", **({"headers": headers} if headers else {})}


Snippet = tuple[Any, list[str]]
"""A command, or JSON for a file, and notes about it."""


def claude_code(server: Server) -> Snippet:
    place = "Save it as .mcp.json in the folder where you start Claude Code."
    return {"mcpServers": {server.name: server.http("${%s}")}}, [place, *server.set_first]


def vscode(server: Server) -> Snippet:
    config: dict[str, Any] = {"servers": {server.name: server.http("${input:%s}")}}
    notes = ["Save it as .vscode/mcp.json."]
    if server.headers:
        asked = {"type": "promptString", "password": True}
        config = {"inputs": [{**asked, "id": name, "description": name} for name in server.variables], **config}
        notes.append(f"VS Code asks once for {' and '.join(server.variables)}, and stores what you enter securely.")
    return config, notes


def inspector(server: Server) -> Snippet:
    entry = server.http("$%s")
    url = shlex.quote(entry["url"])
    command = f"npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list"
    for name, value in entry.get("headers", {}).items():
        command += f' --header "{name}: {value}"'  # in double quotes, where the shell expands variables
    return command, ["Run it in a shell; without --cli and --method it opens a browser.", *server.set_first]


def claude_desktop(server: Server) -> Snippet:
    """Let Claude Desktop start the app, or the bridge to a remote site."""
    notes = [CLAUDE_DESKTOP_FILE]
    if server.app is not None:
        entry = _command("flask", "--app", server.app, "mcp", "stdio")
        notes += [
            'It starts the app. If the app needs variables, add "env": {"DATABASE_URL": "..."} next to "args".',
            "For a site that runs elsewhere, pass its URL: --url https://site.example",
        ]
        return {"mcpServers": {server.name: entry}}, notes
    entry = _command("flask-jsonrpc-mcp", "bridge", server.site)
    notes.append("The bridge needs an extra: pip install 'flask-jsonrpc-mcp[bridge]'")
    for start, variable in server.headers.values():
        if not start:
            raise click.UsageError("The bridge cannot send --header; use --token-env")
        entry["env"] = {"MCP_BRIDGE_TOKEN": f"(the value of {variable})"}
        notes.append("Enter the token by hand: Claude Desktop does not read the variables of your shell.")
    return {"mcpServers": {server.name: entry}}, notes


def _command(program: str, *args: str) -> dict[str, Any]:
    # The client's PATH may lack this environment, so the path of the program is absolute.
    beside_python = Path(sys.executable).with_name(program)
    command = str(beside_python) if beside_python.exists() else shutil.which(program) or program
    return {"command": command, "args": list(args)}


CLIENTS: dict[str, Callable[[Server], Snippet]] = {
    "claude-code": claude_code,
    "claude-desktop": claude_desktop,
    "inspector": inspector,
    "vscode": vscode,
}


@click.command("config")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option("--url", metavar="URL", help=f"The URL of the app; by default {DEVELOPMENT_SERVER}.")
@click.option("--token-env", metavar="VARIABLE", help="Sign in with the bearer token in this environment variable.")
@click.option("--header", "pairs", multiple=True, metavar="NAME=VARIABLE", help="Send a header with this variable.")
@click.option("--name", metavar="NAME", help="The client's name for the server; by default the app's name.")
@blueprint_option
@with_appcontext
def print_config(client: str, url: str | None, token_env: str | None, pairs: tuple[str, ...], **options: Any) -> None:
    """Print configuration to paste into an MCP client.

    CLIENT is claude-code, claude-desktop, inspector or vscode. The configuration goes to stdout, and what to do with it
    to stderr. It contains no secrets, only the names of the environment variables that hold them.
    """
    token = {} if token_env is None else {"Authorization": ("Bearer ", token_env)}
    others = {header: ("", variable) for header, _, variable in (pair.partition("=") for pair in pairs)}
    site, app = _site_url(options["blueprint"], url), _app_option() if url is None else None
    server = Server(options["name"] or server_info(current_app)["name"], site, app, {**token, **others})
    if not all(map(_VARIABLE.fullmatch, server.variables)):
        # Without the value, which may be the secret itself.
        raise click.UsageError("--token-env and --header take the name of an environment variable, not its value")
    config, notes = CLIENTS[client](server)
    for note in notes:
        click.secho(note, dim=True, err=True)
    if isinstance(config, str):
        click.echo(config)
    else:
        echo_json(config)


def _site_url(blueprint: str | None, url: str | None) -> str:
    """Return the URL of the blueprint, given the URL of the app or of the MCP endpoint."""
    path = mcp_path(current_app, find_blueprint(blueprint)[0])
    if url is not None and not re.match(r"https?://[^/]", url):
        raise click.UsageError(f"--url must be a URL such as https://site.example, not {url!r}")
    base = (url or DEVELOPMENT_SERVER).rstrip("/")
    if url is not None and base.endswith(path or "/mcp"):
        return base.removesuffix("/mcp")
    if path is None:
        raise click.UsageError("The URL prefix of this blueprint has variables; pass the URL of its /mcp as --url")
    return base + path.removesuffix("/mcp")


def _app_option() -> str:
    """Return a value for ``--app`` that works from every folder."""
    given = click.get_current_context().ensure_object(ScriptInfo).app_import_path
    if given is None:
        found = [file for file in ("wsgi.py", "app.py") if Path(file).is_file()]
        return str(Path(found[0]).absolute()) if found else current_app.import_name
    # Split as Flask does: not at the colon of C:\.
    path, *attribute = re.split(r":(?![\\/])", given, maxsplit=1)
    return ":".join([str(Path(path).absolute()), *attribute])
