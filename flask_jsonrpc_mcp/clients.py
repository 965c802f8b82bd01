"""The AI clients that we know, and the configuration to paste into each: for ``flask mcp config`` and the explorer.

It has the names of the environment variables that hold secrets, never a secret.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BEARER = "Bearer "
SIGNS_IN = "The client opens a browser to sign in."
CLAUDE_DESKTOP_FILE = "Add it to `claude_desktop_config.json` (Settings, Developer, Edit Config)."


@dataclass(frozen=True)
class Server:
    """The server to configure in a client.

    :param site: The URL of the blueprint, without ``/mcp``.
    :param headers: For each header its prefix, ``BEARER`` or empty, and the variable with the rest of its value.
    :param oauth: The client signs in by itself, in a browser.
    :param app: The command that serves the app on stdio; ``None`` if the client cannot start the app.
    :param bridge: The program of the bridge.
    """

    name: str
    site: str
    headers: dict[str, tuple[str, str]] = field(default_factory=dict)
    oauth: bool = False
    app: tuple[str, ...] | None = None
    bridge: str = "flask-jsonrpc-mcp"

    @property
    def url(self) -> str:
        return f"{self.site}/mcp"

    @property
    def variables(self) -> list[str]:
        return [variable for _, variable in self.headers.values()]

    @property
    def set_first(self) -> list[str]:
        return [f"Set {_code(self.variables)} in the environment first."] if self.headers else []

    def entry(self, reference: str, url: str = "url") -> dict[str, Any]:
        """Return the entry of an HTTP server.

        :param reference: How the client refers to a variable, such as ``${%s}``.
        :param url: The client's name for the URL.
        """
        headers = {name: start + reference % variable for name, (start, variable) in self.headers.items()}
        return {url: self.url, **({"headers": headers} if headers else {})}


Snippet = tuple[str, list[str]]
"""A command, or the contents of a file, and notes about it, with code in backticks."""


def claude_code(server: Server) -> Snippet:
    config = {"mcpServers": {server.name: {"type": "http", **server.entry("${%s}")}}}
    command = f"claude mcp add --transport http {shlex.quote(server.name)} {shlex.quote(server.url)}"
    notes = ["Save it as `.mcp.json` in the folder where you start Claude Code.", *server.set_first]
    return _json(config), [*notes, f"Or run: `{command}{_header_options(server)}`"]


def claude_desktop(server: Server) -> Snippet:
    """Let Claude Desktop start the app, or what connects it to a site: the bridge, or mcp-remote for other headers."""
    if server.app is not None:
        entry: dict[str, Any] = {"command": server.app[0], "args": list(server.app[1:])}
        notes = [
            'It starts the app. If the app needs variables, add `"env": {"DATABASE_URL": "..."}` next to `"args"`.',
            "For a site that runs elsewhere, pass its URL: `--url https://site.example`",
        ]
    else:
        # The bridge does not open a browser to sign in.
        uses_bridge = not server.oauth and all(start == BEARER for start, _ in server.headers.values())
        entry, notes = _bridge(server) if uses_bridge else _mcp_remote(server)
        if server.headers:
            notes.append("Enter the values by hand: Claude Desktop does not read the variables of your shell.")
    return _json({"mcpServers": {server.name: entry}}), [CLAUDE_DESKTOP_FILE, *notes]


def _bridge(server: Server) -> tuple[dict[str, Any], list[str]]:
    token = {"env": {"MCP_BRIDGE_TOKEN": f"(the value of {server.variables[0]})"}} if server.headers else {}
    entry = {"command": server.bridge, "args": ["bridge", server.site], **token}
    return entry, ["The bridge needs an extra: `pip install 'flask-jsonrpc-mcp[bridge]'`"]


def _mcp_remote(server: Server) -> tuple[dict[str, Any], list[str]]:
    arguments = ["mcp-remote", server.url]
    for name, (_, variable) in server.headers.items():
        arguments += ["--header", f"{name}:${{{variable}}}"]  # no space, at which Claude Desktop splits on Windows
    values = {variable: f"{start}(the value of {variable})" for start, variable in server.headers.values()}
    env = {"env": values} if values else {}
    return {"command": "npx", "args": arguments, **env}, ["It needs `npx`, which comes with Node."]


def vscode(server: Server) -> Snippet:
    config: dict[str, Any] = {"servers": {server.name: {"type": "http", **server.entry("${input:%s}")}}}
    notes = ["Save it as `.vscode/mcp.json`."]
    if server.headers:
        prompt = {"type": "promptString", "password": True}
        config = {"inputs": [{**prompt, "id": name, "description": name} for name in server.variables], **config}
        notes.append(f"VS Code asks once for {_code(server.variables)}, and stores what you enter securely.")
    return _json(config), notes


def cursor(server: Server) -> Snippet:
    config = {"mcpServers": {server.name: server.entry("${env:%s}")}}
    place = "Save it as `.cursor/mcp.json`, or as `~/.cursor/mcp.json` for all projects."
    return _json(config), [place, *server.set_first]


def codex(server: Server) -> Snippet:
    lines = [f"[mcp_servers.{_key(server.name)}]", f"url = {json.dumps(server.url)}"]
    lines += [f'bearer_token_env_var = "{variable}"' for start, variable in server.headers.values() if start]
    others = [f'{_key(name)} = "{variable}"' for name, (start, variable) in server.headers.items() if not start]
    if others:
        lines.append(f"env_http_headers = {{ {', '.join(others)} }}")
    return "\n".join(lines), ["Add it to `~/.codex/config.toml`.", *server.set_first]


def gemini_cli(server: Server) -> Snippet:
    config = {"mcpServers": {server.name: server.entry("${%s}", "httpUrl")}}
    return _json(config), ["Add it to `~/.gemini/settings.json`.", *server.set_first]


def goose(server: Server) -> Snippet:
    # JSON is YAML too. Older versions skip an extension without a description.
    facts = {"name": server.name, "description": "", "type": "streamable_http", "enabled": True, "timeout": 300}
    entry = {**facts, **server.entry("${%s}", "uri")}
    if server.headers:
        entry["env_keys"] = server.variables
    lines = [f"    {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in entry.items()]
    notes = ["Add it to `~/.config/goose/config.yaml`, below the extensions that are there.", *server.set_first]
    return "\n".join(["extensions:", f"  {_key(server.name)}:", *lines]), notes


def windsurf(server: Server) -> Snippet:
    config = {"mcpServers": {server.name: server.entry("${env:%s}", "serverUrl")}}
    return _json(config), ["Add it to `~/.codeium/windsurf/mcp_config.json`.", *server.set_first]


def inspector(server: Server) -> Snippet:
    command = (
        f"npx @modelcontextprotocol/inspector --cli {shlex.quote(server.url)} --transport http --method tools/list"
    )
    notes = ["Run it in a shell; without `--cli` and `--method` it opens a browser.", *server.set_first]
    return command + _header_options(server), notes


def _header_options(server: Server) -> str:
    headers = server.entry("$%s").get("headers", {})
    # In double quotes, where the shell expands variables.
    return "".join(f' --header "{name}: {value}"' for name, value in headers.items())


def _code(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _json(config: Any) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False)


def _key(name: str) -> str:
    """Return a name as a key of TOML or YAML."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) else json.dumps(name, ensure_ascii=False)


CLIENTS: dict[str, tuple[str, Callable[[Server], Snippet]]] = {
    "claude-code": ("Claude Code", claude_code),
    "claude-desktop": ("Claude Desktop", claude_desktop),
    "vscode": ("VS Code", vscode),
    "cursor": ("Cursor", cursor),
    "codex": ("Codex", codex),
    "gemini-cli": ("Gemini CLI", gemini_cli),
    "goose": ("Goose", goose),
    "windsurf": ("Windsurf", windsurf),
    "inspector": ("MCP Inspector", inspector),
}
"""The title of each client, and the function that builds its configuration."""
