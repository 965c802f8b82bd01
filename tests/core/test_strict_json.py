"""The one JSON reader and writer."""

from __future__ import annotations

import dataclasses
import datetime
import json
import uuid
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_jsonrpc_mcp.errors import ParseError
from flask_jsonrpc_mcp.strict_json import read, to_plain, write

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{} {}",
        b"[1]x",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"1" * 4301,
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'"\xff"',
        '"é"'.encode("latin-1"),
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32"),
        b"\xef\xbb\xbf{}",
        b'{"a": 1, "a": 2}',
        b'[{"b": {"a": 1, "a": 1}}]',
        b'"\\ud800"',
        b'{"\\udfff": 1}',
        b"'single'",
        b"{a: 1}",
        b"[1,]",
        b'"tab\there"',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_not_strict_json_is_refused(text: bytes) -> None:
    with pytest.raises(ParseError):
        read(text)


def test_nesting_within_the_limit_is_read() -> None:
    assert read("[" * 64 + "]" * 64) is not None


def test_brackets_inside_strings_are_not_nesting() -> None:
    text = json.dumps(["[" * 1000, '"{' * 1000, "\\" * 1001 + "["])
    assert read(text) == json.loads(text)


def test_a_flat_body_with_many_brackets_is_read() -> None:
    assert len(read(json.dumps([{"a": []}] * 1000))) == 1000


def test_a_body_of_escaped_quotes_is_refused_in_linear_time() -> None:
    """A pattern that insists on the closing quote would try again at each of a million quotes."""
    with pytest.raises(ParseError):
        read(b"[" * 65 + b'"' + b'\\"' * 1_000_000)


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert read(b'"\\ud83d\\ude00"') == "😀"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        value = read(text)
    except ParseError:
        return
    assert read(write(value)) == value


@given(JSON_VALUES)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert read(write(to_plain(value))) == value


def test_members_keep_their_order() -> None:
    assert write({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"b":1,"a":{"d":1,"c":2}}'


class Colour(Enum):
    RED = "red"


class Name(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc), "2026-01-02T03:04:00+00:00"),
        (datetime.time(3, 4), "03:04:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Decimal("0.00000001"), "0.00000001"),
        (Decimal("100000").normalize(), "100000"),
        (Decimal(str(5e-324)), "0." + "0" * 323 + "5"),
        (Colour.RED, "red"),
        (Point(1, datetime.date(2026, 1, 2)), {"x": 1, "when": "2026-01-02"}),
        ((1, [2]), [1, [2]]),
        (Name("x"), "x"),
        (Count(3), 3),
        (Ratio(0.5), 0.5),
        ({Name("key"): 1}, {"key": 1}),
    ],
)
def test_values_with_a_form_in_json_become_plain(value: object, plain: object) -> None:
    result = to_plain(value)
    assert result == plain
    assert type(result) is type(plain)


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "value",
    [
        {print},
        1j,
        print,
        object(),
        float("nan"),
        float("inf"),
        Ratio("nan"),
        Decimal("NaN"),
        Decimal("1E+999999"),
        Decimal("1E-999999"),
        {1: "a"},
        {None: "a"},
        loop(),
        Colour,
        "\ud800",
        Name("\ud800"),
        {"\ud800": 1},
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_without_a_form_in_json_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        to_plain(value)
