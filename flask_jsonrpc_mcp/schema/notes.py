"""Read the notes in `Annotated`: texts, keywords of JSON Schema, and what annotated_types and pydantic have for both.

Limits are recognised by their attributes, such as ``ge``, so neither library is imported.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from ..errors import InvalidParams, Problem
from ..strict_json import is_lazy, to_plain

_RANGES = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_NOUNS = {"string": "Length", "array": "Items", "object": "Properties"}

_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("ge", "gt", "le", "lt")},
    "multiple_of": lambda value, limit: not value % limit,
    "min_length": lambda value, limit: len(value) >= limit,
    "max_length": lambda value, limit: len(value) <= limit,
}

# Settings of pydantic.Field and StringConstraints that only pydantic itself can follow.
_PYDANTIC_ONLY = ("strip_whitespace", "to_upper", "to_lower", "max_digits", "decimal_places", "discriminator")


def is_field(note: object) -> bool:
    """Whether this is what ``pydantic.Field()`` returns."""
    # pydantic imports its parts when they are first used, so it may be there without this one.
    fields: Any = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(note, fields.FieldInfo)


def flatten(notes: Iterable[Any]) -> Iterator[Any]:
    """Yield all notes, and those inside of a pydantic Field."""
    for note in notes:
        yield note
        if is_field(note):
            yield from note.metadata


def is_left_to_pydantic(note: Any) -> bool:
    """Whether only pydantic can do what a note says, such as ``AfterValidator(...)``."""
    return hasattr(note, "__get_pydantic_core_schema__") or any(getattr(note, name, None) for name in _PYDANTIC_ONLY)


def keywords_of(note: Any) -> dict[str, Any]:
    """Return the keywords that a note has: a text, a dict, a ``Doc`` or a pydantic Field."""
    if isinstance(note, str) or is_lazy(note):
        return {"description": note}
    if isinstance(note, dict):
        return dict(to_plain(note))
    if is_field(note):
        texts = {name: getattr(note, name) for name in ("title", "description", "examples", "deprecated")}
        extra = note.json_schema_extra if isinstance(note.json_schema_extra, dict) else {}
        return dict(to_plain({**{name: text for name, text in texts.items() if text is not None}, **extra}))
    documentation = getattr(note, "documentation", None)
    return {"description": documentation} if isinstance(documentation, str) else {}


def limits_of(note: Any) -> dict[str, Any]:
    """Return the limits that a note of annotated_types or pydantic has, by the names these libraries use."""
    limits = {name: getattr(note, name, None) for name in (*_TESTS, "pattern")}
    return {name: limit for name, limit in limits.items() if limit is not None and not callable(limit)}


def rules_of(limits: dict[str, Any], allowed: Collection[str], *, parsed: bool) -> dict[str, Any]:
    """Write limits as keywords of JSON Schema.

    :param allowed: The types that the schema allows.
    :param parsed: The Python value has another form in JSON, such as a date, whose length is not that of the text.
    :raises TypeError: for a limit that none of these types can have.
    """
    rules = {}
    for name, limit in limits.items():
        found: dict[str, Any] = {}
        if name == "pattern":
            found = {"pattern": getattr(limit, "pattern", limit)} if "string" in allowed else {}
        elif name in _RANGES:
            if {"integer", "number"} & set(allowed) and not (parsed and name == "multiple_of"):
                found = {_RANGES[name]: limit if isinstance(limit, int) else float(limit)}
        elif not parsed:
            found = {f"{name[:3]}{noun}": limit for kind, noun in _NOUNS.items() if kind in allowed}
        if not found and not parsed:
            raise TypeError(f"the limit {name}={limit!r} does not fit the type")
        rules.update(found)
    return rules


def check_limits(load: Callable[[Any], Any], limits: dict[str, Any]) -> Callable[[Any], Any]:
    """Make a loader that checks limits of the Python value, which JSON Schema cannot express."""

    def load_within(value: Any) -> Any:
        loaded = load(value)
        problems = [
            Problem("", _message(name, limit))
            for name, limit in limits.items()
            if loaded is not None and name in _TESTS and not _holds(name, loaded, limit)
        ]
        if problems:
            raise InvalidParams(problems)
        return loaded

    return load_within


def _holds(name: str, value: Any, limit: Any) -> bool:
    try:
        return bool(_TESTS[name](value, limit))
    except (TypeError, ArithmeticError):  # such as a time with an offset and one without
        return False


def _message(name: str, limit: Any) -> str:
    from .problems import BOUNDS  # see `shape`

    if name in _RANGES:
        return BOUNDS[_RANGES[name]].format(to_plain(limit))
    return f"must have at {'least' if name == 'min_length' else 'most'} {limit} bytes"
