"""The program ``flask-jsonrpc-mcp``, also ``python -m flask_jsonrpc_mcp``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import click

from .config import AS_DECLARED, NO_DOTS
from .stdio import claim_standard_streams, serve
from .version import __version__

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__)
def main() -> None:
    """Annotate a Python function once: an MCP tool, a JSON-RPC method and a REST endpoint of your Flask app."""


def _option(name: str, **attributes: Any) -> Callable[[F], F]:
    """Declare an option that can also be set as an environment variable, ``MCP_BRIDGE_...``."""
    variable = "MCP_BRIDGE_" + name.lstrip("-").replace("-", "_").upper()
    return click.option(name, envvar=variable, show_envvar=True, **attributes)


@main.command(short_help="Serve the tools of a remote site to an MCP client.")
@click.argument("url", envvar="MCP_BRIDGE_URL")
@_option("--user", metavar="NAME", help="User name for HTTP Basic authentication.")
@_option("--password", metavar="TEXT", help="Password. Prefer the variable: other users can see command lines.")
@_option("--token", metavar="TEXT", help="Bearer token. Prefer the variable.")
@_option("--scopes", metavar="NAMES", help="Scopes of the token, separated by spaces; checked before each call.")
@_option(
    "--method",
    type=click.Choice(["GET", "POST"], case_sensitive=False),
    default="GET",
    help="How to call read-only tools. All others are called by POST.",
)
@_option(
    "--endpoint",
    metavar="PATH",
    help="Path that calls tools: /jsonrpc, /mcp/tools/{name} or /mcp/tools/invoke."
    "  [default: from the site's /.well-known/mcp.json, else /jsonrpc]",
)
@_option(
    "--tool-name-style",
    type=click.Choice([AS_DECLARED, NO_DOTS]),
    default=AS_DECLARED,
    help="Style of tool names; no-dots for clients that refuse dots.",
)
@_option("--timeout", type=float, default=60, help="Seconds to wait for a response of the site.")
@_option("--lifetime", type=float, default=300, help="Seconds between two checks for changed tools.")
@_option("--allow-http", is_flag=True, help="Allow http:// to other machines, without encryption.")
@_option("--log-level", type=click.Choice(LEVELS), default="info", help="Lowest level to log on standard error.")
def bridge(url: str, scopes: str | None, method: str, log_level: str, **options: Any) -> None:
    """Serve the tools of the site at URL to an MCP client on standard input and output.

    The site is a Flask app with flask_jsonrpc_mcp or a Drupal site with jsonrpc_mcp. An MCP client starts this program
    itself; URL can also be set as MCP_BRIDGE_URL.
    """
    try:
        from .bridge.options import Options  # httpx is an extra
        from .bridge.remote_server import Bridge
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise click.ClickException("the bridge needs httpx: pip install 'flask-jsonrpc-mcp[bridge]'") from error
    try:
        known_scopes = None if scopes is None else frozenset(scopes.split())
        checked = Options(url, method=method.upper(), scopes=known_scopes, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    streams = claim_standard_streams()
    # Only this package's logger: those of HTTP libraries log whole URLs, which contain arguments.
    package_logger = logging.getLogger(__package__)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    package_logger.addHandler(handler)
    package_logger.setLevel(log_level.upper())
    package_logger.propagate = False
    with closing(Bridge(checked)) as server:
        serve(server, *streams, grace=checked.timeout)
