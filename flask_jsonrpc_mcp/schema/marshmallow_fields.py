"""marshmallow schemas as JSON Schema, in the direction they are used: loading arguments or dumping results.

What JSON Schema cannot say (a custom validator, Python's own regular expressions) is left to marshmallow, which
still loads every argument after the advertised schema has been enforced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, ClassVar

import marshmallow
from marshmallow import fields

from ..errors import InvalidParams
from ..strict_json import to_plain
from . import formats
from .definitions import Definitions, nullable, object_schema
from .marshmallow_rules import Unspeakable, rules_of, spell_value
from .problems import from_marshmallow

Partial = bool | Collection[str] | None
"""Which members may be missing though they are required: all, these, or as the schema itself says."""

_FROM_METADATA = ("title", "description", "examples", "deprecated")


def as_marshmallow(spec: object) -> Declared | None:
    """Take a schema class, an instance or a dict of fields; ``None`` when it is none of these."""
    if isinstance(spec, marshmallow.Schema):
        return Declared(spec)
    if isinstance(spec, type) and issubclass(spec, marshmallow.Schema):
        return Declared(spec())
    if isinstance(spec, Mapping) and spec and all(_is_field(value) for value in spec.values()):
        return Declared(marshmallow.Schema.from_dict(dict(spec))())
    return None


class Declared:
    """A marshmallow schema as the rest of the package sees it, which does not know marshmallow."""

    def __init__(self, schema: marshmallow.Schema) -> None:
        self._schema = schema
        self.many = schema.many
        self.passes_unknown = schema.unknown == marshmallow.INCLUDE

    def to_json_schema(self, *, output: bool = False) -> dict[str, Any]:
        """Spell it as JSON Schema."""
        converter = _Converter(output=output)
        spelled = converter.schema(self._schema, self._schema.unknown, self._schema.partial)
        if self.many:
            spelled = {"type": "array", "items": spelled}
        return converter.definitions.attach(spelled)

    def loaded_names(self) -> dict[str, bool]:
        """Tell under which names members come after loading, and whether each is always there."""
        return {
            field.attribute or name: not _may_be_missing(self._schema.partial, name)
            and (field.required or field.load_default is not marshmallow.missing)
            for name, field in self._schema.load_fields.items()
        }

    def load(self, value: Any) -> Any:
        """Load a value.

        :raises InvalidParams: with everything that is wrong with it.
        """
        try:
            return self._schema.load(value)
        except marshmallow.ValidationError as error:
            raise InvalidParams(from_marshmallow(error.messages)) from error

    def dump(self, result: Any) -> Any:
        """Dump a result as plain JSON."""
        return to_plain(self._schema.dump(result))


class _Converter:
    def __init__(self, *, output: bool) -> None:
        self.output = output
        self.definitions = Definitions()

    def schema(self, schema: marshmallow.Schema, unknown: str, partial: Partial) -> dict[str, Any]:
        members = schema.dump_fields if self.output else schema.load_fields
        identity = (type(schema), unknown, _frozen(partial), *_selection(schema))
        return self.definitions.schema_of(
            identity, type(schema).__name__, lambda: self._object(members, unknown, partial)
        )

    def _object(self, members: Mapping[str, fields.Field[Any]], unknown: str, partial: Partial) -> dict[str, Any]:
        properties, required = {}, []
        for name, field in members.items():
            key = name if field.data_key is None else field.data_key
            # marshmallow dumps None without asking.
            properties[key] = self.field(
                field, _partial_within(partial, key), may_be_none=self.output and not field.required
            )
            if field.required and not _may_be_missing(partial, name):
                required.append(key)
        return object_schema(properties, required, closed=not self.output and unknown == marshmallow.RAISE)

    def field(self, field: fields.Field[Any], partial: Partial = None, *, may_be_none: bool = False) -> dict[str, Any]:
        spelled = self._type_of(field, partial)
        for validator in field.validators:
            spelled.update(rules_of(validator, field, spelled))
        if field.allow_none or may_be_none:
            spelled = nullable(spelled)
        notes = {n: v for n, v in field.metadata.items() if n in _FROM_METADATA or str(n).startswith("x-")}
        spelled.update(to_plain(notes))
        if not self.output and field.load_default is not marshmallow.missing and not callable(field.load_default):
            try:
                spelled["default"] = spell_value(field, field.load_default)
            except Unspeakable:
                pass
        return spelled

    def _type_of(self, field: fields.Field[Any], partial: Partial) -> dict[str, Any]:
        for kind, spell in self._containers.items():
            if isinstance(field, kind):
                return spell(self, field, partial)
        for kind, spelled in _SCALARS.items():
            if isinstance(field, kind):
                return dict(spelled)
        return {}

    def _nested(self, field: fields.Nested, partial: Partial) -> dict[str, Any]:
        inner = field.schema
        # What the schema around says goes before what the nested one says of itself, as it does when loading.
        spelled = self.schema(inner, field.unknown or inner.unknown, inner.partial if partial is None else partial)
        return {"type": "array", "items": spelled} if field.many or inner.many else dict(spelled)

    def _pluck(self, field: fields.Pluck, partial: Partial) -> dict[str, Any]:
        spelled = self.field(field.schema.fields[field.field_name])
        return {"type": "array", "items": spelled} if field.many else spelled

    def _list(self, field: fields.List[Any], partial: Partial) -> dict[str, Any]:
        return {"type": "array", "items": self.field(field.inner, partial)}

    def _tuple(self, field: fields.Tuple, partial: Partial) -> dict[str, Any]:
        items = [self.field(inner, partial) for inner in field.tuple_fields]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _mapping(self, field: fields.Mapping[Any] | Any, partial: Partial) -> dict[str, Any]:
        if field.value_field is None:
            return {"type": "object"}
        return {"type": "object", "additionalProperties": self.field(field.value_field, partial)}

    def _enum(self, field: fields.Enum[Any], partial: Partial) -> dict[str, Any]:
        return {"enum": [to_plain(field._serialize(member, "", None)) for member in field.enum]}

    def _datetime(self, field: fields.DateTime, partial: Partial) -> dict[str, Any]:
        named = field.format or field.DEFAULT_FORMAT
        if named in ("iso", "iso8601"):
            return dict(_ISO_FORMATS[next(kind for kind in _ISO_FORMATS if isinstance(field, kind))])
        return {"type": "number"} if str(named).startswith("timestamp") else {"type": "string"}

    def _constant(self, field: Any, partial: Partial) -> dict[str, Any]:
        return {"const": to_plain(field.constant)}

    # In this order: a Pluck is a Nested.
    _containers: ClassVar[dict[type, Callable[[Any, Any, Partial], dict[str, Any]]]] = {
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
    fields.IPv4: {"type": "string", "format": "ipv4"},
    fields.IPv6: {"type": "string", "format": "ipv6"},
    fields.String: {"type": "string"},
    fields.IP: {"type": "string"},
    fields.Boolean: {"type": "boolean"},
    fields.Integer: {"type": "integer"},
    fields.Decimal: formats.DECIMAL,
    fields.Number: {"type": "number"},
    fields.TimeDelta: {"type": "number"},
}


def _selection(schema: marshmallow.Schema) -> tuple[Hashable, ...]:
    """Tell apart instances of one schema class that have other members, here or further down."""
    further_down = (
        (name, _frozen(getattr(field, "only", None)), _frozen(getattr(field, "exclude", None)))
        for name, field in schema.fields.items()
    )
    return frozenset(further_down), _frozen(schema.load_only), _frozen(schema.dump_only)


def _frozen(option: Partial) -> Hashable:
    return option if option is None or isinstance(option, bool) else frozenset(option)


def _may_be_missing(partial: Partial, name: str) -> bool:
    """Tell whether a partial schema loads without this member, even if it is required or has a default."""
    return name in partial if isinstance(partial, Collection) else bool(partial)


def _partial_within(partial: Partial, key: str) -> Partial:
    if not isinstance(partial, Collection):
        return partial
    prefix = f"{key}."
    return [name.removeprefix(prefix) for name in partial if name.startswith(prefix)]


def _is_field(value: object) -> bool:
    return isinstance(value, fields.Field) or (isinstance(value, type) and issubclass(value, fields.Field))
