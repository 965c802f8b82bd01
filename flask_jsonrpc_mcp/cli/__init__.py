"""``flask mcp``: what a developer does with an app's tools in a terminal. One module per command."""

from __future__ import annotations

import os

import click

from .calling import call_method
from .configuring import print_config
from .describing import describe_method, list_methods
from .examining import run_doctor
from .serving import serve_stdio

__all__ = ["mcp"]


@click.group("mcp")
@click.pass_context
def mcp(context: click.Context) -> None:
    """List, describe, call, serve and examine the tools of the app."""
    if os.environ.get("NO_COLOR"):
        context.color = False


for command in (list_methods, describe_method, call_method, serve_stdio, run_doctor, print_config):
    mcp.add_command(command)
