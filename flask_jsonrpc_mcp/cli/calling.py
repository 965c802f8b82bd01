"""``flask mcp call``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click
from flask.cli import with_appcontext

from ..calls import Call, Result
from ..errors import InternalError, InvalidParams, RpcError
from ..methods import Method
from .arguments import read_arguments, unread
from .callers import Session, caller_options, session
from .finding import complete_name, find_method
from .terminal import echo_json, json_option, wants_json

FACE = "cli"

TOOL_FAILED, WRONG_USAGE = 1, 2

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@click.command("call")
@click.argument("name", shell_complete=complete_name)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "whole", metavar="JSON", help="All arguments as a JSON object; @FILE reads a file, - stdin.")
@caller_options
@json_option
@with_appcontext
def call_method(
    name: str,
    pairs: tuple[str, ...],
    whole: str | None,
    blueprint: str | None,
    user: str | None,
    as_permissions: str | None,
    json_output: bool | None,
) -> None:
    """Call a tool or any other method.

    It runs in the app itself, inside a request of its own; no server is needed.

    Values are typed by the tool's schema, arrays and objects are JSON, and key.inner=value reaches into an object:

    \b
      flask mcp call articles.list limit=3 type=news
      flask mcp call articles.search query=compost within='["title"]'

    The exit code is 1 when the tool failed, and 2 when it could not be called like this.
    """
    with session(blueprint, user, as_permissions) as current:
        method = find_method(current, name)
        arguments = read_arguments(pairs, _read_whole(whole), method.params.schema)
        outcome = _run(current, method, arguments)
    # The request has ended, as it has for a client when the answer arrives.
    if isinstance(outcome, RpcError):
        _fail(outcome, method, arguments, as_json=bool(json_output), is_nobody=current.caller.user is None)
    if wants_json(json_output):
        echo_json(outcome.plain)
    else:
        _echo_result(outcome)


def _run(current: Session, method: Method, arguments: dict[str, Any]) -> Result | RpcError:
    call = Call(method.name, arguments, current.caller, FACE, listed_only=False)
    try:
        return current.core.dispatcher.invoke(call)
    except RpcError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise click.Abort from error
        return error


def _read_whole(whole: str | None) -> str | None:
    if whole is None or not (whole == "-" or whole.startswith("@")):
        return whole
    try:
        return sys.stdin.read() if whole == "-" else Path(whole[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--json {whole} cannot be read: {error}") from error


def _fail(error: RpcError, method: Method, arguments: dict[str, Any], *, as_json: bool, is_nobody: bool) -> NoReturn:
    wrong_usage = isinstance(error, InvalidParams)
    if as_json:
        problems = error.data if isinstance(error, InvalidParams) else {}
        echo_json({"error": {"code": error.slug, "message": error.message, **problems}}, err=True)
    else:
        for line in _spell_failure(error, method, arguments, is_nobody=is_nobody):
            click.echo(line, err=True)
    raise click.exceptions.Exit(WRONG_USAGE if wrong_usage else TOOL_FAILED)


def _spell_failure(error: RpcError, method: Method, arguments: dict[str, Any], *, is_nobody: bool) -> Iterable[str]:
    if isinstance(error, InvalidParams):
        yield click.style(f"{method.name} does not take these arguments:", fg="red")
        yield from (f"  {click.style(p.path or '/', bold=True)}  {p.message}" for p in error.problems)
        schema = method.params.schema
        for key in unread(arguments, schema, schema):
            yield f"Write arrays and objects as JSON: {key}='[\"...\"]'"
        return
    if not isinstance(error, InternalError):
        yield click.style(f"{method.name} failed: ", fg="red") + _printable(error.message)
        return
    yield (
        click.style(f"{method.name} failed", fg="red")
        + f" unexpectedly; the log has the reason under id {error.error_id}"
    )
    if is_nobody:
        yield "It ran as nobody in particular; if it asks for the current user, say who with --user NAME"


def _echo_result(result: Result) -> None:
    for block in result.content or ():
        click.echo(_spell_block(block))
    if isinstance(result.value, str):
        click.echo(_printable(result.value))
    elif result.value is not None or result.content is None:
        echo_json(result.value)


def _spell_block(block: dict[str, Any]) -> str:
    """Show content in a terminal: texts as they are, of anything else what it is."""
    if block["type"] == "text":
        return _printable(block["text"])
    inner = block.get("resource", block)
    named = [str(inner[key]) for key in ("name", "uri", "mimeType") if key in inner]
    return _printable(f"[{block['type']}: {', '.join(named)}]")


def _printable(text: str) -> str:
    """Show control characters instead of obeying them: what a tool returns may be anyone's text."""
    return _CONTROL_CHARACTERS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
