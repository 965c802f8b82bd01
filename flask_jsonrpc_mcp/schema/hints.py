"""Type hints as JSON Schema, with the way from a JSON value to the Python value the hint promises."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import types
import typing
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
from .problems import pointer
from .validator import compile_validator

Load = Callable[[Any], Any]
"""From a JSON value that fits the schema to the Python value."""

ARRAYS = (list, Sequence, MutableSequence, Collection, tuple)
OBJECTS = (dict, Mapping, MutableMapping)
STREAMS = (Generator, Iterator, Iterable, AsyncGenerator, AsyncIterator, AsyncIterable)
_WRAPPERS = ("Required", "NotRequired", "ReadOnly")


@dataclasses.dataclass(frozen=True)
class Converted:
    """A hint's schema, and how to load a value that fits it; ``None`` when the JSON value will do as it is."""

    schema: dict[str, Any]
    load: Load | None = None


_SCALARS: dict[Any, Converted] = {
    Any: Converted({}),
    object: Converted({}),
    str: Converted({"type": "string"}),
    # 5.0 is an integer in JSON Schema, so it can arrive as a float.
    int: Converted({"type": "integer"}, int),
    float: Converted({"type": "number"}),
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

    def convert(self, hint: Any) -> Converted:
        """Convert one hint.

        :raises TypeError: when JSON has no form for it.
        """
        hint = _unwrapped(hint)
        try:
            if hint in _SCALARS:
                return _SCALARS[hint]
        except TypeError:  # not hashable: Annotated[T, {...}]
            pass
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
        if typing.is_typeddict(kind):
            return self._record(kind, self._typed_dict)
        raise TypeError(f"{_spell(hint)} has no form in JSON")

    def stream(self, hint: Any) -> Converted | None:
        """Convert the return hint of a generator: one string when it yields strings, else a list of its items."""
        if get_origin(hint) not in STREAMS:
            return None
        item = self.convert(get_args(hint)[0])
        return item if item.schema.get("type") == "string" else Converted({"type": "array", "items": item.schema})

    def with_default(self, hint: Any, default: Any) -> Converted:
        """Convert the hint of something that may be left out."""
        converted = self.convert(hint)
        if default is None and "null" not in _types_of(converted.schema):
            # ``def f(x: int = None)``: what may be left out as None may be sent as null.
            converted = Converted(nullable(converted.schema), _optional(converted.load))
        try:
            return dataclasses.replace(converted, schema={**converted.schema, "default": to_plain(default)})
        except (TypeError, ValueError):
            return converted

    def _annotated(self, hint: Any, notes: Sequence[Any]) -> Converted:
        converted = self.convert(hint)
        schema = converted.schema
        for note in notes:
            if isinstance(note, str):
                schema = described(schema, note)
            elif isinstance(note, dict):
                compile_validator(note)
                schema = {**schema, **note}
        return dataclasses.replace(converted, schema=schema)

    def _union(self, hints: Sequence[Any]) -> Converted:
        branches = [self.convert(hint) for hint in hints]
        schema = {"anyOf": [branch.schema for branch in branches]}
        if all(branch.load is None for branch in branches):
            return Converted(schema)
        present = [branch for branch in branches if branch.schema != {"type": "null"}]
        if len(present) == 1:
            return Converted(schema, _optional(present[0].load))
        return Converted(schema, self._first_that_fits(branches))

    def _first_that_fits(self, branches: Sequence[Converted]) -> Load:
        # Compiled at the first call, when every recursive definition is complete.
        validators: list[Any] = []

        def load(value: Any) -> Any:
            if not validators:
                definitions = {"$defs": self.definitions.schemas}
                validators[:] = [compile_validator({**branch.schema, **definitions}, ours=True) for branch in branches]
            for branch, validator in zip(branches, validators, strict=True):
                if validator.is_valid(value):
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
        return Converted(schema, lambda values: make(_load_at(n, load_item, v) for n, v in enumerate(values)))

    def _fixed_tuple(self, hints: Sequence[Any]) -> Converted:
        items = [self.convert(hint) for hint in hints]
        schema = {
            "type": "array",
            "prefixItems": [item.schema for item in items],
            "minItems": len(items),
            "maxItems": len(items),
        }
        loads = [item.load or _as_it_is for item in items]

        def load(values: Sequence[Any]) -> tuple[Any, ...]:
            pairs = enumerate(zip(loads, values, strict=True))
            return tuple(_load_at(number, load_item, value) for number, (load_item, value) in pairs)

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
        return Converted(schema, lambda members: {name: _load_at(name, load_item, v) for name, v in members.items()})

    def _record(self, kind: type, build: Callable[[type], Converted]) -> Converted:
        """Convert a class with members, which may contain itself: its loader is looked up when it is needed."""

        def build_schema() -> dict[str, Any]:
            converted = build(kind)
            self._loads[kind] = converted.load or _as_it_is
            return converted.schema

        schema = self.definitions.schema_of(kind, kind.__name__, build_schema)
        return Converted(schema, lambda value: self._loads[kind](value))

    def _dataclass(self, kind: type) -> Converted:
        hints = typing.get_type_hints(kind, include_extras=True)
        members: dict[str, Converted] = {}
        required = []
        for field in dataclasses.fields(kind):
            if not field.init and not self.output:
                continue
            if self.output or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING):
                members[field.name] = self.convert(hints[field.name])
                required.append(field.name)
            elif field.default is not dataclasses.MISSING:
                members[field.name] = self.with_default(hints[field.name], field.default)
            else:
                members[field.name] = self.convert(hints[field.name])
        schema = object_schema({name: member.schema for name, member in members.items()}, required, closed=True)
        load_members = loader_of(members)

        def load(value: Any) -> Any:
            try:
                return kind(**load_members(value))
            except ValueError as error:
                # From __post_init__. Its text was not written for callers, so it is not passed on.
                raise InvalidParams([Problem("", f"is not a valid {kind.__name__}")]) from error

        return Converted(schema, load)

    def _typed_dict(self, kind: type) -> Converted:
        hints = typing.get_type_hints(kind, include_extras=True)
        members = {name: self.convert(hint) for name, hint in hints.items()}
        required = [name for name in hints if name in kind.__required_keys__]  # type: ignore[attr-defined]
        # A dict with more members still is that TypedDict.
        schema = object_schema(
            {name: member.schema for name, member in members.items()}, required, closed=not self.output
        )
        return Converted(schema, loader_of(members))


def hints_of(func: Callable[..., Any]) -> dict[str, Any]:
    """Read the hints of a function, a bound method, a partial or a callable object."""
    while isinstance(func, functools.partial):
        func = func.func
    described = func if inspect.isroutine(func) else type(func).__call__
    try:
        return typing.get_type_hints(described, include_extras=True)
    except NameError as error:
        raise TypeError(f"the hint {error.name!r} is not a name of the function's module; define it there") from error


def loader_of(members: Mapping[str, Converted]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Make the function that loads each member by its own hint."""
    loads = {name: member.load for name, member in members.items() if member.load is not None}
    if not loads:
        return dict

    def load(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _load_at(name, loads[name], item) if name in loads else item for name, item in value.items()}

    return load


def _load_at(step: object, load: Load, value: Any) -> Any:
    try:
        return load(value)
    except InvalidParams as error:
        problems = [dataclasses.replace(problem, path=pointer("", step) + problem.path) for problem in error.problems]
        raise InvalidParams(problems) from error.__cause__


def _unwrapped(hint: Any) -> Any:
    """Look behind NewType, ``type X = ...`` and the qualifiers of TypedDict members."""
    while True:
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif getattr(get_origin(hint), "_name", None) in _WRAPPERS:
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


def _optional(load: Load | None) -> Load | None:
    return None if load is None else lambda value: None if value is None else load(value)


def _as_it_is(value: Any) -> Any:
    return value


def _spell(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
