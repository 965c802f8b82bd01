"""``flask mcp list`` and ``flask mcp describe``."""

from __future__ import annotations

import shlex
from typing import Any

import click
from flask.cli import with_appcontext

from ..methods import Method
from .callers import caller_options, session
from .finding import complete_name, find_method, summary
from .schemas import spell_notes, spell_type
from .terminal import Cell, echo_json, echo_paragraph, echo_table, json_option, wants_json


@click.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also show methods that are not marked with @mcp_tool.")
@caller_options
@json_option
@with_appcontext
def list_methods(
    show_all: bool, blueprint: str | None, user: str | None, as_permissions: str | None, json_output: bool | None
) -> None:
    """List the tools that a caller may use."""
    with session(blueprint, user, as_permissions) as current:
        methods = current.core.catalogue.methods_for(current.caller)
        listed = [method for method in methods if show_all or method.tool is not None]
    if wants_json(json_output):
        echo_json([describe(method) for method in listed])
    elif not listed:
        click.echo(_why_empty(bool(methods), as_caller=user is not None or as_permissions is not None))
    else:
        echo_table(["NAME", "HINT", "NEEDS", "DESCRIPTION"], map(_row, listed))


@click.command("describe")
@click.argument("name", shell_complete=complete_name)
@caller_options
@json_option
@with_appcontext
def describe_method(
    name: str, blueprint: str | None, user: str | None, as_permissions: str | None, json_output: bool | None
) -> None:
    """Show what a tool takes and gives.

    And who may call it, and what it says that it does.
    """
    with session(blueprint, user, as_permissions) as current:
        method = find_method(current, name)
    if wants_json(json_output):
        echo_json(describe(method))
    else:
        _echo_description(method)


def describe(method: Method) -> dict[str, Any]:
    """Describe a method for programs: as MCP does, with what only the developer sees."""
    return {**method.descriptor, "tool": method.tool is not None, "access": sorted(method.access)}


def _row(method: Method) -> list[Cell]:
    is_tool = method.tool is not None
    return [
        Cell(method.name, "cyan" if is_tool else None, bold=is_tool),
        _hint(method),
        Cell(", ".join(sorted(method.access)), "yellow"),
        Cell(summary(method)),
    ]


def _hint(method: Method) -> Cell:
    """What a tool says of itself that matters most to whoever calls it."""
    if method.tool is None:
        return Cell("not a tool", dim=True)
    if method.read_only:
        return Cell("read-only", "green")
    return Cell("destructive", "red") if method.tool.annotations.get("destructiveHint") else Cell("")


def _why_empty(are_methods: bool, *, as_caller: bool) -> str:
    if are_methods:
        return "There are no tools: mark methods with @mcp_tool, or see them with --all"
    return "This caller may use nothing" if as_caller else "There are no methods: add some with @rpc.method"


def _echo_description(method: Method) -> None:
    title = method.tool.title if method.tool is not None else None
    click.echo(click.style(method.name, fg="cyan", bold=True) + (f"  {title}" if title else ""))
    echo_paragraph(method.description)
    click.echo()
    hint = _hint(method)
    access = Cell(f"needs {', '.join(sorted(method.access))}", "yellow") if method.access else Cell("for everyone")
    click.echo(", ".join(cell.styled(cell.text) for cell in (hint, access) if cell.text))
    required = method.params.schema.get("required", ())
    properties: dict[str, Any] = method.params.schema["properties"]
    if properties:
        click.echo()
        rows = [_argument(name, schema, name in required) for name, schema in properties.items()]
        echo_table(["ARGUMENT", "TYPE", "", "DESCRIPTION"], rows)
    if method.output is not None:
        click.echo()
        echo_paragraph(f"Returns: {spell_type(method.output.schema, deep=True)}")
    click.echo()
    examples = "".join(f" {name}=..." for name in properties if name in required)
    click.echo(f"flask mcp call {shlex.quote(method.name)}{examples}", color=None)


def _argument(name: str, schema: Any, required: bool) -> list[Cell]:
    description = schema.get("description", "") if isinstance(schema, dict) else ""
    notes = spell_notes(schema)
    text = f"{description} ({notes})" if description and notes else description or notes
    needed = Cell("required", "yellow") if required else Cell("")
    return [Cell(name, "cyan"), Cell(spell_type(schema)), needed, Cell(text)]
