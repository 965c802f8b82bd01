"""``flask mcp call``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from flask.cli import with_appcontext

from ..calls import Call, Cancellation, Result
from ..errors import InvalidParams, RpcError
from ..mcp.asking import answer_by_asking
from ..methods import Method
from ..questions import Answers
from .arguments import read_arguments
from .asking import Progress, ask, can_ask, capabilities
from .callers import Session, caller_options, session
from .finding import complete_name, find_method
from .outcomes import echo_failure, echo_failure_as_json, echo_result
from .terminal import echo_json, json_option, wants_json

FACE = "cli"

TOOL_FAILED, WRONG_USAGE = 1, 2


@click.command("call")
@click.argument("name", shell_complete=complete_name)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "whole", metavar="JSON", help="All arguments as a JSON object; @FILE reads a file, - stdin.")
@click.option("--no-input", is_flag=True, help="Ask nothing; a tool that wants a confirmation runs without.")
@caller_options
@json_option
@with_appcontext
def call_method(
    name: str,
    pairs: tuple[str, ...],
    whole: str | None,
    no_input: bool,
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

    What a tool asks, it asks here, and stderr shows how far it is. The exit code is 1 when the tool failed, and 2 when
    it could not be called like this.
    """
    with session(blueprint, user, as_permissions) as current:
        method = find_method(current, name)
        arguments = read_arguments(pairs, _read_whole(whole), method.params.schema)
        asking = can_ask() and not no_input
        outcome = _run(current, method, arguments, asking=asking)
    # The request has ended, as it has for a client when the answer arrives.
    if isinstance(outcome, RpcError):
        # On stderr people look; only who asks for JSON gets it there too.
        if json_output:
            echo_failure_as_json(outcome)
        else:
            echo_failure(outcome, method, arguments, is_nobody=current.caller.user is None)
        raise click.exceptions.Exit(WRONG_USAGE if isinstance(outcome, InvalidParams) else TOOL_FAILED)
    if wants_json(json_output):
        echo_json(outcome.plain)
    else:
        echo_result(outcome)


def _run(current: Session, method: Method, arguments: dict[str, Any], *, asking: bool) -> Result | RpcError:
    listener, cancellation = Progress(), Cancellation()

    def run(answers: Answers) -> Result:
        call = Call(
            method.name,
            arguments,
            current.caller,
            FACE,
            listed_only=False,
            capabilities=capabilities(asking=asking),
            answers=answers,
            listener=listener,
            cancellation=cancellation,
        )
        try:
            return current.core.dispatcher.invoke(call)
        finally:
            listener.clear()

    try:
        return answer_by_asking(run, ask)
    except RpcError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            cancellation.request()
            raise click.Abort from error
        return error


def _read_whole(whole: str | None) -> str | None:
    if whole is None or not (whole == "-" or whole.startswith("@")):
        return whole
    try:
        return sys.stdin.read() if whole == "-" else Path(whole[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--json {whole} cannot be read: {error}") from error
