"""Arguments that travel in a header too: ``x-mcp-header`` in a property's schema, ``Mcp-Param-...`` in the request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

KEYWORD = "x-mcp-header"
TYPES = ("string", "integer", "boolean")

# A token of RFC 9110, but for the underscore: HTTP servers drop headers with one in their name.
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")


class MirroredArgument(NamedTuple):
    """An argument, by its path of properties, and the name of the header that repeats it."""

    header: str
    path: tuple[str, ...]

    def value_in(self, arguments: Any) -> Any:
        """Find its value; ``None`` when there is none."""
        for step in self.path:
            if not isinstance(arguments, Mapping):
                return None
            arguments = arguments.get(step)
        return arguments


def find_mirrored(schema: Mapping[str, Any]) -> tuple[MirroredArgument, ...]:
    """Find the arguments of a schema that are repeated in headers.

    :raises ValueError: for a mark that clients would refuse the whole tool for.
    """
    found = tuple(_reachable(schema, ()))
    if len(found) != _count(schema):
        raise ValueError(f"{KEYWORD} may only stand on properties, not inside of lists, alternatives or references")
    names = [mirrored.header.lower() for mirrored in found]
    if len(names) != len(set(names)):
        raise ValueError(f"two properties have the same {KEYWORD}; header names have no case")
    return found


def _reachable(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[MirroredArgument]:
    for name, rules in schema.get("properties", {}).items():
        if not isinstance(rules, Mapping):
            continue
        if KEYWORD in rules:
            header = rules[KEYWORD]
            if not isinstance(header, str) or not _NAME.fullmatch(header):
                raise ValueError(f"{KEYWORD} {header!r} cannot be the name of a header; use letters, digits and '-'")
            if rules.get("type") not in TYPES:
                raise ValueError(f"{KEYWORD} goes on a {', '.join(TYPES)}; {name!r} is none of these")
            yield MirroredArgument(f"Mcp-Param-{header}", (*path, name))
        yield from _reachable(rules, (*path, name))


def _count(value: Any) -> int:
    """Count the marks anywhere in a schema, properties of that name aside."""
    if isinstance(value, list):
        return sum(_count(item) for item in value)
    if not isinstance(value, Mapping):
        return 0
    own = 1 if isinstance(value.get(KEYWORD), str) else 0
    return own + sum(_count(item) for item in value.values())
