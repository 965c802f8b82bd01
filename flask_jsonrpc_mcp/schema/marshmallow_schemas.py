"""Convert marshmallow schemas to JSON Schema, for loading arguments or for dumping results.

A rule that JSON Schema cannot express exactly (a custom validator, a Python-only regular expression) is left out of it.
marshmallow still enforces it, because it loads the arguments after they have been validated.
"""

from __future__ import annotations

import copy
import decimal
import math
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_origin

import marshmallow
from marshmallow import fields, validate

from ..errors import InvalidParams
from ..problems import Problem, problems_of_messages
from ..strict_json import is_lazy, to_plain
from .texts import DECIMAL
from .walk import ERROR_TEXTS, Definitions, nullable, object_schema, tuple_schema

Partial = bool | Collection[str] | None
"""Which required members may be missing: all (``True``), these, or as the schema itself says (``None``)."""

_FROM_METADATA = ("title", "description", "examples", "deprecated", "writeOnly")

# What Python's regular expressions have and ECMA's do not.
_PYTHON_ONLY = re.compile(r"\(\?P|\\[AZ]|\(\?[aiLmsux-]|\(\?#|\(\?\(")

# In this order: a UUID is a String, and with marshmallow 3 a Date is a DateTime.
_TYPES: dict[type, dict[str, Any]] = {
    fields.UUID: {"type": "string", "format": "uuid"},
    fields.Email: {"type": "string", "format": "email"},
    fields.IPv4: {"type": "string", "format": "ipv4"},
    fields.IPv6: {"type": "string", "format": "ipv6"},
    fields.String: {"type": "string"},
    fields.IP: {"type": "string"},
    fields.Boolean: {"type": "boolean"},
    fields.Integer: {"type": "integer"},
    fields.Decimal: DECIMAL,
    fields.Number: {"type": "number"},
    fields.TimeDelta: {"type": "number"},
    fields.Date: {"type": "string", "format": "date"},
    fields.Time: {"type": "string", "format": "time"},
    fields.DateTime: {"type": "string", "format": "date-time"},
}

# Fields with one JSON value for each Python value. The same date and time can end in Z or in +00:00.
_UNAMBIGUOUS = (fields.String, fields.Integer, fields.Float, fields.Boolean, fields.Enum, fields.TimeDelta, fields.Raw)


def as_marshmallow(spec: Any, *, output: bool) -> MarshmallowSchema | None:
    """Take a schema class, an instance or a dict of fields; ``None`` for anything else."""
    if isinstance(spec, Mapping) and spec and all(map(_is_field, spec.values())):
        spec = marshmallow.Schema.from_dict(dict(spec))
    if _is_subclass(spec, marshmallow.Schema):
        spec = spec()
    return MarshmallowSchema(spec, output=output) if isinstance(spec, marshmallow.Schema) else None


class MarshmallowSchema:
    """A marshmallow schema, with the same members as `PydanticType`.

    :param output: Describe dumped results, rather than arguments to load.
    """

    def __init__(self, schema: marshmallow.Schema, *, output: bool) -> None:
        self._schema = schema
        self.passes_unknown = schema.unknown == marshmallow.INCLUDE
        converter = _Converter(output=output)
        converted = converter.schema(schema, schema.unknown, schema.partial)
        self.schema = converter.definitions.attach(_array_of(converted) if schema.many else converted)

    @property
    def names(self) -> dict[str, bool]:
        """The names of members after loading, and whether each is always there."""
        return {
            field.attribute or name: not _may_be_missing(self._schema.partial, name)
            and (field.required or field.load_default is not marshmallow.missing)
            for name, field in self._schema.load_fields.items()
        }

    def load(self, value: Any) -> Any:
        """Load a value.

        :raises InvalidParams: with every problem.
        """
        try:
            return self._schema.load(value)
        except marshmallow.ValidationError as error:
            raise InvalidParams(problems_of_messages(error.messages)) from error
        except (OverflowError, decimal.InvalidOperation) as error:
            # From a field that computes, such as NaiveDateTime(timezone=...) at either end of the calendar.
            raise InvalidParams([Problem("", "has a value that is out of range")]) from error
        except TypeError as error:
            # From a Range, because Python compares no time that has an offset with one that has none.
            if "offset-naive and offset-aware" not in str(error):
                raise
            raise InvalidParams([Problem("", "has a time whose offset is missing, or not expected")]) from error

    load_members = load

    def dump(self, result: Any) -> Any:
        """Dump a result as plain JSON."""
        return to_plain(self._schema.dump(result))


class _NotSerialisable(Exception):
    """No JSON value loads as this Python value of the field."""


class _Converter:
    def __init__(self, *, output: bool) -> None:
        self.output = output
        self.definitions = Definitions()

    def schema(self, schema: marshmallow.Schema, unknown: str, partial: Partial) -> dict[str, Any]:
        identity = (type(schema), unknown, _frozen(partial), *_selection(schema))
        return self.definitions.schema_of(
            identity, type(schema).__name__, lambda: self._object(schema, unknown, partial)
        )

    def _object(self, schema: marshmallow.Schema, unknown: str, partial: Partial) -> dict[str, Any]:
        properties, required = {}, []
        for name, field in (schema.dump_fields if self.output else schema.load_fields).items():
            key = name if field.data_key is None else field.data_key
            converted = self.field(field, _partial_within(partial, key))
            # marshmallow dumps None whatever the field says.
            may_be_none = self.output and not field.required and not field.allow_none
            properties[key] = nullable(converted) if may_be_none else converted
            if field.required and not _may_be_missing(partial, name):
                required.append(key)
        return object_schema(properties, required, closed=not self.output and unknown == marshmallow.RAISE)

    def field(self, field: fields.Field[Any], partial: Partial = None) -> dict[str, Any]:
        converted = self._type_of(field, partial)
        for validator in _flattened(field.validators):
            with suppress(_NotSerialisable):
                rules = _rules_of(validator, field, converted)
                converted.update(rules)
                text = None if self.output or not rules else _own_text(validator)
                if text is not None:
                    converted[ERROR_TEXTS] = {**converted.get(ERROR_TEXTS, {}), **dict.fromkeys(rules, text)}
        if field.allow_none:
            converted = nullable(converted)
        notes = {n: v for n, v in field.metadata.items() if n in _FROM_METADATA or str(n).startswith("x-")}
        converted.update(to_plain(notes))
        if not self.output and field.load_default is not marshmallow.missing and not callable(field.load_default):
            with suppress(_NotSerialisable):
                converted["default"] = _json_value(field, field.load_default)
        return converted

    def _type_of(self, field: Any, partial: Partial) -> dict[str, Any]:
        match field:
            case fields.Pluck():
                converted = self.field(field.schema.fields[field.field_name])
                return _array_of(converted) if field.many else converted
            case fields.Nested():
                inner = field.schema
                # As when loading, the outer schema takes precedence over the nested one.
                inherited = inner.partial if partial is None else partial
                converted = self.schema(inner, field.unknown or inner.unknown, inherited)
                return _array_of(converted) if field.many or inner.many else dict(converted)
            case fields.List():
                return _array_of(self.field(field.inner, partial))
            case fields.Tuple():
                return tuple_schema([self.field(inner, partial) for inner in field.tuple_fields])
            case fields.Mapping():
                values = field.value_field
                return {
                    "type": "object",
                    **({} if values is None else {"additionalProperties": self.field(values, partial)}),
                }
            case fields.Enum():
                return {"enum": [to_plain(_serialize(field, member)) for member in field.enum]}
            case fields.Constant():
                return {"const": to_plain(field.constant)}
            case fields.Date() | fields.Time() | fields.DateTime():
                named = field.format or field.DEFAULT_FORMAT
                if named not in ("iso", "iso8601"):
                    return {"type": "number" if named.startswith("timestamp") else "string"}
        return dict(next((schema for kind, schema in _TYPES.items() if isinstance(field, kind)), {}))


def _own_text(validator: Any) -> Any:
    """Return the ``error=`` of a validator, unless it contains the caller's value."""
    text = getattr(validator, "error", None)
    if is_lazy(text):
        return text
    if text is None or text == getattr(validator, "default_message", None):
        return None
    try:
        return text.format(**vars(validator))
    except (LookupError, ValueError, AttributeError):
        return None


def _rules_of(validator: Any, field: Any, converted: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a validator to keywords of JSON Schema; none if JSON Schema cannot express it.

    :raises _NotSerialisable: if a value in it cannot be serialised as JSON.
    """
    match validator:
        case validate.Length():
            noun = {"array": "Items", "object": "Properties"}.get(converted.get("type", ""), "Length")
            limits = (validator.min, validator.max) if validator.equal is None else (validator.equal,) * 2
            return _without_none({f"min{noun}": limits[0], f"max{noun}": limits[1]})
        # A decimal may be sent as text. There the limits apply to numbers only, and marshmallow checks the text.
        case validate.Range() if converted.get("type") in ("integer", "number") or isinstance(field, fields.Decimal):
            least = "minimum" if validator.min_inclusive else "exclusiveMinimum"
            most = "maximum" if validator.max_inclusive else "exclusiveMaximum"
            return {
                name: _limit(field, value)
                for name, value in _without_none({least: validator.min, most: validator.max}).items()
            }
        case validate.ContainsOnly():  # which is a OneOf
            if isinstance(field, fields.List):
                return {"items": {**converted["items"], "enum": _json_values(field.inner, validator.choices)}}
        case validate.OneOf():
            return {"enum": _json_values(field, validator.choices)}
        case validate.NoneOf():
            return {"not": {"enum": _json_values(field, validator.iterable)}}
        case validate.Equal():
            return {"const": _json_values(field, [validator.comparable])[0]}
        case validate.Email():
            return {"format": "email"}
        case validate.URL(relative=False) if set(validator.schemes) == validate.URL.default_schemes:
            return {"format": "uri"}
        case validate.Regexp():
            source, flags = validator.regex.pattern, validator.regex.flags
            if isinstance(source, str) and not _PYTHON_ONLY.search(source) and not flags & ~re.UNICODE:
                # marshmallow matches from the beginning of the text, JSON Schema anywhere in it.
                return {"pattern": source if source.startswith("^") and "|" not in source else f"^(?:{source})"}
    return {}


def _limit(field: fields.Field[Any], value: Any) -> Any:
    if not isinstance(field, fields.Number):
        return _json_value(field, value)
    limit = value if isinstance(value, int) else float(value)
    if limit in (math.inf, -math.inf):  # as float(Decimal("1e400")) is
        raise _NotSerialisable
    return limit


def _json_values(field: fields.Field[Any], values: Iterable[Any]) -> list[Any]:
    if not isinstance(field, _UNAMBIGUOUS) or isinstance(field, fields.UUID):
        raise _NotSerialisable
    return [_json_value(field, value) for value in values]


def _json_value(field: fields.Field[Any], value: Any) -> Any:
    """Convert a Python value to the JSON value that a caller sends for it.

    :raises _NotSerialisable: if the field would not load the same value again.
    """
    if value is None:
        return None
    without_validators = copy.copy(field)
    without_validators.validators = []
    try:
        # A number may be dumped as text (as_string=True), but the schema has a number.
        plain = to_plain(value if isinstance(field, fields.Number) else _serialize(field, value))
        same = without_validators.deserialize(plain) == value
    except (AttributeError, LookupError, TypeError, ValueError, marshmallow.ValidationError) as error:
        raise _NotSerialisable from error
    if not same:
        raise _NotSerialisable
    return plain


def _serialize(field: fields.Field[Any], value: Any) -> Any:
    return field.serialize("value", {"value": value}, accessor=lambda holder, *_: holder["value"])


def _selection(schema: marshmallow.Schema) -> tuple[Hashable, ...]:
    """Distinguish instances of one schema class that have different members, also nested ones."""
    nested = (
        (name, _frozen(getattr(field, "only", None)), _frozen(getattr(field, "exclude", None)))
        for name, field in schema.fields.items()
    )
    return frozenset(nested), _frozen(schema.load_only), _frozen(schema.dump_only)


def _frozen(option: Partial) -> Hashable:
    return option if option is None or isinstance(option, bool) else frozenset(option)


def _may_be_missing(partial: Partial, name: str) -> bool:
    """Return whether a partial schema loads without this member, even if it is required or has a default."""
    return name in partial if isinstance(partial, Collection) else bool(partial)


def _partial_within(partial: Partial, key: str) -> Partial:
    if not isinstance(partial, Collection):
        return partial
    prefix = f"{key}."
    return [name.removeprefix(prefix) for name in partial if name.startswith(prefix)]


def _array_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _flattened(validators: Iterable[Any]) -> Iterator[Any]:
    for validator in validators:
        yield from _flattened(validator.validators) if isinstance(validator, validate.And) else [validator]


def _without_none(rules: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rules.items() if value is not None}


def _is_field(value: object) -> bool:
    return isinstance(value, fields.Field) or _is_subclass(value, fields.Field)


def _is_subclass(value: object, kind: type) -> bool:
    # In Python 3.10, list[int] is an instance of type but not a class.
    return isinstance(value, type) and get_origin(value) is None and issubclass(value, kind)
