"""What is shown is what is enforced: whatever fits the advertised schema loads, and whatever does not is refused."""

from __future__ import annotations

import datetime
import enum
import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from marshmallow import Schema, fields, validate

from flask_jsonrpc_mcp.schema.texts import PARSERS, has_format
from tests.conftest import Taking
from tests.core.test_strict_json import JSON_VALUES


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclass
class Point:
    x: int
    day: datetime.date | None = None


class Link(TypedDict, total=False):
    href: str
    when: datetime.datetime


def by_hints(
    number: int,
    ratio: float = 0.5,
    flag: bool | None = None,
    colour: Colour = Colour.RED,
    kind: Literal["a", 1, None] = "a",
    point: Point | None = None,
    points: list[Point] | None = None,
    link: Link | None = None,
    price: Decimal | None = None,
    key: uuid.UUID | None = None,
    text: Annotated[str, {"minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"}] = "x",
    either: datetime.date | int | str = 0,
) -> None: ...


class Inner(Schema):
    size = fields.Integer(required=True, validate=validate.Range(min=0, max=9))
    day = fields.Date(allow_none=True)


class Fields(Schema):
    number = fields.Integer(required=True)
    ratio = fields.Float(validate=validate.Range(min=0, min_inclusive=False))
    flag = fields.Boolean(allow_none=True)
    kind = fields.String(validate=validate.OneOf(["a", "b"]))
    text = fields.String(validate=[validate.Length(max=3), validate.Regexp("^[a-z]*$")])
    key = fields.UUID()
    when = fields.DateTime()
    inner = fields.Nested(Inner)
    many = fields.List(fields.Nested(Inner), validate=validate.Length(max=2))
    table = fields.Dict(values=fields.Integer())


def by_marshmallow(**arguments: Any) -> None: ...


# Values that are right somewhere, so that many of the calls below are nearly right, and some are.
LIKELY = st.sampled_from(
    [
        *(0, 1, 5, -1, 2.0, 2.5, 10**30, True, False, None, "", "a", "b", "abc", "abcd", "A", "red", 2, "1.50", [], {}),
        *("2026-01-31", "2026-02-30", "2026-01-31T10:00:00Z", "2026-01-31 10:00", "2026-01-31T24:00:00"),
        str(uuid.UUID(int=5)),
        *({"x": 1}, {"x": "1"}, {"x": 1, "day": "2026-01-31"}, {"x": 1, "y": 2}, [{"x": 2}], [{"x": None}]),
        *({"href": "/"}, {"when": "2026-01-31T10:00:00+01:00"}, {"href": 5}),
        *(
            {"size": 5},
            {"size": 10},
            {"size": 1, "day": None},
            [{"size": 1}] * 2,
            [{"size": 1}] * 3,
            {"k": 1},
            {"k": "v"},
        ),
    ]
)
NAMES = [
    *("number", "ratio", "flag", "colour", "kind", "point", "points", "link", "price", "key", "text", "either"),
    *("when", "inner", "many", "table", "unknown"),
]


@pytest.mark.parametrize(
    ("func", "options"), [(by_hints, {}), (by_marshmallow, {"params": Fields})], ids=["hints", "marshmallow"]
)
def test_the_advertised_schema_decides(func: Callable[..., None], options: dict[str, Any]) -> None:
    call = Taking(func, **options)
    # Not our compiled validator: a client would make its own of what it was shown.
    formats = FormatChecker(formats=())
    for name in PARSERS:
        formats.checks(name)(functools.partial(has_format, name=name))
    shown = Draft202012Validator(call.schema, format_checker=formats)
    outcomes = set()

    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from(NAMES), LIKELY | JSON_VALUES, max_size=3), LIKELY)
    def decide(arguments: dict[str, Any], number: Any) -> None:
        arguments.setdefault("number", number)
        fits = shown.is_valid(arguments)
        response = call.site.invoke("under-test", arguments)
        assert response.status_code == (200 if fits else 400), (arguments, response.text)
        outcomes.add(fits)

    decide()
    assert outcomes == {True, False}
