"""The commands ``flask mcp list``, ``describe``, ``call``, ``stdio``, ``doctor`` and ``config``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from flask import Flask, current_app
from flask.cli import ScriptInfo, with_appcontext

from ..app_server import AppServer
from ..ask import Answers
from ..auth import Caller
from ..call import Call, Cancellation, Result
from ..config import PREFIX, server_info
from ..doctor import INFO, SLUGS, examine
from ..errors import InternalError, InvalidParams, MissingCapability, RpcError
from ..invoke import invoke
from ..mcp.elicitation import run_asking
from ..method import Method
from ..registry import Registry
from ..stdio import claim_standard_streams, serve
from . import output
from .arguments import read_arguments
from .callers import (
    Session,
    blueprint_option,
    blueprints_of,
    caller_options,
    complete_name,
    find_blueprint,
    find_method,
    mcp_path,
    session,
)
from .client_config import CLIENTS, Server
from .terminal import Progress, ask, can_ask, capabilities

FACE = "cli"
DEVELOPMENT_SERVER = "http://127.0.0.1:5000"

FAILED, WRONG_USAGE = 1, 2
"""Exit codes; click's own for wrong options is 2 as well."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also list methods that are not marked with @mcp_tool.")
@caller_options
@output.json_option
@with_appcontext
def list_methods(show_all: bool, json_output: bool | None, **caller: Any) -> None:
    """List the tools that a caller may use."""
    with session(**caller) as current:
        methods = current.registry.methods.callable_by(current.caller)
        listed = [method for method in methods if show_all or method.tool is not None]
    if output.wants_json(json_output):
        output.echo_json([output.descriptor(method) for method in listed])
    elif listed:
        output.echo_methods(listed)
    elif methods:
        click.echo("There are no tools; mark methods with @mcp_tool, or list all methods with --all")
    elif caller["user"] is not None or caller["as_permissions"] is not None:
        click.echo("This caller may not use any method")
    else:
        click.echo("There are no methods; add some with @rpc.method")


@click.command("describe")
@click.argument("name", shell_complete=complete_name)
@caller_options
@output.json_option
@with_appcontext
def describe_method(name: str, json_output: bool | None, **caller: Any) -> None:
    """Show the arguments, result and permissions of a tool or method."""
    with session(**caller) as current:
        method = find_method(current, name)
    if output.wants_json(json_output):
        output.echo_json(output.descriptor(method))
    else:
        output.echo_method(method)


@click.command("call")
@click.argument("name", shell_complete=complete_name)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--json", "whole", metavar="JSON", help="All arguments as a JSON object; @FILE reads a file, - reads stdin."
)
@click.option("--no-input", is_flag=True, help="Ask nothing; a tool that asks for confirmation runs without it.")
@caller_options
@output.json_option
@with_appcontext
def call_method(
    name: str,
    pairs: tuple[str, ...],
    whole: str | None,
    no_input: bool,
    json_output: bool | None,
    **caller: Any,
) -> None:
    """Call a tool or method.

    It runs in this process, in a request context of the app; no server is needed.

    The tool's schema gives values their type, arrays and objects are JSON, and key.inner=value sets a member of an
    object:

    \b
      flask mcp call articles.list limit=3 type=news
      flask mcp call articles.search query=compost within='["title"]'

    Questions of the tool and its progress appear on stderr. The exit code is 1 if the tool failed, and 2 if the
    command or the arguments are wrong.
    """
    with session(**caller) as current:
        method = find_method(current, name)
        arguments = read_arguments(pairs, whole, method.params.schema)
        outcome = _call(current, method, arguments, asking=can_ask() and not no_input)
    # The request context is gone, as it is for an HTTP client when the response arrives.
    if not isinstance(outcome, RpcError):
        if output.wants_json(json_output):
            output.echo_json(outcome.plain)
        else:
            output.echo_result(outcome)
        return
    if json_output:  # people read stderr, so JSON only if asked for
        output.echo_failure_as_json(outcome)
    else:
        output.echo_failure(outcome, method.name, _hints(outcome, current))
    raise click.exceptions.Exit(WRONG_USAGE if isinstance(outcome, InvalidParams) else FAILED)


def _call(current: Session, method: Method, arguments: dict[str, Any], *, asking: bool) -> Result | RpcError:
    progress, cancellation = Progress(), Cancellation()

    def run(answers: Answers) -> Result:
        call = Call(
            method.name,
            arguments,
            current.caller,
            FACE,
            listed_only=False,
            capabilities=capabilities(asking=asking),
            answers=answers,
            reporter=progress,
            cancellation=cancellation,
        )
        try:
            return invoke(call, current.registry)
        finally:
            progress.clear()

    try:
        return run_asking(run, ask)
    except RpcError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            cancellation.request()
            raise click.Abort from error
        return error


def _hints(error: RpcError, current: Session) -> Iterator[str]:
    if isinstance(error, InternalError) and current.caller.user is None:
        yield "It ran without a user; if it needs one, pass --user NAME"
    could_ask = capabilities(asking=True)
    if isinstance(error, MissingCapability) and could_ask.issuperset(error.data["requiredCapabilities"]):
        yield "It asks the caller a question; call it in a terminal, without --no-input"


@click.command("stdio", short_help="Serve the app to an MCP client on standard input and output.")
@caller_options
@click.pass_context
def serve_stdio(context: click.Context, /, **caller: Any) -> None:
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
                with session(**caller, anyone=True) as current:
                    yield app, current.registry, current.caller
            except click.ClickException as error:
                raise RpcError(error.message) from error

    # Fail now, where a person reads it, and not with every request.
    with app.app_context():
        _, registry = find_blueprint(app, caller["blueprint"])
        if registry.auth.required and caller["user"] is None:
            raise click.UsageError("This app requires sign-in (require_auth=True); choose a user with --user")
        with session(**caller, anyone=True):
            pass
    serve(AppServer(open_request), *streams)


def _complete_slug(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    return [CompletionItem(slug) for slug in SLUGS if slug.startswith(word)]


@click.command("doctor")
@click.option(
    "--ignore",
    multiple=True,
    metavar="SLUG[:TOOL]",
    shell_complete=_complete_slug,
    help=f"Leave out this check, for one tool or for all, in addition to {PREFIX}DOCTOR_IGNORE.",
)
@click.option("--all", "show_all", is_flag=True, help=f"Also check what {PREFIX}DOCTOR_IGNORE leaves out.")
@output.json_option
@with_appcontext
def run_doctor(ignore: tuple[str, ...], show_all: bool, json_output: bool | None) -> None:
    """Find what will break before a client does.

    Checks the tools and the settings of the app. The exit code is 1 if there are errors or warnings.
    """
    registries = blueprints_of(current_app).values()
    ignored = [*([] if show_all else current_app.config[PREFIX + "DOCTOR_IGNORE"]), *ignore]
    try:
        findings = examine(current_app, ignore=ignored)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if output.wants_json(json_output):
        output.echo_json([finding.to_json() for finding in findings])
    else:
        tools = sum(method.listed for registry in registries for method in registry.methods)
        output.echo_findings(findings, name_blueprints=len(registries) > 1)
        output.echo_summary(tools, findings, ignored)
    if any(finding.severity != INFO for finding in findings):
        raise click.exceptions.Exit(FAILED)


@click.command("config")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option("--url", metavar="URL", help=f"The URL of the app; by default {DEVELOPMENT_SERVER}.")
@click.option("--token-env", metavar="VARIABLE", help="Sign in with the bearer token in this environment variable.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VARIABLE", help="Send a header with the value of this variable."
)
@click.option("--name", metavar="NAME", help="The client's name for the server; by default the app's name.")
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
    """Print configuration to paste into an MCP client.

    CLIENT is claude-code, claude-desktop, inspector or vscode. The snippet goes to stdout, and what to do with it to
    stderr. It contains no secrets, only the names of the environment variables that hold them.
    """
    for variable in [*([] if token_env is None else [token_env]), *(pair.partition("=")[2] for pair in headers)]:
        if not _VARIABLE.fullmatch(variable):
            # Without the value, which may be the secret itself.
            raise click.UsageError("--token-env and --header take the name of an environment variable, not its value")
    site = _site_url(blueprint, url)
    server = Server(
        name=name or server_info(current_app)["name"],
        site=site,
        app=_app_option(click.get_current_context().ensure_object(ScriptInfo), current_app),
        is_remote=url is not None,
        header_variables={header: variable for header, _, variable in (pair.partition("=") for pair in headers)},
        token_variable=token_env,
    )
    try:
        text, notes = CLIENTS[client](server)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for note in notes:
        click.secho(note, dim=True, err=True)
    click.echo(text)


def _site_url(blueprint: str | None, url: str | None) -> str:
    """Return the URL of the blueprint, given the URL of the app or of the MCP endpoint."""
    if url is not None and not re.match(r"https?://[^/]", url):
        raise click.UsageError(f"--url must be a URL such as https://site.example, not {url!r}")
    name, _ = find_blueprint(current_app, blueprint)
    path = mcp_path(current_app, name)
    base = (url or DEVELOPMENT_SERVER).rstrip("/")
    if url is not None and base.endswith(path or "/mcp"):
        return base.removesuffix("/mcp")
    if path is None:
        raise click.UsageError("The URL prefix of this blueprint has variables; pass the URL of its /mcp as --url")
    return base + path.removesuffix("/mcp")


def _app_option(info: ScriptInfo, app: Flask) -> str:
    """Return a value for ``--app`` that works from every folder."""
    if info.app_import_path is None:
        found = [file for file in ("wsgi.py", "app.py") if Path(file).is_file()]
        return str(Path(found[0]).absolute()) if found else app.import_name
    # Split as Flask does: not at the colon of C:\.
    path, *attribute = re.split(r":(?![\\/])", info.app_import_path, maxsplit=1)
    return ":".join([str(Path(path).absolute()), *attribute])
