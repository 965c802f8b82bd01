"""The program ``flask-jsonrpc-mcp``, also ``python -m flask_jsonrpc_mcp``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import click

from .settings import AS_DECLARED, NO_DOTS
from .stdio.lines import claim_standard_streams
from .stdio.serving import serve
from .version import __version__

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__)
def main() -> None:
    """Annotate a Python function once: an MCP tool, a JSON-RPC method and a REST endpoint of your Flask app."""


def _option(name: str, **attributes: Any) -> Callable[[F], F]:
    """An option that can also be set in the environment, as ``MCP_BRIDGE_...``."""
    variable = "MCP_BRIDGE_" + name.lstrip("-").replace("-", "_").upper()
    return click.option(name, envvar=variable, show_envvar=True, **attributes)


@main.command(short_help="Serve the tools of a remote site to an MCP client.")
@click.argument("url", envvar="MCP_BRIDGE_URL")
@_option("--user", metavar="NAME", help="Sign in by this name, with a password.")
@_option("--password", metavar="TEXT", help="The password. Better in the environment: others see command lines.")
@_option("--token", metavar="TEXT", help="Sign in by this bearer token. Better in the environment, too.")
@_option("--scopes", metavar="NAMES", help="What the token allows, between spaces; checked before a call.")
@_option(
    "--method",
    type=click.Choice(["GET", "POST"], case_sensitive=False),
    default="GET",
    help="How to call tools that only read. Others are always called by POST.",
)
@_option(
    "--endpoint",
    metavar="PATH",
    help="The path that calls tools: /jsonrpc, /mcp/tools/{name} or /mcp/tools/invoke."
    "  [default: what the site says in /.well-known/mcp.json, else /jsonrpc]",
)
@_option(
    "--tool-name-style",
    type=click.Choice([AS_DECLARED, NO_DOTS]),
    default=AS_DECLARED,
    help="What to call tools; no-dots for clients that refuse dots in names.",
)
@_option("--timeout", type=float, default=60, help="For how many seconds to wait for an answer.")
@_option("--lifetime", type=float, default=300, help="After how many seconds to look for changed tools.")
@_option("--allow-http", is_flag=True, help="Speak http:// also with other machines; all can read along.")
@_option("--log-level", type=click.Choice(LEVELS), default="info", help="What to log on standard error.")
def bridge(url: str, scopes: str | None, method: str, log_level: str, **options: Any) -> None:
    """Serve the tools of the site at URL to an MCP client on standard input and output.

    The site is a Flask app with flask_jsonrpc_mcp or a Drupal site with jsonrpc_mcp. An MCP client starts this program
    by itself; URL can also be set as MCP_BRIDGE_URL.
    """
    try:
        from .bridge.server import Bridge  # httpx is an extra
        from .bridge.settings import Settings
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise click.ClickException("the bridge needs httpx: pip install 'flask-jsonrpc-mcp[bridge]'") from error
    try:
        allowed = None if scopes is None else frozenset(scopes.split())
        settings = Settings(url, method=method.upper(), scopes=allowed, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    streams = claim_standard_streams()
    # Ours alone: the loggers of HTTP libraries write whole URLs, and so arguments.
    ours = logging.getLogger(__package__)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    ours.addHandler(handler)
    ours.setLevel(log_level.upper())
    ours.propagate = False
    with closing(Bridge(settings)) as server:
        serve(server, *streams, grace=settings.timeout)
