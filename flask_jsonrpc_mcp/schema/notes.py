"""The notes in ``Annotated[...]``: texts, limits and keywords, of annotated_types, of pydantic, or as a dict."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from ..errors import InvalidParams, Problem
from ..strict_json import is_lazy, to_plain
from .shape import describe_limit

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


def is_pydantic_field(note: object) -> bool:
    """Whether this is what ``pydantic.Field()`` returns."""
    # pydantic imports its modules lazily, so pydantic alone may be there.
    fields: Any = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(note, fields.FieldInfo)


def flatten(notes: Iterable[Any]) -> Iterator[Any]:
    """Yield all notes, and those inside of a pydantic Field."""
    for note in notes:
        yield note
        if is_pydantic_field(note):
            yield from note.metadata


def is_left_to_pydantic(note: Any) -> bool:
    """Whether only pydantic can apply a note, such as ``AfterValidator(...)``."""
    return hasattr(note, "__get_pydantic_core_schema__") or any(getattr(note, name, None) for name in _PYDANTIC_ONLY)


def keywords_of(note: Any) -> dict[str, Any]:
    """Return the keywords of a note: a text, a dict, a ``Doc`` or a pydantic Field."""
    if isinstance(note, str) or is_lazy(note):
        return {"description": note}
    if isinstance(note, dict):
        return dict(to_plain(note))
    if is_pydantic_field(note):
        texts = {name: getattr(note, name) for name in ("title", "description", "examples", "deprecated")}
        extra = note.json_schema_extra if isinstance(note.json_schema_extra, dict) else {}
        return dict(to_plain({**{name: text for name, text in texts.items() if text is not None}, **extra}))
    documentation = getattr(note, "documentation", None)
    return {"description": documentation} if isinstance(documentation, str) else {}


def limits_of(note: Any) -> dict[str, Any]:
    """Return the limits of a note of annotated_types or pydantic, by the names in these libraries."""
    limits = {name: getattr(note, name, None) for name in (*_LIMITS, "pattern")}
    return {name: limit for name, limit in limits.items() if limit is not None and not callable(limit)}


def rules_of(limits: dict[str, Any], allowed: Collection[str], *, parsed: bool) -> dict[str, Any]:
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


def check_limits(load: Callable[[Any], Any], limits: dict[str, Any]) -> Callable[[Any], Any]:
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
