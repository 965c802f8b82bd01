"""marshmallow schemas as JSON Schema, in the direction they are used: loading arguments or dumping results.

What JSON Schema cannot say (a custom validator, Python's own regular expressions) is left to marshmallow, which
still loads every argument after the advertised schema has been enforced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import marshmallow
from marshmallow import fields, validate

from ..strict_json import to_plain
from . import formats
from .definitions import Definitions, nullable

MarshmallowSpec = marshmallow.Schema | type[marshmallow.Schema] | Mapping[str, Any]

_NOTES = ("title", "description", "examples", "deprecated")
# What Python's regular expressions have and ECMA's do not.
_PYTHON_ONLY = re.compile(r"\(\?P|\\[AZ]|\(\?[aiLmsux-]|\(\?#|\(\?\(")


def as_schema(spec: object) -> marshmallow.Schema | None:
    """Take a schema class, an instance or a dict of fields; ``None`` when it is none of these."""
    if isinstance(spec, marshmallow.Schema):
        return spec
    if isinstance(spec, type) and issubclass(spec, marshmallow.Schema):
        return spec()
    if isinstance(spec, Mapping) and spec and all(_is_field(value) for value in spec.values()):
        return marshmallow.Schema.from_dict(dict(spec))()
    return None


def to_json_schema(schema: marshmallow.Schema, *, output: bool = False) -> dict[str, Any]:
    """Spell a marshmallow schema as JSON Schema."""
    converter = _Converter(output=output)
    spelled = converter.schema(schema)
    if schema.many:
        spelled = {"type": "array", "items": spelled}
    return converter.definitions.attach(spelled)


class _Converter:
    def __init__(self, *, output: bool) -> None:
        self.output = output
        self.definitions = Definitions()

    def schema(self, schema: marshmallow.Schema) -> dict[str, Any]:
        # Two instances with other `only=` are other shapes, so the members are part of the identity.
        identity = (type(schema), frozenset(schema.fields))
        return self.definitions.schema_of(identity, type(schema).__name__, lambda: self._object(schema))

    def _object(self, schema: marshmallow.Schema) -> dict[str, Any]:
        members = schema.dump_fields if self.output else schema.load_fields
        properties = {_key(name, field): self.field(field) for name, field in members.items()}
        required = [_key(name, field) for name, field in members.items() if self._required(schema, name, field)]
        spelled: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            spelled["required"] = required
        if not self.output and schema.unknown == marshmallow.RAISE:
            spelled["additionalProperties"] = False
        return spelled

    def _required(self, schema: marshmallow.Schema, name: str, field: fields.Field[Any]) -> bool:
        partial = schema.partial is True or (isinstance(schema.partial, Iterable) and name in schema.partial)
        return bool(field.required) and not partial

    def field(self, field: fields.Field[Any]) -> dict[str, Any]:
        spelled = self._type_of(field)
        for validator in field.validators:
            spelled.update(_rules_of(validator, spelled))
        if field.allow_none:
            spelled = nullable(spelled)
        spelled.update({name: field.metadata[name] for name in _NOTES if name in field.metadata})
        spelled.update({name: value for name, value in field.metadata.items() if str(name).startswith("x-")})
        if not self.output and field.load_default is not marshmallow.missing and not callable(field.load_default):
            spelled["default"] = to_plain(field.load_default)
        return spelled

    def _type_of(self, field: fields.Field[Any]) -> dict[str, Any]:
        for kind, spell in self._containers.items():
            if isinstance(field, kind):
                return spell(self, field)
        for kind, spelled in _SCALARS.items():
            if isinstance(field, kind):
                return dict(spelled)
        return {}

    def _nested(self, field: fields.Nested) -> dict[str, Any]:
        spelled = self.schema(field.schema)
        return {"type": "array", "items": spelled} if field.many or field.schema.many else dict(spelled)

    def _pluck(self, field: fields.Pluck) -> dict[str, Any]:
        spelled = self.field(field.schema.fields[field.field_name])
        return {"type": "array", "items": spelled} if field.many else spelled

    def _list(self, field: fields.List[Any]) -> dict[str, Any]:
        return {"type": "array", "items": self.field(field.inner)}

    def _tuple(self, field: fields.Tuple) -> dict[str, Any]:
        items = [self.field(inner) for inner in field.tuple_fields]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _mapping(self, field: fields.Mapping[Any] | Any) -> dict[str, Any]:
        if field.value_field is None:
            return {"type": "object"}
        return {"type": "object", "additionalProperties": self.field(field.value_field)}

    def _enum(self, field: fields.Enum[Any]) -> dict[str, Any]:
        return {"enum": [to_plain(member) if field.by_value else member.name for member in field.enum]}

    def _datetime(self, field: fields.DateTime) -> dict[str, Any]:
        named = field.format or field.DEFAULT_FORMAT
        if named in ("iso", "iso8601"):
            return dict(_ISO_FORMATS[next(kind for kind in _ISO_FORMATS if isinstance(field, kind))])
        return {"type": "number"} if str(named).startswith("timestamp") else {"type": "string"}

    def _constant(self, field: Any) -> dict[str, Any]:
        return {"const": to_plain(field.constant)}

    # In this order: a Pluck is a Nested.
    _containers: ClassVar[dict[type, Callable[[Any, Any], dict[str, Any]]]] = {
        fields.Pluck: _pluck,
        fields.Nested: _nested,
        fields.List: _list,
        fields.Tuple: _tuple,
        fields.Mapping: _mapping,
        fields.Enum: _enum,
        fields.Date: _datetime,
        fields.Time: _datetime,
        fields.DateTime: _datetime,
        fields.Constant: _constant,
    }


# In this order: with marshmallow 3, a Date is a DateTime.
_ISO_FORMATS: dict[type, dict[str, Any]] = {
    fields.Date: {"type": "string", "format": "date"},
    fields.Time: {"type": "string", "format": "time"},
    fields.DateTime: {"type": "string", "format": "date-time"},
}

_SCALARS: dict[type, dict[str, Any]] = {
    fields.UUID: {"type": "string", "format": "uuid"},
    fields.Email: {"type": "string", "format": "email"},
    fields.Url: {"type": "string", "format": "uri"},
    fields.IPv4: {"type": "string", "format": "ipv4"},
    fields.IPv6: {"type": "string", "format": "ipv6"},
    fields.String: {"type": "string"},
    fields.IP: {"type": "string"},
    fields.Boolean: {"type": "boolean"},
    fields.Integer: {"type": "integer"},
    fields.Decimal: {"anyOf": [{"type": "string", "pattern": formats.DECIMAL_PATTERN}, {"type": "number"}]},
    fields.Number: {"type": "number"},
    fields.TimeDelta: {"type": "number"},
}


def _rules_of(validator: Any, spelled: Mapping[str, Any]) -> dict[str, Any]:
    """Spell a validator as the keywords that go beside the field's type; none when there are none for it."""
    if isinstance(validator, validate.And):
        rules: dict[str, Any] = {}
        for inner in validator.validators:
            rules.update(_rules_of(inner, {**spelled, **rules}))
        return rules
    spell = next((spell for kind, spell in _RULES.items() if isinstance(validator, kind)), None)
    return {} if spell is None else spell(validator, spelled)


def _length(validator: validate.Length, spelled: Mapping[str, Any]) -> dict[str, Any]:
    noun = {"array": "Items", "object": "Properties"}.get(spelled.get("type", ""), "Length")
    least = validator.min if validator.equal is None else validator.equal
    most = validator.max if validator.equal is None else validator.equal
    return _given({f"min{noun}": least, f"max{noun}": most})


def _range(validator: validate.Range, spelled: Mapping[str, Any]) -> dict[str, Any]:
    if spelled.get("type") not in ("integer", "number"):
        return {}
    least = "minimum" if validator.min_inclusive else "exclusiveMinimum"
    most = "maximum" if validator.max_inclusive else "exclusiveMaximum"
    limits = _given({least: validator.min, most: validator.max})
    return {name: limit if isinstance(limit, int) else float(limit) for name, limit in limits.items()}


def _one_of(validator: validate.OneOf, spelled: Mapping[str, Any]) -> dict[str, Any]:
    return {"enum": [to_plain(choice) for choice in validator.choices]}


def _contains_only(validator: validate.ContainsOnly, spelled: Mapping[str, Any]) -> dict[str, Any]:
    items = spelled.get("items", {})
    return {"items": {**items, "enum": [to_plain(choice) for choice in validator.choices]}}


def _none_of(validator: validate.NoneOf, spelled: Mapping[str, Any]) -> dict[str, Any]:
    return {"not": {"enum": [to_plain(item) for item in validator.iterable]}}


def _regexp(validator: validate.Regexp, spelled: Mapping[str, Any]) -> dict[str, Any]:
    source, flags = validator.regex.pattern, validator.regex.flags
    if not isinstance(source, str) or _PYTHON_ONLY.search(source) or flags & ~re.UNICODE:
        return {}
    # marshmallow matches from the beginning of the text, JSON Schema anywhere in it.
    return {"pattern": source if source.startswith("^") and "|" not in source else f"^(?:{source})"}


# ContainsOnly is a OneOf, so it comes first.
_RULES: dict[type, Callable[[Any, Mapping[str, Any]], dict[str, Any]]] = {
    validate.Length: _length,
    validate.Range: _range,
    validate.ContainsOnly: _contains_only,
    validate.OneOf: _one_of,
    validate.NoneOf: _none_of,
    validate.Regexp: _regexp,
    validate.Equal: lambda validator, _: {"const": to_plain(validator.comparable)},
    validate.Email: lambda validator, _: {"format": "email"},
    validate.URL: lambda validator, _: {"format": "uri"},
}


def _given(rules: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rules.items() if value is not None}


def _key(name: str, field: fields.Field[Any]) -> str:
    return name if field.data_key is None else field.data_key


def _is_field(value: object) -> bool:
    return isinstance(value, fields.Field) or (isinstance(value, type) and issubclass(value, fields.Field))
