"""``flask mcp config``: the configuration of `clients` for this app and this machine."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from flask import current_app
from flask.cli import ScriptInfo, with_appcontext

from ..clients import BEARER, CLIENTS, SIGNS_IN, Server
from ..config import PREFIX, server_name
from ..lookup import mcp_path
from .arguments import blueprint_option, find_blueprint
from .output import printable

DEVELOPMENT_SERVER = "http://127.0.0.1:5000"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command("config")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option("--url", metavar="URL", help=f"The URL of the app; by default its public URL, else {DEVELOPMENT_SERVER}.")
@click.option("--token-env", metavar="VARIABLE", help="Sign in with the bearer token in this environment variable.")
@click.option("--header", "pairs", multiple=True, metavar="NAME=VARIABLE", help="Send a header with this variable.")
@click.option("--name", metavar="NAME", help="The client's name for the server; by default the app's name.")
@blueprint_option
@with_appcontext
def print_config(client: str, url: str | None, token_env: str | None, pairs: tuple[str, ...], **options: Any) -> None:
    """Print configuration to paste into an MCP client.

    CLIENT is claude-code, claude-desktop, vscode, cursor, codex, gemini-cli, goose, windsurf or inspector. The
    configuration goes to stdout, and what to do with it to stderr. It contains no secrets, only the names of the
    environment variables that hold them.
    """
    token = {} if token_env is None else {"Authorization": (BEARER, token_env)}
    others = {header: ("", variable) for header, _, variable in (pair.partition("=") for pair in pairs)}
    site = _site_url(options["blueprint"], url)
    oauth = find_blueprint(options["blueprint"])[1].auth.grants_scopes and not (token or others)
    server = Server(
        options["name"] or server_name(current_app),
        site,
        {**token, **others},
        oauth,
        app=(_path_of("flask"), "--app", _app_option(), "mcp", "stdio") if url is None else None,
        bridge=_path_of("flask-jsonrpc-mcp"),
    )
    if not all(map(_VARIABLE.fullmatch, server.variables)):
        # Without the value, which may be the secret itself.
        raise click.UsageError("--token-env and --header take the name of an environment variable, not its value")
    _, configure = CLIENTS[client]
    config, notes = configure(server)
    for note in [*notes, *([SIGNS_IN] if oauth and url is not None else [])]:
        click.secho(note.replace("`", ""), dim=True, err=True)
    click.echo(printable(config))


def _site_url(blueprint: str | None, url: str | None) -> str:
    """Return the URL of the blueprint, given the URL of the app or of the MCP endpoint."""
    path = mcp_path(current_app, find_blueprint(blueprint)[0])
    if url is not None and not re.match(r"https?://[^/]", url):
        raise click.UsageError(f"--url must be a URL such as https://site.example, not {url!r}")
    base = (url or current_app.config[PREFIX + "PUBLIC_URL"] or DEVELOPMENT_SERVER).rstrip("/")
    if url is not None and base.endswith(path or "/mcp"):
        return base.removesuffix("/mcp")
    if path is None:
        raise click.UsageError("The URL prefix of this blueprint has variables; pass the URL of its /mcp as --url")
    return base + path.removesuffix("/mcp")


def _path_of(program: str) -> str:
    """Return the absolute path of a program of this environment, which the client's PATH may lack."""
    beside_python = Path(sys.executable).with_name(program)
    return str(beside_python) if beside_python.exists() else shutil.which(program) or program


def _app_option() -> str:
    """Return a value for ``--app`` that works from every folder."""
    given = click.get_current_context().ensure_object(ScriptInfo).app_import_path
    if given is None:
        found = [file for file in ("wsgi.py", "app.py") if Path(file).is_file()]
        return str(Path(found[0]).absolute()) if found else current_app.import_name
    # Split as Flask does: not at the colon of C:\.
    path, *attribute = re.split(r":(?![\\/])", given, maxsplit=1)
    return ":".join([str(Path(path).absolute()), *attribute])
