"""What is wrong with a value: where, and no more of it than an answer has room for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import MAX_PROBLEMS, MAX_QUOTED, Problem, one_line
from ..strict_json import write

MAX_BYTES = 8 * 1024
_MAX_TEXT_BYTES = 1000


def within_bounds(problems: Iterable[Problem]) -> list[Problem]:
    """Keep the first problems, as many as an answer has room for, in bytes: a character can be four."""
    kept = []
    room = MAX_BYTES
    for problem in itertools.islice(problems, MAX_PROBLEMS):
        bounded = Problem(_cut(problem.path), _cut(problem.message))
        room -= len(write(bounded.to_json()))
        if room < 0:
            break
        kept.append(bounded)
    return kept


def from_marshmallow(messages: Any, path: str = "") -> list[Problem]:
    """Flatten the nested messages of a marshmallow ``ValidationError``."""
    if isinstance(messages, Mapping):
        inner = (
            from_marshmallow(nested, path if name == "_schema" else pointer(path, name))
            for name, nested in messages.items()
        )
        return list(itertools.chain.from_iterable(inner))
    texts = messages if isinstance(messages, list) else [messages]
    return [Problem(path, one_line(str(text), MAX_QUOTED)) for text in texts]


def pointer(base: str, *steps: object) -> str:
    """Extend a JSON Pointer."""
    escaped = (one_line(str(step), MAX_QUOTED).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([base, *(f"/{step}" for step in escaped)])


def _cut(text: str) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= _MAX_TEXT_BYTES:
        return text
    return encoded[:_MAX_TEXT_BYTES].decode("utf-8", "ignore") + "…"
