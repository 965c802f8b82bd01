"""How the end of a call is shown: a result on stdout, a failure on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from ..calls import Result
from ..errors import InternalError, InvalidParams, MissingCapability, RpcError
from ..methods import Method
from .arguments import unread
from .asking import capabilities
from .terminal import echo_json, printable


def echo_result(result: Result) -> None:
    """Show a result to a person: texts as they are, values as JSON, of pictures what they are."""
    for block in result.content or ():
        click.echo(_spell_block(block))
    if isinstance(result.value, str):
        click.echo(printable(result.value))
    elif result.value is not None or result.content is None:
        echo_json(result.value)


def echo_failure(error: RpcError, method: Method, arguments: Mapping[str, Any], *, is_nobody: bool) -> None:
    """Show a failure to a person, with what may help."""
    if isinstance(error, InvalidParams):
        click.secho(f"{method.name} does not take these arguments:", fg="red", err=True)
        for problem in error.problems:
            click.echo(f"  {click.style(problem.path or '/', bold=True)}  {problem.message}", err=True)
    else:
        text = f"see the log for id {error.error_id}" if isinstance(error, InternalError) else printable(error.message)
        click.echo(f"{click.style(f'{method.name} failed:', fg='red')} {text}", err=True)
    for hint in _hints(error, method, arguments, is_nobody=is_nobody):
        click.echo(hint, err=True)


def echo_failure_as_json(error: RpcError) -> None:
    """Show a failure to a program, as the REST face does."""
    problems = error.data if isinstance(error, InvalidParams) else {}
    echo_json({"error": {"code": error.slug, "message": error.message, **problems}}, err=True)


def _hints(error: RpcError, method: Method, arguments: Mapping[str, Any], *, is_nobody: bool) -> Iterator[str]:
    if isinstance(error, InvalidParams):
        schema = method.params.schema
        for key in unread(dict(arguments), schema, schema):
            yield f"Write arrays and objects as JSON: {key}='[\"...\"]'"
    if isinstance(error, InternalError) and is_nobody:
        yield "It ran as nobody in particular; if it asks for the current user, say who with --user NAME"
    if isinstance(error, MissingCapability):
        missing = error.data["requiredCapabilities"]
        if capabilities(asking=True).issuperset(missing):
            yield "It asks whoever calls it; call it in a terminal, without --no-input"


def _spell_block(block: Mapping[str, Any]) -> str:
    if block["type"] == "text":
        return printable(block["text"])
    inner = block.get("resource", block)
    named = [str(inner[key]) for key in ("name", "uri", "mimeType") if key in inner]
    return printable(f"[{block['type']}: {', '.join(named)}]")
