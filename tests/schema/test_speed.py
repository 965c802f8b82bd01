"""The speed extra: the same answers with and without, to the byte."""

from __future__ import annotations

import datetime
import enum
import json
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict, Union
from unittest.mock import patch

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from marshmallow import fields

from flask_jsonrpc_mcp import McpBlueprint, RpcError, strict_json
from flask_jsonrpc_mcp.schema import Function, Shape, compile_params, dialects, validator
from flask_jsonrpc_mcp.strict_json import write
from tests.conftest import Site
from tests.core.test_strict_json import JSON_VALUES
from tests.support import faces
from tests.support.counting import seconds_during


@contextmanager
def without_extra() -> Iterator[None]:
    with patch.object(validator, "jsonschema_rs", None), patch.object(strict_json, "orjson", None):
        yield


def test_the_extra_is_installed_where_these_tests_run() -> None:
    """Without it they would compare a thing with itself."""
    assert validator.jsonschema_rs is not None
    assert strict_json.orjson is not None


def shape_of(hint: Any) -> Shape:
    """The shape of a function with one parameter."""

    def func(x): ...  # type: ignore[no-untyped-def]

    func.__annotations__ = {"x": hint}
    return compile_params(Function(func), None).shape


def assert_same_problems(hint: Any, value: Any) -> bool:
    """Compare the answers with the extra and without it; tell whether the value fits."""
    problems = shape_of(hint).problems({"x": value})
    with without_extra():
        assert shape_of(hint).problems({"x": value}) == problems
    return not problems


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
        *(
            "P1D",
            "PT1.5S",
            "P1Y",
            "P",
            "AP8=",
            "2026-01-31",
            "2026-02-30",
            "23:59:60Z",
            "2026-01-31T10:00:00",
            "2026-01-31T10:00:00Z",
        ),
    ]
)
ATOMS = NUMBERS | TEXTS | st.booleans() | st.none()
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=3),
    max_leaves=6,
)
PATTERNS = st.sampled_from(["^a", "b$", r"^\d$", r"^\w+$", r"^\s$", "^.$", "^(?!a)", "[^a]", "^$"])
FORMATS = st.sampled_from(["date", "time", "date-time", "uuid", "email", "uri", "ipv4", "regex", "hostname", "zip"])


class Level(enum.IntEnum):
    HIGH = 1


class Colour(enum.Enum):
    RED = "a"
    NONE = None
    BLUE = 5


class Row(TypedDict, total=False):
    id: Annotated[int, {"minimum": 1}]
    name: Annotated[str, {"minLength": 1, "pattern": "^[a-z]+$"}]
    day: datetime.date | None
    tags: Annotated[list[Literal["a", "b", 1, True, None]], {"maxItems": 2}]
    price: Annotated[float, {"exclusiveMinimum": 0, "maximum": 99.5}]


class Spot(NamedTuple):
    a: int
    b: datetime.timedelta = datetime.timedelta(1)


class Tree(TypedDict):
    a: list[Tree]


KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
    "multipleOf": st.sampled_from([1, 2, 0.1, 5.0]),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), st.integers(0, 3)
    ),
    "pattern": PATTERNS,
    "format": FORMATS,
    "uniqueItems": st.booleans(),
    "title": TEXTS,
    "x-ours": ATOMS,
}
RULES = st.lists(
    st.sampled_from(sorted(KEYWORDS)).flatmap(lambda name: st.tuples(st.just(name), KEYWORDS[name])), max_size=3
).map(dict)
SIMPLE_HINTS = st.sampled_from(
    [
        *(str, int, float, bool, None, Any, list, dict, Level, Colour, Row, Tree, uuid.UUID, Decimal),
        *(datetime.timedelta, bytes, Path, set[int], frozenset[str], Spot),
        *(datetime.date, datetime.time, datetime.datetime, Literal["a", 1], Literal[2**63, None], tuple[int, str]),
    ]
)
HINTS = st.recursive(
    SIMPLE_HINTS,
    lambda inner: (
        inner.map(lambda hint: list[hint])  # type: ignore[valid-type]
        | inner.map(lambda hint: dict[str, hint])  # type: ignore[valid-type]
        | inner.map(lambda hint: tuple[hint, ...])  # type: ignore[valid-type]
        | st.lists(SIMPLE_HINTS, min_size=2, max_size=3).map(lambda hints: Union[tuple(hints)])  # noqa: UP007
        | st.tuples(inner, RULES).map(lambda parts: Annotated[parts])
    ),
    max_leaves=4,
)


def test_any_hint_has_the_same_problems_with_any_value() -> None:
    seen = set()

    @settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
    @given(HINTS, VALUES)
    def compare(hint: Any, value: Any) -> None:
        try:
            generated = shape_of(hint).generated
        except ValueError:  # texts and values that are no keywords, such as half a surrogate pair
            return
        seen.add((assert_same_problems(hint, value), generated))

    compare()
    assert seen == {(fits, generated) for fits in (True, False) for generated in (True, False)}


ROWS = st.lists(
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


@settings(max_examples=500, deadline=None)
@given(ROWS)
@example([{"id": 1, "name": "a", "day": "2026-01-31", "tags": ["a", 1.0], "price": 99.5}])
def test_rows_have_the_same_problems(rows: list[Any]) -> None:
    assert shape_of(list[Row]).generated
    assert_same_problems(list[Row], rows)


@pytest.mark.parametrize(
    ("hint", "value", "fits"),
    [
        (int, 5.0, True),
        (int, 10**400, True),
        (int, True, False),
        (Literal[1], True, False),
        (Literal[1], 1.0, True),
        (Literal[False], 0, False),
        (Annotated[Any, {"const": [1]}], [True], False),
        (Annotated[Any, {"maximum": 2**70}], 2**70 + 1, False),
        (Annotated[Any, {"maximum": 2.0**53}], 2**53 + 1, False),
        (Annotated[Any, {"maximum": 99.5}], 10**400, False),
        (Annotated[Any, {"exclusiveMinimum": -0.5}], -(10**400), False),
        (Annotated[Any, {"multipleOf": 0.1}], 0.3, False),
        (Annotated[Any, {"multipleOf": 0.1}], 10**400, False),
        (Annotated[Any, {"uniqueItems": True}], [1, 1.0], False),
        (Annotated[Any, {"uniqueItems": True}], [1, True], True),
        (Annotated[Any, {"maxLength": 1}], "😀", True),
        (Annotated[Any, {"pattern": "a$"}], "a\n", False),
        (Annotated[Any, {"pattern": r"^\d$"}], "٣", False),
        (Annotated[Any, {"pattern": r"^\s$"}], "\ufeff", True),
        (Annotated[Any, {"pattern": "^.$"}], "\u2028", True),
        (datetime.datetime, "2026-01-31T10:00:00", True),
        (datetime.time, "23:59:60Z", False),
        (Annotated[Any, {"format": "hostname"}], "-", True),
        (str, "\ud800", True),
    ],
)
def test_where_libraries_differ_the_answer_is_one(hint: Any, value: Any, fits: bool) -> None:
    assert assert_same_problems(hint, value) is fits


def test_a_circle_is_as_deep_with_the_extra_as_without() -> None:
    for depth in (1, 10, 60, 120):
        value: Any = {"a": []}
        for _ in range(depth):
            value = {"a": [value]}
        assert_same_problems(Tree, value)


BUSY = {"pattern": "^(a+)+$"}
LONG = "a" * 28 + "!"
Busy = NewType("Busy", Annotated[str, BUSY])


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (list[Annotated[str, {"maxLength": 5, **BUSY}]], [LONG]),
        (Annotated[Busy | None, {"maxLength": 5}], LONG),
        (Annotated[list[Busy], {"maxItems": 2}], [LONG] * 3),
        (Annotated[dict[str, Busy], {"maxProperties": 2}], dict.fromkeys("abc", LONG)),
    ],
    ids=["text", "around", "items", "members"],
)
def test_what_is_too_large_is_not_looked_into(hint: Any, value: Any) -> None:
    """The pattern takes twice as long for each letter more."""
    assert shape_of(hint).generated
    assert seconds_during(lambda: assert_same_problems(hint, value)) < 2
    assert not assert_same_problems(hint, value)


@pytest.mark.parametrize("params", [{"properties": {"x": {"type": "integer"}}}, {"x": fields.Integer()}], ids=str)
def test_a_schema_that_was_not_generated_of_hints_is_left_to_jsonschema(params: Any) -> None:
    assert not compile_params(Function(lambda x=1: x), params).shape.generated


VALID = st.booleans() | st.dictionaries(st.sampled_from(["type", "maxLength"]), st.sampled_from(["string", 5]))
MALFORMED = st.recursive(
    VALUES | VALID,
    lambda inner: st.dictionaries(
        st.sampled_from(
            [
                *("type", "properties", "required", "minLength", "minimum", "items", "anyOf", "enum", "$defs", "not"),
                *("dependencies", "contentSchema", "$id", "$anchor", "format", "title", "deprecated", "prefixItems"),
            ]
        ),
        inner | st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
        max_size=3,
    ),
    max_leaves=6,
)


def test_a_schema_is_refused_if_the_published_meta_schema_refuses_it() -> None:
    """We check against the same rules in one piece."""
    seen = set()

    @settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MALFORMED.filter(lambda schema: isinstance(schema, dict)))
    def compare(schema: dict[str, Any]) -> None:
        try:
            dialects.check_schema(schema)
            refused = False
        except ValueError as error:
            refused = str(error).startswith("not a valid JSON Schema")
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
            assert not refused
        except jsonschema.SchemaError:
            assert refused
        seen.add(refused)

    compare()
    assert seen == {True, False}


WRITTEN = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text() | TEXTS, inner, max_size=5),
    max_leaves=20,
)


def written(value: Any) -> tuple[str, type[Exception] | None]:
    """What a reader gets of a value, members in their order; orjson writes 1e16 where Python writes 1e+16."""
    try:
        return repr(json.loads(write(value))), None
    except Exception as error:
        return "", type(error)


@settings(max_examples=1000, deadline=None)
@given(WRITTEN | JSON_VALUES)
@example([1e16, 1e-7, 1e22, 1.5e300, 5e-324, -0.0, 0.1, 123456789012345.6, 1e15, 9999999999999998.0, 0.0001, 0.00001])
@example([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400])
@example(["\x00\x1f\x7f\x80\u2028\ud7ff\ue000\U0010ffff", '"\\/\b\f\n\r\t'])
@example({"\ud800": 1})
@example({"z": 1, "a": 2, "é": "1e5"})
def test_any_value_is_written_as_the_same_json(value: Any) -> None:
    with_extra = written(value)
    with without_extra():
        assert written(value) == with_extra


class Shade(str):
    __slots__ = ()


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
        number: int, text: Annotated[str, {"pattern": "^[a-z]*$"}] = "", ratio: float = 0.5
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
        ("look", {"number": 5.0, "ratio": 0.25}),
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
