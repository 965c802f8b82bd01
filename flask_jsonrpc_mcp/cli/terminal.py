"""Show the person at the terminal the progress of a call, and ask them its questions.

Everything goes to stderr, because stdout is for the result.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..ask import Elicit, ElicitUrl, ListRoots, Question, UnusableAnswer
from .output import printable, terminal_width

_CLEAR_LINE = "\x1b[K"
_TYPES: dict[str, click.ParamType[Any]] = {"integer": click.INT, "number": click.FLOAT, "boolean": click.BOOL}


def can_ask() -> bool:
    """Return whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def capabilities(*, asking: bool) -> frozenset[str]:
    """Return what this client can do for a method. It has no model, so no sampling."""
    return frozenset({ListRoots.feature, *([Elicit.feature, ElicitUrl.feature] if asking else [])})


class Progress:
    """Shows the progress of a call on one line, if stderr is a terminal, and what the method logs."""

    def __init__(self) -> None:
        self._is_shown = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        if sys.stderr.isatty():
            line = (f"{done:g} of {total:g}" if total else f"{done:g}") + (f"  {printable(message)}" if message else "")
            # Back to the start of the line, where the next output replaces it.
            click.echo(f"{_CLEAR_LINE}{line[: terminal_width() - 1]}\r", nl=False, err=True)
            self._is_shown = True

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self.clear()
        click.echo(f"{level}: {f'{logger}: ' if logger else ''}{printable(str(data))}", err=True)

    def clear(self) -> None:
        """Remove the line before other output."""
        if self._is_shown:
            click.echo(_CLEAR_LINE, nl=False, err=True)
            self._is_shown = False


def ask(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Ask the person every question, again if an answer does not fit, and return the responses by key."""
    return {key: _ask(question) for key, question in questions.items()}


def _ask(question: Question) -> dict[str, Any]:
    if isinstance(question, ListRoots):
        here = Path.cwd()
        return {"roots": [{"uri": here.as_uri(), "name": here.name}]}
    while True:
        try:
            response = _prompt(question.params)
            question.read(response)
        except UnusableAnswer as error:
            click.secho(printable(str(error)), fg="red", err=True)
        except click.Abort:  # Ctrl-C or Ctrl-D
            click.echo(err=True)
            return {"action": "cancel"}
        else:
            return response


def _prompt(params: Mapping[str, Any]) -> dict[str, Any]:
    message, form = printable(params["message"]), params.get("requestedSchema", {})
    if params["mode"] == "url":
        click.echo(f"{message}\n{printable(params['url'])}", err=True)
        message = "Have you opened it?"
    if not form.get("properties"):
        return {"action": "accept" if click.confirm(message, err=True) else "decline"}
    click.echo(f"{message} (Ctrl-C to cancel)", err=True)
    given = {name: _prompt_field(name, rules, form) for name, rules in form["properties"].items()}
    return {"action": "accept", "content": {name: value for name, value in given.items() if value is not None}}


def _prompt_field(name: str, rules: Mapping[str, Any], form: Mapping[str, Any]) -> Any:
    is_list = rules.get("type") == "array"
    item = rules["items"] if is_list else rules
    choices = item.get("enum") or [option["const"] for option in item.get("oneOf") or item.get("anyOf") or ()]
    kind = click.Choice(choices) if choices else _TYPES.get(item.get("type", ""), click.STRING)

    def convert(entered: Any) -> Any:
        if entered == "":
            return None
        if not isinstance(entered, str):
            return entered  # the default
        return [kind(part.strip()) for part in entered.split(",")] if is_list else kind(entered)

    label = [rules.get("title") or name, rules.get("description"), "separated by commas" if is_list else None]
    return click.prompt(
        printable(", ".join(filter(None, label))),
        default=rules.get("default", None if name in form.get("required", ()) else ""),
        show_default="default" in rules,
        type=kind,
        value_proc=convert,
        err=True,
    )
