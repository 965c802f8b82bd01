"""Which schemas jsonschema-rs reads as jsonschema does, so that its yes is ours.

What is not listed here, and every schema that has it anywhere inside, is left to jsonschema. Where the two differ:

============================  ======================================================================================
``pattern``, ``format``       jsonschema-rs asks our own rules for them, see `quick`
bounds, ``enum``, ``const``   alike for numbers that every representation holds exactly; others are left to jsonschema
``multipleOf``                divides floats, and integers beyond 64 bits, in another way
``uniqueItems``               has another idea of which numbers are the same
``patternProperties``         reads patterns in another way
``$ref``                      alike for what is under ``$defs``; in circles it goes deeper than jsonschema gives up
``$schema``                   alike for 2020-12, in other dialects 5.0 may be no integer
everything else               ``if``, ``contains``, ``unevaluatedProperties``, ``$id``, ...: rare, not worth the risk
============================  ======================================================================================

5.0 is an integer to both, true is not and equals no number, and both count characters, not bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .dialect import DIALECT

_MAX_DEPTH = 32
_EXACT = 2**53
_DEFS = "#/$defs/"
_PATH = frozenset("/~%")
_FOR_READERS = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")


def _always(argument: Any) -> bool:
    return True


def is_read_alike(schema: Mapping[str, Any], takes_pattern: Callable[[str], bool] = _always) -> bool:
    """Tell whether jsonschema-rs reads a valid schema, and all schemas within it, as jsonschema does.

    :param takes_pattern: What every ``pattern`` must pass besides.
    """
    rules = dict(schema)
    return rules.pop("$schema", DIALECT) == DIALECT and _Reading(schema, takes_pattern).is_alike(rules)


class _Reading:
    """A walk over one schema."""

    def __init__(self, root: Mapping[str, Any], takes_pattern: Callable[[str], bool]) -> None:
        self._definitions = root.get("$defs", {})
        self._takes_pattern = takes_pattern
        self._inside: list[str] = []
        self._done: set[str] = set()

    def is_alike(self, schema: Any, depth: int = _MAX_DEPTH) -> bool:
        if isinstance(schema, bool):
            return True
        return depth > 0 and all(
            self._is_keyword_alike(keyword, argument, depth - 1) for keyword, argument in schema.items()
        )

    def _is_keyword_alike(self, keyword: str, argument: Any, depth: int) -> bool:
        if keyword in ("items", "additionalProperties", "not"):
            return self.is_alike(argument, depth)
        if keyword in ("anyOf", "allOf", "oneOf", "prefixItems"):
            return all(self.is_alike(inner, depth) for inner in argument)
        if keyword in ("properties", "$defs"):
            return all(self.is_alike(inner, depth) for inner in argument.values())
        if keyword == "$ref":
            return self._is_reference_alike(argument, depth)
        if keyword == "pattern":
            return self._takes_pattern(argument)
        is_alike = _KEYWORDS.get(keyword)
        return is_alike is not None and is_alike(argument)

    def _is_reference_alike(self, reference: str, depth: int) -> bool:
        name = reference.removeprefix(_DEFS)
        # What has one of these characters is no name but a path, or escaped.
        if name == reference or not _PATH.isdisjoint(name):
            return False
        if name not in self._definitions or name in self._inside:
            return False
        if name not in self._done:
            self._inside.append(name)
            if not self.is_alike(self._definitions[name], depth):
                return False
            self._inside.pop()
            self._done.add(name)
        return True


def _is_exact(argument: Any) -> bool:
    return type(argument) in (int, float) and abs(argument) < _EXACT


def _is_size(argument: Any) -> bool:
    return type(argument) is int and 0 <= argument < _EXACT


def _is_choice(argument: Any) -> bool:
    return argument is None or type(argument) in (str, bool) or (type(argument) is int and abs(argument) < _EXACT)


_KEYWORDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys((*_FOR_READERS, "x-mcp-header", "type", "required", "format"), _always),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_exact),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_size),
    "const": _is_choice,
    "enum": lambda choices: all(map(_is_choice, choices)),
}
