"""What is shown of the arguments of a call: only their names, or their values without secrets.

`is_secret` says which schemas describe a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..schema.walk import Schema, has_references, is_secret, resolve, subschemas
from ..strict_json import write

HIDDEN = "[hidden]"
SECRET = "[secret]"  # noqa: S105 (what is shown instead of one)

MAX_SHOWN = 8192
"""Maximum bytes of the arguments of one call, as JSON."""

_HIDDEN_MEMBER = len(f'"":"{HIDDEN}",')

# Where a schema has others, for the value itself, for its members of any name, and for its items.
_BRANCHES = frozenset({"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "oneOf", "then"})
_OF_MEMBERS = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
_OF_ITEMS = frozenset({"additionalItems", "contains", "items", "unevaluatedItems"})


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
    return any(is_secret(each) or _is_unclear(each, schema) for each in _applying([schema], schema, subschemas))


def _named(arguments: Any, schema: Schema) -> Mapping[str, Any]:
    if isinstance(arguments, (dict, Mapping)):  # the exact type first: an abstract class is slow to ask
        return arguments
    names = [*schema.get("properties", ())]
    listed = arguments if isinstance(arguments, Sequence) else ()
    named = dict(zip(names, listed, strict=False))
    return named | {str(i): HIDDEN for i in range(len(names), len(listed))}  # those without a name may be secrets


def _without_secrets(value: Any, schemas: list[Any], root: Schema) -> Any:
    """Copy a value. It is a secret if any of the schemas that may apply to it says so."""
    applying = [*_applying(schemas, root)]
    if any(map(is_secret, applying)):
        return SECRET
    if any(_is_unclear(schema, root) for schema in applying):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if _is_unknown(applying, name) else _without_secrets(inner, _members(applying, name), root)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(inner, _items(applying, index), root) for index, inner in enumerate(value)]
    return value


def _branches(schema: Schema) -> list[Schema]:
    return _below(schema, _BRANCHES)


def _below(schema: Schema, keywords: frozenset[str]) -> list[Schema]:
    return subschemas({keyword: schema[keyword] for keyword in keywords & schema.keys()})


def _applying(
    schemas: list[Any], root: Schema, parts: Callable[[Schema], list[Schema]] = _branches
) -> Iterator[Schema]:
    """Yield schemas, the targets of their references, and their parts."""
    seen: set[int] = set()
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        waiting.append(resolve(root, schema.get("$ref")))
        waiting += parts(schema)


def _is_unclear(schema: Schema, root: Schema) -> bool:
    """Whether a schema refers to another that `resolve` does not find: that one may describe a secret."""
    if "$ref" in schema and not isinstance(resolve(root, schema["$ref"]), (Mapping, bool)):
        return True
    if "$dynamicRef" in schema or "$recursiveRef" in schema:
        return True
    # Its references start at itself, and not at the root.
    return "$id" in schema and schema is not root and has_references(schema)


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
        found += _below(schema, _OF_MEMBERS)  # those for other names too: rather too much is hidden
    return found


def _items(schemas: list[Schema], index: int) -> list[Any]:
    found: list[Any] = []
    for schema in schemas:
        prefix = schema.get("prefixItems", ())
        found += prefix[index : index + 1]
        found += _below(schema, _OF_ITEMS)
    return found
