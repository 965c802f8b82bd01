"""The parameters of a method: the shape of its arguments, and how they become the arguments of the function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import InvalidParams, Problem
from ..strict_json import to_plain
from .fitting import check_fit, check_reserved, reserved_names, takes_any_name, takes_whole
from .hints import HintConverter
from .late import as_marshmallow, knows_keyword
from .mirrored import MirroredArgument, find_mirrored
from .problems import pointer, within_bounds
from .quick import check_schema
from .reading import Function
from .records import parameters_as_members
from .shape import SchemaSpec, Shape

if TYPE_CHECKING:
    from .marshmallow_fields import Declared

# Keywords beside which `additionalProperties` would not see all the members that are declared.
_APPLICATORS = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies")
_OPENNESS = ("additionalProperties", "unevaluatedProperties")


class Params:
    """What a method takes.

    :param load: From arguments that fit the schema to the values the function wants.
    :param whole: The function has one parameter and takes the loaded value in one piece.
    :param reserved: Names that would collide in the call itself, such as the ``self`` of a bound method.
    """

    def __init__(
        self,
        shape: Shape,
        load: Callable[[Mapping[str, Any]], Any] = dict,
        *,
        whole: bool = False,
        reserved: frozenset[str] = frozenset(),
    ) -> None:
        self.shape = shape
        self.schema = shape.schema
        self.load = load
        self.whole = whole
        self.reserved = reserved

    @cached_property
    def mirrored(self) -> tuple[MirroredArgument, ...]:
        """The arguments that HTTP clients repeat in headers."""
        return find_mirrored(self.schema)

    def bind(self, arguments: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Validate arguments, by name or by position, and make those of the Python call.

        :raises InvalidParams: listing everything that is wrong with them.
        """
        try:
            named = arguments if isinstance(arguments, dict) else self._by_name(arguments)
            problems = self.shape.problems(named)
            if self.reserved:
                problems += self._reserved_among(named)
            if problems:
                raise InvalidParams(problems)
            loaded = self.load(named)
        except InvalidParams as error:
            raise InvalidParams(within_bounds(error.problems)) from error.__cause__
        if self.whole:
            return (loaded,), {}
        if isinstance(loaded, dict):
            return (), loaded
        if not isinstance(loaded, Mapping):
            raise TypeError(
                f"params loads a {type(loaded).__name__}, but the function takes its arguments by name;"
                " give it one parameter for the whole"
            )
        return (), dict(loaded)

    def _reserved_among(self, named: Iterable[str]) -> list[Problem]:
        return [Problem(pointer("", name), "is not expected here") for name in self.reserved.intersection(named)]

    def _by_name(self, values: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
        if isinstance(values, Mapping):
            return values
        names = list(self.schema["properties"])
        if len(values) > len(names):
            raise InvalidParams([Problem("", f"takes at most {len(names)} arguments, got {len(values)}")])
        return dict(zip(names, values, strict=False))


def compile_params(function: Function, spec: SchemaSpec | None) -> Params:
    """Make the parameters of a function.

    :raises TypeError, ValueError: when the declaration and the function do not fit together.
    """
    if spec is None:
        return _from_hints(function)
    declared = as_marshmallow(spec)
    if declared is not None:
        return _from_marshmallow(function, declared)
    if not isinstance(spec, Mapping):
        raise TypeError("params must be a JSON Schema dict, a marshmallow schema or a dict of marshmallow fields")
    return _from_json_schema(function, spec)


def _from_hints(function: Function) -> Params:
    members = parameters_as_members(function)
    check_reserved(function, [member.name for member in members])
    converter = HintConverter()
    try:
        converted = converter.members(members)
        schema = converter.complete(converted.schema)
    except TypeError as error:
        raise TypeError(f"parameter {error}; change the hint, or describe the arguments with params=") from error
    return Params(Shape(schema), converted.load or dict)


def _from_marshmallow(function: Function, declared: Declared) -> Params:
    if declared.many:
        raise TypeError("params is a schema with many=True, but the arguments of a call are one object")

    shape = Shape(declared.to_json_schema())
    taken = declared.loaded_names()
    if takes_whole(function, taken, of_a_class=True):
        return Params(shape, declared.load, whole=True)
    check_fit(function, taken, passes_unknown=declared.passes_unknown)
    return Params(shape, declared.load, reserved=reserved_names(function))


def _from_json_schema(function: Function, spec: Mapping[str, Any]) -> Params:
    if spec.get("type", "object") != "object":
        raise TypeError(f"params must describe an object, not type {spec['type']!r}")
    schema = {**({} if "type" in spec else {"type": "object"}), **to_plain(spec)}
    schema.setdefault("properties", {})
    check_schema(schema)
    properties = schema["properties"]
    taken = {name: name in schema.get("required", ()) for name in properties}
    whole = takes_whole(function, taken, of_a_class=False)
    if not takes_any_name(function) and not any(keyword in schema for keyword in _OPENNESS):
        schema = _closed(schema, None if whole else [parameter.name for parameter in function.parameters])
    shape = Shape(schema)
    load = _integer_loader(properties)
    if whole:
        return Params(shape, load, whole=True)
    openness = [schema[keyword] for keyword in _OPENNESS if keyword in schema]
    is_closed = bool(openness) and all(rules is False for rules in openness)
    check_fit(function, taken, passes_unknown=not is_closed or "patternProperties" in schema)
    return Params(shape, load, reserved=reserved_names(function))


def _integer_loader(properties: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Make whole numbers ints: 5.0 is an integer in JSON Schema, and ``range(5.0)`` fails."""
    integers = {
        name for name, rules in properties.items() if isinstance(rules, Mapping) and rules.get("type") == "integer"
    }
    if not integers:
        return dict
    return lambda arguments: {name: int(v) if name in integers else v for name, v in arguments.items()}


def _closed(schema: dict[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Refuse arguments that are not declared.

    :param names: What the function takes; ``None`` when it takes everything in one piece.
    """
    if not any(keyword in schema for keyword in _APPLICATORS):
        return {**schema, "additionalProperties": False}
    if knows_keyword(schema, "unevaluatedProperties"):
        return {**schema, "unevaluatedProperties": False}
    if "$ref" in schema:
        raise ValueError("this $schema ignores everything beside $ref; write it as allOf: [{$ref: ...}]")
    if names is None:
        return schema
    # Older dialects do not see what combined schemas declare, but the function takes only what it names.
    undeclared: dict[str, Any] = {name: {} for name in names if name not in schema["properties"]}
    return {**schema, "properties": {**schema["properties"], **undeclared}, "additionalProperties": False}
