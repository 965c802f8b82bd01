"""The parameters of a method: the shape of its arguments, and how they become the arguments of the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import marshmallow

from ..errors import InvalidParams, Problem
from .definitions import object_schema
from .hints import HintConverter, hints_of, loader_of
from .marshmallow_fields import as_schema, may_be_missing, to_json_schema
from .problems import from_marshmallow, pointer
from .shape import SchemaSpec, Shape
from .validator import compile_validator

# Keywords beside which `additionalProperties` would not see all the members that are declared.
_APPLICATORS = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
_OPENNESS = ("additionalProperties", "unevaluatedProperties")


@dataclass(frozen=True)
class Params:
    """What a method takes.

    :param load: From arguments that fit the schema to the values the function wants.
    :param whole: The function has one parameter and takes the loaded value in one piece.
    :param reserved: Names that would collide in the call itself, such as the ``self`` of a bound method.
    """

    shape: Shape
    load: Callable[[Mapping[str, Any]], Any] = dict
    whole: bool = False
    reserved: frozenset[str] = field(default_factory=frozenset)

    @property
    def schema(self) -> dict[str, Any]:
        return self.shape.schema

    def bind(self, arguments: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Validate arguments, by name or by position, and make those of the Python call.

        :raises InvalidParams: listing everything that is wrong with them.
        """
        named = arguments if isinstance(arguments, Mapping) else self._by_name(arguments)
        problems = self.shape.problems(named)
        problems += [Problem(pointer("", name), "is not expected here") for name in self.reserved.intersection(named)]
        if problems:
            raise InvalidParams(problems)
        loaded = self.load(named)
        return ((loaded,), {}) if self.whole else ((), loaded)

    def _by_name(self, values: Sequence[Any]) -> dict[str, Any]:
        names = list(self.schema["properties"])
        if len(values) > len(names):
            raise InvalidParams([Problem("", f"takes at most {len(names)} arguments, got {len(values)}")])
        return dict(zip(names, values, strict=False))


def compile_params(func: Callable[..., Any], spec: SchemaSpec | None) -> Params:
    """Make the parameters of a function.

    :raises TypeError, ValueError: when the declaration and the function do not fit together.
    """
    if spec is None:
        return _from_hints(func)
    schema = as_schema(spec)
    if schema is not None:
        return _from_marshmallow(func, schema)
    if not isinstance(spec, Mapping):
        raise TypeError("params must be a JSON Schema dict, a marshmallow schema or a dict of marshmallow fields")
    return _from_json_schema(func, spec)


def _from_hints(func: Callable[..., Any]) -> Params:
    hints = hints_of(func)
    converter = HintConverter()
    members, required = {}, []
    for parameter in inspect.signature(func).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"parameter '{parameter}' has no name a caller could use;"
                " declare each parameter by name, or pass params="
            )
        hint = hints.get(parameter.name, Any)
        try:
            if parameter.default is parameter.empty:
                members[parameter.name] = converter.convert(hint)
                required.append(parameter.name)
            else:
                members[parameter.name] = converter.with_default(hint, parameter.default)
        except TypeError as error:
            raise TypeError(
                f"parameter {parameter.name!r}: {error}; change the hint, or describe the arguments with params="
            ) from error
    schema = object_schema({name: member.schema for name, member in members.items()}, required, closed=True)
    schema = converter.definitions.attach(schema)
    return Params(Shape(schema, compile_validator(schema, ours=True)), loader_of(members))


def _from_marshmallow(func: Callable[..., Any], schema: marshmallow.Schema) -> Params:
    if schema.many:
        raise TypeError("params is a schema with many=True, but the arguments of a call are one object")
    spelled = to_json_schema(schema)

    def load(arguments: Mapping[str, Any]) -> Any:
        try:
            return schema.load(arguments)
        except marshmallow.ValidationError as error:
            raise InvalidParams(from_marshmallow(error.messages)) from error

    taken = {
        field.attribute or name: not may_be_missing(schema.partial, name)
        and (field.required or field.load_default is not marshmallow.missing)
        for name, field in schema.load_fields.items()
    }
    shape = Shape(spelled, compile_validator(spelled, ours=True))
    return _fit(func, Params(shape, load), taken, passes_unknown=schema.unknown == marshmallow.INCLUDE)


def _from_json_schema(func: Callable[..., Any], spec: Mapping[str, Any]) -> Params:
    if spec.get("type", "object") != "object":
        raise TypeError(f"params must describe an object, not type {spec['type']!r}")
    schema = {**({} if "type" in spec else {"type": "object"}), **spec}
    schema.setdefault("properties", {})
    validator = compile_validator(schema)
    open_ended = any(schema.get(keyword, False) is not False for keyword in _OPENNESS)
    if not open_ended and not any(keyword in schema for keyword in _OPENNESS):
        open_ended = _takes_any_name(func)
        if not open_ended:
            schema[_closing_keyword(schema)] = False
            validator = compile_validator(schema)
    taken = {name: name in schema.get("required", ()) for name in schema["properties"]}
    passes_unknown = open_ended or "patternProperties" in schema
    params = Params(Shape(schema, validator), _integer_loader(schema["properties"]))
    return _fit(func, params, taken, passes_unknown=passes_unknown)


def _integer_loader(properties: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Make whole numbers ints: 5.0 is an integer in JSON Schema, and ``range(5.0)`` fails."""
    integers = {
        name for name, rules in properties.items() if isinstance(rules, Mapping) and rules.get("type") == "integer"
    }
    if not integers:
        return dict
    return lambda arguments: {name: int(v) if name in integers else v for name, v in arguments.items()}


def _closing_keyword(schema: Mapping[str, Any]) -> str:
    composed = any(keyword in schema for keyword in _APPLICATORS)
    return "unevaluatedProperties" if composed else "additionalProperties"


def _fit(func: Callable[..., Any], params: Params, taken: Mapping[str, bool], *, passes_unknown: bool) -> Params:
    """Check that the function can take what the schema lets through, and see how it wants it.

    :param taken: The names the arguments come under after loading, and whether each is always there.
    """
    parameters = inspect.signature(func).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(parameters) == 1 and needed and needed[0] not in taken:
        return replace(params, whole=True)
    for name in needed:
        if not taken.get(name):
            fix = "require it there, or give it a default" if name in taken else "add it there, or give it a default"
            raise TypeError(f"parameter {name!r} may be missing from what params lets through; {fix}")
    if not _takes_any_name(func):
        untaken = [name for name in taken if name not in {p.name for p in parameters}]
        if untaken:
            raise TypeError(f"params has {untaken[0]!r}, which the function does not take; add a parameter or **kwargs")
        if passes_unknown:
            raise TypeError("params lets unknown arguments through, which the function does not take; add **kwargs")
    return replace(params, reserved=_reserved_names(func) - set(taken))


def _takes_any_name(func: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(func).parameters.values())


def _reserved_names(func: Callable[..., Any]) -> frozenset[str]:
    inner = getattr(func, "__func__", None)
    return frozenset() if inner is None else frozenset([next(iter(inspect.signature(inner).parameters))])
