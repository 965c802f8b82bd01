"""What to paste into each AI client. Secrets are never in it: only the names of the variables that hold them."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIG_FILE = "Add it to claude_desktop_config.json (Settings, Developer, Edit Config)"


@dataclass(frozen=True)
class Server:
    """What a client has to know.

    :param site: Where the blueprint is.
    :param app: What Flask's ``--app`` takes.
    :param token_variable: The environment variable that holds a bearer token, where the server wants one.
    :param header_variables: Those that hold other headers, by the name of the header.
    """

    name: str
    site: str
    app: str
    token_variable: str | None = None
    header_variables: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.site}/mcp"

    @property
    def variables(self) -> list[str]:
        return [*filter(None, [self.token_variable]), *self.header_variables.values()]

    def headers(self, spell: Callable[[str], str]) -> dict[str, str]:
        """The headers to send, with each variable as a client spells it, such as ``${NAME}``."""
        token = {} if self.token_variable is None else {"Authorization": f"Bearer {spell(self.token_variable)}"}
        return {**token, **{name: spell(variable) for name, variable in self.header_variables.items()}}


@dataclass(frozen=True)
class Snippet:
    """A text to paste, and what to know about it."""

    text: str
    notes: list[str]


def claude_code(server: Server) -> Snippet:
    entry = _http_entry(server, lambda variable: f"${{{variable}}}")
    notes = ["Save it as .mcp.json in the folder where you start Claude Code.", *_to_be_set(server, "Claude Code")]
    return Snippet(_json({"mcpServers": {server.name: entry}}), notes)


def vscode(server: Server) -> Snippet:
    config: dict[str, Any] = {
        "servers": {server.name: _http_entry(server, lambda variable: f"${{input:{variable}}}")},
    }
    notes = ["Save it as .vscode/mcp.json."]
    if server.variables:
        asked = [
            {"type": "promptString", "id": variable, "description": variable, "password": True}
            for variable in server.variables
        ]
        config = {"inputs": asked, **config}
        notes.append(
            f"VS Code asks for {' and '.join(server.variables)} once, and keeps what you enter in a safe place."
        )
    return Snippet(_json(config), notes)


def inspector(server: Server) -> Snippet:
    command = (
        f"npx @modelcontextprotocol/inspector --cli {shlex.quote(server.url)} --transport http --method tools/list"
    )
    for name, value in server.headers(lambda variable: f"${variable}").items():
        # In double quotes, so that the shell puts the secret in.
        command += f' --header "{name}: {value}"'
    notes = ["Run it in a shell; without --cli and --method it opens a browser.", *_to_be_set(server, "it")]
    return Snippet(command, notes)


def claude_desktop_stdio(server: Server) -> Snippet:
    """The app itself, started by the client."""
    entry = {"command": _program("flask"), "args": ["--app", server.app, "mcp", "stdio"]}
    notes = [
        f"{CONFIG_FILE}; Claude Desktop starts the app itself.",
        'What your app reads from the environment goes beside "args": "env": {"DATABASE_URL": "..."}',
        "For a site that runs elsewhere, say where: --url https://site.example",
    ]
    return Snippet(_json({"mcpServers": {server.name: entry}}), notes)


def claude_desktop_bridge(server: Server) -> Snippet:
    """A site that runs elsewhere.

    :raises ValueError: when it wants headers, which the bridge does not send.
    """
    if server.header_variables:
        raise ValueError("the bridge sends no headers of your own; use --token-env")
    entry: dict[str, Any] = {"command": _program("flask-jsonrpc-mcp"), "args": ["bridge", server.site]}
    notes = [f"{CONFIG_FILE}.", "The bridge needs the extra: pip install 'flask-jsonrpc-mcp[bridge]'"]
    if server.token_variable is not None:
        entry["env"] = {"MCP_BRIDGE_TOKEN": f"(the value of {server.token_variable})"}
        notes.append("Put the token in by hand: Claude Desktop does not read the variables of your shell.")
    return Snippet(_json({"mcpServers": {server.name: entry}}), notes)


def _http_entry(server: Server, spell: Callable[[str], str]) -> dict[str, Any]:
    headers = {"headers": server.headers(spell)} if server.variables else {}
    return {"type": "http", "url": server.url, **headers}


def _program(name: str) -> str:
    """Find a program of this environment, which may not be on the client's path."""
    beside_python = Path(sys.executable).with_name(name)
    return str(beside_python) if beside_python.exists() else shutil.which(name) or name


def _to_be_set(server: Server, client: str) -> list[str]:
    variables = " and ".join(server.variables)
    return [f"Set {variables} in the environment before you start {client}."] if variables else []


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
