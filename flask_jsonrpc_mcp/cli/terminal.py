"""For people and for programs: tables that fit the terminal, or JSON."""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

GAP = 2
LEAST, LEAST_PROSE = 16, 44
NARROW = 72
"""Below so many columns a table would be all breaks; its cells are put below each other."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Cell:
    """A text in a table and its colour."""

    text: str
    color: str | None = None
    bold: bool = False
    dim: bool = False

    def styled(self, line: str) -> str:
        return click.style(line, fg=self.color, bold=self.bold or None, dim=self.dim or None)


def json_option(command: F) -> F:
    """Add ``--json-output``."""
    return click.option(
        "--json-output/--no-json-output",
        "json_output",
        default=None,
        help="JSON for programs, or text for people; by default JSON when the output is no terminal.",
    )(command)


def wants_json(json_output: bool | None) -> bool:
    """Tell whether to answer in JSON, given what ``--json-output`` says."""
    return not sys.stdout.isatty() if json_output is None else json_output


def echo_json(value: Any, *, err: bool = False) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False), err=err)


def echo_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table; columns that are too wide for the terminal break between words."""
    rows = list(rows)
    total = terminal_width()
    if total < NARROW:
        for row in rows:
            _echo_record(row, total)
        return
    widths = _fit([max(map(width, column)) for column in zip(headings, *_texts(rows), strict=True)], total)
    for row in ([Cell(heading, dim=True) for heading in headings], *rows):
        columns = [(cell, wrap(cell.text, size), size) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(len(lines) for _, lines, _ in columns)):
            parts = [_padded(cell, lines, number, size) for cell, lines, size in columns]
            click.echo((" " * GAP).join(parts).rstrip())


def echo_paragraph(text: str, *, indent: int = 0, **style: Any) -> None:
    """Print a text, broken to fit the terminal."""
    for paragraph in text.splitlines() or [""]:
        for line in wrap(paragraph, terminal_width() - indent):
            click.echo((" " * indent + click.style(line, **style)).rstrip())


def printable(text: str) -> str:
    """Show control characters instead of obeying them: what a tool says may be anyone's text."""
    return _CONTROL_CHARACTERS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size().columns)


def width(text: str) -> int:
    """How many columns a text takes: characters such as 文 take two, accents that are written on others none."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 0 if unicodedata.combining(character) else 1
        for character in text
    )


def wrap(text: str, size: int) -> list[str]:
    """Break a text between words into lines that are not wider than ``size``, and words that are."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".lstrip()
        if width(joined) <= size:
            lines[-1] = joined
            continue
        lines += _pieces(word, size)
    return lines[1:] if lines[0] == "" and len(lines) > 1 else lines


def _pieces(word: str, size: int) -> list[str]:
    pieces = [""]
    for character in word:
        if width(pieces[-1] + character) > size:
            pieces.append("")
        pieces[-1] += character
    return pieces


def _fit(natural: list[int], total: int) -> list[int]:
    """Take from the widest column until the table fits; rather not from the first, which is a name to copy."""
    widths = list(natural)
    least = [natural[0], *[LEAST] * (len(widths) - 2), LEAST_PROSE]
    room = total - GAP * (len(widths) - 1)
    while sum(widths) > room:
        roomy = [number for number, size in enumerate(widths) if size > least[number]] or range(len(widths))
        widths[max(roomy, key=widths.__getitem__)] -= 1
    return widths


def _texts(rows: list[Sequence[Cell]]) -> list[list[str]]:
    return [[cell.text for cell in row] for row in rows]


def _padded(cell: Cell, lines: list[str], number: int, size: int) -> str:
    line = lines[number] if number < len(lines) else ""
    return cell.styled(line) + " " * (size - width(line)) if line else " " * size


def _echo_record(row: Sequence[Cell], total: int) -> None:
    first, *rest = row
    click.echo(first.styled(first.text))
    for cell in rest:
        if cell.text:
            for line in wrap(cell.text, total - GAP):
                click.echo(" " * GAP + cell.styled(line))
