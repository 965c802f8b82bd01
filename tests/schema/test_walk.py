"""The walk over JSON Schema: where schemas are, what references lead to, and copies with other references."""

from __future__ import annotations

from typing import Any

import pytest

from flask_jsonrpc_mcp.schema.walk import (
    TYPES,
    has_references,
    inline_references,
    replace_references,
    resolve,
    types_of,
    walk,
)

ROOT: dict[str, Any] = {
    "properties": {"enum": {"title": "a property"}, "a/b": {"title": "odd"}},
    "items": [{"title": "per position"}, True],
    "additionalProperties": {"title": "others", "not": {"title": "not"}},
    "dependencies": {"a": ["b"], "c": {"title": "dependent"}},
    "enum": [{"$ref": "data"}],
    "default": {"items": {"$ref": "data"}},
    "$defs": {
        "word": {"type": "string"},
        "also": {"$ref": "#/$defs/word"},
        "tree": {"anyOf": [{"$ref": "#/$defs/tree"}, {"const": None}, {"enum": [1, True]}]},
        "self": {"$ref": "#/$defs/self"},
    },
}


def test_the_walk_finds_schemas_and_no_data() -> None:
    titles = {inner.get("title") for inner in walk(ROOT)} - {None}
    assert titles == {"a property", "odd", "per position", "others", "not", "dependent"}
    assert not has_references({"enum": [{"$ref": "data"}], "properties": {"$ref": {}}})


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/$defs/word", {"type": "string"}),
        ("#/properties/a~1b", {"title": "odd"}),
        ("#/%24defs/word", {"type": "string"}),
        ("#/$defs/none/further", None),
        ("#anchor", None),
        ("http://x.example", None),
        (5, None),
    ],
)
def test_a_reference_by_pointer_is_resolved(reference: object, found: Any) -> None:
    assert resolve(ROOT, reference) == found


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"$ref": "#/$defs/also"}, {"string"}),
        ({"$ref": "#/$defs/tree"}, {"null", "integer", "boolean"}),
        ({"$ref": "#/$defs/self"}, set()),
        ({"$ref": "#anchor"}, TYPES),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"oneOf": [{"type": "array"}, {"const": 1.5}]}, {"array", "number"}),
        ({"minimum": 1}, TYPES),
        (True, TYPES),
    ],
    ids=str,
)
def test_the_types_of_a_schema_are_named(schema: Any, types: set[str]) -> None:
    assert types_of(schema, ROOT) == types


def test_references_start_at_the_new_place_of_a_schema() -> None:
    schema = {"items": {"$ref": "#/$defs/a"}, "not": {"$ref": "#"}, "$defs": {"a": {"$ref": "http://x.example"}}}
    assert replace_references(schema, "#/parts/p") == {
        "items": {"$ref": "#/parts/p/$defs/a"},
        "not": {"$ref": "#/parts/p"},
        "$defs": {"a": {"$ref": "http://x.example"}},
    }


def test_definitions_of_definitions_are_inlined() -> None:
    schema = {"items": {"$ref": "#/$defs/a", "title": "A"}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"minimum": 1}}}
    assert inline_references(schema) == {**schema, "items": {"minimum": 1, "title": "A"}}
    assert inline_references({"$defs": {"a": {"$id": "x"}}, "items": {"$ref": "#/$defs/a"}})["items"] == {
        "$ref": "#/$defs/a"
    }
