"""``flask mcp``: use, check and serve an app's tools from a terminal. Imported by Flask's command line only."""

from __future__ import annotations

import os

import click

from .commands import call_method, describe_method, list_methods, print_config, run_doctor, serve_stdio

__all__ = ["mcp"]


@click.group("mcp")
@click.pass_context
def mcp(context: click.Context) -> None:
    """List, describe, call, check and serve the tools of the app."""
    if os.environ.get("NO_COLOR"):
        context.color = False


for command in (list_methods, describe_method, call_method, serve_stdio, run_doctor, print_config):
    mcp.add_command(command)
