"""Compile the forms of elicitation, which a user fills in, from the same declarations as a method's parameters.

In MCP, a form has texts, numbers, booleans and choices, but no nested objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..strict_json import to_plain
from .shape import Shape, check_schema, read_classes
from .signatures import Member
from .texts import DECIMAL
from .types import HintConverter, Load, as_it_is
from .walk import ERROR_TEXTS, object_schema

FORMATS = ("email", "uri", "date", "date-time")
"""The formats that MCP allows in a form; others are enforced, but not shown."""

_SIMPLE = ("string", "number", "integer", "boolean")
_NULL = {"type": "null"}
_NO_DEFAULT = ("default", None)


class Form(NamedTuple):
    """A form for the user.

    :param shown: The schema that clients get.
    :param shape: Validates the content of a response.
    :param load: Converts valid content to the value for the method.
    :param blank: The members that the method gets as ``None`` if they are missing.
    """

    shown: dict[str, Any]
    shape: Shape
    load: Load
    blank: tuple[str, ...] = ()

    def read(self, content: Mapping[str, Any]) -> Any:
        """Validate and load the content of a response. Unknown members are dropped, and null counts as missing.

        :raises InvalidParams: with every problem.
        """
        properties = self.shown["properties"]
        known = {name: value for name, value in content.items() if name in properties and value is not None}
        return self.shape.load(known, self._load)

    def _load(self, content: Mapping[str, Any]) -> Any:
        names = [name for name in self.shown["properties"] if name in content or name in self.blank]
        return self.load({name: content.get(name) for name in names})


def compile_form(spec: Any) -> Form:
    """Compile a form.

    :param spec: A dict of type hints by name, a dataclass, a TypedDict, a marshmallow schema or a JSON Schema dict.
    :raises TypeError, ValueError: if a form cannot have such a field.
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
            # In a form, a nullable value is an optional one.
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
    """Convert the schema of a property to what forms allow; return it, and whether the value may be null."""
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
