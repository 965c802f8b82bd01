"""Configuration to paste into MCP clients. It has the names of the variables that hold secrets, never a secret."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLAUDE_DESKTOP_FILE = "Add it to claude_desktop_config.json (Settings, Developer, Edit Config)"


@dataclass(frozen=True)
class Server:
    """What a client has to know.

    :param site: The URL of the blueprint, without ``/mcp``.
    :param app: A value for Flask's ``--app``.
    :param is_remote: Whether the site runs elsewhere, so that a client cannot start the app itself.
    :param header_variables: Names of environment variables by the header whose value they hold.
    :param token_variable: The name of the variable that holds a bearer token.
    """

    name: str
    site: str
    app: str
    is_remote: bool = False
    header_variables: Mapping[str, str] = field(default_factory=dict)
    token_variable: str | None = None

    @property
    def url(self) -> str:
        return f"{self.site}/mcp"

    @property
    def variables(self) -> list[str]:
        return [*filter(None, [self.token_variable]), *self.header_variables.values()]

    def headers(self, reference: str) -> dict[str, str]:
        """Return the headers to send; ``reference`` is how a client refers to a variable, such as ``${%s}``."""
        token = {"Authorization": f"Bearer {reference % self.token_variable}"} if self.token_variable else {}
        return {**token, **{name: reference % variable for name, variable in self.header_variables.items()}}


Snippet = tuple[str, list[str]]
"""A text to paste, and notes about it."""


def claude_code(server: Server) -> Snippet:
    config = {"mcpServers": {server.name: _http_entry(server, "${%s}")}}
    place = "Save it as .mcp.json in the folder where you start Claude Code."
    return _json_snippet(config, place, *_set_before(server, "Claude Code"))


def vscode(server: Server) -> Snippet:
    config: dict[str, Any] = {"servers": {server.name: _http_entry(server, "${input:%s}")}}
    if not server.variables:
        return _json_snippet(config, "Save it as .vscode/mcp.json.")
    inputs = [{"type": "promptString", "id": name, "description": name, "password": True} for name in server.variables]
    asks = f"VS Code asks for {' and '.join(server.variables)} once, and stores it securely."
    return _json_snippet({"inputs": inputs, **config}, "Save it as .vscode/mcp.json.", asks)


def inspector(server: Server) -> Snippet:
    command = (
        f"npx @modelcontextprotocol/inspector --cli {shlex.quote(server.url)} --transport http --method tools/list"
    )
    for name, value in server.headers("$%s").items():
        command += f' --header "{name}: {value}"'  # in double quotes, where the shell expands variables
    notes = ["Run it in a shell; without --cli and --method it opens a browser.", *_set_before(server, "it")]
    return command, notes


def claude_desktop(server: Server) -> Snippet:
    """Let Claude Desktop start the app, or the bridge to a remote site.

    :raises ValueError: if the bridge would have to send headers.
    """
    if not server.is_remote:
        return _json_snippet(
            {"mcpServers": {server.name: _command_entry("flask", "--app", server.app, "mcp", "stdio")}},
            f"{CLAUDE_DESKTOP_FILE}; Claude Desktop starts the app itself.",
            'Environment variables of your app go next to "args": "env": {"DATABASE_URL": "..."}',
            "For a site that runs elsewhere, pass its URL: --url https://site.example",
        )
    if server.header_variables:
        raise ValueError("the bridge cannot send --header; use --token-env")
    entry = _command_entry("flask-jsonrpc-mcp", "bridge", server.site)
    notes = [f"{CLAUDE_DESKTOP_FILE}.", "The bridge needs an extra: pip install 'flask-jsonrpc-mcp[bridge]'"]
    if server.token_variable is not None:
        entry["env"] = {"MCP_BRIDGE_TOKEN": f"(the value of {server.token_variable})"}
        notes.append("Enter the token by hand: Claude Desktop does not read the variables of your shell.")
    return _json_snippet({"mcpServers": {server.name: entry}}, *notes)


CLIENTS: dict[str, Callable[[Server], Snippet]] = {
    "claude-code": claude_code,
    "claude-desktop": claude_desktop,
    "inspector": inspector,
    "vscode": vscode,
}


def _http_entry(server: Server, reference: str) -> dict[str, Any]:
    headers = {"headers": server.headers(reference)} if server.variables else {}
    return {"type": "http", "url": server.url, **headers}


def _command_entry(program: str, *args: str) -> dict[str, Any]:
    # The client's PATH may lack this environment, so the path of the program is absolute.
    beside_python = Path(sys.executable).with_name(program)
    command = str(beside_python) if beside_python.exists() else shutil.which(program) or program
    return {"command": command, "args": list(args)}


def _set_before(server: Server, client: str) -> list[str]:
    variables = " and ".join(server.variables)
    return [f"Set {variables} in the environment before you start {client}."] if variables else []


def _json_snippet(config: Any, *notes: str) -> Snippet:
    return json.dumps(config, indent=2, ensure_ascii=False), list(notes)
