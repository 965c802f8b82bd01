"""Regular expressions that could hold a worker: recognised when a method is added, before anyone can send a text.

Python tries every way in which a pattern can match. A repetition has exponentially many when its rounds can be divided
in more than one way and nothing tells where one ends: ``(a+)+`` and ``(a|a)*`` take seconds on thirty characters,
``(a+-)+`` does not. Only regular expressions whose rounds are plain to tell apart are taken; the check is on the safe
side, and may refuse one that would do.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as ops
    from re import _parser as parser
else:
    import sre_constants as ops
    import sre_parse as parser

Characters = frozenset[int]

_OTHER = 0x2603  # a snowman, for everything beyond ASCII
_ALPHABET: Characters = frozenset(range(128)) | {_OTHER}
_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}
_CAPITAL = re.compile(r"\\.|\(\?P[<=]\w+|[A-Z]", re.DOTALL)
_MANY_OPTIONAL_PARTS = 6
_FEW_ROUNDS = 5


def check_pattern(pattern: str, flags: int = 0) -> None:
    """Refuse a pattern that some text could keep busy for ever.

    :raises ValueError: saying what to write instead.
    """
    ignores_case = flags & re.IGNORECASE or re.search(r"\(\?[a-zA-Z-]*i", pattern)
    for nodes in _sequences(parser.parse(_in_one_case(pattern) if ignores_case else pattern, flags)):
        if _is_ambiguous_row(nodes) or any(_is_ambiguous_repeat(*node) for node in nodes):
            raise ValueError(
                f"pattern {pattern!r} repeats what can be divided in several ways, so some texts keep it busy for ever;"
                " let each round begin or end with a character that nothing else in it matches"
            )


def _in_one_case(pattern: str) -> str:
    """Write capitals small, but for those that mean something else: ``\\S``, ``(?P<Name>``."""
    lowered = _CAPITAL.sub(lambda match: match[0].lower() if len(match[0]) == 1 else match[0], pattern)
    try:
        parser.parse(lowered)
    except re.error:  # a range such as [Z-_]
        return pattern
    return lowered


def _is_ambiguous_repeat(operation: Any, argument: Any) -> bool:
    if not _is_repeat(operation):
        return False
    _, most, body = argument
    nodes = _unwrapped(body)
    if most <= 1 or (most <= _FEW_ROUNDS and not any(_is_unlimited(part) for part in _repeats_within(nodes))):
        return False
    if _has_twins(nodes):
        return True
    separators = [_characters([node]) for node in nodes if _width([node])[0] > 0]
    for part in _flexible_parts(nodes):
        characters = _characters(part)
        if not any(separator and not separator & characters for separator in separators):
            return True
    return False


def _is_ambiguous_row(nodes: Sequence[Any]) -> bool:
    """Tell whether many parts follow each other that may be there or not: ``a?a?a?...aaa``."""
    optional = [_characters([node]) if _is_repeat(node[0]) and node[1][0] != node[1][1] else None for node in nodes]
    for is_run, run in itertools.groupby(optional, key=lambda characters: characters is not None):
        if is_run and len(parts := list(run)) > _MANY_OPTIONAL_PARTS:
            return any(first & second for first, second in itertools.pairwise(parts) if first and second)
    return False


def _sequences(nodes: Any) -> Iterator[list[Any]]:
    """Walk over all sequences of a pattern: itself, and those in its groups, branches and repetitions."""
    yield list(nodes)
    for node in nodes:
        for inner in _inner_sequences(*node):
            yield from _sequences(inner)


def _unwrapped(nodes: Iterable[Any]) -> list[Any]:
    """Look through groups that are there once."""
    flat: list[Any] = []
    for operation, argument in nodes:
        flat += _unwrapped(argument[-1]) if operation is ops.SUBPATTERN else [(operation, argument)]
    return flat


def _repeats_within(nodes: Iterable[Any]) -> Iterator[Any]:
    for operation, argument in nodes:
        if _is_repeat(operation):
            yield argument
        for inner in _inner_sequences(operation, argument):
            yield from _repeats_within(inner)


def _flexible_parts(nodes: Iterable[Any]) -> Iterator[Any]:
    """Find the parts that can match a text in several ways."""
    for operation, argument in nodes:
        if _is_repeat(operation) and argument[0] != argument[1]:
            yield argument[2]
        if operation is ops.BRANCH and any(_begin_alike(one, other) for one, other in _pairs(argument[1])):
            yield from argument[1]
        for inner in _inner_sequences(operation, argument):
            yield from _flexible_parts(inner)


def _has_twins(nodes: Iterable[Any]) -> bool:
    """Tell whether there are two branches for one text: each round doubles the ways, whatever is around them."""
    for operation, argument in nodes:
        if operation is ops.BRANCH:
            for one, other in _pairs(argument[1]):
                (low, high), (other_low, other_high) = _width(one), _width(other)
                if low <= other_high and other_low <= high and _begin_alike(one, other):
                    return True
        if any(_has_twins(inner) for inner in _inner_sequences(operation, argument)):
            return True
    return False


def _pairs(branches: Iterable[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    return itertools.combinations([list(branch) for branch in branches], 2)


def _begin_alike(one: list[Any], other: list[Any]) -> bool:
    """Tell whether the beginning of a text can fail to tell which branch it takes."""
    if not one or not other:
        return True
    if _is_literal(one) and _is_literal(other):
        shorter, longer = sorted((one, other), key=len)
        return longer[: len(shorter)] == shorter
    return bool(_first_characters(one) & _first_characters(other))


def _is_literal(nodes: Iterable[Any]) -> bool:
    return all(operation is ops.LITERAL for operation, _ in nodes)


def _is_repeat(operation: Any) -> bool:
    return operation in (ops.MAX_REPEAT, ops.MIN_REPEAT)


def _is_unlimited(argument: Any) -> bool:
    return bool(argument[1] > 10)


def _width(nodes: Sequence[Any]) -> tuple[int, int]:
    low, high = parser.SubPattern(parser.State(), list(nodes)).getwidth()
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


def _first_characters(nodes: Iterable[Any]) -> Characters:
    """All characters with which a part can begin."""
    found: Characters = frozenset()
    for node in nodes:
        found |= _one_character(*node)
        for inner in _inner_sequences(*node):
            found |= _first_characters(inner)
        if _width([node])[0] > 0:
            break
    return found


def _characters(nodes: Iterable[Any]) -> Characters:
    """All characters that a part can match, anywhere in it."""
    found: Characters = frozenset()
    for node in nodes:
        found |= _one_character(*node)
        for inner in _inner_sequences(*node):
            found |= _characters(inner)
    return found


def _one_character(operation: Any, argument: Any) -> Characters:
    if operation is ops.LITERAL:
        return frozenset({argument if argument in _ALPHABET else _OTHER})
    if operation is ops.NOT_LITERAL:
        return _ALPHABET - {argument}
    if operation is ops.ANY:
        return _ALPHABET - {ord("\n")}
    if operation is ops.IN:
        return _in_class(argument)
    if operation in (ops.GROUPREF, ops.GROUPREF_EXISTS):
        return _ALPHABET
    return frozenset()


def _in_class(items: Iterable[Any]) -> Characters:
    found: Characters = frozenset()
    negated = False
    for operation, argument in items:
        if operation is ops.NEGATE:
            negated = True
        elif operation is ops.LITERAL:
            found |= {argument if argument in _ALPHABET else _OTHER}
        elif operation is ops.RANGE:
            low, high = argument
            found |= {code for code in _ALPHABET if low <= code <= high} | ({_OTHER} if high > 127 else set())
        elif operation is ops.CATEGORY:
            category = re.compile(_CATEGORIES[argument], re.ASCII)
            found |= {code for code in _ALPHABET if category.match(chr(code))}
    return (_ALPHABET - found) | {_OTHER} if negated else found
