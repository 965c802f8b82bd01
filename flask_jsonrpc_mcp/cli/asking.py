"""What a running method says to, and asks of, the person at the terminal: on stderr, for stdout is the result's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..questions import Elicit, ElicitUrl, ListRoots, Question, UnusableAnswer
from .arguments import read_value
from .schemas import spell_notes, spell_type
from .terminal import printable, terminal_width

BAR = 20
_CLEAR_LINE = "\x1b[K"


def can_ask() -> bool:
    """Tell whether there is a person to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def capabilities(*, asking: bool) -> frozenset[str]:
    """What this client can do for a method. It has no model, so there is no sampling."""
    return frozenset({ListRoots.feature, *([Elicit.feature, ElicitUrl.feature] if asking else [])})


def ask(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Put questions to the person, until there is an answer that fits each of them."""
    return {key: _ask(question) for key, question in questions.items()}


class Progress:
    """How a call gets on: one line that is written over and over, where there is a terminal to see it."""

    def __init__(self) -> None:
        self._is_shown = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        if not sys.stderr.isatty():
            return
        parts = [f"{done:g}"] if not total else [_bar(done / total), f"{done:g} of {total:g}"]
        line = "  ".join([*parts, *([] if message is None else [printable(message)])])
        # Back to the beginning, so that whatever is logged next is written over it.
        click.echo(f"{_CLEAR_LINE}{line[: terminal_width() - 1]}\r", nl=False, err=True)
        self._is_shown = True

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self.clear()
        source = "" if logger is None else f"{logger}: "
        click.echo(f"{level}: {source}{printable(str(data))}", err=True)

    def clear(self) -> None:
        """Take the line away, before something else is written."""
        if self._is_shown:
            click.echo(_CLEAR_LINE, nl=False, err=True)
            self._is_shown = False


def _bar(share: float) -> str:
    filled = round(BAR * min(max(share, 0), 1))
    return "[" + "#" * filled + "." * (BAR - filled) + "]"


def _ask(question: Question) -> dict[str, Any]:
    if isinstance(question, ListRoots):
        here = Path.cwd()
        return {"roots": [{"uri": here.as_uri(), "name": here.name}]}
    while True:
        response = _ask_person(question.params)
        try:
            question.read(response)
        except UnusableAnswer as error:
            click.secho(str(error), fg="red", err=True)
        else:
            return response


def _ask_person(params: Mapping[str, Any]) -> dict[str, Any]:
    """Put a question to the person. Ctrl-C and Ctrl-D are answers too: they do not want to."""
    message = printable(params["message"])
    try:
        if params["mode"] == "url":
            click.echo(f"{message}\n{printable(params['url'])}", err=True)
            return _agreed(click.confirm("Have you opened it?", err=True))
        schema = params["requestedSchema"]
        if not schema["properties"]:
            return _agreed(click.confirm(message, err=True))
        click.echo(f"{message} (Ctrl-C to leave it)", err=True)
        given = {name: _ask_value(name, rules, schema) for name, rules in schema["properties"].items()}
    except click.Abort:
        click.echo(err=True)
        return {"action": "cancel"}
    return {"action": "accept", "content": {name: value for name, value in given.items() if value is not None}}


def _agreed(yes: bool) -> dict[str, Any]:
    return {"action": "accept"} if yes else {"action": "decline"}


def _ask_value(name: str, rules: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    described = [rules.get("title") or name, rules.get("description"), spell_type(rules), spell_notes(rules)]
    label = ", ".join(printable(str(part)) for part in described if part)
    default = rules.get("default", None if name in schema.get("required", ()) else "")
    text = click.prompt(label, default=default, show_default=False, err=True, type=str)
    return read_value(text, rules, schema) if text != "" else rules.get("default")
