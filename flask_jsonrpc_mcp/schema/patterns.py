"""Regular expressions that could hold a worker: recognised when a method is added, before anyone can send a text.

Python tries every way in which a pattern can match. A repetition inside of a repetition has exponentially many when
nothing in it tells one round from the next: ``(a+)+`` takes seconds on thirty characters, ``(a+-)+`` does not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as ops
    from re import _parser as parser
else:
    import sre_constants as ops
    import sre_parse as parser

_ALPHABET = frozenset(range(128)) | {0x2603}  # ASCII, and a snowman for all the rest
_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that some text could keep busy for ever.

    :raises ValueError: saying what to write instead.
    """
    for body in _repeated_bodies(parser.parse(pattern)):
        separators = [_characters([node]) for node in body if _is_mandatory(node)]
        for flexible in _flexible_parts(body):
            characters = _characters(flexible)
            if not any(separator and not separator & characters for separator in separators):
                raise ValueError(
                    f"pattern {pattern!r} repeats what repeats itself, and some texts would keep it busy for ever;"
                    " let each round begin or end with a character that the inner one cannot match"
                )


def _repeated_bodies(nodes: Any) -> Iterator[list[Any]]:
    """Find what a pattern repeats without a limit."""
    for operation, argument in nodes:
        if _is_repeat(operation) and _is_unlimited(argument):
            yield _unwrapped(argument[2])
        for inner in _inner_sequences(operation, argument):
            yield from _repeated_bodies(inner)


def _unwrapped(nodes: Iterable[Any]) -> list[Any]:
    """Look through groups that are there once."""
    flat = []
    for operation, argument in nodes:
        if operation is ops.SUBPATTERN:
            flat += _unwrapped(argument[-1])
        else:
            flat.append((operation, argument))
    return flat


def _flexible_parts(nodes: Iterable[Any]) -> Iterator[Any]:
    """Find the parts that can match more or less of a text."""
    for operation, argument in nodes:
        if _is_repeat(operation) and argument[0] != argument[1]:
            yield argument[2]
        if operation is ops.BRANCH:
            yield from (branch for branch in argument[1] if len({_width(b) for b in argument[1]}) > 1)
        for inner in _inner_sequences(operation, argument):
            yield from _flexible_parts(inner)


def _is_repeat(operation: Any) -> bool:
    return operation in (ops.MAX_REPEAT, ops.MIN_REPEAT)


def _is_unlimited(argument: Any) -> bool:
    return bool(argument[1] > 10)  # a few rounds more are a few rounds more


def _is_mandatory(node: Any) -> bool:
    operation, argument = node
    if _is_repeat(operation):
        return bool(argument[0] > 0 and argument[0] == argument[1])
    return operation in (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY)


def _width(branch: Any) -> tuple[int, int]:
    low, high = branch.getwidth()
    return int(low), int(high)


def _inner_sequences(operation: Any, argument: Any) -> list[Any]:
    if _is_repeat(operation):
        return [argument[2]]
    if operation is ops.SUBPATTERN:
        return [argument[-1]]
    if operation is ops.BRANCH:
        return list(argument[1])
    if operation in (ops.ASSERT, ops.ASSERT_NOT):
        return [argument[1]]
    return []


def _characters(nodes: Iterable[Any]) -> frozenset[int]:
    """All characters that a part can match, anywhere in it."""
    found: frozenset[int] = frozenset()
    for operation, argument in nodes:
        if operation is ops.LITERAL:
            found |= {argument if argument in _ALPHABET else 0x2603}
        elif operation is ops.NOT_LITERAL:
            found |= _ALPHABET - {argument}
        elif operation is ops.ANY:
            found |= _ALPHABET
        elif operation is ops.IN:
            found |= _in_class(argument)
        for inner in _inner_sequences(operation, argument):
            found |= _characters(inner)
    return found


def _in_class(items: Iterable[Any]) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    negated = False
    for operation, argument in items:
        if operation is ops.NEGATE:
            negated = True
        elif operation is ops.LITERAL:
            found |= {argument if argument in _ALPHABET else 0x2603}
        elif operation is ops.RANGE:
            low, high = argument
            found |= {code for code in _ALPHABET if low <= code <= high} | ({0x2603} if high > 127 else set())
        elif operation is ops.CATEGORY:
            category = re.compile(_CATEGORIES[argument], re.ASCII)
            found |= {code for code in _ALPHABET if category.match(chr(code))}
    return _ALPHABET - found if negated else found
