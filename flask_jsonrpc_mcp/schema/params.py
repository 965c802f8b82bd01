"""Compile what a method takes and returns, when it is registered: `Params`, and the `Shape` of the output."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..content import is_content_hint
from ..strict_json import to_plain
from .shape import MirroredArgument, Params, SchemaSpec, Shape, check_schema, read_classes
from .signatures import Function, parameters_as_members
from .types import HintConverter, is_class_hint, is_object_hint
from .walk import Schema, resolve, walk

if TYPE_CHECKING:
    from .marshmallow_schemas import MarshmallowSchema
    from .pydantic_types import PydanticType

MIRROR_KEYWORD = "x-mcp-header"
"""Marks a property whose value clients repeat in a header, ``Mcp-Param-...``."""

MIRRORED_TYPES = ("string", "integer", "boolean")

# A token of RFC 9110, but for the underscore: HTTP servers drop headers with one in their name.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")

# Keywords beside which `additionalProperties` would not see all the members that are declared.
_APPLICATORS = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies")
_OPENNESS = ("additionalProperties", "unevaluatedProperties")

_SPECS = "a JSON Schema dict, a marshmallow schema or a dict of its fields, or a pydantic model"


def compile_params(function: Function, spec: SchemaSpec | None) -> Params:
    """Compile the parameters of a function.

    :raises TypeError, ValueError: if ``params=`` is invalid, or does not match the function.
    """
    if spec is None:
        return _params_of_hints(function)
    declared = read_classes(spec)
    if declared is not None:
        return _params_of_classes(function, declared)
    if not isinstance(spec, Mapping):
        raise TypeError(f"params must be {_SPECS}")
    return _params_of_json_schema(function, spec)


def compile_output(function: Function, spec: SchemaSpec | None, *, enforced: bool = True) -> Shape | None:
    """Compile the shape of what a function returns; ``None`` if nothing is declared.

    :raises TypeError, ValueError: if the declaration cannot be expressed in JSON Schema.
    """
    shape = _output_of_hint(function) if spec is None else _output_of_spec(spec)
    return shape if shape is None or enforced else replace(shape, enforced=False)


def _params_of_hints(function: Function) -> Params:
    members = parameters_as_members(function)
    _check_reserved(function, [member.name for member in members])
    converter = HintConverter()
    try:
        converted = converter.members(members)
        return Params(converter.shape_of(converted), converted.load or dict)
    except TypeError as error:
        raise TypeError(f"parameter {error}; change the hint, or describe the arguments with params=") from error


def _params_of_classes(function: Function, declared: MarshmallowSchema | PydanticType) -> Params:
    schema = declared.schema
    if "$ref" in schema:  # a class that contains itself
        schema = {**resolve(schema, schema["$ref"]), "$defs": schema["$defs"]}
    if "properties" not in schema:
        raise TypeError(
            "params is a schema with many=True, or a model without fields, but the arguments of a call are an object"
        )
    if _takes_whole(function, declared.names, of_a_class=True):
        return Params(Shape(schema), declared.load, whole=True)
    _check_fit(function, declared.names, passes_unknown=declared.passes_unknown)
    return Params(Shape(schema), declared.load_members, reserved=_reserved_names(function))


def _params_of_json_schema(function: Function, spec: Mapping[str, Any]) -> Params:
    if spec.get("type", "object") != "object":
        raise TypeError(f"params must describe an object, not type {spec['type']!r}")
    schema = {**({} if "type" in spec else {"type": "object"}), **to_plain(spec)}
    schema.setdefault("properties", {})
    check_schema(schema)
    properties = schema["properties"]
    names = {name: name in schema.get("required", ()) for name in properties}
    whole = _takes_whole(function, names, of_a_class=False)
    if not _takes_any_name(function) and not any(keyword in schema for keyword in _OPENNESS):
        schema = _closed(schema, None if whole else [parameter.name for parameter in function.parameters])
    load = _integer_loader(properties)
    if whole:
        return Params(Shape(schema), load, whole=True)
    openness = [schema[keyword] for keyword in _OPENNESS if keyword in schema]
    is_closed = bool(openness) and all(rules is False for rules in openness)
    _check_fit(function, names, passes_unknown=not is_closed or "patternProperties" in schema)
    return Params(Shape(schema), load, reserved=_reserved_names(function))


def _integer_loader(properties: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Convert whole numbers to int: 5.0 is an integer in JSON Schema, and ``range(5.0)`` fails."""
    integers = {
        name for name, rules in properties.items() if isinstance(rules, Mapping) and rules.get("type") == "integer"
    }
    if not integers:
        return dict
    return lambda arguments: {name: int(v) if name in integers else v for name, v in arguments.items()}


def _closed(schema: dict[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """Reject arguments that are not declared.

    :param names: The parameters of the function; ``None`` if it takes all arguments as one object.
    """
    if not any(keyword in schema for keyword in _APPLICATORS):
        return {**schema, "additionalProperties": False}
    from .dialects import dialect_of  # see `shape`

    if "unevaluatedProperties" in dialect_of(schema).VALIDATORS:
        return {**schema, "unevaluatedProperties": False}
    if "$ref" in schema:
        raise ValueError("this $schema ignores everything beside $ref; write it as allOf: [{$ref: ...}]")
    if names is None:
        return schema
    # In older dialects additionalProperties ignores what combined schemas declare; but the function has all the names.
    undeclared: dict[str, Any] = {name: {} for name in names if name not in schema["properties"]}
    return {**schema, "properties": {**schema["properties"], **undeclared}, "additionalProperties": False}


def _takes_whole(function: Function, names: Iterable[str], *, of_a_class: bool) -> bool:
    """Return whether the only parameter of a function takes all arguments as one object.

    :param names: The names of the arguments.
    :param of_a_class: They are loaded as an instance of a class.
    :raises TypeError: if the name or the hint of the parameter looks like a mistake.
    """
    if len(function.parameters) != 1:
        return False
    [only] = function.parameters
    if only.name in names or only.default is not only.empty or only.kind in (only.VAR_POSITIONAL, only.VAR_KEYWORD):
        return False
    not_declared = f"parameter {only.name!r} is not in params;"
    if only.kind is only.KEYWORD_ONLY:
        raise TypeError(f"{not_declared} to take all arguments as one object, remove the '*'")
    hint = function.hint_of(only.name)
    as_dict = "hint it as dict to take all arguments as one object"
    if hint in (Any, object):
        for likely in difflib.get_close_matches(only.name, names, n=1, cutoff=0.8):
            raise TypeError(f"{not_declared} did you mean {likely!r}? Otherwise {as_dict}")
    elif not is_object_hint(hint) and not (of_a_class and is_class_hint(hint)):
        raise TypeError(f"{not_declared} give it the name of a declared argument, or {as_dict}")
    return True


def _check_fit(function: Function, names: Mapping[str, bool], *, passes_unknown: bool) -> None:
    """Check that a function takes the arguments that its ``params=`` accepts.

    :param names: The names of the arguments after loading, and whether each is always there.
    :raises TypeError: naming the parameter and the fix.
    """
    _check_reserved(function, names)
    parameters = {p.name: p for p in function.parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    for name, parameter in parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"parameter {name!r} cannot be passed by name; remove the '/'")
        if parameter.default is parameter.empty and not names.get(name):
            fix = f"{'require it' if name in names else 'add it'} in params, or give it a default"
            raise TypeError(f"params does not require {name!r}, but the function does; {fix}")
    if not _takes_any_name(function):
        for name in names:
            if name not in parameters:
                raise TypeError(f"params has {name!r}, but the function does not; add the parameter, or **kwargs")
        if passes_unknown:
            raise TypeError("params accepts unknown arguments, but the function does not; add **kwargs")


def _takes_any_name(function: Function) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in function.parameters)


def _check_reserved(function: Function, names: Iterable[str]) -> None:
    for name in _reserved_names(function).intersection(names):
        raise TypeError(f"an argument cannot be called {name!r}, because Python passes {name!r} itself; rename it")


def _reserved_names(function: Function) -> frozenset[str]:
    """Return the names of parameters that Python passes itself, such as the ``self`` of a bound method."""
    func = function.func
    while isinstance(func, functools.partial):
        func = func.func
    # The wrapper that ensure_sync() returns has a "self".
    reserved = {"self"} if function.is_async else set()
    if not inspect.isfunction(func):
        called: Callable[..., Any] = func.__func__ if inspect.ismethod(func) else type(func).__call__
        [first, *_] = inspect.signature(called).parameters.values()
        if first.kind is first.POSITIONAL_OR_KEYWORD:
            reserved.add(first.name)
    return frozenset(reserved)


def _output_of_spec(spec: SchemaSpec) -> Shape:
    declared = read_classes(spec, output=True)
    if declared is not None:
        return Shape(declared.schema, declared.dump)
    if not isinstance(spec, Mapping):
        raise TypeError(f"output must be {_SPECS}")
    schema = to_plain(spec)
    check_schema(schema)
    return Shape(schema)


def _output_of_hint(function: Function) -> Shape | None:
    try:
        hint = function.hint_of("return")
        if is_content_hint(hint):
            return None
        converter = HintConverter(output=True)
        converted = converter.stream(hint, joined=function.is_generator) or converter.convert(hint)
        return converter.shape_of(converted) if converted.schema else None
    except TypeError as error:
        raise TypeError(f"the return hint: {error}; change it, or describe the result with output=") from error


def mirrored_arguments(schema: Schema) -> tuple[MirroredArgument, ...]:
    """Find the properties with ``x-mcp-header``.

    :raises ValueError: for one because of which clients would refuse the whole tool.
    """
    found = tuple(_mirrored_properties(schema, ()))
    if len(found) != sum(MIRROR_KEYWORD in inner for inner in walk(schema)):
        raise ValueError(
            f"{MIRROR_KEYWORD} is allowed on properties only, not inside lists, alternatives or references"
        )
    if len(found) != len({mirrored.header.lower() for mirrored in found}):
        raise ValueError(f"two properties have the same {MIRROR_KEYWORD}; header names are case-insensitive")
    return found


def _mirrored_properties(schema: Schema, path: tuple[str, ...]) -> Iterator[MirroredArgument]:
    for name, rules in schema.get("properties", {}).items():
        if not isinstance(rules, Mapping):
            continue
        if MIRROR_KEYWORD in rules:
            header = rules[MIRROR_KEYWORD]
            if not isinstance(header, str) or not _HEADER_NAME.fullmatch(header):
                raise ValueError(
                    f"{MIRROR_KEYWORD} {header!r} cannot be the name of a header; use letters, digits and '-'"
                )
            if rules.get("type") not in MIRRORED_TYPES:
                raise ValueError(f"{MIRROR_KEYWORD} goes on a {', '.join(MIRRORED_TYPES)}; {name!r} has another type")
            yield MirroredArgument(f"Mcp-Param-{header}", (*path, name))
        yield from _mirrored_properties(rules, (*path, name))
