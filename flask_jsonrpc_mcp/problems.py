"""`Problem`: what is wrong with a part of a value, with its path; and texts that are short enough to show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MAX_ERROR_TEXT = 1000
MAX_QUOTED = 200
MAX_PROBLEMS = 20
MAX_PROBLEM_BYTES = 1000
MAX_PROBLEMS_BYTES = 8 * 1024

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Invisible characters that str.isprintable() accepts.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)


def one_line(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """Put a text on one line and cut it to ``limit`` characters."""
    if type(text) is str and len(text) <= limit and text.isprintable():
        return text  # as almost every text
    # Cut first, because the text may be a megabyte long. A lone surrogate, which a file name can contain, is replaced
    # because UTF-8 cannot encode it.
    line = _CONTROL_CHARACTERS.sub(" ", text[: limit + 1].encode("utf-8", "replace").decode("utf-8"))
    return line if len(text) <= limit else line[: limit - 1] + "…"


def is_visible(char: str) -> bool:
    """Return whether a person can see a character. The space is one; other blanks and controls are not."""
    return char.isprintable() and char not in _BLANK


class Problem(NamedTuple):
    """One violation of a schema. ``path`` is a JSON Pointer, empty for the whole value."""

    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message}

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def pointer(base: str, *steps: object) -> str:
    """Extend a JSON Pointer."""
    escaped = (one_line(str(step), MAX_QUOTED).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([base, *(f"/{step}" for step in escaped)])


def problems_of_messages(messages: Any, path: str = "") -> list[Problem]:
    """Flatten the nested messages of a `marshmallow.ValidationError`."""
    if isinstance(messages, Mapping):
        return [
            problem
            for name, nested in messages.items()
            for problem in problems_of_messages(nested, path if name == "_schema" else pointer(path, name))
        ]
    texts = messages if isinstance(messages, list) else [messages]
    return [Problem(path, one_line(str(text), MAX_QUOTED)) for text in texts]


def within_bounds(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Cut long problems, and drop the last ones if there are too many or they are too long together."""
    left = MAX_PROBLEMS_BYTES
    for problem in problems[:MAX_PROBLEMS]:
        bounded = Problem(*map(_cut, problem))
        left -= len(json.dumps(bounded.to_json(), ensure_ascii=False).encode())
        if left < 0:
            return
        yield bounded


def _cut(text: str) -> str:
    """Cut a text to its maximum size in bytes."""
    encoded = text.encode()
    return text if len(encoded) <= MAX_PROBLEM_BYTES else encoded[:MAX_PROBLEM_BYTES].decode("utf-8", "ignore") + "…"
