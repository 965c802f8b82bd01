"""``flask mcp stdio``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from flask import Flask
from flask.cli import ScriptInfo

from ..errors import RpcError
from ..stdio.lines import claim_standard_streams
from ..stdio.serving import serve
from .app_server import AppServer
from .callers import Session, caller_options, find_blueprint, session


@click.command("stdio", short_help="Serve the app to an MCP client on standard input and output.")
@caller_options
@click.pass_context
def serve_stdio(context: click.Context, blueprint: str | None, user: str | None, as_permissions: str | None) -> None:
    """Serve the app to an MCP client on standard input and output, in every version of the protocol.

    An MCP client starts this by itself; flask mcp config prints what to tell it. Without --user it serves what anyone
    may use. Methods run inside requests of the app, several at a time, and whatever they print goes to stderr.
    """
    # Before the app is loaded: what its modules print is no protocol either.
    streams = claim_standard_streams()
    app = context.ensure_object(ScriptInfo).load_app()

    @contextmanager
    def open_session() -> Iterator[Session]:
        with app.app_context():
            try:
                with session(blueprint, user, as_permissions, anyone=True) as current:
                    yield current
            except click.ClickException as refusal:
                raise RpcError(refusal.message) from refusal

    _check_start(app, blueprint, user, as_permissions)
    serve(AppServer(open_session), *streams)


def _check_start(app: Flask, blueprint: str | None, user: str | None, as_permissions: str | None) -> None:
    """Fail now, where a person reads it, and not with every request."""
    with app.app_context():
        _, core = find_blueprint(app, blueprint)
        if core.require_auth and user is None:
            raise click.UsageError("This app serves nobody without sign-in (require_auth=True); say who with --user")
        with session(blueprint, user, as_permissions, anyone=True):
            pass
