"""Parse and serialise strict JSON in UTF-8.

Python's parser accepts more than JSON: NaN, ``1e999`` as infinity, several encodings, two members of the same name, and
any depth. This module rejects all of that, once for every face.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import math
import sys
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

from .errors import ParseError

orjson: Any
try:
    import orjson  # from the ``speed`` extra
except ImportError:
    orjson = None

MAX_DEPTH = 64
# Deeper than any request may be, shallow enough for every recursive function that walks the value later.
MAX_RESULT_DEPTH = 128
# More than any float has, and few enough that 1E+999999 is rejected and not expanded.
MAX_DECIMAL_DIGITS = 400

# JSON's whitespace; str.strip() would strip more.
_SPACE = " \t\n\r"

# orjson must raise on everything but plain values, so that Python's encoder decides about the rest.
_ORJSON_OPTIONS = (
    0
    if orjson is None
    else orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def read(text: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """Parse one JSON value.

    :raises ParseError: for anything but strict JSON in UTF-8, and for a depth greater than ``max_depth``.
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        text = text.strip(_SPACE)
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise ParseError()
        if text.count("[") + text.count("{") > max_depth and _depth(value) > max_depth:
            raise ParseError()
        if "\\u" in text:
            # A lone surrogate would fail later: in logs, in databases and in the response.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ParseError() from error
    return value


def write(value: Any) -> bytes:
    """Serialise a plain value (see :func:`to_plain`) as UTF-8 JSON, members in their order."""
    if orjson is not None:
        try:
            written: bytes = orjson.dumps(value, None, _ORJSON_OPTIONS)
            return written
        except TypeError:
            pass  # an integer of more than 64 bits, or not a plain value
    return _ENCODER.encode(value).encode("utf-8")


def to_plain(value: Any, depth: int = MAX_RESULT_DEPTH) -> Any:
    """Convert what a method returned to plain JSON values.

    Dates, times and durations become ISO 8601 strings, UUIDs, decimals and paths strings, bytes base64, sets lists, and
    enums their value. Dataclasses, attrs classes and NamedTuples become objects. pydantic dumps its own types, and the
    app's JSON provider dumps all others. A lazy text is translated, if there is an app context.

    :raises TypeError: for types that cannot be serialised.
    :raises ValueError: for NaN, infinity, lone surrogates, numbers with too many digits, and values nested too deeply.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            value.encode("utf-8")  # raises on a lone surrogate
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        if value.bit_length() > 64:
            str(value)  # raises beyond sys.get_int_max_str_digits()
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError("NaN and infinity cannot be serialised as JSON")
        return value
    if depth == 0:
        raise ValueError("the value is nested too deeply or contains itself")
    # The exact types first, because isinstance() with an abstract class is slow.
    if kind is dict or isinstance(value, Mapping):
        return {
            key if type(key) is str and key.isascii() else _member_name(key): to_plain(item, depth - 1)
            for key, item in value.items()
        }
    if kind is list or (isinstance(value, (list, tuple)) and not is_named_tuple(kind)):
        return [to_plain(item, depth - 1) for item in value]
    return _scalar_or_record(value, depth)


def is_lazy(text: Any) -> bool:
    """Whether a text is translated only when it is shown, such as one of Flask-Babel's ``lazy_gettext``."""
    # By the class: looking at the object itself could translate it, which needs a request.
    return not isinstance(text, str) and hasattr(type(text), "__html__")


def has_lazy_text(value: Any) -> bool:
    """Whether there is a lazy text somewhere in a value."""
    if not isinstance(value, (dict, list)):
        return is_lazy(value)
    for part in value.values() if isinstance(value, dict) else value:
        if type(part) is not str and has_lazy_text(part):
            return True
    return False


def is_named_tuple(kind: Any) -> bool:
    """Whether a class is a tuple whose items have names."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_field_defaults")


def is_pydantic(kind: Any) -> bool:
    """Whether pydantic describes, loads and dumps a class: a model, one of its dataclasses or types."""
    return "pydantic" in sys.modules and any(
        hasattr(kind, name) for name in ("__get_pydantic_core_schema__", "__pydantic_core_schema__")
    )


def _member_name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a member name in JSON must be a string, not {type(key).__name__}")
    name: str = to_plain(key)
    return name


def _scalar_or_record(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return to_plain(value.value, depth - 1)
    if is_pydantic(type(value)):
        from pydantic_core import to_jsonable_python

        return to_plain(to_jsonable_python(value, by_alias=True), depth - 1)
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return to_plain(convert(value), depth - 1)
    if isinstance(value, (set, frozenset)):
        return _in_order([to_plain(item, depth - 1) for item in value])
    members = None if isinstance(value, type) else _members_of(value)
    if members is not None:
        return {name: to_plain(item, depth - 1) for name, item in members.items()}
    return _dump_with_app(value, depth)


def _members_of(value: Any) -> dict[str, Any] | None:
    """List the members of a dataclass, an attrs class or a NamedTuple; ``None`` for anything else."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "__attrs_attrs__"):
        return {attribute.alias: getattr(value, attribute.name) for attribute in value.__attrs_attrs__}
    if is_named_tuple(type(value)):
        return dict(zip(value._fields, value, strict=True))
    return None


def _in_order(items: list[Any]) -> list[Any]:
    """Sort the items of a set, if they can be compared, so that equal sets are serialised alike."""
    try:
        return sorted(items)
    except TypeError:
        return items


def _duration(value: datetime.timedelta) -> str:
    """Serialise a duration as in ISO 8601."""
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    hours, seconds = divmod(value.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    clock = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if seconds or fraction or not (clock or value.days):
        clock += f"{seconds}{fraction}S"
    return f"{sign}P" + (f"{value.days}D" if value.days else "") + (f"T{clock}" if clock else "")


def _dump_with_app(value: Any, depth: int) -> Any:
    from flask import current_app, has_app_context  # only here, because JSON itself needs no Flask

    if is_lazy(value):
        return to_plain(str(value)) if has_app_context() else value
    if not has_app_context():
        raise TypeError(f"{type(value).__name__} cannot be serialised as JSON")
    # The app's own JSON provider may know the type. It raises TypeError if not.
    return read(current_app.json.dumps(value), max_depth=depth)


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("NaN and infinity cannot be serialised as JSON")
    if max(abs(value.adjusted()), -int(value.as_tuple().exponent)) > MAX_DECIMAL_DIGITS:
        raise ValueError("the decimal has too many digits")
    return format(value, "f")  # str() would write 1E-8


def _depth(value: Any) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("the same member twice")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("number out of range")
    return number


# How these types become plainer ones; also for subclasses of str, int and float.
_CONVERSIONS: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = [
    (str, str.__str__),
    (int, int),
    (float, float),
    ((datetime.date, datetime.time), lambda value: value.isoformat()),
    ((uuid.UUID, PurePath), str),
    (Decimal, _decimal),
    (datetime.timedelta, _duration),
    (bytes, lambda value: base64.b64encode(value).decode("ascii")),
]
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)


def _translate(value: Any) -> str:
    """Translate a lazy text; empty outside of an app context, where schemas are only checked."""
    if not is_lazy(value):
        raise TypeError(f"{type(value).__name__} cannot be serialised as JSON")
    text = to_plain(value)
    return text if isinstance(text, str) else ""


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_translate)
