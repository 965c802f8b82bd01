"""Forms: what a person can be asked for, in every spelling of a schema, and what is made of the answer."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import marshmallow
import pytest
from marshmallow import fields, validate

from flask_jsonrpc_mcp.errors import InvalidParams
from flask_jsonrpc_mcp.schema.forms import compile_form


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Tip:
    amount: Decimal = Decimal("1.5")


@dataclasses.dataclass
class Address:
    street: str
    floor: int | None
    city: str = "Bonn"


class Contact(TypedDict, total=False):
    name: str
    born: datetime.date


class Payment(marshmallow.Schema):
    amount = fields.Decimal(required=True, metadata={"description": "In euros"})
    note = fields.String(allow_none=True)
    colour = fields.Enum(Colour, by_value=True)

    @marshmallow.validates_schema
    def check(self, data: dict[str, Any], **_: Any) -> None:
        if data["amount"] > 1000:
            raise marshmallow.ValidationError("too much", "amount")


TITLED = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
JSON_SCHEMA = {
    "type": "object",
    "title": "Not shown",
    "properties": {
        "name": {"type": "string", "minLength": 2, "title": "Name", "default": "Ann"},
        "one": {"type": "string", "oneOf": TITLED},
        "several": {"type": "array", "items": {"anyOf": TITLED}, "maxItems": 2},
        "old": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        "maybe": {"type": ["integer", "null"]},
    },
    "required": ["name", "maybe"],
}


@pytest.mark.parametrize(
    ("spec", "properties", "required"),
    [
        ({}, {}, None),
        ({"type": "object"}, {}, None),
        ({"a": str}, {"a": {"type": "string"}}, ["a"]),
        ({"a": bool, "b": float}, {"a": {"type": "boolean"}, "b": {"type": "number"}}, ["a", "b"]),
        ({"a": int | None}, {"a": {"type": "integer"}}, None),
        (
            {"a": Annotated[str, "Why", {"maxLength": 9}]},
            {"a": {"type": "string", "description": "Why", "maxLength": 9}},
            ["a"],
        ),
        ({"a": Literal["x", "y"]}, {"a": {"type": "string", "enum": ["x", "y"]}}, ["a"]),
        ({"a": list[Literal["x"]]}, {"a": {"type": "array", "items": {"type": "string", "enum": ["x"]}}}, ["a"]),
        ({"a": Colour}, {"a": {"type": "string", "enum": ["red", "blue"]}}, ["a"]),
        ({"a": datetime.date}, {"a": {"type": "string", "format": "date"}}, ["a"]),
        ({"a": Decimal | None}, {"a": {"type": "number"}}, None),
        (Tip, {"amount": {"type": "number", "default": 1.5}}, None),
        (
            Address,
            {"street": {"type": "string"}, "floor": {"type": "integer"}, "city": {"type": "string", "default": "Bonn"}},
            ["street"],
        ),
        (Contact, {"name": {"type": "string"}, "born": {"type": "string", "format": "date"}}, None),
        (
            Payment,
            {
                "amount": {"type": "number", "description": "In euros"},
                "note": {"type": "string"},
                "colour": {"type": "string", "enum": ["red", "blue"]},
            },
            ["amount"],
        ),
        (
            {"a": fields.String(validate=validate.Length(max=3), required=True)},
            {"a": {"type": "string", "maxLength": 3}},
            ["a"],
        ),
        (JSON_SCHEMA, {**JSON_SCHEMA["properties"], "maybe": {"type": "integer"}}, ["name"]),  # type: ignore[dict-item]
    ],
)
def test_a_form_is_shown_flat_and_simple(spec: Any, properties: Any, required: Any) -> None:
    """What may be null is what may be left out: a form has no other way to say so."""
    shown = {"type": "object", "properties": properties, **({} if required is None else {"required": required})}
    assert compile_form(spec).shown == shown


def test_formats_that_clients_do_not_know_are_enforced_but_not_shown() -> None:
    form = compile_form({"id": uuid.UUID})
    assert form.shown["properties"] == {"id": {"type": "string"}}
    with pytest.raises(InvalidParams):
        form.read({"id": "x"})


@pytest.mark.parametrize(
    ("spec", "content", "value"),
    [
        ({}, {"more": 1}, {}),
        ({"a": int}, {"a": 5.0, "more": 1}, {"a": 5}),
        ({"a": datetime.date}, {"a": "2026-01-02"}, {"a": datetime.date(2026, 1, 2)}),
        ({"a": Colour}, {"a": "red"}, {"a": Colour.RED}),
        ({"a": list[Colour]}, {"a": ["red"]}, {"a": [Colour.RED]}),
        ({"a": Decimal}, {"a": 1.5}, {"a": Decimal("1.5")}),
        ({"a": int | None, "b": str}, {"b": "x"}, {"a": None, "b": "x"}),
        ({"a": int | None, "b": str}, {"a": None, "b": "x"}, {"a": None, "b": "x"}),
        (Address, {"street": "x", "floor": 2}, Address("x", 2)),
        (Address, {"street": "x"}, Address("x", None)),
        (Contact, {"born": "2026-01-02"}, {"born": datetime.date(2026, 1, 2)}),
        (Payment, {"amount": 3, "colour": "blue"}, {"amount": Decimal(3), "colour": Colour.BLUE}),
        (JSON_SCHEMA, {"name": "Bea", "several": ["a"]}, {"name": "Bea", "several": ["a"], "maybe": None}),
    ],
)
def test_an_answer_is_loaded_as_the_form_says(spec: Any, content: Any, value: Any) -> None:
    assert compile_form(spec).read(content) == value


@pytest.mark.parametrize(
    ("spec", "content", "paths"),
    [
        ({"a": int}, {}, ["/a"]),
        ({"a": int}, {"a": "1"}, ["/a"]),
        ({"a": Colour, "b": bool}, {"a": "green", "b": 1}, ["/a", "/b"]),
        ({"a": datetime.date}, {"a": "2026-02-30"}, ["/a"]),
        (Payment, {"amount": 2000}, ["/amount"]),
        (JSON_SCHEMA, {"name": "x", "one": "c"}, ["/name", "/one"]),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(spec: Any, content: Any, paths: list[str]) -> None:
    with pytest.raises(InvalidParams) as raised:
        compile_form(spec).read(content)
    assert [problem.path for problem in raised.value.problems] == paths


SIMPLE = "a form can ask for a text, a number, true or false, or a choice of texts"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"a": Address}, f"'a': {SIMPLE}"),
        ({"a": dict[str, int]}, f"'a': {SIMPLE}"),
        ({"a": list[str]}, f"'a': {SIMPLE}"),
        ({"a": Any}, f"'a': {SIMPLE}"),
        ({"a": int | str}, f"'a': {SIMPLE}"),
        ({"a": complex}, "'a': complex cannot be serialised as JSON"),
        ({"a": fields.Nested(Payment)}, f"'a': {SIMPLE}"),
        ({"properties": {"a": True}}, f"'a': {SIMPLE}"),
        ({"properties": {"a": {"type": "object"}}}, f"'a': {SIMPLE}"),
        ({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}, f"'a': {SIMPLE}"),
        (list[int], "a form is an object of simple values; use a dict of hints, a dataclass or a flat schema"),
        (Payment(many=True), "a form is an object of simple values; use a dict of hints, a dataclass or a flat schema"),
        ({"properties": {}, "required": ["b"]}, "'b' is required, but not among the properties"),
    ],
)
def test_more_than_a_form_can_have_is_refused(spec: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        compile_form(spec)
    assert str(raised.value) == problem


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises((TypeError, ValueError), match="type"):
        compile_form({"properties": {"a": {"type": "text"}}})


def test_a_form_does_not_show_the_texts_of_errors() -> None:
    """MCP allows only some keywords in a form."""
    form = compile_form({"a": fields.Integer(required=True, validate=validate.Range(1, error="One or more"))})
    assert form.shown["properties"] == {"a": {"type": "integer", "minimum": 1}}
    with pytest.raises(InvalidParams, match="/a: One or more"):
        form.read({"a": 0})
