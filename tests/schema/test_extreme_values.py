"""Values at the edge of Python's types: whatever cannot be loaded is the caller's mistake, never ours."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from decimal import Decimal
from typing import Any, Literal

import pytest
from marshmallow import fields, validate

from tests.conftest import Taking


@dataclasses.dataclass
class Delay:
    days: float

    def __post_init__(self) -> None:
        datetime.timedelta(days=self.days)


class Level(enum.Enum):
    HIGH = 1


NUMBERS = [0, -0.0, 10**30, -(10**30), 2**63, 1e18, -1e18, 1e308, -1e308, 5e-324, 10**400, -(10**400), 10**4000]
TEXTS = [
    *("0001-01-01", "9999-12-31", "0000-01-01", "10000-01-01"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00", "9999-12-31T24:00:00Z", "0001-01-01T00:00"),
    *("00:00:00-23:59", "23:59:59.999999999+23:59", "24:00", "23:59:60Z", "10:00:00+99:99"),
    *("9" * 400, "9" * 401, "-0." + "0" * 399 + "1", "1e999999", "NaN", "Infinity", "1" * 5000),
    *("ffffffff-ffff-ffff-ffff-ffffffffffff", "a{99999999999}", "(" * 5000, "\U0010ffff", ""),
]
HINTS: list[Any] = [
    *(int, float, Decimal, datetime.date, datetime.time, datetime.datetime, uuid.UUID, Level, Delay),
    *(Literal[1, 5], list[float], dict[str, Decimal], float | datetime.date | None, Decimal | Delay),
]
FIELDS: list[Any] = [
    *(fields.Integer(), fields.Integer(strict=True), fields.Float(), fields.Float(as_string=True)),
    *(fields.Decimal(), fields.Decimal(places=2), fields.Decimal(places=2, as_string=True)),
    *(fields.Date(), fields.Time(), fields.DateTime(), fields.Date(format="%Y"), fields.DateTime(format="rfc")),
    *(fields.DateTime(format="timestamp"), fields.DateTime(format="timestamp_ms")),
    *(fields.NaiveDateTime(timezone=datetime.timezone.utc), fields.AwareDateTime()),
    *(fields.TimeDelta(), fields.TimeDelta(precision="weeks"), fields.TimeDelta(precision="microseconds")),
    *(fields.UUID(), fields.IP(), fields.IPv4(), fields.IPv6(), fields.IPInterface(), fields.Email(), fields.Url()),
    *(fields.Enum(Level), fields.Enum(Level, by_value=True), fields.Enum(Level, by_value=fields.Integer)),
    *(fields.List(fields.TimeDelta()), fields.Dict(values=fields.Decimal(places=1)), fields.Boolean()),
    *(fields.String(validate=validate.Length(max=5)), fields.Float(validate=validate.Range(max=Decimal("1e400")))),
]


def forms_of(value: Any) -> list[Any]:
    return [value, [value], {"days": value}, {"a": value}]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_any_value_loads_as_its_hint_or_is_refused(hint: Any) -> None:
    def func(x):  # type: ignore[no-untyped-def]
        ...

    func.__annotations__ = {"x": hint}
    assert_only_arguments_are_wrong(Taking(func, output={}))


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: type(field).__name__)
def test_any_value_loads_as_its_field_or_is_refused(field: Any) -> None:
    assert_only_arguments_are_wrong(Taking(lambda x=None: None, params={"x": field}, output={}))


@pytest.mark.parametrize("kind", ["integer", "number", "string"])
@pytest.mark.parametrize(
    "rule", [{"multipleOf": 0.1}, {"maximum": 1e308}, {"format": "regex"}, {"format": "date-time"}]
)
def test_any_value_fits_a_json_schema_or_is_refused(kind: str, rule: dict[str, Any]) -> None:
    params = {"properties": {"x": {"type": kind, **rule}}}
    assert_only_arguments_are_wrong(Taking(lambda x=None: None, params=params, output={}))


def assert_only_arguments_are_wrong(call: Taking) -> None:
    for value in [*NUMBERS, *TEXTS, True, None]:
        for sent in forms_of(value):
            response = call.site.invoke("under-test", {"x": sent})
            assert response.status_code in (200, 400), (sent, response.text)
            if response.status_code == 400:
                assert response.get_json()["error"]["code"] == "invalid_arguments", (sent, response.text)
