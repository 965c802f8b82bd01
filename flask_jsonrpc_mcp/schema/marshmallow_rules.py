"""marshmallow validators, and the Python values they compare with, as keywords of JSON Schema.

A rule that JSON Schema cannot say exactly is left out: marshmallow enforces it anyway when it loads the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import marshmallow
from marshmallow import fields, validate

from ..strict_json import to_plain
from .patterns import check_pattern

Rules = dict[str, Any]

# What Python's regular expressions have and ECMA's do not.
_PYTHON_ONLY = re.compile(r"\(\?P|\\[AZ]|\(\?[aiLmsux-]|\(\?#|\(\?\(")

# Each value of these has one spelling only; a date and time, for one, can end in Z or in +00:00.
_ONE_SPELLING = (
    fields.String,
    fields.Integer,
    fields.Float,
    fields.Boolean,
    fields.Enum,
    fields.TimeDelta,
    fields.Raw,
)


class Unspeakable(Exception):
    """A Python value that a caller could not send for this field."""


def rules_of(validator: Any, field: fields.Field[Any], spelled: Mapping[str, Any]) -> Rules:
    """Spell a validator as the keywords that go beside the field's type; none when there are none for it."""
    if isinstance(validator, validate.And):
        rules: Rules = {}
        for inner in validator.validators:
            rules.update(rules_of(inner, field, {**spelled, **rules}))
        return rules
    spell = next((spell for kind, spell in _RULES.items() if isinstance(validator, kind)), None)
    try:
        return {} if spell is None else spell(validator, field, spelled)
    except Unspeakable:
        return {}


def spell_value(field: fields.Field[Any], value: Any) -> Any:
    """Spell a value as a caller would send it.

    :raises Unspeakable: when the field would not read it back as the same value.
    """
    if value is None:
        return None
    try:
        # A number's own form can be text (as_string=True), which is not what we advertise.
        dumped = value if isinstance(field, fields.Number) else field._serialize(value, "", None)
        plain = to_plain(dumped)
        same = field._deserialize(plain, None, None) == value
    except (AttributeError, LookupError, TypeError, ValueError, marshmallow.ValidationError) as error:
        raise Unspeakable from error
    if not same:
        raise Unspeakable
    return plain


def _spell_all(field: fields.Field[Any], values: Iterable[Any]) -> list[Any]:
    if not isinstance(field, _ONE_SPELLING) or isinstance(field, fields.UUID):
        raise Unspeakable
    return [spell_value(field, value) for value in values]


def _length(validator: validate.Length, field: fields.Field[Any], spelled: Mapping[str, Any]) -> Rules:
    noun = {"array": "Items", "object": "Properties"}.get(spelled.get("type", ""), "Length")
    least = validator.min if validator.equal is None else validator.equal
    most = validator.max if validator.equal is None else validator.equal
    return _given({f"min{noun}": least, f"max{noun}": most})


def _range(validator: validate.Range, field: fields.Field[Any], spelled: Mapping[str, Any]) -> Rules:
    if spelled.get("type") not in ("integer", "number"):
        return {}
    least = "minimum" if validator.min_inclusive else "exclusiveMinimum"
    most = "maximum" if validator.max_inclusive else "exclusiveMaximum"
    limits = _given({least: validator.min, most: validator.max})
    is_number = isinstance(field, fields.Number)
    return {name: _number(limit) if is_number else spell_value(field, limit) for name, limit in limits.items()}


def _number(limit: Any) -> int | float:
    return limit if isinstance(limit, int) else float(limit)


def _contains_only(validator: validate.ContainsOnly, field: Any, spelled: Mapping[str, Any]) -> Rules:
    if not isinstance(field, fields.List):
        return {}
    return {"items": {**spelled["items"], "enum": _spell_all(field.inner, validator.choices)}}


def _regexp(validator: validate.Regexp, field: fields.Field[Any], spelled: Mapping[str, Any]) -> Rules:
    source, flags = validator.regex.pattern, validator.regex.flags
    if isinstance(source, str):
        check_pattern(source, flags)
    if not isinstance(source, str) or _PYTHON_ONLY.search(source) or flags & ~re.UNICODE:
        return {}
    # marshmallow matches from the beginning of the text, JSON Schema anywhere in it.
    return {"pattern": source if source.startswith("^") and "|" not in source else f"^(?:{source})"}


def _url(validator: validate.URL, field: fields.Field[Any], spelled: Mapping[str, Any]) -> Rules:
    usual = not validator.relative and set(validator.schemes) == validate.URL.default_schemes
    return {"format": "uri"} if usual else {}


# ContainsOnly is a OneOf, so it comes first.
_RULES: dict[type, Callable[[Any, Any, Mapping[str, Any]], Rules]] = {
    validate.Length: _length,
    validate.Range: _range,
    validate.ContainsOnly: _contains_only,
    validate.OneOf: lambda validator, field, _: {"enum": _spell_all(field, validator.choices)},
    validate.NoneOf: lambda validator, field, _: {"not": {"enum": _spell_all(field, validator.iterable)}},
    validate.Equal: lambda validator, field, _: {"const": _spell_all(field, [validator.comparable])[0]},
    validate.Regexp: _regexp,
    validate.Email: lambda validator, field, _: {"format": "email"},
    validate.URL: _url,
}


def _given(rules: Mapping[str, Any]) -> Rules:
    return {name: value for name, value in rules.items() if value is not None}
