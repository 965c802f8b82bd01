"""``flask mcp openapi`` prints the OpenAPI document of the tools. ``flask mcp tools-from`` is the other direction."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

from ..doctor_checks import BYTES_PER_TOKEN
from ..http.rest import has_openapi, make_document
from ..lookup import local_request_context
from ..mcp.protocol import MODERN
from ..mcp.versions import describe_tool
from ..method import HINT_OPTIONS
from ..openapi.operations import Operation, read_operations
from ..openapi.tools import endpoint_of, make_tool, tool_name
from ..strict_json import write
from . import output
from .arguments import caller_options, session


@click.command("openapi")
@caller_options
@with_appcontext
def print_document(**options: Any) -> None:
    """Print the OpenAPI 3.1 document of the tools.

    With --user, print the one that this user gets at /mcp/openapi.json.
    """
    if not has_openapi():
        raise click.UsageError("The OpenAPI document needs apispec: install flask-jsonrpc-mcp[openapi]")
    with session(**options) as (registry, caller):
        document = json.loads(make_document(registry, caller))
    output.echo_json(document)


@click.command("tools-from")
@click.argument("spec")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Include operations: an id, tag:NAME or 'GET /path', with * and ?.",
)
@click.option("--name", metavar="GROUP", help="Put this before the names of the tools, with a dot.")
@output.json_option
@with_appcontext
def show_tools(spec: str, include: tuple[str, ...], name: str | None, json_output: bool | None) -> None:
    """Show which tools rpc.add_openapi would make of an API.

    SPEC is a file, JSON or YAML, or a path of the app that serves the document:

    \b
      flask mcp tools-from /openapi.json --include 'tag:books' --include 'GET *'

    Each tool is shown with the size of its description. A model reads all descriptions before each conversation.
    """
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    try:
        operations = read_operations(_read_document(app, spec))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{spec}: {error}") from error
    unknown = [pattern for pattern in include if not any(each.matches(pattern) for each in operations)]
    if unknown:
        raise click.UsageError(f"No operation matches {unknown[0]!r}; without --include, all of them are shown")
    tools, left_out = [], []
    for operation in operations:
        tool, reason = _try_operation(app, operation, include, name)
        if tool is None:
            left_out.append({"operation": str(operation), "reason": reason})
        else:
            tools.append(tool)
    if output.wants_json(json_output):
        output.echo_json({"tools": tools, "left_out": left_out})
    else:
        _echo(tools, left_out)


def _read_document(app: Flask, spec: str) -> Any:
    path = Path(spec)
    if spec.startswith("/") and not path.is_file():
        with local_request_context(app, spec) as context:
            base_url = context.request.host_url
        response = app.test_client().get(spec, base_url=base_url)
        if response.status_code != 200:
            raise ValueError(f"the app answers {response.status}; flask routes lists its paths")
        if not response.is_json:
            raise ValueError(f"the app answers {response.mimetype}, not JSON")
        return response.get_json()
    text = path.read_text(encoding="utf-8")
    if path.suffix not in (".yaml", ".yml"):
        return json.loads(text)
    try:
        return importlib.import_module("yaml").safe_load(text)
    except ImportError as error:
        raise ValueError("YAML needs the package PyYAML; install it, or convert the document to JSON") from error


def _try_operation(
    app: Flask, operation: Operation, include: tuple[str, ...], name: str | None
) -> tuple[dict[str, Any] | None, str]:
    """Return the description of an operation's tool, or the reason why the operation is left out."""
    if not any(map(operation.matches, include)):
        return None, "not included"
    try:
        tool = make_tool(operation, name=tool_name(operation, name))
        endpoint = endpoint_of(tool.func)
        if endpoint is not None:
            endpoint.find(app)
    except (LookupError, TypeError, ValueError) as error:
        return None, str(error.__cause__ or error)
    descriptor = {"name": tool.name, "inputSchema": tool.arguments.schema}
    descriptor |= {option: text for option, text in tool.options.items() if option in ("title", "description")}
    return {
        "name": tool.name,
        "operation": f"{operation.method} {operation.path}",
        "hints": [hint for hint in HINT_OPTIONS if tool.options.get(hint)],
        "bytes": len(write(describe_tool(descriptor, MODERN))),
        "left_out_parameters": list(tool.arguments.left_out),
    }, ""


def _echo(tools: list[dict[str, Any]], left_out: list[dict[str, str]]) -> None:
    formatter = click.HelpFormatter(width=output.terminal_width())
    if tools:
        total = sum(tool["bytes"] for tool in tools)
        with formatter.section(f"Tools: {len(tools)}, {total:,} bytes, about {total // BYTES_PER_TOKEN:,} tokens"):
            formatter.write_dl([(tool["name"], output.printable(_facts(tool))) for tool in tools])
    if left_out:
        with formatter.section(f"Left out: {len(left_out)}"):
            formatter.write_dl([(output.printable(each["operation"]), each["reason"]) for each in left_out])
    click.echo(formatter.getvalue(), nl=False)


def _facts(tool: dict[str, Any]) -> str:
    hints = [hint.replace("_", "-") for hint in tool["hints"]]
    headers = [f"without {name}" for name in tool["left_out_parameters"]]
    return ", ".join([tool["operation"], *hints, f"{tool['bytes']:,} bytes", *headers])
