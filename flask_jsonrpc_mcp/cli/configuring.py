"""``flask mcp config``."""

from __future__ import annotations

import re
from pathlib import Path

import click
from flask import Flask
from flask.cli import ScriptInfo, with_appcontext

from ..current import this_app
from ..settings import server_name
from .callers import blueprint_option, find_blueprint, mcp_path
from .snippets import (
    Server,
    Snippet,
    claude_code,
    claude_desktop_bridge,
    claude_desktop_stdio,
    inspector,
    vscode,
)

CLIENTS = {"claude-code": claude_code, "claude-desktop": claude_desktop_stdio, "inspector": inspector, "vscode": vscode}
CLIENTS_OF_A_URL = {**CLIENTS, "claude-desktop": claude_desktop_bridge}
DEVELOPMENT_SERVER = "http://127.0.0.1:5000"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command("config")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option("--url", metavar="URL", help=f"Where the app is served; {DEVELOPMENT_SERVER} if not given.")
@click.option("--token-env", metavar="VARIABLE", help="Sign in with the bearer token in this environment variable.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VARIABLE", help="Send a header whose value is in this variable."
)
@click.option("--name", metavar="NAME", help="What the client calls the server; by default the app's name.")
@blueprint_option
@with_appcontext
def print_config(
    client: str,
    url: str | None,
    token_env: str | None,
    headers: tuple[str, ...],
    name: str | None,
    blueprint: str | None,
) -> None:
    """Print what to paste into an AI client.

    CLIENT is claude-code, claude-desktop, inspector or vscode. The snippet goes to stdout, and what to do with it to
    stderr. No secret is in it: say which environment variables hold them.
    """
    app = this_app()
    site = _site(app, blueprint, url)
    server = Server(
        name or server_name(),
        site,
        _importable(click.get_current_context().ensure_object(ScriptInfo), app),
        None if token_env is None else _variable(token_env),
        dict(map(_header, headers)),
    )
    snippet = _spell(client, server, elsewhere=url is not None)
    for note in snippet.notes:
        click.secho(note, dim=True, err=True)
    click.echo(snippet.text)


def _spell(client: str, server: Server, *, elsewhere: bool) -> Snippet:
    try:
        return (CLIENTS_OF_A_URL if elsewhere else CLIENTS)[client](server)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _site(app: Flask, blueprint: str | None, url: str | None) -> str:
    """Find where the blueprint is, given where the app is, or the whole URL of its MCP endpoint."""
    if url is not None and not re.match(r"https?://[^/]", url):
        raise click.UsageError(f"--url must be such as https://site.example, not {url!r}")
    found, _ = find_blueprint(app, blueprint)
    path = mcp_path(app, found)
    bare = (url or DEVELOPMENT_SERVER).rstrip("/")
    if url is not None and bare.endswith(path or "/mcp"):
        return bare.removesuffix("/mcp")
    if path is None:
        raise click.UsageError("The prefix of this blueprint has variables; give the whole URL of its /mcp as --url")
    return bare + path.removesuffix("/mcp")


def _header(pair: str) -> tuple[str, str]:
    name, _, variable = pair.partition("=")
    return name, _variable(variable)


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        # It may be the secret itself, which must not be repeated.
        raise click.UsageError("--token-env and --header take the name of an environment variable, not its value")
    return name


def _importable(info: ScriptInfo, app: Flask) -> str:
    """Spell ``--app`` so that it works from every folder."""
    if info.app_import_path is None:
        found = [file for file in ("wsgi.py", "app.py") if Path(file).is_file()]
        return str(Path(found[0]).absolute()) if found else app.import_name
    # As Flask splits it: the colon of C:\ stays.
    path, *attribute = re.split(r":(?![\\/])", info.app_import_path, maxsplit=1)
    return ":".join([str(Path(path).absolute()), *attribute])
