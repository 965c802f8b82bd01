"""Values at the edge of Python's types: whatever cannot be loaded is the caller's mistake, never ours."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marshmallow import Schema, fields, validate

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


class Inner(Schema):
    a = fields.TimeDelta()
    days = fields.Decimal(places=3)


class Keeping(Schema):
    def keep(self, value: Any) -> Any:
        return value


# A field of each kind, with the options that compute something.
FIELDS: dict[str, fields.Field[Any]] = {
    "raw": fields.Raw(),
    "string": fields.String(validate=validate.Length(max=5)),
    "pattern": fields.String(validate=validate.Regexp("^[0-9]*$")),
    "uuid": fields.UUID(),
    "email": fields.Email(),
    "url": fields.Url(),
    "relative url": fields.Url(relative=True, require_tld=False),
    "ip": fields.IP(exploded=True),
    "ipv4": fields.IPv4(),
    "ipv6": fields.IPv6(),
    "interface": fields.IPInterface(),
    "interface 4": fields.IPv4Interface(),
    "interface 6": fields.IPv6Interface(),
    "boolean": fields.Boolean(),
    "integer": fields.Integer(),
    "strict": fields.Integer(strict=True, as_string=True),
    "integer limit": fields.Integer(validate=validate.Range(max=1e308)),
    "float": fields.Float(as_string=True),
    "float limit": fields.Float(validate=validate.Range(max=Decimal("1e400"))),
    "float choice": fields.Float(validate=validate.OneOf([1e308, 0.1])),
    "decimal": fields.Decimal(),
    "places": fields.Decimal(places=2, as_string=True),
    "many places": fields.Decimal(places=500),
    "no places": fields.Decimal(places=-3, allow_nan=True),
    "decimal limit": fields.Decimal(validate=validate.Range(min=Decimal("1e-400"), max=Decimal("1e400"))),
    "date": fields.Date(),
    "year": fields.Date(format="%Y"),
    "time": fields.Time(),
    "time limit": fields.Time(validate=validate.Range(min=datetime.time(1))),
    "datetime": fields.DateTime(),
    "datetime limit": fields.DateTime(validate=validate.Range(min=datetime.datetime(2020, 1, 1))),
    "rfc": fields.DateTime(format="rfc"),
    "timestamp": fields.DateTime(format="timestamp"),
    "timestamp ms": fields.DateTime(format="timestamp_ms"),
    "naive": fields.NaiveDateTime(timezone=datetime.timezone.utc),
    "naive timestamp": fields.NaiveDateTime(
        format="timestamp", timezone=datetime.timezone(datetime.timedelta(hours=23))
    ),
    "aware": fields.AwareDateTime(default_timezone=datetime.timezone(datetime.timedelta(hours=-23))),
    "aware limit": fields.AwareDateTime(validate=validate.Range(min=datetime.datetime(2020, 1, 1))),
    "delta": fields.TimeDelta(validate=validate.Range(max=datetime.timedelta(1))),
    "weeks": fields.TimeDelta(precision="weeks"),
    "microseconds": fields.TimeDelta(precision="microseconds"),
    "enum": fields.Enum(Level),
    "enum by value": fields.Enum(Level, by_value=True),
    "enum by field": fields.Enum(Level, by_value=fields.Float),
    "list": fields.List(fields.TimeDelta()),
    "contains": fields.List(fields.Float(), validate=validate.ContainsOnly([1.0, 10**400])),
    "tuple": fields.Tuple((fields.DateTime(format="timestamp"),)),
    "dict": fields.Dict(values=fields.Decimal(places=1)),
    "days": fields.Dict(keys=fields.DateTime(format="timestamp")),
    "decimals": fields.Dict(keys=fields.Decimal(places=2)),
    "nested": fields.Nested(Inner),
    "many": fields.Nested(Inner, many=True),
    "pluck": fields.Pluck(Inner, "a"),
    "constant": fields.Constant(10**400),
    "function": fields.Function(deserialize=lambda value: value),
    "method": fields.Method(deserialize="keep"),
}

# What is at neither edge, or at several.
VALUES = st.one_of(
    st.sampled_from([*NUMBERS, *TEXTS, True, None]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers() | st.integers(-(10**30), 10**30),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"),
    st.datetimes().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.ip_addresses().map(str) | st.ip_addresses().map(lambda address: f"{address}/99"),
    st.sampled_from(
        ["::%25x", "fe80::1%eth0", "1.1.1.1/-1", "::/128", "http://a.bc:99999999/", "http://[::1", "x@[1.2.3.4]"]
    ),
    st.sampled_from(
        ["Mon, 31 Dec 9999 23:59:59 -9999", "Mon, 01 Jan 0001 00:00:00 +2359", "Mon, 01 Jan 2020 99:00:00 GMT"]
    ),
    st.text(),
)
FORMS = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.just("days") | VALUES.map(str), VALUES, max_size=2)


def forms_of(value: Any) -> list[Any]:
    return [value, [value], {"days": value}, {"a": value}]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_any_value_loads_as_its_hint_or_is_refused(hint: Any) -> None:
    def func(x):  # type: ignore[no-untyped-def]
        ...

    func.__annotations__ = {"x": hint}
    assert_only_arguments_are_wrong(Taking(func, output={}))


@pytest.mark.parametrize("name", FIELDS)
def test_any_value_loads_as_its_field_or_is_refused(name: str) -> None:
    call = Taking(lambda x=None: None, params=Keeping.from_dict({"x": FIELDS[name]}), output={})
    assert_only_arguments_are_wrong(call)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(FORMS)
    def send(value: Any) -> None:
        assert_loaded_or_refused(call, value)

    send()


def test_every_field_of_marshmallow_is_tried() -> None:
    abstract = {fields.Field, fields.Number, fields.Mapping}
    assert {getattr(fields, name) for name in fields.__all__} - abstract == {type(field) for field in FIELDS.values()}


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
            assert_loaded_or_refused(call, sent)


def assert_loaded_or_refused(call: Taking, value: Any) -> None:
    response = call.site.invoke("under-test", {"x": value})
    assert response.status_code in (200, 400), (value, response.text)
    if response.status_code == 400:
        assert response.get_json()["error"]["code"] == "invalid_arguments", (value, response.text)
