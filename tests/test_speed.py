"""The speed extra and the quick checks: the same answers with and without, to the byte."""

from __future__ import annotations

import datetime
import enum
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flask_jsonrpc_mcp import McpBlueprint, RpcError, speed
from flask_jsonrpc_mcp.errors import ParseError
from flask_jsonrpc_mcp.schema.jsonschema_problems import find_problems
from flask_jsonrpc_mcp.schema.jsonschema_validator import compile_validator
from flask_jsonrpc_mcp.schema.likeness import is_read_alike
from flask_jsonrpc_mcp.schema.outputs import shared_shape
from flask_jsonrpc_mcp.schema.quick import check_schema
from flask_jsonrpc_mcp.schema.shape import Shape
from flask_jsonrpc_mcp.strict_json import read, write

from . import faces
from .conftest import Site
from .test_strict_json import JSON_VALUES


@contextmanager
def without_extra() -> Iterator[None]:
    shared_shape.cache_clear()  # what was compiled with it
    try:
        with patch.multiple(speed, jsonschema_rs=lambda: None, orjson=None):
            yield
    finally:
        shared_shape.cache_clear()


def test_the_extra_is_installed_where_these_tests_run() -> None:
    """Without it they would compare a thing with itself."""
    assert speed.jsonschema_rs() is not None
    assert speed.orjson is not None


def assert_same_problems(schema: dict[str, Any], value: Any) -> bool:
    """Compare the answers with the extra, without it, and of jsonschema alone; tell whether the value fits."""
    validator = compile_validator(schema)
    expected = find_problems(validator, value)
    assert Shape(schema).problems(value) == expected
    with without_extra():
        assert Shape(schema).problems(value) == expected
    return not expected


# Numbers and texts around which implementations differ.
NUMBERS = st.sampled_from(
    [0, 1, 5, -1, 1.0, 5.0, 0.1, 0.3, 1e16, 1e308, -0.0, 2**53, 2**53 + 1, 2**63, 2**64, 2**64 + 1, 10**30, 10**400]
)
TEXTS = st.sampled_from(
    [
        *(
            "",
            "a",
            "ab",
            "abc",
            "é",
            "😀",
            "\n",
            "a\n",
            "٣",
            "\u2028",
            "\ufeff",
            "\ud800",
            "\x7f",
            "\x00",
            "1e5",
            "a@b.c",
        ),
        *("2026-01-31", "2026-02-30", "23:59:60Z", "2026-01-31T10:00:00", "2026-01-31T10:00:00Z"),
    ]
)
ATOMS = NUMBERS | TEXTS | st.booleans() | st.none()
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=3),
    max_leaves=6,
)
SIZES = st.integers(0, 3)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
PATTERNS = st.sampled_from(["^a", "b$", r"^\d$", r"^\w+$", r"^\s$", "^.$", "^(?!a)", "[^a]", "^$"])
FORMATS = st.sampled_from(["date", "time", "date-time", "uuid", "email", "uri", "ipv4", "regex", "hostname", "zip"])
DEFS = {
    "atom": {"type": ["string", "integer"], "maximum": 5},
    "list": {"type": "array", "items": {"$ref": "#/$defs/atom"}},
    "tree": {"anyOf": [{"$ref": "#/$defs/atom"}, {"type": "array", "items": {"$ref": "#/$defs/tree"}}]},
}
REFERENCES = st.sampled_from([f"#/$defs/{name}" for name in DEFS])
# Names of definitions that are no names in a reference.
PATHS = ("a/b", "a%20b", "a~1b", "a~b")


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=3)
    some = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
        "multipleOf": st.sampled_from([1, 2, 0.1, 5.0]),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), SIZES),
        "pattern": PATTERNS,
        "format": FORMATS,
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2),
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        **dict.fromkeys(("items", "additionalProperties", "not", "if", "then", "contains", "propertyNames"), inner),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), st.booleans()),
        **dict.fromkeys(("anyOf", "allOf", "oneOf", "prefixItems"), some),
        "$ref": REFERENCES,
        "description": TEXTS,
        "x-ours": ATOMS,
    }
    pairs = st.sampled_from(sorted(keywords)).flatmap(lambda name: st.tuples(st.just(name), keywords[name]))
    return st.lists(pairs, max_size=4).map(dict)


SCHEMAS = st.recursive(st.booleans() | schemas_of(st.booleans()), schemas_of, max_leaves=8)


def test_any_schema_has_the_same_problems_with_any_value() -> None:
    seen = set()

    @settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
    @given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
    def compare(rules: dict[str, Any], value: Any) -> None:
        schema = {**rules, "$defs": DEFS}
        # The whole schema is left to jsonschema where any definition is.
        without_circle = {**rules, "$defs": {name: DEFS[name] for name in ("atom", "list")}}
        schema = schema if "#/$defs/tree" in json.dumps(rules) else without_circle
        seen.add((assert_same_problems(schema, value), is_read_alike(schema)))

    compare()
    assert seen == {(fits, alike) for fits in (True, False) for alike in (True, False)}


def refusal_of(schema: dict[str, Any]) -> str | None:
    try:
        check_schema(schema)
    except ValueError as error:
        return str(error)
    return None


BAD_PATTERNS = st.sampled_from(["(", "(a+)+", "[", r"\p{L}", "a{2,1}", "(?<=a+)b", "[\\s-\uffff]"])


@pytest.mark.parametrize(
    "schema",
    [
        *({"$ref": f"#/$defs/{name}", "$defs": {name: {"type": "string"}}} for name in PATHS if name != "a~b"),
        {"pattern": "[\\s-\uffff]"},
    ],
    ids=str,
)
def test_what_jsonschema_refuses_is_refused_with_the_extra_too(schema: dict[str, Any]) -> None:
    refusal = refusal_of(schema)
    assert refusal is not None
    with without_extra():
        assert refusal_of(schema) == refusal


def test_any_schema_is_refused_with_the_same_words() -> None:
    seen = set()
    malformed = schemas_of(SCHEMAS | VALUES) | st.dictionaries(
        st.sampled_from(
            ["type", "pattern", "properties", "required", "minLength", "minimum", "items", "$ref", "$defs"]
        ),
        VALUES | PATTERNS | BAD_PATTERNS | REFERENCES | st.sampled_from([f"#/$defs/{name}" for name in PATHS]),
    )

    @settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
    @given(malformed)
    def compare(rules: dict[str, Any]) -> None:
        schema = {"$defs": {**DEFS, **{name: {"type": "string"} for name in PATHS}}, **rules}
        refusal = refusal_of(schema)
        seen.add(refusal is None)
        with without_extra():
            assert refusal_of(schema) == refusal

    compare()
    assert seen == {True, False}


ROW = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$"},
        "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["a", "b", 1, True, None]}, "maxItems": 2},
        "price": {"type": "number", "exclusiveMinimum": 0, "maximum": 99.5},
    },
    "required": ["id"],
    "additionalProperties": False,
}


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": NUMBERS},
            optional={
                "name": TEXTS,
                "day": TEXTS | st.none(),
                "tags": st.lists(ATOMS, max_size=3),
                "price": NUMBERS,
                "é": ATOMS,
            },
        ),
        max_size=3,
    )
)
@example([{"id": 1, "name": "a", "day": "2026-01-31", "tags": ["a", 1.0], "price": 99.5}])
def test_rows_have_the_same_problems(rows: list[Any]) -> None:
    assert is_read_alike(ROW)
    assert_same_problems({"type": "array", "items": ROW}, rows)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "integer"}, 5.0, True),
        ({"type": "integer"}, 10**400, True),
        ({"type": "integer"}, True, False),
        ({"enum": [1]}, True, False),
        ({"enum": [1]}, 1.0, True),
        ({"const": False}, 0, False),
        ({"const": [1]}, [True], False),
        ({"maximum": 2**70}, 2**70 + 1, False),
        ({"maximum": 2.0**53}, 2**53 + 1, False),
        ({"maximum": 99.5}, 10**400, False),
        ({"exclusiveMinimum": -0.5}, -(10**400), False),
        ({"multipleOf": 0.1}, 0.3, False),
        ({"multipleOf": 0.1}, 10**400, False),
        ({"uniqueItems": True}, [1, 1.0], False),
        ({"uniqueItems": True}, [1, True], True),
        ({"maxLength": 1}, "😀", True),
        ({"pattern": "a$"}, "a\n", False),
        ({"pattern": r"^\d$"}, "٣", False),
        ({"pattern": r"^\s$"}, "\ufeff", True),
        ({"pattern": "^.$"}, "\u2028", True),
        ({"format": "date-time"}, "2026-01-31T10:00:00", True),
        ({"format": "time"}, "23:59:60Z", False),
        ({"format": "hostname"}, "-", True),
        ({"type": "string"}, "\ud800", True),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, 5.0, False),
    ],
)
def test_where_libraries_differ_the_answer_is_one(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert assert_same_problems(schema, value) is fits


def test_a_circle_is_as_deep_with_the_extra_as_without() -> None:
    schema = {"$ref": "#/$defs/tree", "$defs": DEFS}
    for depth in (1, 10, 60, 120):
        value: Any = "x"
        for _ in range(depth):
            value = [value]
        with_extra = Shape(schema).problems(value)
        with without_extra():
            assert Shape(schema).problems(value) == with_extra


@pytest.mark.parametrize(
    "rules",
    [
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"$id": "http://127.0.0.1:9/schema"},
        {"properties": {"a": {"$dynamicRef": "#a"}}},
        {"items": {"$schema": "https://json-schema.org/draft/2020-12/schema"}},
    ],
)
def test_a_schema_that_might_lead_elsewhere_is_left_to_jsonschema(rules: dict[str, Any]) -> None:
    assert not is_read_alike(rules)


def test_a_schema_of_great_depth_is_left_to_jsonschema() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50):
        schema = {"items": schema}
    assert not is_read_alike(schema)


WRITTEN = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text() | TEXTS, inner, max_size=5),
    max_leaves=20,
)


def written(value: Any) -> bytes | type[Exception]:
    try:
        return write(value)
    except Exception as error:
        return type(error)


@settings(max_examples=1000, deadline=None)
@given(WRITTEN | JSON_VALUES)
@example([1e16, 1e-7, 1e22, 1.5e300, 5e-324, -0.0, 0.1, 123456789012345.6, 1e15, 9999999999999998.0, 0.0001, 0.00001])
@example([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400])
@example(["\x00\x1f\x7f\x80\u2028\ud7ff\ue000\U0010ffff", '"\\/\b\f\n\r\t'])
@example({"\ud800": 1})
@example({"z": 1, "a": 2, "é": "1e5"})
def test_any_value_is_written_in_the_same_bytes(value: Any) -> None:
    with_extra = written(value)
    with without_extra():
        assert written(value) == with_extra


class Shade(str):
    __slots__ = ()


class Level(enum.IntEnum):
    HIGH = 1


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [10**5000, {1: 2}, Shade("x"), {Shade("x"): 1}, (1, 2), nested(300), datetime.date(2026, 1, 2), {1, 2}, b"x"],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_plain_is_written_or_refused_alike(value: object) -> None:
    with_extra = written(value)
    with without_extra():
        assert written(value) == with_extra


def test_deep_nesting_is_written_alike() -> None:
    for depth in (128, 253, 254, 255, 256):
        assert write(nested(depth)) == b"[" * (depth + 1) + b"]" * (depth + 1)
    assert sys.getrecursionlimit() > 256


def shop() -> Site:
    site = Site(McpBlueprint())

    def look(
        number: int, text: Annotated[str, {"pattern": "^[a-z]*$"}] = "", ratio: float = 1e16
    ) -> list[dict[str, float | str | None]]:
        if text == "gone":
            raise RpcError("gone", data={"ratio": ratio})
        return [{"é": text, "big": number, "ratio": ratio, "none": None}] * 3

    def lie() -> int:
        return "text"  # type: ignore[return-value]

    site.tool(look)
    site.tool(lie)
    return site


@pytest.mark.parametrize("face", [faces.rest, faces.jsonrpc, faces.mcp_modern, faces.mcp_legacy])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("look", {"number": 2**65, "text": "abc"}),
        ("look", {"number": 5.0, "ratio": 1e-7}),
        ("look", {"number": 1, "text": "gone"}),
        ("look", {"number": 1.5, "text": "ABC", "ratio": "x", "other": 1}),
        ("look", {}),
    ],
)
def test_a_call_is_answered_in_the_same_bytes(face: faces.Face, name: str, arguments: Any) -> None:
    asked = face(name, arguments)
    with_extra = asked.send(shop().client)
    with without_extra():
        reply = asked.send(shop().client)
    assert (reply.status_code, reply.data) == (with_extra.status_code, with_extra.data)


@pytest.mark.parametrize("use", [nullcontext, without_extra], ids=["with", "without"])
def test_a_result_that_breaks_its_schema_is_an_error_unless_told_otherwise(use: Callable[[], Any]) -> None:
    def lie() -> int:
        return "text"  # type: ignore[return-value]

    with use():
        site = Site(McpBlueprint())
        site.tool(lie, name="checked")
        site.tool(lie, name="unchecked", validate_output=False)
        assert site.invoke("checked", {}).status_code == 500
        assert site.invoke("unchecked", {}).get_json() == {"result": "text"}
        assert site.describe("unchecked").get_json()["tool"]["outputSchema"] == {"type": "integer"}


def reading_of(text: bytes) -> Any:
    """What comes of a text, with what tells 1 from 1.0 and true."""
    try:
        return repr(read(text))
    except ParseError:
        return ParseError


SPELLINGS = st.sampled_from(
    [
        lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
        lambda value: json.dumps(value, separators=(",", ":")),
        lambda value: json.dumps(value),
        # Each object with its members twice, and each number with other digits.
        lambda value: json.dumps(value, separators=(",", ":")).replace("{", '{"":0,"":0,').replace(",}", "}"),
        lambda value: json.dumps(value, separators=(",", ":")).replace("1", "1" * 25),
        lambda value: json.dumps(value, separators=(",", ":")).replace("0", "0e1"),
    ]
)


@settings(max_examples=1000, deadline=None)
@given(JSON_VALUES, SPELLINGS)
def test_any_text_is_read_alike(value: Any, spell: Callable[[Any], str]) -> None:
    text = spell(value).encode("utf-8", "surrogatepass")
    expected = reading_of(text)
    with without_extra():
        assert reading_of(text) == expected


@pytest.mark.parametrize(
    ("text", "is_quick"),
    [
        (b'{"a":[1,-2.5,true,null,"\xc3\xa9"],"b":{}}', True),
        (b"18446744073709551615", True),
        (b"18446744073709551616", False),
        (b'{"a":1,"a":1}', False),
        (b'{"a": 1}', False),
        (b' {"a":1}', False),
        (b"-0", False),
        (b"1e999", False),
        (b"1.10", False),
        (b'"\\u00e9"', False),
        (b'"\\ud800"', False),
        (b'"\xed\xa0\x80"', False),
        (b"NaN", False),
        (b"[1]]", False),
    ],
)
def test_only_what_is_written_again_to_the_byte_was_read_quickly(text: bytes, is_quick: bool) -> None:
    assert (speed.read_quickly(text) is not None) == is_quick
    expected = reading_of(text)
    with without_extra():
        assert speed.read_quickly(text) is None
        assert reading_of(text) == expected
