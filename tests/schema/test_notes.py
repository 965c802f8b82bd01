"""Notes in ``Annotated``: limits of annotated_types and pydantic, and descriptions."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import annotated_types as at
import pydantic
import pytest
from pydantic import Field
from typing_extensions import Doc

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Taking
from tests.support.servers import ROOT

DAY = datetime.date(2026, 1, 2)
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}

# hint, schema, a value that fits, one that does not, what the caller reads then
CASES: list[tuple[Any, dict[str, Any] | None, Any, Any, str]] = [
    (Annotated[int, at.Ge(1)], {**INTEGER, "minimum": 1}, 1, 0, "must be at least 1"),
    (
        Annotated[int, at.Gt(1), at.Lt(3)],
        {**INTEGER, "exclusiveMinimum": 1, "exclusiveMaximum": 3},
        2,
        3,
        "must be less than 3",
    ),
    (Annotated[float, at.Le(0.5)], {"type": "number", "maximum": 0.5}, 0.5, 1, "must be at most 0.5"),
    (Annotated[int, at.Interval(ge=1, le=3)], {**INTEGER, "minimum": 1, "maximum": 3}, 3, 4, "must be at most 3"),
    (Annotated[int, at.MultipleOf(5)], {**INTEGER, "multipleOf": 5}, 10, 11, "must be a multiple of 5"),
    (Annotated[str, at.MinLen(1)], {**TEXT, "minLength": 1}, "a", "", "must have at least 1 character"),
    (Annotated[Path, at.MinLen(2)], {**TEXT, "minLength": 2}, "ab", "a", "must have at least 2 characters"),
    (
        Annotated[str, at.Len(1, 2)],
        {**TEXT, "minLength": 1, "maxLength": 2},
        "a",
        "abc",
        "must have at most 2 characters",
    ),
    (
        Annotated[list[int], at.MaxLen(1)],
        {"type": "array", "items": INTEGER, "maxItems": 1},
        [1],
        [1, 2],
        "must have at most 1 item",
    ),
    (
        Annotated[dict, at.MaxLen(0)],
        {"type": "object", "maxProperties": 0},
        {},
        {"a": 1},
        "must have at most 0 members",
    ),
    (Annotated[set[int], at.MinLen(1)], None, [1], [], "must have at least 1 item"),
    (
        Annotated[int | None, at.Ge(1)],
        {"anyOf": [INTEGER, {"type": "null"}], "minimum": 1},
        None,
        0,
        "must be at least 1",
    ),
    (
        list[Annotated[int, at.Ge(1)]],
        {"type": "array", "items": {**INTEGER, "minimum": 1}},
        [1],
        [0],
        "must be at least 1",
    ),
    (pydantic.PositiveInt, {**INTEGER, "exclusiveMinimum": 0}, 1, 0, "must be greater than 0"),
    (
        Annotated[int, Field(ge=1, description="How many")],
        {**INTEGER, "minimum": 1, "description": "How many"},
        1,
        0,
        "must be at least 1",
    ),
    (
        Annotated[str, Field(pattern="^a", max_length=2, examples=["a"])],
        {**TEXT, "pattern": "^a", "maxLength": 2, "examples": ["a"]},
        "ab",
        "b",
        "must match the pattern ^a",
    ),
    (
        Annotated[str, Field(title="T", json_schema_extra={"x-a": 1})],
        {**TEXT, "title": "T", "x-a": 1},
        "a",
        1,
        "must be of type string, not integer",
    ),
    (
        Annotated[str, Doc("The name")],
        {**TEXT, "description": "The name"},
        "a",
        1,
        "must be of type string, not integer",
    ),
    (Annotated[Decimal, at.Ge(Decimal("0.5"))], None, "0.50", "0.49", "must be at least 0.5"),
    (Annotated[Decimal, Field(lt=10)], None, 9, "10.00", "must be less than 10"),
    (
        Annotated[datetime.date, at.Ge(DAY)],
        {**TEXT, "format": "date"},
        "2026-01-02",
        "2026-01-01",
        "must be at least 2026-01-02",
    ),
    (Annotated[datetime.date | None, at.Ge(DAY)], None, None, "2026-01-01", "must be at least 2026-01-02"),
    (Annotated[datetime.timedelta, at.Lt(datetime.timedelta(1))], None, "PT23H", "P1D", "must be less than P1D"),
    (
        Annotated[bytes, at.MaxLen(2)],
        {**TEXT, "contentEncoding": "base64"},
        "AAA=",
        "AAAA",
        "must have at most 2 bytes",
    ),
    (Annotated[str, pydantic.AfterValidator(str.upper)], TEXT, "a", 1, "must be of type string, not integer"),
    (
        Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)],
        {**TEXT, "minLength": 1},
        "a",
        " ",
        "String should have at least 1 character",
    ),
]


@pytest.mark.parametrize(("hint", "schema", "value", "wrong", "says"), CASES, ids=lambda part: str(part)[:40])
def test_a_note_is_advertised_and_enforced(hint: Any, schema: Any, value: Any, wrong: Any, says: str) -> None:
    def func(x):  # type: ignore[no-untyped-def]
        ...

    func.__annotations__ = {"x": hint}
    call = Taking(func)
    if schema is not None:
        assert call.schema["properties"]["x"] == schema
    assert call(x=value) is None
    [problem] = call.site.invoke("under-test", {"x": wrong}).get_json()["error"]["errors"]
    assert problem["message"] == says


def test_the_range_of_a_decimal_is_in_the_schema() -> None:
    def func(x: Annotated[Decimal, at.Interval(gt=0, le=Decimal("9.5"))]) -> None: ...

    shown = Taking(func).schema["properties"]["x"]
    assert {"exclusiveMinimum": 0, "maximum": 9.5}.items() <= shown.items()


def test_a_validator_of_pydantic_makes_the_value() -> None:
    def func(x: Annotated[str, pydantic.AfterValidator(str.upper), "A text"]) -> str:
        return x

    call = Taking(func)
    assert call.schema["properties"]["x"]["description"] == "A text"
    assert call(x="a") == "A"


@pytest.mark.parametrize(
    ("hint", "default", "says"),
    [
        (int, Field(5, ge=1), r"parameter 'x': its default is a pydantic Field; write Annotated\[..., Field"),
        (Annotated[str, at.Ge(1)], ..., "parameter 'x': the limit ge=1 does not fit the type"),
    ],
)
def test_a_note_in_the_wrong_place_raises(hint: Any, default: Any, says: str) -> None:
    def troubled(x=default):  # type: ignore[no-untyped-def]
        ...

    troubled.__annotations__ = {"x": hint}
    with pytest.raises(TypeError, match=says):
        McpBlueprint().method(troubled)


def test_notes_are_read_if_pydantic_is_imported_and_its_fields_are_not() -> None:
    """pydantic imports its parts when they are first used."""
    program = """
import sys
import pydantic
assert "pydantic.fields" not in sys.modules
from typing import Annotated
from flask_jsonrpc_mcp import McpBlueprint
def add(a: Annotated[int, "The first number"]) -> int: ...
McpBlueprint().tool(add)
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("hint", [Annotated[float, at.Lt(math.inf)], Annotated[Decimal, at.Le(Decimal("1e400"))]])
def test_a_limit_beyond_all_floats_is_not_in_the_schema(hint: Any) -> None:
    def func(x):  # type: ignore[no-untyped-def]
        return str(x)

    func.__annotations__ = {"x": hint}
    call = Taking(func)
    assert not {"maximum", "exclusiveMaximum"} & call.schema["properties"]["x"].keys()
    assert call(x=1.5) == "1.5"
