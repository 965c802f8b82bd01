"""The commands ``flask mcp list``, ``describe``, ``call``, ``stdio``, ``doctor`` and ``config``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
from flask import Flask, current_app
from flask.cli import ScriptInfo, with_appcontext

from ..app_server import AppServer
from ..ask import Answers
from ..auth import Caller
from ..call import Call, Result
from ..config import PREFIX
from ..doctor import CHECKS, INFO, examine
from ..errors import InternalError, InvalidParams, MissingCapability, RpcError
from ..invoke import invoke
from ..lookup import registries_of
from ..mcp.elicitation import run_asking
from ..registry import Registry
from ..stdio import claim_standard_streams, serve
from . import output
from .arguments import read_arguments
from .callers import caller_options, complete_name, find_method, session
from .client_config import print_config

FACE = "cli"

FAILED, WRONG_USAGE = 1, 2
"""Exit codes; click's own for wrong options is 2 as well."""


@click.group("mcp")
@click.pass_context
def mcp(context: click.Context) -> None:
    """List, describe, call, check and serve the tools of the app."""
    if os.environ.get("NO_COLOR"):
        context.color = False


@mcp.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also list methods that are not tools.")
@caller_options
@output.json_option
@with_appcontext
def list_methods(show_all: bool, json_output: bool | None, **options: Any) -> None:
    """List the tools; with --user those that this user may call."""
    with session(**options) as (registry, caller):
        methods = registry.methods.callable_by(caller)
        listed = [method for method in methods if show_all or method.tool is not None]
    if output.wants_json(json_output):
        output.echo_json([output.descriptor(method) for method in listed])
    elif listed:
        output.echo_methods(listed)
    elif methods:
        click.echo("There are no tools; register functions with @rpc.tool, or list all methods with --all")
    elif options["user"] is not None or options["as_permissions"] is not None:
        click.echo("This caller may not use any method")
    else:
        click.echo("There are no tools; register functions with @rpc.tool")


@mcp.command("describe")
@click.argument("name", shell_complete=complete_name)
@caller_options
@output.json_option
@with_appcontext
def describe_method(name: str, json_output: bool | None, **options: Any) -> None:
    """Show the arguments, result and permissions of a tool or method."""
    with session(**options) as (registry, caller):
        method = find_method(registry, caller, name)
    if output.wants_json(json_output):
        output.echo_json(output.descriptor(method))
    else:
        output.echo_method(method)


@mcp.command("call")
@click.argument("name", shell_complete=complete_name)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--json", "whole", metavar="JSON", help="All arguments as a JSON object; @FILE reads a file, - reads stdin."
)
@click.option(
    "--no-input",
    is_flag=True,
    help="Ask nothing: confirmations count as given, and a tool that needs another answer fails.",
)
@caller_options
@output.json_option
@with_appcontext
def call_method(
    name: str, pairs: tuple[str, ...], whole: str | None, no_input: bool, json_output: bool | None, **options: Any
) -> None:
    """Call a tool or method.

    It runs in this process, in a request context of the app; no server is needed.

    Values are converted by the tool's schema. Write arrays and objects as JSON, or a member of an object as
    key.inner=value:

    \b
      flask mcp call articles.list limit=3 type=news
      flask mcp call articles.search query=compost within='["title"]'

    The tool's progress and questions appear on stderr. The exit code is 1 if the tool failed, and 2 if the command or
    the arguments are wrong.
    """
    with session(**options) as (registry, caller):
        method = find_method(registry, caller, name)
        arguments, progress = read_arguments(pairs, whole, method.params.schema), output.Progress()
        able = output.capabilities(asking=output.can_ask() and not no_input)
        call = Call(method.name, arguments, caller, FACE, capabilities=able, reporter=progress, listed_only=False)
        outcome = _call(call, registry, progress)
    # The request context is gone, as it is for an HTTP client when the response arrives.
    if isinstance(outcome, RpcError):
        # People read stderr, so JSON only if asked for.
        output.echo_failure(outcome, method.name, _hints(outcome, caller), as_json=bool(json_output))
        raise click.exceptions.Exit(WRONG_USAGE if isinstance(outcome, InvalidParams) else FAILED)
    if output.wants_json(json_output):
        output.echo_json(outcome.plain)
    else:
        output.echo_result(outcome)


def _call(call: Call, registry: Registry, progress: output.Progress) -> Result | RpcError:
    def run(answers: Answers) -> Result:
        try:
            return invoke(replace(call, answers=answers), registry)
        finally:
            progress.clear()

    try:
        return run_asking(run, output.ask)
    except RpcError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            call.cancellation.request()
            raise click.Abort from error
        return error


def _hints(error: RpcError, caller: Caller) -> Iterator[str]:
    if isinstance(error, InternalError) and caller.user is None:
        yield "It ran without a user; if it needs one, pass --user NAME"
    could_ask = output.capabilities(asking=True)
    if isinstance(error, MissingCapability) and could_ask.issuperset(error.data["requiredCapabilities"]):
        yield "It asks the caller a question; call it in a terminal, without --no-input"


@mcp.command("stdio", short_help="Serve the app to an MCP client on standard input and output.")
@caller_options
@click.pass_context
def serve_stdio(context: click.Context, /, **options: Any) -> None:
    """Serve the app to an MCP client on standard input and output, in every version of the protocol.

    An MCP client starts this command; flask mcp config prints its configuration. Without --user it serves what an
    anonymous caller may use. Each request runs in a request context of the app, several at a time, and everything that
    methods print goes to stderr.
    """
    # Before the app is loaded, because its modules may print something.
    streams = claim_standard_streams()
    app = context.ensure_object(ScriptInfo).load_app()

    @contextmanager
    def open_request() -> Iterator[tuple[Flask, Registry, Caller]]:
        with app.app_context():
            try:
                with session(**options, anyone=True) as (registry, caller):
                    yield app, registry, caller
            except click.ClickException as error:
                raise RpcError(error.message) from error

    # Fail now, where a person reads it, and not with every request.
    with app.app_context(), session(**options, anyone=True) as (registry, _):
        if registry.auth.required and options["user"] is None:
            raise click.UsageError("This app requires sign-in (require_auth=True); choose a user with --user")
    serve(AppServer(open_request), *streams)


def _complete_check(context: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    return [slug for slug in CHECKS if slug.startswith(word)]


@mcp.command("doctor")
@click.option(
    "--ignore",
    multiple=True,
    metavar="SLUG[:TOOL]",
    shell_complete=_complete_check,
    help=f"Skip this check, for one tool or for all, in addition to {PREFIX}DOCTOR_IGNORE.",
)
@click.option("--all", "show_all", is_flag=True, help=f"Do not skip the checks in {PREFIX}DOCTOR_IGNORE.")
@output.json_option
@with_appcontext
def run_doctor(ignore: tuple[str, ...], show_all: bool, json_output: bool | None) -> None:
    """Find mistakes in the tools and settings before a client does.

    The exit code is 1 if there are errors or warnings.
    """
    ignored = [*([] if show_all else current_app.config.get(PREFIX + "DOCTOR_IGNORE", ())), *ignore]
    try:
        registries = registries_of(current_app)
        findings = examine(current_app, ignore=ignored)
    except (LookupError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if output.wants_json(json_output):
        output.echo_json([finding.to_json() for finding in findings])
    else:
        tools = sum(method.listed for registry in registries.values() for method in registry.methods)
        output.echo_findings(findings, tools, ignored, name_blueprints=len(registries) > 1)
    if any(finding.severity != INFO for finding in findings):
        raise click.exceptions.Exit(FAILED)


mcp.add_command(print_config)
