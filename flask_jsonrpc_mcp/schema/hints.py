"""Type hints as JSON Schema, with the way from a JSON value to the Python value the hint promises."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import types
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ..errors import InvalidParams, Problem
from ..strict_json import to_plain
from . import formats
from .definitions import Definitions, described, nullable, object_schema
from .loading import Converted, Load, as_it_is, load_at, load_members, optional
from .quick import check_schema
from .records import NO_DEFAULT, Member, dataclass_members, is_typed_dict, qualifier_of, typed_dict_members
from .shape import Shape

ARRAYS = (list, Sequence, MutableSequence, Collection, tuple)
OBJECTS = (dict, Mapping, MutableMapping)
STREAMS = (Generator, Iterator, Iterable, AsyncGenerator, AsyncIterator, AsyncIterable)

_SCALARS: dict[Any, Converted] = {
    Any: Converted({}),
    object: Converted({}),
    str: Converted({"type": "string"}),
    # 5.0 is an integer in JSON Schema, so it can arrive as a float.
    int: Converted({"type": "integer"}, int),
    float: Converted({"type": "number"}, formats.parse_float),
    bool: Converted({"type": "boolean"}),
    type(None): Converted({"type": "null"}),
    datetime.date: Converted({"type": "string", "format": "date"}, formats.parse_date),
    datetime.time: Converted({"type": "string", "format": "time"}, formats.parse_time),
    datetime.datetime: Converted({"type": "string", "format": "date-time"}, formats.parse_datetime),
    uuid.UUID: Converted({"type": "string", "format": "uuid"}, formats.parse_uuid),
    Decimal: Converted(formats.DECIMAL, formats.parse_decimal),
}


class HintConverter:
    """Converts the hints of one function; for results when ``output`` is set, else for arguments."""

    def __init__(self, *, output: bool = False) -> None:
        self.output = output
        self.definitions = Definitions()
        self._loads: dict[type, Load] = {}
        self._once_complete: list[Callable[[], None]] = []

    def complete(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions to the finished schema, and do what had to wait for the last of them.

        :raises TypeError: when a default breaks the schema of its own hint.
        """
        for finish in self._once_complete:
            finish()
        return self.definitions.attach(schema)

    def members(self, members: Sequence[Member], *, closed: bool = True) -> Converted:
        """Convert an object with these members; ``closed`` when it may have no others."""
        converted = {}
        for member in members:
            try:
                converted[member.name] = self._member(member)
            except TypeError as error:
                raise TypeError(f"{member.name!r}: {error}") from error
        properties = {name: member.schema for name, member in converted.items()}
        required = [member.name for member in members if member.required]
        return Converted(object_schema(properties, required, closed=closed), load_members(converted))

    def convert(self, hint: Any) -> Converted:
        """Convert one hint.

        :raises TypeError: when JSON has no form for it.
        """
        try:
            if hint in _SCALARS:
                return _SCALARS[hint]
        except TypeError:  # not hashable: Annotated[T, {...}]
            pass
        wrapped, hint = hint, _unwrapped(hint)
        if hint is not wrapped:
            return self.convert(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin is Literal:
            return Converted(_enumeration(list(arguments)))
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        kind = origin or hint
        if kind in ARRAYS:
            return self._array(kind, arguments)
        if kind in OBJECTS:
            return self._mapping(arguments)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return Converted(_enumeration([to_plain(member) for member in kind]), kind)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._record(kind, self._dataclass)
        if is_typed_dict(kind):
            return self._record(kind, self._typed_dict)
        raise TypeError(f"{_spell(hint)} has no form in JSON")

    def stream(self, hint: Any, *, joined: bool) -> Converted | None:
        """Convert the return hint of what gives items one by one: a list of them.

        :param joined: Items of plain text are one text in the end, as a generator's are.
        """
        if get_origin(hint) not in STREAMS:
            return None
        [item, *_] = get_args(hint) or [Any]
        return self.convert(item) if joined and item is str else self._array(list, [item])

    def _member(self, member: Member) -> Converted:
        converted = self.convert(member.hint)
        if member.default is NO_DEFAULT:
            return converted
        if member.default is None and "null" not in _types_of(converted.schema):
            # ``def f(x: int = None)``: what may be left out as None may be sent as null.
            return Converted({**nullable(converted.schema), "default": None}, optional(converted.load))
        try:
            default = to_plain(member.default)
        except (TypeError, ValueError):
            return converted
        schema = {**converted.schema, "default": default}
        if not _is_of_hint(member.default, member.hint):
            self._once_complete.append(lambda: self._check_default(member, schema))
        return Converted(schema, converted.load)

    def _check_default(self, member: Member, schema: dict[str, Any]) -> None:
        default = schema["default"]
        if not Shape(self.definitions.attach(schema)).problems(default):
            return
        if default == member.default:
            raise TypeError(f"{member.name!r}: the default {member.default!r} breaks the schema of its own hint")
        # A Python object that is sent in another form than it is dumped in, such as a dataclass with computed fields.
        del schema["default"]

    def _annotated(self, hint: Any, notes: Sequence[Any]) -> Converted:
        converted = self.convert(hint)
        schema = converted.schema
        for note in notes:
            if isinstance(note, str):
                schema = described(schema, note)
            elif isinstance(note, dict):
                keywords = to_plain(note)
                check_schema(keywords)
                schema = {**schema, **keywords}
        return Converted(schema, converted.load)

    def _union(self, hints: Sequence[Any]) -> Converted:
        branches = [self.convert(hint) for hint in hints]
        schema = {"anyOf": [branch.schema for branch in branches]}
        if all(branch.load is None for branch in branches):
            return Converted(schema)
        present = [branch for branch in branches if branch.schema != {"type": "null"}]
        if len(present) == 1:
            return Converted(schema, optional(present[0].load))
        return Converted(schema, self._first_that_fits(branches))

    def _first_that_fits(self, branches: Sequence[Converted]) -> Load:
        # When the first value is loaded: now a branch may refer to a class that is still being converted.
        @functools.cache
        def shapes() -> list[Shape]:
            return [Shape(self.definitions.attach(branch.schema)) for branch in branches]

        def load(value: Any) -> Any:
            for branch, shape in zip(branches, shapes(), strict=True):
                if not shape.problems(value):
                    return value if branch.load is None else branch.load(value)
            return value

        return load

    def _array(self, kind: type, hints: Sequence[Any]) -> Converted:
        if kind is tuple and hints and hints[-1] is not Ellipsis:
            return self._fixed_tuple(hints)
        make = tuple if kind is tuple else list
        item = self.convert(hints[0]) if hints else Converted({})
        schema: dict[str, Any] = {"type": "array"}
        if item.schema:
            schema["items"] = item.schema
        load_item = item.load
        if load_item is None:
            return Converted(schema, None if make is list else tuple)
        return Converted(schema, lambda values: make(load_at(n, load_item, v) for n, v in enumerate(values)))

    def _fixed_tuple(self, hints: Sequence[Any]) -> Converted:
        items = [self.convert(hint) for hint in hints]
        schema = {
            "type": "array",
            "prefixItems": [item.schema for item in items],
            "minItems": len(items),
            "maxItems": len(items),
        }
        loads = [item.load or as_it_is for item in items]

        def load(values: Sequence[Any]) -> tuple[Any, ...]:
            pairs = enumerate(zip(loads, values, strict=True))
            return tuple(load_at(number, load_item, value) for number, (load_item, value) in pairs)

        return Converted(schema, load)

    def _mapping(self, hints: Sequence[Any]) -> Converted:
        if not hints:
            return Converted({"type": "object"})
        if hints[0] not in (str, Any):
            raise TypeError(f"{_spell(hints[0])} cannot be a member name in JSON, only str can")
        item = self.convert(hints[1])
        schema: dict[str, Any] = {"type": "object"}
        if item.schema:
            schema["additionalProperties"] = item.schema
        load_item = item.load
        if load_item is None:
            return Converted(schema)
        return Converted(schema, lambda members: {name: load_at(name, load_item, v) for name, v in members.items()})

    def _record(self, kind: type, build: Callable[[Any], Converted]) -> Converted:
        """Convert a class with members, which may contain itself: its loader is looked up when it is needed."""

        def build_schema() -> dict[str, Any]:
            converted = build(kind)
            self._loads[kind] = converted.load or as_it_is
            return converted.schema

        schema = self.definitions.schema_of(kind, kind.__name__, build_schema)
        return Converted(schema, lambda value: self._loads[kind](value))

    def _dataclass(self, kind: Any) -> Converted:
        # An instance of a subclass, with more fields, still is one.
        converted = self.members(dataclass_members(kind, output=self.output), closed=not self.output)
        load_fields = converted.load or dict

        def load(value: Any) -> Any:
            members = load_fields(value)
            try:
                return kind(**members)
            except (TypeError, ValueError) as error:
                # From __post_init__. Its text was not written for callers, so it is not passed on.
                raise InvalidParams([Problem("", f"is not a valid {kind.__name__}")]) from error

        return Converted(converted.schema, load)

    def _typed_dict(self, kind: Any) -> Converted:
        # A dict with more members still is that TypedDict.
        return self.members(typed_dict_members(kind), closed=not self.output)


def is_object_hint(hint: Any) -> bool:
    """Tell whether a hint is of a dict, a mapping or a TypedDict."""
    kind = _kind_of(hint)
    return kind in OBJECTS or is_typed_dict(kind)


def is_class_hint(hint: Any) -> bool:
    """Tell whether a hint is of a class, rather than of a single value or a list."""
    kind = _kind_of(hint)
    return isinstance(kind, type) and kind not in (*_SCALARS, *ARRAYS)


def _is_of_hint(value: Any, hint: Any) -> bool:
    """Tell that a value is of the very class that a hint names, and so needs no validator to say that it fits."""
    hint = _unwrapped(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        has_rules = any(isinstance(note, dict) for note in arguments[1:])
        return not has_rules and _is_of_hint(value, arguments[0])
    if origin in (Union, types.UnionType):
        return any(_is_of_hint(value, branch) for branch in arguments)
    return hint in (Any, object) or (hint in (str, int, float, bool, type(None)) and type(value) is hint)


def _kind_of(hint: Any) -> Any:
    hint = _unwrapped(hint)
    return _kind_of(get_args(hint)[0]) if get_origin(hint) is Annotated else get_origin(hint) or hint


def _unwrapped(hint: Any) -> Any:
    """Look behind NewType, ``type X = ...`` and the qualifiers of TypedDict members."""
    while True:
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif qualifier_of(hint) is not None:
            [hint] = get_args(hint)
        else:
            return hint


def _enumeration(values: list[Any]) -> dict[str, Any]:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return {"type": "string", "enum": values}
    if kinds == {int}:
        return {"type": "integer", "enum": values}
    if not kinds <= {str, int, bool, float, type(None)}:
        raise TypeError("the values of an enumeration must be str, int, float, bool or None")
    return {"enum": values}


def _types_of(schema: Mapping[str, Any]) -> set[str]:
    if not schema:
        return {"null"}
    inner = [_types_of(branch) for branch in schema.get("anyOf", ())]
    named = schema.get("type")
    return set().union(*inner, [named] if isinstance(named, str) else named or [])


def _spell(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
