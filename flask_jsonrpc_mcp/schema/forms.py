"""Compile the forms of elicitation, which a person fills in, from the same declarations as a method's parameters.

MCP lets a form ask for texts, numbers, booleans and choices, not for objects inside of objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..strict_json import to_plain
from .formats import DECIMAL
from .shape import Shape, check_schema, read_classes
from .signatures import Member
from .types import HintConverter, Load, as_it_is
from .walk import ERROR_TEXTS, object_schema

FORMATS = ("email", "uri", "date", "date-time")
"""The formats that MCP allows in a form; others are enforced, but not shown."""

_SIMPLE = ("string", "number", "integer", "boolean")
_NULL = {"type": "null"}
_NO_DEFAULT = ("default", None)


class Form(NamedTuple):
    """What a person is asked for.

    :param shown: The schema as clients see it.
    :param shape: What the content of a response must fit.
    :param load: Makes the value that the method wants of content that fits.
    :param blank: The members that are ``None`` for the method if they were left out.
    """

    shown: dict[str, Any]
    shape: Shape
    load: Load
    blank: tuple[str, ...] = ()

    def read(self, content: Mapping[str, Any]) -> Any:
        """Validate and load what a person has filled in. Unknown members are dropped, and null is taken as left out.

        :raises InvalidParams: listing what is wrong with it.
        """
        properties = self.shown["properties"]
        asked = {name: value for name, value in content.items() if name in properties and value is not None}
        return self.shape.load(asked, self._load)

    def _load(self, asked: Mapping[str, Any]) -> Any:
        names = [name for name in self.shown["properties"] if name in asked or name in self.blank]
        return self.load({name: asked.get(name) for name in names})


def compile_form(spec: Any) -> Form:
    """Make a form.

    :param spec: A dict of type hints by name, a dataclass, a TypedDict, a marshmallow schema or a JSON Schema dict.
    :raises TypeError, ValueError: if it asks for more than a form can have.
    """
    declared = read_classes(spec)
    if declared is not None:
        return _form(declared.schema, declared.load)
    if isinstance(spec, Mapping) and (spec.get("type") == "object" or isinstance(spec.get("properties"), Mapping)):
        plain = to_plain(spec)
        check_schema(plain)
        return _form({"type": "object", "properties": {}, **plain}, as_it_is)
    converter = HintConverter()
    if isinstance(spec, Mapping):
        converted = converter.members([Member(name, hint) for name, hint in spec.items()])
    else:
        converted = converter.convert(spec)
    return _form(converter.shape_of(converted).schema, converted.load or as_it_is)


def _form(schema: dict[str, Any], load: Load) -> Form:
    if schema.get("type") != "object" or "$defs" in schema:
        raise TypeError("a form is an object of simple values; use a dict of hints, a dataclass or a flat schema")
    properties: dict[str, dict[str, Any]] = {}
    required: list[str] = []
    blank: list[str] = []
    for name, declared in schema["properties"].items():
        rules, may_be_null = _simplified(declared)
        _check_simple(name, rules)
        properties[name] = rules
        if name in schema.get("required", ()):
            # A value that may be null is, in a form, one that may be left out.
            (blank if may_be_null else required).append(name)
    for name in schema.get("required", ()):
        if name not in properties:
            raise ValueError(f"{name!r} is required, but not among the properties")
    enforced = object_schema(properties, required, closed=False)
    shown = {
        name: {
            key: value for key, value in rules.items() if key != ERROR_TEXTS and (key != "format" or value in FORMATS)
        }
        for name, rules in properties.items()
    }
    return Form({**enforced, "properties": shown}, Shape(enforced), load, tuple(blank))


def _simplified(rules: Any) -> tuple[dict[str, Any], bool]:
    """Write the rules of a value as forms have them, and whether it may be null."""
    if not isinstance(rules, dict):
        return {}, False
    choices, kinds = rules.get("anyOf", []), rules.get("type")
    rest = {key: value for key, value in rules.items() if key not in ("anyOf", "type") and (key, value) != _NO_DEFAULT}
    if choices == DECIMAL["anyOf"]:
        default = {"default": float(rest["default"])} if isinstance(rest.get("default"), str) else {}
        return {"type": "number", **rest, **default}, False
    if len(choices) == 2 and _NULL in choices:
        [choice] = [choice for choice in choices if choice != _NULL]
        return {**_simplified(choice)[0], **rest}, True
    if isinstance(kinds, list) and len(kinds) == 2 and "null" in kinds:
        [kind] = [kind for kind in kinds if kind != "null"]
        return {"type": kind, **rest}, True
    if kinds is None and all(isinstance(choice, str) for choice in rules.get("enum", [None])):
        return {"type": "string", **rest}, False
    return rules, False


def _check_simple(name: str, rules: dict[str, Any]) -> None:
    is_choice = rules.get("type") == "array" and any(
        rules.get("items", {}).get(key) for key in ("enum", "oneOf", "anyOf")
    )
    if not is_choice and rules.get("type") not in _SIMPLE:
        raise TypeError(f"{name!r}: a form can ask for a text, a number, true or false, or a choice of texts")
