"""marshmallow schemas: advertised as JSON Schema, loading arguments and dumping results."""

from __future__ import annotations

import datetime
import enum
import re
from decimal import Decimal
from typing import Any

import marshmallow
import pytest
from marshmallow import fields, validate

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Taking


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class AuthorSchema(marshmallow.Schema):
    name = fields.String(required=True)
    email = fields.Email()


class TreeSchema(marshmallow.Schema):
    value = fields.Integer(required=True)
    children = fields.List(fields.Nested(lambda: TreeSchema()))


FIELDS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (fields.String(), {"type": "string"}, "x", 1),
    (
        fields.String(validate=validate.Length(min=2, max=3)),
        {"type": "string", "minLength": 2, "maxLength": 3},
        "ab",
        "a",
    ),
    (fields.String(validate=validate.Length(equal=2)), {"type": "string", "minLength": 2, "maxLength": 2}, "ab", "a"),
    (fields.Integer(), {"type": "integer"}, 3, "3"),
    (fields.Integer(validate=validate.Range(min=1, max=9)), {"type": "integer", "minimum": 1, "maximum": 9}, 9, 10),
    (
        fields.Float(validate=validate.Range(min=0, max=1, min_inclusive=False, max_inclusive=False)),
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        0.5,
        1,
    ),
    (fields.Boolean(), {"type": "boolean"}, True, "yes"),
    (fields.String(validate=validate.OneOf(["a", "b"])), {"type": "string", "enum": ["a", "b"]}, "a", "c"),
    (fields.String(validate=validate.NoneOf(["a"])), {"type": "string", "not": {"enum": ["a"]}}, "b", "a"),
    (fields.String(validate=validate.Equal("a")), {"type": "string", "const": "a"}, "a", "b"),
    (fields.String(validate=validate.Regexp(r"[a-z]+$")), {"type": "string", "pattern": "^(?:[a-z]+$)"}, "ab", "1ab"),
    (
        fields.String(validate=[validate.Length(min=1), validate.And(validate.Length(max=2), validate.Regexp("^a"))]),
        {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^a"},
        "ab",
        "b",
    ),
    (fields.Email(), {"type": "string", "format": "email"}, "a@b.example", "a"),
    (fields.String(validate=validate.Email()), {"type": "string", "format": "email"}, "a@b.example", "a"),
    (fields.Url(), {"type": "string", "format": "uri"}, "https://a.example/x", "a"),
    (fields.String(validate=validate.URL()), {"type": "string", "format": "uri"}, "https://a.example/x", "a"),
    (fields.Url(relative=True), {"type": "string"}, "/x", "no url"),
    (fields.Url(schemes={"git"}), {"type": "string"}, "git://a.example/x", "https://a.example/x"),
    (fields.UUID(), {"type": "string", "format": "uuid"}, "00000000-0000-0000-0000-000000000001", "1"),
    (fields.IPv4(), {"type": "string", "format": "ipv4"}, "127.0.0.1", "::1"),
    (fields.IPv6(), {"type": "string", "format": "ipv6"}, "::1", "127.0.0.1"),
    (fields.IP(), {"type": "string"}, "::1", "one"),
    (fields.Date(), {"type": "string", "format": "date"}, "2026-01-02", "2026-13-02"),
    (fields.Time(), {"type": "string", "format": "time"}, "10:11:12", "ten"),
    (fields.DateTime(), {"type": "string", "format": "date-time"}, "2026-01-02T03:04:05", "2026-01-02"),
    (fields.DateTime(format="timestamp"), {"type": "number"}, 1000, "now"),
    (fields.DateTime(format="%Y"), {"type": "string"}, "2026", "now"),
    (fields.TimeDelta(), {"type": "number"}, 5, "5"),
    (fields.TimeDelta(load_default=datetime.timedelta(1)), {"type": "number", "default": 86400}, 5, "5"),
    (
        fields.TimeDelta(validate=validate.Range(min=datetime.timedelta(seconds=5))),
        {"type": "number", "minimum": 5},
        5,
        4,
    ),
    (fields.Enum(Colour), {"enum": ["RED", "BLUE"]}, "RED", "red"),
    (fields.Enum(Colour, load_default=Colour.RED), {"enum": ["RED", "BLUE"], "default": "RED"}, "RED", "red"),
    (fields.Enum(Colour, validate=validate.OneOf([Colour.RED])), {"enum": ["RED"]}, "RED", "BLUE"),
    (
        fields.Enum(Colour, validate=validate.Equal(Colour.RED)),
        {"enum": ["RED", "BLUE"], "const": "RED"},
        "RED",
        "BLUE",
    ),
    (fields.Enum(Colour, by_value=True), {"enum": ["red", "blue"]}, "red", "RED"),
    (fields.List(fields.Integer()), {"type": "array", "items": {"type": "integer"}}, [1], ["a"]),
    (
        fields.List(fields.String(), validate=validate.Length(max=1)),
        {"type": "array", "items": {"type": "string"}, "maxItems": 1},
        ["a"],
        ["a", "b"],
    ),
    (
        fields.List(fields.String(), validate=validate.ContainsOnly(["a"])),
        {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        ["a"],
        ["b"],
    ),
    (
        fields.Tuple((fields.String(), fields.Integer())),
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2},
        ["a", 1],
        ["a"],
    ),
    (fields.Dict(), {"type": "object"}, {"a": 1}, []),
    (
        fields.Dict(values=fields.Integer(), validate=validate.Length(max=1)),
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        {"a": 1},
        {"a": 1, "b": 2},
    ),
    (
        fields.Nested(AuthorSchema),
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "email": {"type": "string", "format": "email"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        {"name": "Ada"},
        {"email": "a@b.example"},
    ),
    (
        fields.Pluck(AuthorSchema, "name", many=True),
        {"type": "array", "items": {"type": "string"}},
        ["Ada"],
        [1],
    ),
    (fields.Integer(allow_none=True), {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "x"),
    (fields.Raw(), {}, {"any": ["thing"]}, ...),
    (
        fields.String(metadata={"description": "A name", "title": "Name", "x-note": 1, "internal": 2}),
        {"type": "string", "title": "Name", "description": "A name", "x-note": 1},
        "x",
        1,
    ),
]


@pytest.mark.parametrize(("field", "schema", "value", "wrong"), FIELDS, ids=lambda part: repr(part)[:60])
def test_a_field_is_advertised_and_enforced(field: Any, schema: dict[str, Any], value: Any, wrong: Any) -> None:
    received = []
    call = Taking(lambda x=None: received.append(x), params={"x": field}, output={})
    assert call.schema == {"type": "object", "properties": {"x": schema}, "additionalProperties": False}
    assert call(x=value) is None
    if wrong is not ...:
        problems = call(x=wrong)
        assert isinstance(problems, set)
        assert all(path.startswith("/x") for path in problems)
        assert problems
    assert len(received) == 1


def test_the_schema_loads_the_arguments() -> None:
    class Params(marshmallow.Schema):
        day = fields.Date(required=True, data_key="Day", attribute="date")
        size = fields.Integer(load_default=5)
        secret = fields.String(load_only=True)
        shown = fields.String(dump_only=True)

    def func(date: datetime.date, size: int, secret: str = "") -> list[Any]:
        return [date.year, size, secret]

    call = Taking(func, params=Params)
    assert call.schema == {
        "type": "object",
        "properties": {
            "Day": {"type": "string", "format": "date"},
            "size": {"type": "integer", "default": 5},
            "secret": {"type": "string"},
        },
        "required": ["Day"],
        "additionalProperties": False,
    }
    assert call(Day="2026-01-02") == [2026, 5, ""]
    assert call(day="2026-01-02") == {"/Day", "/day"}
    assert call(Day="2026-01-02", shown="x") == {"/shown"}


def test_the_schema_dumps_the_result() -> None:
    class Output(marshmallow.Schema):
        name = fields.String(data_key="Name", required=True)
        born = fields.Date()
        password = fields.String(load_only=True)

    class Author:
        name, born, password = "Ada", datetime.date(1815, 12, 10), "secret"

    call = Taking(lambda: Author(), params={}, output=Output())
    assert call.tool["outputSchema"] == {
        "type": "object",
        "properties": {
            "Name": {"type": "string"},
            "born": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        },
        "required": ["Name"],
    }
    assert call() == {"Name": "Ada", "born": "1815-12-10"}


def test_an_optional_member_of_a_result_may_be_none() -> None:
    """marshmallow dumps None whatever the field says."""
    assert Taking(lambda: {"name": "Ada", "email": None}, params={}, output=AuthorSchema)() == {
        "name": "Ada",
        "email": None,
    }


def test_many_results_are_a_list() -> None:
    call = Taking(lambda: [{"name": "Ada"}], params={}, output=AuthorSchema(many=True, only=["name"]))
    assert call.tool["outputSchema"]["type"] == "array"
    assert call() == [{"name": "Ada"}]


def test_a_result_that_breaks_the_schema_is_the_methods_fault() -> None:
    call = Taking(lambda: {}, params={}, output=AuthorSchema)
    assert call() == 500


def test_custom_validators_are_asked_after_the_advertised_schema() -> None:
    def even(value: int) -> None:
        if value % 2:
            raise marshmallow.ValidationError("must be even")

    class Params(marshmallow.Schema):
        x = fields.Integer(required=True, validate=even)
        nested = fields.Nested({"y": fields.List(fields.Integer(validate=even))})

        @marshmallow.validates_schema
        def not_ten(self, data: dict[str, Any], **kwargs: Any) -> None:
            if data.get("x") == 10:
                raise marshmallow.ValidationError("ten is taken")

    call = Taking(lambda x, nested=None: x, params=Params, output={})
    assert call(x=4) == 4
    assert call(x=3, nested={"y": [2, 3]}) == {"/x", "/nested/y/1"}
    response = call.site.invoke("under-test", {"x": 10})
    assert response.get_json()["error"]["errors"] == [{"path": "", "message": "ten is taken"}]


def test_unknown_arguments_follow_the_schemas_own_rule() -> None:
    class Excluding(marshmallow.Schema):
        class Meta:
            unknown = marshmallow.EXCLUDE

        a = fields.Integer()

    class Including(Excluding):
        class Meta:
            unknown = marshmallow.INCLUDE

    excluding = Taking(lambda a=0: a, params=Excluding, output={})
    assert "additionalProperties" not in excluding.schema
    assert excluding(a=1, b=2) == 1
    including = Taking(lambda **kwargs: kwargs, params=Including, output={})
    assert including(a=1, b=2) == {"a": 1, "b": 2}
    with pytest.raises(TypeError, match=r"accepts unknown arguments.*\*\*kwargs"):
        McpBlueprint().add_method("f", lambda a=0: a, params=Including)


def test_a_post_load_object_is_handed_over_whole() -> None:
    class Author:
        def __init__(self, name: str) -> None:
            self.name = name

    class Loading(AuthorSchema):
        @marshmallow.post_load
        def make(self, data: dict[str, Any], **kwargs: Any) -> Author:
            return Author(data["name"])

    call = Taking(lambda author: author.name, params=Loading, output={"type": "string"})
    assert call(name="Ada") == "Ada"


def test_a_partial_schema_and_a_function_that_needs_an_argument_raise() -> None:
    with pytest.raises(TypeError, match="params does not require 'name'"):
        McpBlueprint().add_method("f", lambda name, email="": name, params=AuthorSchema(partial=True))


def test_partial_schemas_require_nothing() -> None:
    call = Taking(lambda name="", email="": name, params=AuthorSchema(partial=True), output={})
    assert "required" not in call.schema
    assert call() == ""


def test_a_schema_that_contains_itself_is_written_under_defs() -> None:
    call = Taking(
        lambda tree: tree["children"][0]["value"], params={"tree": fields.Nested(TreeSchema, required=True)}, output={}
    )
    assert call.schema["properties"]["tree"] == {"$ref": "#/$defs/TreeSchema"}
    assert call(tree={"value": 1, "children": [{"value": 2}]}) == 2
    assert call(tree={"value": 1, "children": [{"value": "x"}]}) == {"/tree/children/0/value"}


def test_a_schema_that_contains_itself_can_be_the_params() -> None:
    call = Taking(lambda value, children=(): [value, len(children)], params=TreeSchema, output={})
    assert call.schema["type"] == "object"
    assert call(value=1, children=[{"value": 2}]) == [1, 1]
    assert call(value=1, children=[{"value": "x"}]) == {"/children/0/value"}
    by_position = {"jsonrpc": "2.0", "id": 1, "method": "under-test", "params": [1]}
    assert call.site.rpc_post(by_position).get_json()["result"] == [1, 0]


def test_a_limit_beyond_all_floats_is_left_to_marshmallow() -> None:
    limit = validate.Range(max=Decimal("1e400"))
    call = Taking(lambda x: str(x), params={"x": fields.Decimal(required=True, validate=limit)}, output={})
    assert "maximum" not in call.schema["properties"]["x"]
    assert call(x=1) == "1"


@pytest.mark.parametrize("regex", [re.compile("a", re.IGNORECASE), r"(?P<x>a)", r"a\Z"], ids=str)
def test_regular_expressions_only_python_reads_are_left_to_marshmallow(regex: Any) -> None:
    call = Taking(lambda x: x, params={"x": fields.String(required=True, validate=validate.Regexp(regex))}, output={})
    assert call.schema["properties"]["x"] == {"type": "string"}
    assert call(x="a") == "a"
    assert call(x="b") == {"/x"}


@pytest.mark.parametrize("flags", [0, re.IGNORECASE], ids=["in the schema", "left to marshmallow"])
def test_a_pattern_is_not_tried_on_a_text_that_is_too_long(flags: int) -> None:
    """This one would take longer than anyone lives."""
    rules = [validate.Regexp(r"^(a+)+$", flags=flags), validate.Length(max=5)]
    call = Taking(lambda x: x, params={"x": fields.String(required=True, validate=rules)}, output={})
    assert call(x="aaa") == "aaa"
    assert call(x="a" * 100 + "!") == {"/x"}


def test_limits_on_dates_are_left_to_marshmallow() -> None:
    limit = validate.Range(min=datetime.date(2026, 1, 1))
    call = Taking(lambda day: day.year, params={"day": fields.Date(required=True, validate=limit)}, output={})
    assert call.schema["properties"]["day"] == {"type": "string", "format": "date"}
    assert call(day="2026-01-01") == 2026
    assert call(day="2025-01-01") == {"/day"}


def test_a_schema_and_a_function_that_do_not_fit_raise() -> None:
    rpc = McpBlueprint()
    with pytest.raises(TypeError, match=r"params has 'email', but the function does not"):
        rpc.add_method("f", lambda name, other=1: name, params=AuthorSchema)
    with pytest.raises(TypeError, match=r"does not require 'email', .* require it in params"):
        rpc.add_method("f", lambda name, email: name, params=AuthorSchema)
    with pytest.raises(TypeError, match=r"does not require 'age', .* add it in params"):
        rpc.add_method("f", lambda name, age, email=None: name, params=AuthorSchema)
    with pytest.raises(TypeError, match="many=True"):
        rpc.add_method("f", lambda name: name, params=AuthorSchema(many=True))


class Inner(marshmallow.Schema):
    a = fields.Integer(required=True)
    b = fields.Integer(required=True)


def open_inner() -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def test_each_nested_schema_has_its_own_selection_and_rules() -> None:
    class Outer(marshmallow.Schema):
        plain = fields.Nested(Inner)
        excluding = fields.Nested(Inner, unknown=marshmallow.EXCLUDE)
        optional = fields.Nested(Inner(partial=True))
        short = fields.Nested(Inner(only=["a"]))

    call = Taking(lambda **kwargs: kwargs, params=Outer, output={})
    closed = {"additionalProperties": False}
    assert call.schema["properties"] == {
        "plain": {**open_inner(), "required": ["a", "b"], **closed},
        "excluding": {**open_inner(), "required": ["a", "b"]},
        "optional": {**open_inner(), **closed},
        "short": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], **closed},
    }
    both = {"a": 1, "b": 2}
    assert call(plain=both, excluding={**both, "c": 3}, optional={}, short={"a": 1})["excluding"] == both
    assert call(plain={"a": 1}, short=both) == {"/plain/b", "/short/b"}


@pytest.mark.parametrize(("partial", "required"), [(True, None), (["inner.a"], ["b"]), (["inner"], ["a", "b"])])
def test_a_partial_schema_reaches_what_is_nested_in_it(partial: Any, required: list[str] | None) -> None:
    class Outer(marshmallow.Schema):
        inner = fields.List(fields.Nested(Inner))

    call = Taking(lambda inner=None: inner, params=Outer(partial=partial), output={})
    assert call.schema["properties"]["inner"]["items"].get("required") == required
    assert (call(inner=[{"b": 1}]) == [{"b": 1}]) is (required != ["a", "b"])


class Person(marshmallow.Schema):
    name = fields.String()
    friend = fields.Nested(lambda: Person(only=("name",)))
    child = fields.Nested(lambda: Person)


def test_a_schema_within_itself_may_have_fewer_members() -> None:
    call = Taking(lambda **kwargs: kwargs, params=Person, output={})
    assert call(friend={"name": "Ada"}) == {"friend": {"name": "Ada"}}
    assert call(friend={"friend": {}}) == {"/friend/friend"}


def test_members_can_be_left_out_at_some_depth() -> None:
    call = Taking(lambda **kwargs: kwargs, params=Person(exclude=("child.child.child",)), output={})
    assert call(child={"child": {"name": "Ada"}}) == {"child": {"child": {"name": "Ada"}}}
    assert call(child={"child": {"child": {}}}) == {"/child/child/child"}


MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        (fields.AwareDateTime(validate=validate.OneOf([MOMENT])), "2026-01-01T00:00:00Z"),
        (fields.Decimal(validate=validate.Equal(Decimal("1.5"))), 1.50),
        (fields.Enum(Colour, load_default="not a colour"), "RED"),
    ],
    ids=str,
)
def test_python_values_without_one_spelling_are_left_to_marshmallow(field: Any, sent: Any) -> None:
    call = Taking(lambda x=None: None, params={"x": field})
    assert not {"const", "default"} & set(call.schema["properties"]["x"])
    assert call(x=sent) is None


def test_metadata_is_plain_json() -> None:
    call = Taking(lambda x=None: x, params={"x": fields.Decimal(metadata={"examples": [Decimal("1.5")]})}, output={})
    assert call.schema["properties"]["x"]["examples"] == ["1.5"]
    with pytest.raises(TypeError, match="object cannot be serialised as JSON"):
        Taking(lambda x=None: x, params={"x": fields.Raw(metadata={"examples": [object()]})})


def test_an_object_for_a_function_that_takes_names_is_the_methods_fault() -> None:
    class Loading(AuthorSchema):
        @marshmallow.post_load
        def make(self, data: dict[str, Any], **kwargs: Any) -> object:
            return object()

    assert Taking(lambda name, email=None: name, params=Loading, output={})(name="Ada") == 500


@pytest.mark.parametrize(
    ("field", "wrong", "says"),
    [
        (fields.Integer(validate=validate.Range(1, 30, error="{min} to {max} nights")), 31, "1 to 30 nights"),
        (fields.String(validate=validate.Regexp("^[a-z]+$", error="Small letters only")), "A", "Small letters only"),
        (fields.String(allow_none=True, validate=validate.OneOf(["a"], error="Must be a")), "b", "Must be a"),
        (fields.Integer(validate=validate.Range(1, error="{input} is too small")), 0, "must be at least 1"),
        (fields.Integer(validate=validate.Range(1)), 0, "must be at least 1"),
    ],
    ids=str,
)
def test_the_error_text_of_a_validator_is_what_the_caller_reads(field: Any, wrong: Any, says: str) -> None:
    call = Taking(lambda x=None: None, params={"x": field})
    errors = call.site.invoke("under-test", {"x": wrong}).get_json()["error"]["errors"]
    assert errors == [{"path": "/x", "message": says}]


def test_the_range_of_a_decimal_is_in_the_schema() -> None:
    field = fields.Decimal(validate=validate.Range(min=Decimal("0.5"), max=9, max_inclusive=False))
    call = Taking(lambda x=None: None, params={"x": field})
    assert {"minimum": 0.5, "exclusiveMaximum": 9}.items() <= call.schema["properties"]["x"].items()
    assert [call(x="0.50"), call(x=0.4), call(x="0.4"), call(x=9)] == [None, {"/x"}, {"/x"}, {"/x"}]
