"""Convert type hints to JSON Schema, and load JSON values as Python values of these types."""

from __future__ import annotations

import datetime
import functools
import types
import uuid
from collections import abc
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from ..errors import InvalidParams
from ..problems import MAX_PROBLEMS, Problem, pointer
from ..strict_json import is_pydantic, to_plain
from . import texts
from .shape import Shape, check_schema
from .signatures import (
    OPTIONAL,
    REQUIRED,
    Member,
    check_limits,
    flatten,
    is_left_to_pydantic,
    is_pydantic_field,
    is_typed_dict,
    keywords_of,
    kind_of,
    kinds_of,
    limits_of,
    members_of,
    name_of,
    rules_of,
    unwrap,
)
from .walk import ANNOTATIONS, Definitions, nullable, object_schema, tuple_schema, types_of

Load = Callable[[Any], Any]
"""Converts a valid JSON value to the Python value."""

_ARRAYS = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection)
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)
_STREAMS = (abc.Generator, abc.Iterator, abc.Iterable, abc.AsyncGenerator, abc.AsyncIterator, abc.AsyncIterable)

# Keywords in Annotated that jsonschema-rs treats as jsonschema does, for numbers that a float holds exactly.
_TREATED_ALIKE = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "pattern", "format", "x-mcp-header"),
}


class Converted(NamedTuple):
    """A hint's schema, and how to load a value that fits it; ``None`` if the JSON value is the Python value."""

    schema: dict[str, Any]
    load: Load | None = None


_SCALARS: dict[Any, Converted] = {
    Any: Converted({}),
    object: Converted({}),
    str: Converted({"type": "string"}),
    # 5.0 is an integer in JSON Schema, so it can arrive as a float.
    int: Converted({"type": "integer"}, int),
    float: Converted({"type": "number"}, texts.parse_float),
    bool: Converted({"type": "boolean"}),
    **dict.fromkeys((None, type(None)), Converted({"type": "null"})),
    datetime.date: Converted({"type": "string", "format": "date"}, texts.parse_date),
    datetime.time: Converted({"type": "string", "format": "time"}, texts.parse_time),
    datetime.datetime: Converted({"type": "string", "format": "date-time"}, texts.parse_datetime),
    uuid.UUID: Converted({"type": "string", "format": "uuid"}, texts.parse_uuid),
    Decimal: Converted(texts.DECIMAL, texts.parse_decimal),
    datetime.timedelta: Converted({"type": "string", "format": "duration"}, texts.parse_duration),
    bytes: Converted({"type": "string", "contentEncoding": "base64"}, texts.parse_base64),
    **{kind: Converted({"type": "string"}, kind) for kind in (Path, PurePath, PurePosixPath)},
}

# Scalars whose limits apply to the Python value, not to its text.
_PARSED = {kind for kind, (schema, load) in _SCALARS.items() if load is not None and schema.keys() != {"type"}}


class HintConverter:
    """Converts the hints of one function: of its result if ``output`` is set, else of its parameters."""

    def __init__(self, *, output: bool = False) -> None:
        self.output = output
        self.definitions = Definitions()
        self._loads: dict[type, Load] = {}
        self._unchecked_defaults: list[tuple[Member, dict[str, Any]]] = []
        self._is_plain = True

    def shape_of(self, converted: Converted) -> Shape:
        """Build the shape of a converted hint, once all definitions are known.

        :raises TypeError: if a default does not match its hint.
        """
        for member, schema in self._unchecked_defaults:
            self._check_default(member, schema)
        return Shape(self.definitions.attach(converted.schema), generated=self._is_plain)

    def members(self, members: Sequence[Member], *, closed: bool = True) -> Converted:
        """Convert an object with these members; ``closed`` if it may have no others."""
        converted = {}
        for member in members:
            try:
                converted[member.name] = self._member(member)
            except TypeError as error:
                raise TypeError(f"{member.name!r}: {error}") from error
        properties = {name: member.schema for name, member in converted.items()}
        required = [member.name for member in members if member.default is REQUIRED]
        return Converted(object_schema(properties, required, closed=closed), _members_loader(converted))

    def convert(self, hint: Any) -> Converted:
        """Convert one hint.

        :raises TypeError: if it cannot be expressed in JSON Schema.
        """
        if type(hint) is type and hint in _SCALARS:  # most hints
            return _SCALARS[hint]
        hint = unwrap(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is None and isinstance(hint, Hashable) and hint in _SCALARS:
            return _SCALARS[hint]
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin is Literal:
            return Converted(self._enumeration(list(arguments)))
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        kind = origin or hint
        if is_pydantic(kind):
            return self._pydantic(hint, kind.__name__)
        if kind in _ARRAYS:
            return self._array(kind, arguments)
        if kind in _SETS:
            return self._set(kind, arguments)
        if kind in _OBJECTS:
            return self._mapping(arguments)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return Converted(self._enumeration([to_plain(member) for member in kind]), kind)
        members = members_of(kind, output=self.output)
        if members is not None:
            return self._record(kind, members)
        raise TypeError(f"{name_of(hint)} cannot be serialised as JSON")

    def stream(self, hint: Any, *, joined: bool) -> Converted | None:
        """Convert the return hint of a function whose items arrive one by one to a list of them.

        :param joined: The function is a generator, whose items of plain text are joined in the end.
        """
        if get_origin(hint) not in _STREAMS:
            return None
        [item, *_] = get_args(hint) or [Any]
        return self.convert(item) if joined and item is str else self._array(list, [item])

    def _member(self, member: Member) -> Converted:
        converted = self.convert(member.hint)
        schema, load = converted
        if member.default is REQUIRED or member.default is OPTIONAL:
            return converted
        if is_pydantic_field(member.default):
            raise TypeError(
                "its default is a pydantic Field; write Annotated[..., Field(...)], and the default after it"
            )
        if member.default is None:
            if "$ref" in schema or "null" not in types_of(schema, {}):
                # ``def f(x: int = None)``: what may be left out as None may be sent as null.
                schema, load = nullable(schema), _or_none(load)
            return Converted({**schema, "default": None}, load)
        try:
            default = to_plain(member.default)
        except (TypeError, ValueError):
            return converted
        schema = {**schema, "default": default}
        if type(member.default) is not member.hint:
            self._unchecked_defaults.append((member, schema))
        return Converted(schema, load)

    def _check_default(self, member: Member, schema: dict[str, Any]) -> None:
        default = schema["default"]
        if not Shape(self.definitions.attach(schema)).problems(default):
            return
        if default == member.default:
            raise TypeError(f"{member.name!r}: the default {member.default!r} does not match its hint")
        # An object that is dumped differently from what callers send, such as a dataclass with computed fields.
        del schema["default"]

    def _annotated(self, hint: Any, notes: Sequence[Any]) -> Converted:
        flat = list(flatten(notes))
        limits: dict[str, Any] = {}
        if any(map(is_left_to_pydantic, flat)):
            parts = (hint, *notes)
            schema, load = self._pydantic(Annotated[parts], "Value")
        else:
            schema, load = self.convert(hint)
            for note in flat:
                limits.update(limits_of(note))
        parsed = not _PARSED.isdisjoint(kinds_of(hint))
        keywords = rules_of(limits, types_of(schema, {}), parsed=parsed)
        for note in flat:
            keywords.update(keywords_of(note))
        rules = {keyword: value for keyword, value in keywords.items() if keyword not in ANNOTATIONS}
        if "pattern" in limits or any(isinstance(note, dict) for note in flat):
            check_schema(keywords)
        self._is_plain &= _TREATED_ALIKE.issuperset(rules) and all(map(_is_exact, rules.values()))
        if limits and parsed and load is not None:
            load = check_limits(load, limits)
        return Converted({**schema, **keywords}, load)

    def _enumeration(self, values: list[Any]) -> dict[str, Any]:
        kinds = {type(value) for value in values}
        if not kinds <= {str, int, bool, float, type(None)}:
            raise TypeError("the values of an enumeration must be str, int, float, bool or None")
        self._is_plain &= not any(isinstance(value, float) or not _is_exact(value) for value in values)
        named = {"type": "string"} if kinds == {str} else {"type": "integer"} if kinds == {int} else {}
        return {**named, "enum": values}

    def _union(self, hints: Sequence[Any]) -> Converted:
        branches = [self.convert(hint) for hint in hints]
        schema = {"anyOf": [branch.schema for branch in branches]}
        if all(branch.load is None for branch in branches):
            return Converted(schema)
        present = [branch for branch in branches if branch.schema != {"type": "null"}]
        if len(present) == 1:
            return Converted(schema, _or_none(present[0].load))

        # Not now, because a branch may refer to a class that is still being converted.
        @functools.cache
        def shapes() -> list[Shape]:
            return [Shape(self.definitions.attach(branch.schema), generated=self._is_plain) for branch in branches]

        def load(value: Any) -> Any:
            for branch, shape in zip(branches, shapes(), strict=True):
                if shape.fits(value):
                    return value if branch.load is None else branch.load(value)
            return value

        return Converted(schema, load)

    def _array(self, kind: type, hints: Sequence[Any]) -> Converted:
        if kind is tuple and hints and hints[-1] is not Ellipsis:
            return self._fixed_tuple(hints)
        make = tuple if kind is tuple else list
        items, load = self.convert(hints[0]) if hints else _SCALARS[Any]
        schema = {"type": "array", **({"items": items} if items else {})}
        if load is None:
            return Converted(schema, None if make is list else tuple)
        return Converted(schema, lambda values: make(_load_each((n, load, v) for n, v in enumerate(values)).values()))

    def _set(self, kind: type, hints: Sequence[Any]) -> Converted:
        if hints and getattr(kind_of(hints[0]), "__hash__", None) is None:
            raise TypeError(f"{name_of(hints[0])} cannot be in a set, because it has no hash; use a list")
        schema, load = self._array(list, hints)
        make = functools.partial(_make_set, frozenset if kind is frozenset else set)
        self._is_plain = False  # jsonschema-rs compares items differently
        return Converted({**schema, "uniqueItems": True}, make if load is None else lambda value: make(load(value)))

    def _fixed_tuple(self, hints: Sequence[Any]) -> Converted:
        items = [self.convert(hint) for hint in hints]
        loads = [item.load or as_it_is for item in items]
        return Converted(
            tuple_schema([item.schema for item in items]),
            lambda values: tuple(_load_each((n, loads[n], v) for n, v in enumerate(values)).values()),
        )

    def _mapping(self, hints: Sequence[Any]) -> Converted:
        name_hint, value_hint = hints or (str, Any)
        if name_hint not in (str, Any):
            raise TypeError(f"{name_of(name_hint)} cannot be a member name in JSON, only str can")
        rules, load = self.convert(value_hint)
        schema = {"type": "object", **({"additionalProperties": rules} if rules else {})}
        if load is None:
            return Converted(schema)
        return Converted(schema, lambda members: _load_each((name, load, item) for name, item in members.items()))

    def _record(self, kind: Any, members: Sequence[Member]) -> Converted:
        """Convert a class with members. It may contain itself, so its loader is looked up when a value is loaded."""

        def build_schema() -> dict[str, Any]:
            # In a result, a dict or an instance of a subclass may have more members.
            converted = self.members(members, closed=not self.output)
            load = converted.load or dict
            self._loads[kind] = load if is_typed_dict(kind) else lambda value: _make(kind, load(value))
            return converted.schema

        schema = self.definitions.schema_of(kind, kind.__name__, build_schema)
        return Converted(schema, lambda value: self._loads[kind](value))

    def _pydantic(self, hint: Any, name: str) -> Converted:
        from .pydantic_types import PydanticType  # see `shape`

        self._is_plain = False
        converted = PydanticType(hint, output=self.output)
        return Converted(self.definitions.adopt(name, converted.schema), converted.load)


def is_object_hint(hint: Any) -> bool:
    """Return whether a hint is of a dict, a mapping or a TypedDict."""
    kind = kind_of(hint)
    return kind in _OBJECTS or is_typed_dict(kind)


def is_class_hint(hint: Any) -> bool:
    """Return whether a hint is of a class, rather than of a single value or a list."""
    kind = kind_of(hint)
    return isinstance(kind, type) and kind not in (*_SCALARS, *_ARRAYS, *_SETS)


def as_it_is(value: Any) -> Any:
    return value


def _or_none(load: Load | None) -> Load | None:
    return None if load is None else lambda value: None if value is None else load(value)


def _members_loader(members: Mapping[str, Converted]) -> Load | None:
    """Return the function that loads each member of an object by its own hint."""
    loads = [(name, member.load) for name, member in members.items() if member.load is not None]
    if not loads:
        return None
    return lambda value: {**value, **_load_each([(name, load, value[name]) for name, load in loads if name in value])}


def _load_each(parts: Iterable[tuple[Any, Load, Any]]) -> dict[Any, Any]:
    """Load the members or items of a value, each a tuple of name or index, loader and value.

    :raises InvalidParams: with the problems of all of them.
    """
    loaded: dict[Any, Any] = {}
    problems: list[Problem] = []
    cause = None
    for step, load, value in parts:
        try:
            loaded[step] = load(value)
        except InvalidParams as error:
            problems += [Problem(pointer("", step) + path, message) for path, message in error.problems]
            cause = error.__cause__
            if len(problems) >= MAX_PROBLEMS:
                break
    if problems:
        raise InvalidParams(problems) from cause
    return loaded


def _make(kind: Any, members: dict[str, Any]) -> Any:
    try:
        return kind(**members)
    except (TypeError, ValueError, OverflowError) as error:
        # From __post_init__ or a validator. Its text was not written for callers, so it is not passed on.
        raise InvalidParams([Problem("", f"is not a valid {kind.__name__}")]) from error


def _make_set(kind: Callable[[Any], Any], values: Iterable[Any]) -> Any:
    try:
        return kind(values)
    except TypeError as error:
        raise InvalidParams([Problem("", "must not have lists or objects as items")]) from error


def _is_exact(value: Any) -> bool:
    """Return whether a float holds a number exactly, so that every version of jsonschema-rs compares it correctly."""
    return not isinstance(value, (int, float)) or abs(value) < 2**53
