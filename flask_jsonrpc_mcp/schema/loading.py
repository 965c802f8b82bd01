"""From JSON values that fit a schema to the Python values that a hint promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..errors import InvalidParams, Problem
from .problems import pointer

Load = Callable[[Any], Any]
"""From a JSON value that fits the schema to the Python value."""


class Converted(NamedTuple):
    """A hint's schema, and how to load a value that fits it; ``None`` when the JSON value will do as it is."""

    schema: dict[str, Any]
    load: Load | None = None


def as_it_is(value: Any) -> Any:
    return value


def optional(load: Load | None) -> Load | None:
    """Load anything but null, which stays ``None``."""
    return None if load is None else lambda value: None if value is None else load(value)


def load_members(members: Mapping[str, Converted]) -> Load | None:
    """Make the function that loads each member of an object by its own hint."""
    loads = {name: member.load for name, member in members.items() if member.load is not None}
    if not loads:
        return None

    def load(value: Mapping[str, Any]) -> dict[str, Any]:
        loaded = dict(value)
        for name, load_member in loads.items():
            if name in loaded:
                try:
                    loaded[name] = load_member(loaded[name])
                except InvalidParams as error:
                    raise _at(name, error) from error.__cause__
        return loaded

    return load


def load_at(step: object, load: Load, value: Any) -> Any:
    """Load what stands at one step of a path, and say so when it is refused."""
    try:
        return load(value)
    except InvalidParams as error:
        raise _at(step, error) from error.__cause__


def _at(step: object, error: InvalidParams) -> InvalidParams:
    return InvalidParams([Problem(pointer("", step) + path, message) for path, message in error.problems])
