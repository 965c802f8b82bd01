"""Convert type hints to JSON Schema, and load JSON values as Python values of these types."""

from __future__ import annotations

import datetime
import functools
import math
import operator
import sys
import types
import uuid
from collections import abc
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from ..errors import MAX_PROBLEMS, InvalidParams, Problem, pointer
from ..strict_json import is_lazy, is_pydantic, to_plain
from . import formats
from .shape import Shape, check_schema, describe_limit
from .signatures import OPTIONAL, REQUIRED, Member, is_typed_dict, kind_of, kinds_of, members_of, name_of, unwrap
from .walk import ANNOTATIONS, Definitions, nullable, object_schema, tuple_schema, types_of

Load = Callable[[Any], Any]
"""Converts a valid JSON value to the Python value."""

_ARRAYS = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection)
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)
_STREAMS = (abc.Generator, abc.Iterator, abc.Iterable, abc.AsyncGenerator, abc.AsyncIterator, abc.AsyncIterable)

# The limits of annotated_types and pydantic: the keyword, and the test of a Python value.
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "ge": ("minimum", operator.ge),
    "gt": ("exclusiveMinimum", operator.gt),
    "le": ("maximum", operator.le),
    "lt": ("exclusiveMaximum", operator.lt),
    "multiple_of": ("multipleOf", lambda value, limit: not value % limit),
    "min_length": ("minLength", lambda value, limit: len(value) >= limit),
    "max_length": ("maxLength", lambda value, limit: len(value) <= limit),
}
_NOUNS = {"string": "Length", "array": "Items", "object": "Properties"}

# Settings of pydantic.Field and StringConstraints that only pydantic itself can apply.
_PYDANTIC_ONLY = ("strip_whitespace", "to_upper", "to_lower", "max_digits", "decimal_places", "discriminator")

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
    float: Converted({"type": "number"}, formats.parse_float),
    bool: Converted({"type": "boolean"}),
    **dict.fromkeys((None, type(None)), Converted({"type": "null"})),
    datetime.date: Converted({"type": "string", "format": "date"}, formats.parse_date),
    datetime.time: Converted({"type": "string", "format": "time"}, formats.parse_time),
    datetime.datetime: Converted({"type": "string", "format": "date-time"}, formats.parse_datetime),
    uuid.UUID: Converted({"type": "string", "format": "uuid"}, formats.parse_uuid),
    Decimal: Converted(formats.DECIMAL, formats.parse_decimal),
    datetime.timedelta: Converted({"type": "string", "format": "duration"}, formats.parse_duration),
    bytes: Converted({"type": "string", "contentEncoding": "base64"}, formats.parse_base64),
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
        if _is_pydantic_field(member.default):
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
        flat = list(_flatten(notes))
        limits: dict[str, Any] = {}
        if any(map(_is_left_to_pydantic, flat)):
            parts = (hint, *notes)
            schema, load = self._pydantic(Annotated[parts], "Value")
        else:
            schema, load = self.convert(hint)
            for note in flat:
                limits.update(_limits_of(note))
        parsed = not _PARSED.isdisjoint(kinds_of(hint))
        keywords = _rules_of(limits, types_of(schema, {}), parsed=parsed)
        for note in flat:
            keywords.update(_keywords_of(note))
        rules = {keyword: value for keyword, value in keywords.items() if keyword not in ANNOTATIONS}
        if "pattern" in limits or any(isinstance(note, dict) for note in flat):
            check_schema(keywords)
        self._is_plain &= _TREATED_ALIKE.issuperset(rules) and all(map(_is_exact, rules.values()))
        if limits and parsed and load is not None:
            load = _check_limits(load, limits)
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


def _is_pydantic_field(note: object) -> bool:
    """Whether this is what ``pydantic.Field()`` returns."""
    # pydantic imports its modules lazily, so pydantic alone may be there.
    fields: Any = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(note, fields.FieldInfo)


def _flatten(notes: Iterable[Any]) -> Iterator[Any]:
    """Yield all notes, and those inside of a pydantic Field."""
    for note in notes:
        yield note
        if _is_pydantic_field(note):
            yield from note.metadata


def _is_left_to_pydantic(note: Any) -> bool:
    """Whether only pydantic can apply a note, such as ``AfterValidator(...)``."""
    return hasattr(note, "__get_pydantic_core_schema__") or any(getattr(note, name, None) for name in _PYDANTIC_ONLY)


def _keywords_of(note: Any) -> dict[str, Any]:
    """Return the keywords of a note: a text, a dict, a ``Doc`` or a pydantic Field."""
    if isinstance(note, str) or is_lazy(note):
        return {"description": note}
    if isinstance(note, dict):
        return dict(to_plain(note))
    if _is_pydantic_field(note):
        texts = {name: getattr(note, name) for name in ("title", "description", "examples", "deprecated")}
        extra = note.json_schema_extra if isinstance(note.json_schema_extra, dict) else {}
        return dict(to_plain({**{name: text for name, text in texts.items() if text is not None}, **extra}))
    documentation = getattr(note, "documentation", None)
    return {"description": documentation} if isinstance(documentation, str) else {}


def _limits_of(note: Any) -> dict[str, Any]:
    """Return the limits of a note of annotated_types or pydantic, by the names in these libraries."""
    limits = {name: getattr(note, name, None) for name in (*_LIMITS, "pattern")}
    return {name: limit for name, limit in limits.items() if limit is not None and not callable(limit)}


def _rules_of(limits: dict[str, Any], allowed: Collection[str], *, parsed: bool) -> dict[str, Any]:
    """Convert limits to keywords of JSON Schema.

    :param allowed: The types that the schema allows.
    :param parsed: The Python value is parsed from text, such as a date; limits do not apply to the text.
    :raises TypeError: for a limit that applies to none of these types.
    """
    rules = {}
    for name, limit in limits.items():
        keyword, _ = _LIMITS.get(name, (name, None))
        found: dict[str, Any] = {}
        if keyword == "pattern":
            found = {"pattern": getattr(limit, "pattern", limit)} if "string" in allowed else {}
        elif not keyword.endswith("Length"):
            if {"integer", "number"} & set(allowed) and not (parsed and keyword == "multipleOf"):
                found = {keyword: limit if isinstance(limit, int) else float(limit)}
        elif not parsed:
            found = {keyword.replace("Length", noun): limit for kind, noun in _NOUNS.items() if kind in allowed}
        if not found and not parsed:
            raise TypeError(f"the limit {name}={limit!r} does not fit the type")
        # An infinite limit, such as float(Decimal("1e400")), cannot be serialised, and no JSON number exceeds it.
        rules.update({keyword: rule for keyword, rule in found.items() if rule not in (math.inf, -math.inf)})
    return rules


def _check_limits(load: Callable[[Any], Any], limits: dict[str, Any]) -> Callable[[Any], Any]:
    """Wrap a loader to check limits of the Python value, which JSON Schema cannot express."""

    def load_within(value: Any) -> Any:
        loaded = load(value)
        broken = [name for name, limit in limits.items() if name in _LIMITS and not _holds(name, loaded, limit)]
        if broken and loaded is not None:
            messages = [describe_limit(_LIMITS[name][0], to_plain(limits[name])) for name in broken]
            raise InvalidParams([Problem("", message.replace("character", "byte")) for message in messages])
        return loaded

    return load_within


def _holds(name: str, value: Any, limit: Any) -> bool:
    try:
        return bool(_LIMITS[name][1](value, limit))
    except (TypeError, ArithmeticError):  # such as a time with an offset and one without
        return False
