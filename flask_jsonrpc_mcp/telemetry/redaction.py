"""What is shown of the arguments of a call: only their names, or their values without secrets.

`is_secret` says which schemas describe a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..schema.walk import Schema, is_secret, resolve, walk
from ..strict_json import write

HIDDEN = "[hidden]"
SECRET = "[secret]"  # noqa: S105 (what is shown instead of one)

MAX_SHOWN = 8192
"""Maximum bytes of the arguments of one call, as JSON."""

_HIDDEN_MEMBER = len(f'"":"{HIDDEN}",')
_BRANCHES = ("allOf", "anyOf", "oneOf")
_ALTERNATIVES = ("if", "then", "else")


def hide_arguments(arguments: Any, schema: Schema) -> dict[str, str]:
    """Return the names of the arguments of a call, without their values."""
    names = _named(arguments, schema)
    size = len("".join(names).encode()) + len(names) * _HIDDEN_MEMBER
    return dict.fromkeys(names, HIDDEN) if size <= MAX_SHOWN else {"...": HIDDEN}


def show_arguments(arguments: Any, schema: Schema) -> Any:
    """Return the arguments of a call without its secrets."""
    shown = _without_secrets(_named(arguments, schema), [schema], schema)
    size = len(write(shown))
    return shown if size <= MAX_SHOWN else {"...": f"{size} bytes"}


def has_secrets(schema: Schema) -> bool:
    """Whether an argument, or a part of one, can be a secret."""
    return any(map(is_secret, walk(schema)))


def _named(arguments: Any, schema: Schema) -> Mapping[str, Any]:
    if isinstance(arguments, (dict, Mapping)):  # the exact type first: an abstract class is slow to ask
        return arguments
    names = [*schema.get("properties", ())]
    listed = arguments if isinstance(arguments, Sequence) else ()
    return {names[i] if i < len(names) else str(i): value for i, value in enumerate(listed)}


def _without_secrets(value: Any, schemas: list[Any], root: Schema) -> Any:
    """Copy a value. It is a secret if any of the schemas that may apply to it says so."""
    applying = [*_applying(schemas, root)]
    if any(map(is_secret, applying)):
        return SECRET
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if _is_unknown(applying, name) else _without_secrets(inner, _members(applying, name), root)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(inner, _items(applying, index), root) for index, inner in enumerate(value)]
    return value


def _applying(schemas: list[Any], root: Schema) -> Iterator[Schema]:
    """Yield schemas, the targets of their references, and their branches."""
    seen: set[int] = set()
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        waiting.append(resolve(root, schema.get("$ref")))
        for keyword in _BRANCHES:
            waiting += schema.get(keyword, ())
        waiting += (schema.get(keyword) for keyword in _ALTERNATIVES)


def _is_unknown(schemas: list[Schema], name: str) -> bool:
    """Whether a schema forbids a member of this name: it may be a misspelt secret."""
    return any(
        schema.get("additionalProperties") is False
        and name not in schema.get("properties", {})
        and not schema.get("patternProperties")
        for schema in schemas
    )


def _members(schemas: list[Schema], name: str) -> list[Any]:
    found: list[Any] = []
    for schema in schemas:
        found.append(schema.get("properties", {}).get(name))
        found += schema.get("patternProperties", {}).values()  # those of other names too: rather too much is hidden
        found.append(schema.get("additionalProperties"))
    return found


def _items(schemas: list[Schema], index: int) -> list[Any]:
    found: list[Any] = []
    for schema in schemas:
        prefix = schema.get("prefixItems", ())
        found += prefix[index : index + 1]
        items = schema.get("items")
        found += items if isinstance(items, list) else [items]
    return found
