"""The commands of ``flask mcp``; those about OpenAPI, tasks and stdio are in the modules beside this one."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from flask import current_app
from flask.cli import ScriptInfo, with_appcontext

from ..ask import Answers
from ..auth import Caller
from ..call import CLI, METHOD, PROMPT, RESOURCE, Call, Result
from ..clients import BEARER, CLIENTS, SIGNS_IN, Server
from ..config import PREFIX, server_name
from ..doctor import CHECKS, INFO, examine
from ..errors import InternalError, MethodNotFound, MissingCapability, RpcError, UnknownName, UnknownResource
from ..invoke import invoke
from ..lookup import did_you_mean, mcp_path, registries_of, why_not_found
from ..mcp.elicitation import run_asking
from ..mcp.methods import complete
from ..mcp.protocol import RequestContext
from ..registry import Registry
from . import output
from .app_server import serve_stdio
from .arguments import (
    argument_names,
    arguments_of_call,
    blueprint_option,
    caller_options,
    combine,
    completing,
    completing_name_of,
    find_blueprint,
    find_method,
    read_arguments,
    session,
)
from .openapi_commands import print_document, show_tools
from .task_commands import run_worker, start_in_background, tasks

DEVELOPMENT_SERVER = "http://127.0.0.1:5000"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_of_caller = combine(caller_options, output.json_option, with_appcontext)
_of_call = combine(
    click.option(
        "--no-input",
        is_flag=True,
        help="Ask nothing: confirmations count as given, and what needs another answer fails.",
    ),
    _of_caller,
)


@click.group("mcp")
@click.pass_context
def mcp(context: click.Context) -> None:
    """List, try, check and serve the tools, prompts and resources of the app."""
    if os.environ.get("NO_COLOR"):
        context.color = False


@mcp.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also list methods that are not tools.")
@_of_caller
def list_methods(show_all: bool, json_output: bool | None, **options: Any) -> None:
    """List the tools, prompts and resources.

    With --user, list those that this user may use.
    """
    with session(**options) as (registry, caller):
        methods = registry.methods.callable_by(caller)
        resources = registry.resources
        collections = (registry.prompts, resources.fixed, resources.templates)
        others = [found for collection in collections for found in collection.callable_by(caller)]
        tools = [method for method in methods if show_all or method.tool is not None]
        listed = [output.describe(found) for found in (*tools, *others)]
    if output.wants_json(json_output):
        output.echo_json(listed)
    elif listed:
        output.echo_list(listed)
    elif methods:
        click.echo("There are no tools; register functions with @rpc.tool, or list all methods with --all")
    elif options["user"] is not None or options["as_permissions"] is not None:
        click.echo("This caller may not use any method")
    else:
        click.echo("There are no tools; register functions with @rpc.tool")


@mcp.command("describe")
@click.argument("name", shell_complete=completing_name_of(METHOD))
@_of_caller
def describe_method(name: str, json_output: bool | None, **options: Any) -> None:
    """Show the arguments, result and permissions of a tool or method."""
    with session(**options) as (registry, caller):
        described = output.describe(find_method(registry, caller, name))
    if output.wants_json(json_output):
        output.echo_json(described)
    else:
        output.echo_method(described)


@mcp.command("call")
@click.argument("name", shell_complete=completing_name_of(METHOD))
@arguments_of_call
@click.option("--background", is_flag=True, help="Let a worker run it, and print the id of the task; needs task=.")
@_of_call
def call_method(name: str, pairs: tuple[str, ...], whole: str | None, **options: Any) -> None:
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
    _run(METHOD, name, lambda schema: read_arguments(pairs, whole, schema), output.echo_result, **options)


@mcp.command("prompt")
@click.argument("name", shell_complete=completing_name_of(PROMPT))
@arguments_of_call
@_of_call
def get_prompt(name: str, pairs: tuple[str, ...], whole: str | None, **options: Any) -> None:
    """Show the messages of a prompt.

    Arguments are given as to flask mcp call:

    \b
      flask mcp prompt articles.review id=3
    """
    _run(PROMPT, name, lambda schema: read_arguments(pairs, whole, schema), output.echo_messages, **options)


@mcp.command("read")
@click.argument("uri", shell_complete=completing_name_of(RESOURCE))
@_of_call
def read_resource(uri: str, **options: Any) -> None:
    """Show the contents of a resource.

    \b
      flask mcp read articles://3
    """
    _run(RESOURCE, uri, lambda schema: {}, output.echo_contents, **options)


@mcp.command("complete")
@click.argument("ref", shell_complete=completing_name_of(PROMPT, RESOURCE))
@click.argument("argument", shell_complete=completing(argument_names))
@click.argument("value", default="")
@_of_caller
def complete_argument_of(ref: str, argument: str, value: str, json_output: bool | None, **options: Any) -> None:
    """Suggest values for an argument of a prompt or of a resource.

    REF is the name of a prompt or the URI template of a resource, VALUE what was typed so far:

    \b
      flask mcp complete articles.review id 1
      flask mcp complete 'articles://{id}' id
    """
    with session(**options) as (registry, caller):
        kind = RESOURCE if ":" in ref else PROMPT
        # A template would also match as a URI, and then perhaps another template first.
        completed = registry.resources.templates.get(ref) or find_method(registry, caller, ref, kind)
        if argument not in completed.params.schema["properties"]:
            hint = did_you_mean(argument, completed.params.schema["properties"])
            raise click.UsageError(f"{completed.name} has no argument {argument!r}; {hint}")
        reference = {"type": f"ref/{kind}", "name": completed.name, "uri": completed.name}
        params = {"ref": reference, "argument": {"name": argument, "value": value}}
        context = RequestContext.new(current_app, registry, caller)
        outcome: Result | RpcError
        try:
            outcome = Result(complete(context, params)["completion"]["values"])
        except UnknownName as error:
            raise click.UsageError(why_not_found(ref, caller, registry, kind)) from error
        except RpcError as error:
            outcome = error
    output.end(outcome, ref, output.echo_suggestions, json_output, _hints(outcome, caller))


def _run(
    kind: str,
    name: str,
    read: Callable[[Mapping[str, Any]], dict[str, Any]],
    echo: Callable[[Result], None],
    *,
    no_input: bool,
    json_output: bool | None,
    background: bool = False,
    **options: Any,
) -> None:
    """Run a method, prompt or resource, and print the outcome.

    :param read: Reads the arguments, given their schema.
    :param background: Make a task of it, and print its id.
    """
    with session(**options) as (registry, caller):
        method = find_method(registry, caller, name, kind)
        name = name if kind == RESOURCE else method.name
        arguments, progress = read(method.params.schema), output.Progress()
        if background and (method.tool is None or method.tool.task is None):
            raise click.UsageError(f"--background needs a tool with task=, which {name} is not")
        # A worker has no terminal to ask at.
        able = frozenset() if background else output.capabilities(asking=output.can_ask() and not no_input)
        call = Call(name, arguments, caller, CLI, kind, capabilities=able, reporter=progress, listed_only=False)
        outcome: Result | RpcError | None
        if background:
            outcome = start_in_background(replace(call, detachable=True), registry, json_output)
        else:
            outcome = _call(call, registry, progress)
    if outcome is None:
        return
    # The request context is gone, as it is for an HTTP client when the response arrives.
    output.end(outcome, name, echo, json_output, _hints(outcome, caller), method.params.schema)


def _call(call: Call, registry: Registry, progress: output.Progress) -> Result | RpcError:
    def run(answers: Answers) -> Result:
        try:
            return invoke(replace(call, answers=answers), registry)
        finally:
            progress.clear()

    try:
        return run_asking(run, output.ask)
    except MethodNotFound:  # from a resource that returned None
        return UnknownResource(call.name, sign_in=False)
    except RpcError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            call.cancellation.request()
            raise click.Abort from error
        return error


def _hints(error: Result | RpcError, caller: Caller) -> Iterator[str]:
    if isinstance(error, InternalError) and caller.user is None:
        yield "It ran without a user; if it needs one, pass --user NAME"
    could_ask = output.capabilities(asking=True)
    if isinstance(error, MissingCapability) and could_ask.issuperset(error.data["requiredCapabilities"]):
        yield "It asks the caller a question; call it in a terminal, without --no-input"


@mcp.command("doctor")
@click.option(
    "--ignore",
    multiple=True,
    metavar="SLUG[:TOOL]",
    shell_complete=completing(lambda context: CHECKS),
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
        registries = registries_of(current_app, load=False)
        # The app itself, because checks look it up in weak dictionaries.
        findings = examine(current_app._get_current_object(), ignore=ignored)  # type: ignore[attr-defined]
    except (LookupError, TypeError, ValueError) as error:  # also of add_view and add_openapi
        raise click.UsageError(str(error)) from error
    if output.wants_json(json_output):
        output.echo_json([finding.to_json() for finding in findings])
    else:
        tools = sum(method.listed for registry in registries.values() for method in registry.methods)
        output.echo_findings(findings, tools, ignored, name_blueprints=len(registries) > 1)
    if any(finding.severity != INFO for finding in findings):
        raise click.exceptions.Exit(output.FAILED)


@mcp.command("config")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option("--url", metavar="URL", help=f"The URL of the app; by default its public URL, else {DEVELOPMENT_SERVER}.")
@click.option("--token-env", metavar="VARIABLE", help="Sign in with the bearer token in this environment variable.")
@click.option("--header", "pairs", multiple=True, metavar="NAME=VARIABLE", help="Send a header with this variable.")
@click.option("--name", metavar="NAME", help="The client's name for the server; by default the app's name.")
@blueprint_option
@with_appcontext
def print_config(
    client: str, url: str | None, token_env: str | None, pairs: tuple[str, ...], name: str | None, blueprint: str | None
) -> None:
    """Print configuration to paste into an MCP client.

    CLIENT is claude-code, claude-desktop, vscode, cursor, codex, gemini-cli, goose, windsurf or inspector. The
    configuration goes to stdout, and what to do with it to stderr. It contains no secrets, only the names of the
    environment variables that hold them.
    """
    token = {} if token_env is None else {"Authorization": (BEARER, token_env)}
    others = {header: ("", variable) for header, _, variable in (pair.partition("=") for pair in pairs)}
    blueprint, registry = find_blueprint(blueprint)
    oauth = registry.auth.grants_scopes and not (token or others)
    server = Server(
        name or server_name(current_app),
        _site_url(blueprint, url),
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
    click.echo(output.printable(config))


def _site_url(blueprint: str, url: str | None) -> str:
    """Return the URL of the blueprint, given the URL of the app or of the MCP endpoint."""
    path = mcp_path(current_app, blueprint)
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


for command in (print_document, show_tools, run_worker, serve_stdio, tasks):
    mcp.add_command(command)
