"""The program ``flask-jsonrpc-mcp``, also ``python -m flask_jsonrpc_mcp``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event
from typing import Any

import click

from .bridge.remote_server import Bridge
from .bridge.remote_tools import ToolList, fetch_list
from .bridge.site import Site
from .call import Result
from .cli import output
from .cli.arguments import F, arguments_of_call, combine, read_arguments
from .config import AS_DECLARED, NO_DOTS
from .errors import RpcError, UnknownTool
from .lookup import did_you_mean
from .stdio import claim_standard_streams, serve
from .version import __version__

LEVELS = ("debug", "info", "warning", "error")

_never_cancelled = Event().wait


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__)
def main() -> None:
    """Annotate a Python function once: an MCP tool, a JSON-RPC method and a REST endpoint of your Flask app."""


def _option(name: str, **attributes: Any) -> Callable[[F], F]:
    """Declare an option that can also be set as an environment variable, ``MCP_BRIDGE_...``."""
    variable = "MCP_BRIDGE_" + name.lstrip("-").replace("-", "_").upper()
    return click.option(name, envvar=variable, show_envvar=True, **attributes)


_site_options = combine(
    _option("--user", metavar="NAME", help="User name for HTTP Basic authentication."),
    _option("--password", metavar="TEXT", help="Password. Prefer the variable: other users can see command lines."),
    _option("--token", metavar="TEXT", help="Bearer token. Prefer the variable."),
    _option("--scopes", metavar="NAMES", help="Scopes of the token, separated by spaces; checked before each call."),
    _option(
        "--method",
        type=click.Choice(["GET", "POST"], case_sensitive=False),
        default="GET",
        help="How to call read-only tools. All others are called by POST.",
    ),
    _option(
        "--endpoint",
        metavar="PATH",
        help="Path that calls tools: /jsonrpc, /mcp/tools/{name} or /mcp/tools/invoke."
        "  [default: from the site's /.well-known/mcp.json, else /jsonrpc]",
    ),
    _option("--timeout", type=float, default=60, help="Seconds to wait for a response of the site."),
    _option("--allow-http", is_flag=True, help="Allow http:// to other machines, without encryption."),
)
"""How to reach the site, the arguments of `_checked_site`."""


def _checked_site(url: str, *, scopes: str | None, method: str, **options: Any) -> Site:
    known_scopes = None if scopes is None else frozenset(scopes.split())
    try:
        return Site(url, method=method.upper(), scopes=known_scopes, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error


@main.command("list")
@click.argument("url")
@_site_options
@output.json_option
def list_tools(url: str, json_output: bool | None, **options: Any) -> None:
    """List the tools of the site at URL."""
    known = _fetch_list(url, **options)
    # The permissions of a site of this package are not in its list; Drupal has scopes.
    tools = [
        {**tool.descriptor, "kind": "tool", "tool": True, "access": sorted(tool.scopes or ())}
        for tool in known.tools.values()
    ]
    if output.wants_json(json_output):
        output.echo_json(tools)
    elif tools:
        output.echo_list(tools)
    else:
        click.echo("The site has no tools, or none for these credentials")


@main.command("call")
@click.argument("url")
@click.argument("name")
@arguments_of_call
@_site_options
@output.json_option
def call_remote_tool(
    url: str, name: str, pairs: tuple[str, ...], whole: str | None, json_output: bool | None, **options: Any
) -> None:
    """Call a tool of the site at URL.

    Arguments are given as to flask mcp call:

    \b
      flask-jsonrpc-mcp call https://site.example articles.list limit=3

    A tool that asks for a confirmation runs without it. The exit code is 1 if the tool failed, and 2 if the command or
    the arguments are wrong.
    """
    known = _fetch_list(url, **options)
    try:
        tool = known.find(name)
    except UnknownTool as error:
        raise click.UsageError(f"There is no tool {name!r}; {did_you_mean(name, known.tools)}") from error
    schema = tool.descriptor["inputSchema"]
    arguments = read_arguments(pairs, whole, schema)
    outcome: Result | RpcError
    try:
        outcome = Result(known.call(tool, arguments, _never_cancelled))
    except RpcError as error:
        outcome = error
    output.end(outcome, tool.name, output.echo_result, json_output, schema=schema)


def _fetch_list(url: str, **options: Any) -> ToolList:
    site = _checked_site(url, for_person=True, **options)
    try:
        return fetch_list(site, _never_cancelled)
    except RpcError as error:
        raise click.ClickException(error.message) from error


@main.command(short_help="Serve the tools of a remote site to an MCP client.")
@click.argument("url", envvar="MCP_BRIDGE_URL")
@_site_options
@_option(
    "--tool-name-style",
    type=click.Choice([AS_DECLARED, NO_DOTS]),
    default=AS_DECLARED,
    help="Style of tool names; no-dots for clients that refuse dots.",
)
@_option("--lifetime", type=float, default=300, help="Seconds between two checks for changed tools.")
@_option("--log-level", type=click.Choice(LEVELS), default="info", help="Lowest level to log on standard error.")
def bridge(url: str, log_level: str, **options: Any) -> None:
    """Serve the tools of the site at URL to an MCP client on standard input and output.

    The site is a Flask app with flask_jsonrpc_mcp or a Drupal site with jsonrpc_mcp. An MCP client starts this program
    itself; URL can also be set as MCP_BRIDGE_URL.
    """
    site = _checked_site(url, **options)
    streams = claim_standard_streams()
    # Only this package's logger: those of HTTP libraries log whole URLs, which contain arguments.
    package_logger = logging.getLogger(__package__)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    package_logger.addHandler(handler)
    package_logger.setLevel(log_level.upper())
    package_logger.propagate = False
    with closing(Bridge(site)) as server:
        serve(server, *streams, grace=site.timeout)
