"""Parse text: arguments that arrive as text, strings by ``format``, and ``pattern`` as ECMA-262 reads it."""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from .. import strict_json
from ..errors import InvalidParams, ParseError
from ..problems import Problem
from ..strict_json import MAX_DECIMAL_DIGITS
from .walk import Schema, resolve, types_of

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"(\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_DATE_TIME = re.compile(r"(.{10})[Tt ](.*)", re.DOTALL)
# Of ISO 8601, with the sign and the fraction that Python's timedelta can have.
_DURATION = re.compile(
    r"([+-])?P(?=[\dT])(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?=\d)(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,15})(?:[.,](\d{1,9}))?S)?)?",
    re.ASCII,
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# All that the many kinds of URI in RFC 3986, such as mailto: and urn:, have in common.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")

MAX_EMAIL = 320
"""The longest address of RFC 5321. The regular expression takes 100 bytes of memory for each character."""

_DIGITS = f"[0-9]{{1,{MAX_DECIMAL_DIGITS}}}"
DECIMAL = {"anyOf": [{"type": "string", "pattern": rf"^-?{_DIGITS}(\.{_DIGITS})?$"}, {"type": "number"}]}


def read_texts(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the arguments of a prompt or a URI as the JSON types of their schema."""
    properties = schema["properties"]
    return {
        name: read_text(properties.get(name), schema, value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def read_query_arguments(schema: Schema, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Parse the arguments of a query string. Only arrays of plain values may be repeated."""
    arguments: dict[str, Any] = {}
    for name, texts in query.items():
        rules = schema["properties"].get(name)
        items = repeated_items(rules, schema)
        if items is not None:
            arguments[name] = [read_text(items, schema, text) for text in texts]
        else:
            arguments[name] = read_text(rules, schema, texts[0]) if len(texts) == 1 else list(texts)
    return arguments


def repeated_items(rules: Any, root: Schema) -> Any:
    """Return the schema of the items if an argument is an array of plain values; ``None`` for any other.

    In a query string such an argument is repeated: ``tag=a&tag=b``. All others that are not text are JSON.
    """
    array = _array_in(rules, root)
    if array is None:
        return None
    items = array.get("items", {})
    return None if types_of(items, root) & {"array", "object"} else items


def _array_in(rules: Any, root: Schema) -> Schema | None:
    if not isinstance(rules, Mapping):
        return None
    if "$ref" in rules:
        rules = resolve(root, rules["$ref"])
        return rules if isinstance(rules, Mapping) and rules.get("type") == "array" else None
    if rules.get("type") in ("array", ["array", "null"], ["null", "array"]):
        return rules
    others = [each for each in rules.get("anyOf", ()) if each != {"type": "null"}]
    return _array_in(others[0], root) if len(others) == 1 else None


def read_text(rules: Any, root: Schema, text: str) -> Any:
    """Parse one text as JSON, unless its schema allows strings.

    A text that cannot be parsed stays as it is, and the validator rejects it with its path.
    """
    if "string" in types_of(rules, root):
        return text
    try:
        return strict_json.read(text)
    except ParseError:
        return text


def _match(form: re.Pattern[str], text: str) -> re.Match[str]:
    found = form.fullmatch(text)
    if found is None:
        raise ValueError("malformed")
    return found


def parse_date(text: str) -> datetime.date:
    return datetime.date.fromisoformat(_match(_DATE, text)[0])


def parse_time(text: str) -> datetime.time:
    clock, fraction, offset = _match(_TIME, text).groups()
    # Python 3.10 reads neither "Z" nor fractions of other than three or six digits.
    fraction = "." + (fraction + "00000")[:6] if fraction else ""
    offset = "+00:00" if offset in ("Z", "z") else offset or ""
    return datetime.time.fromisoformat(clock + fraction + offset)


def parse_datetime(text: str) -> datetime.datetime:
    """Parse ISO 8601. Without an offset the result is naive."""
    day, clock = _match(_DATE_TIME, text).groups()
    return datetime.datetime.combine(parse_date(day), parse_time(clock))


def parse_uuid(text: str) -> uuid.UUID:
    return uuid.UUID(_match(_UUID, text)[0])


def parse_duration(text: str) -> datetime.timedelta:
    sign, years, months, weeks, days, hours, minutes, seconds, fraction = _match(_DURATION, text).groups(default="0")
    if int(years) or int(months):
        raise InvalidParams([Problem("", "must not have years or months, because their length varies")])
    try:
        duration = datetime.timedelta(
            weeks=int(weeks),
            days=int(days),
            hours=int(hours),
            minutes=int(minutes),
            seconds=int(seconds),
            microseconds=int((fraction + "00000")[:6]),
        )
    except OverflowError as error:
        raise InvalidParams([Problem("", "is too large")]) from error
    return -duration if sign == "-" else duration


def parse_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidParams([Problem("", "must be base64")]) from error


def parse_decimal(value: str | int | float) -> Decimal:
    # Via text: Decimal(0.1) would be 0.1000000000000000055…
    number = Decimal(str(value))
    if abs(number.adjusted()) > MAX_DECIMAL_DIGITS:
        raise InvalidParams([Problem("", "has too many digits")])
    return number


def parse_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise InvalidParams([Problem("", "is too large")]) from error


def parse_email(text: str) -> str:
    """Check an address as marshmallow does."""
    from marshmallow import ValidationError, validate  # see `shape`

    if len(text) > MAX_EMAIL:
        raise ValueError("not an email address")
    try:
        return validate.Email()(text)
    except ValidationError as error:
        raise ValueError("not an email address") from error


PARSERS: dict[str, Callable[[str], object]] = {
    "date": parse_date,
    "time": parse_time,
    "date-time": parse_datetime,
    "duration": functools.partial(_match, _DURATION),
    "uuid": parse_uuid,
    "email": parse_email,
    "uri": functools.partial(_match, _URI),
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}


def has_format(value: object, name: str) -> bool:
    """Check a string against a format. Other values fit every format, and every string fits an unknown one."""
    parse = PARSERS.get(name)
    if parse is None or not isinstance(value, str):
        return True
    try:
        parse(value)
    except ValueError:
        return False
    return True


# What \s is in ECMA-262; with re.ASCII, Python's is only the first part of it.
_SPACE = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_ESCAPE_CLASS_OR_END = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern as ECMA-262 reads it.

    There ``$`` is the very end, where Python's also matches before a final newline; digits and letters are those of
    ASCII, white space is that of Unicode.
    """
    return re.compile(_ESCAPE_CLASS_OR_END.sub(_to_python, pattern), re.ASCII)


def matches(value: object, pattern: str) -> bool:
    """Search a string for a pattern. Other values match every pattern."""
    return not isinstance(value, str) or compile_pattern(pattern).search(value) is not None


def _to_python(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith("["):
        return re.sub(r"\\.", lambda escape: _SPACE if escape[0] == r"\s" else escape[0], token, flags=re.DOTALL)
    return {"$": r"\Z", r"\s": f"[{_SPACE}]", r"\S": f"[^{_SPACE}]"}.get(token, token)
