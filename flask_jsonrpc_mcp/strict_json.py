"""JSON in and out, strictly: what enters is plain UTF-8 JSON, and so is what leaves.

Python's own reader is more generous than JSON: it takes NaN, turns ``1e999`` into infinity, guesses encodings,
keeps the last of two members of one name and recurses as deep as it is told to. Everything it would let through
is refused here, once for every face.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn

from .errors import ParseError
from .speed import read_quickly, write_quickly

MAX_DEPTH = 64
# Deeper than any request may be, shallow enough for every later walk over the value.
MAX_RESULT_DEPTH = 128
# More than any float has, and few enough to spell 1E+999999 nowhere.
MAX_DECIMAL_DIGITS = 400

# What JSON takes for space; Python would strip more.
_SPACE = " \t\n\r"
# A string literal, also one that never ends: a closed pattern would be tried again at every later quote.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


def read(text: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """Parse one JSON value.

    :raises ParseError: for anything that is not strict JSON in UTF-8, or is nested deeper than ``max_depth``.
    """
    try:
        if isinstance(text, str):
            is_shallow = text.count("[") + text.count("{") <= max_depth
        else:
            is_shallow = text.count(b"[") + text.count(b"{") <= max_depth
            quickly = read_quickly(text) if is_shallow else None
            if quickly is not None:
                return quickly[0]
            text = text.decode("utf-8")
        if not is_shallow and _depth(text) > max_depth:
            raise ParseError()
        text = text.strip(_SPACE)
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise ParseError()
        if "\\u" in text:
            # Half a surrogate pair is a str in Python but no text: it would break logs, databases and the reply.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ParseError() from error
    return value


def write(value: Any) -> bytes:
    """Spell a plain value (see :func:`to_plain`) as UTF-8 JSON, members in the order they have."""
    quickly = write_quickly(value)
    return quickly if quickly is not None else _ENCODER.encode(value).encode("utf-8")


def to_plain(value: Any, depth: int = MAX_RESULT_DEPTH) -> Any:
    """Turn what a method returned into what JSON can hold.

    Dates and times become ISO 8601 text, UUIDs and decimals text, enums their value, dataclasses objects.

    :raises TypeError: for values JSON has no form for.
    :raises ValueError: for NaN, infinity, half a surrogate pair, numbers too long to spell, and values nested too
        deeply or within themselves.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            value.encode("utf-8")  # half a surrogate pair is no text
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        if value.bit_length() > 64:
            str(value)  # Python refuses to spell numbers of thousands of digits
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError("NaN and infinity have no form in JSON")
        return value
    if depth == 0:
        raise ValueError("the value is nested too deeply, or within itself")
    # The exact types first: they are what most values are made of, and isinstance() of an abstract class is slow.
    if kind is dict or isinstance(value, Mapping):
        plain = {}
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                key = _member_name(key)
            plain[key] = to_plain(item, depth - 1)
        return plain
    if kind is list or isinstance(value, (list, tuple)):
        return [to_plain(item, depth - 1) for item in value]
    return _scalar_or_record(value, depth)


def _member_name(key: Any) -> Any:
    if not isinstance(key, str):
        raise TypeError(f"a member name in JSON must be a string, not {type(key).__name__}")
    # Names are text like any other: half a surrogate pair is none, and an enum stands for its value.
    return to_plain(key)


def _scalar_or_record(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return to_plain(value.value, depth - 1)
    if isinstance(value, str):
        return to_plain(str.__str__(value), depth)
    if isinstance(value, int):
        return to_plain(int(value), depth)
    if isinstance(value, float):
        return to_plain(float(value), depth)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name), depth - 1) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("NaN and infinity have no form in JSON")
    if max(abs(value.adjusted()), -int(value.as_tuple().exponent)) > MAX_DECIMAL_DIGITS:
        raise ValueError("the decimal has too many digits")
    return format(value, "f")  # str() would write 1E-8


def _depth(text: str) -> int:
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("the same member twice")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("number out of range")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
