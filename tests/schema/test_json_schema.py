"""JSON Schema dicts: checked when a method is added, shown as they are enforced, never reaching outside."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from marshmallow import fields, validate

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.schema import Shape
from flask_jsonrpc_mcp.schema.texts import compile_pattern
from tests.conftest import Site, Taking
from tests.support.counting import bytes_during, calls_during, seconds_during

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def taking(params: dict[str, Any]) -> Taking:
    return Taking(lambda **kwargs: kwargs, params=params, output={})


def test_a_schema_is_shown_and_enforced() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 2}, "b": {"$ref": "#/$defs/word"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"word": {"type": "string", "pattern": "^[a-z]+$"}},
    }
    call = Taking(lambda a, b="": [a, b], params=schema, output={})
    assert call.schema == schema
    assert call(a=2, b="x") == [2, "x"]
    assert call(a=1, b="X", c=1) == {"/a", "/b", "/c"}


def test_unknown_arguments_are_refused_though_the_schema_does_not_say_so() -> None:
    call = Taking(lambda a=1: a, params={"properties": {"a": {}}}, output={})
    assert call.schema == {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert call(b=1) == {"/b"}


def test_unknown_arguments_are_refused_beside_composed_schemas() -> None:
    schema = {"allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {"b": {}}}
    call = Taking(lambda a=1, b=2: [a, b], params=schema | {"properties": {"a": {}, "b": {}}}, output={})
    assert call.schema["unevaluatedProperties"] is False
    assert call(a=3) == [3, 2]
    assert call(a="x") == {"/a"}
    assert call(c=1) == {"/c"}


@pytest.mark.parametrize("dialect", [DRAFT_4, DRAFT_7])
def test_older_dialects_refuse_unknown_arguments_beside_composed_schemas(dialect: str) -> None:
    """They have no ``unevaluatedProperties``."""
    schema = {"$schema": dialect, "allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {"b": {}}}
    call = Taking(lambda a=1, b=2: [a, b], params=schema, output={})
    assert call(a=3) == [3, 2]
    assert call(a="x") == {"/a"}
    assert call(c=1) == {"/c"}
    with pytest.raises(ValueError, match=r"ignores everything beside \$ref"):
        Taking(lambda a=1: a, params={"$schema": dialect, "$ref": "#/definitions/d", "definitions": {"d": {}}})


def test_a_function_that_takes_any_name_may_have_an_open_schema() -> None:
    call = taking({"properties": {"a": {"type": "integer"}}})
    assert call.schema == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert call(a=1, other=2, **{"content-type": "x", "self": 1, "": 3}) == {
        "a": 1,
        "other": 2,
        "content-type": "x",
        "self": 1,
        "": 3,
    }


def test_an_argument_cannot_collide_with_the_self_of_a_bound_method() -> None:
    class Service:
        def method(self, **kwargs: Any) -> Any:
            return kwargs

    rpc = McpBlueprint()
    rpc.add_method("f", Service().method, params={}, output={})
    mcp_tool(Service.method)
    site = Site(rpc)
    assert site.invoke("f", {"other": 1}).get_json() == {"result": {"other": 1}}
    assert site.invoke("f", {"self": 1}).get_json()["error"]["code"] == "invalid_arguments"


def test_one_parameter_that_is_no_property_takes_all_arguments() -> None:
    call = Taking(lambda arguments: arguments, params={"properties": {"a": {}, "class": {}}}, output={})
    assert call(**{"a": 1, "class": 2}) == {"a": 1, "class": 2}


def test_a_whole_number_reaches_the_function_as_an_int() -> None:
    """5.0 is an integer in JSON Schema."""
    call = Taking(
        lambda n: list(range(n)), params={"properties": {"n": {"type": "integer"}}, "required": ["n"]}, output={}
    )
    assert call(n=2.0) == [0, 1]


def test_an_older_dialect_is_used_when_the_schema_names_it() -> None:
    """In draft 7 a list under ``items`` is per position; in 2020-12 it is no schema at all."""
    schema: dict[str, Any] = {"properties": {"a": {"items": [{"type": "integer"}]}}}
    draft_7 = taking(schema | {"$schema": DRAFT_7})
    assert draft_7(a=[1, "x"]) == {"a": [1, "x"]}
    assert draft_7(a=["x"]) == {"/a/0"}
    with pytest.raises(ValueError, match="not a valid JSON Schema"):
        taking(schema)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"type": "array"}, "must describe an object"),
        ({"properties": []}, "not a valid JSON Schema"),
        ({"properties": {"a": {"type": "text"}}}, "not a valid JSON Schema"),
        ({"properties": {"a": 1}}, "not a valid JSON Schema"),
        ({"properties": {"a": {"minLength": 1}, "b": {"minLength": True}}}, "not a valid JSON Schema"),
        ({"$id": "https://example.com/a#b"}, "not a valid JSON Schema"),
        ({"title": "A", "properties": {"a": {"$ref": "#/title"}}}, "not a valid JSON Schema"),
        ({"$schema": "https://example.com/my-dialect"}, "not a supported JSON Schema dialect"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "does not point into the schema itself"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "nothing is ever fetched"),
        ({"properties": {"a": {"pattern": "("}}}, "not a"),
        ({"patternProperties": {"(": {}}}, "not a"),
        ({"$schema": DRAFT_4, "patternProperties": {"(": {}}}, "not a regular expression"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "not a supported JSON Schema dialect"),
        ({"properties": {"a": {"$schema": DRAFT_4}}}, "another dialect"),
        ({"properties": {"a": {"$dynamicRef": "http://example.com/a"}}}, "nothing is ever fetched"),
        ({"properties": {"a": {"$ref": "#/x-a/b"}}, "x-a": {"b": {"$ref": "http://example.com"}}}, "nothing is ever"),
        ({"properties": {"a": {"$ref": "#/x-a/b"}}, "x-a": {"b": {"type": "text"}}}, "not a valid JSON Schema"),
        ({"properties": {"a": {"examples": [object()]}}}, "object cannot be serialised as JSON"),
        ("title: string", "params must be a JSON Schema dict"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_work_raises_when_the_method_is_added(params: Any, says: str) -> None:
    def troubled(**kwargs: Any) -> None: ...

    with pytest.raises((TypeError, ValueError), match=says) as caught:
        McpBlueprint().method(params=params)(troubled)
    assert "troubled()" in str(caught.value)


def test_references_within_the_schema_may_use_anchors_and_ids() -> None:
    schema = {
        "properties": {"a": {"$ref": "#word"}, "b": {"$ref": "inner.json#/$defs/n"}},
        "$id": "https://example.com/outer.json",
        "$defs": {
            "word": {"$anchor": "word", "type": "string"},
            "inner": {"$id": "inner.json", "$defs": {"n": {"type": "integer"}}},
        },
    }
    call = taking(schema)
    assert call(a="x", b=1) == {"a": "x", "b": 1}
    assert call(a=1, b="x") == {"/a", "/b"}


def test_no_reference_is_ever_fetched() -> None:
    """A plain validator opens http: references; the server here would see it."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        reference = f"http://127.0.0.1:{server.server_port}/schema.json"
        with pytest.raises(ValueError, match="nothing is ever fetched"):
            taking({"properties": {"a": {"$ref": reference}}})
        server.shutdown()
    assert requests == []


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[a-z$]+$", "ab$", "ab\n"),
        (r"^\d+$", "12", "\u0661"),
        (r"^[\d-]+$", "1-2", "\u0661"),
        (r"^\w+$", "a_1", "é"),
        (r"^[^\W_]$", "a", "é"),
        (r"^\s$", "\u00a0", "x"),
        (r"^[a\s]+$", "a\u00a0", "x"),
        (r"^\S$", "x", "\ufeff"),
        (r"^\$\\$", "$\\", "$"),
    ],
)
def test_a_pattern_is_read_as_ecma_262_reads_it(pattern: str, good: str, bad: str) -> None:
    """JSON Schema says so: ``$`` is the very end, digits and letters are ASCII, white space is Unicode."""
    value = taking({"properties": {"a": {"pattern": pattern}}})
    assert value(a=good) == {"a": good}
    assert value(a=bad) == {"/a"}
    name = taking({"patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False})
    assert name(**{good: 1}) == {good: 1}
    assert len(name(**{good: "x", bad: 1})) == 2


def test_a_schema_inside_that_names_its_dialect_is_checked_like_any_other() -> None:
    """jsonschema falls back to its own keywords there, which read the pattern as Python does."""
    rules = {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^a$"}
    call = taking({"properties": {"a": rules}})
    assert call.schema["properties"]["a"] == rules
    assert call(a="a") == {"a": "a"}
    assert call(a="a\n") == {"/a"}


@pytest.mark.parametrize("order", [["lenient", "strict"], ["strict", "lenient"]])
def test_a_dynamic_reference_leads_to_where_the_value_came_in(order: list[str]) -> None:
    """The same place in the schema refuses the same value on one way, and accepts it on another."""
    lenient = {
        "$id": "lenient",
        "$dynamicAnchor": "node",
        "properties": {"child": {"$dynamicRef": "#node"}},
    }
    strict = {"$id": "strict", "$dynamicAnchor": "node", "$ref": "lenient", "unevaluatedProperties": False}
    schema = {"allOf": [{"$ref": name} for name in order], "$defs": {"lenient": lenient, "strict": strict}}
    problems = Shape({"$id": "https://example.com/", **schema}).problems
    assert problems({"child": {"child": {}}}) == []
    assert [path for path, _ in problems({"child": {"child": {"x": 1}}})] == ["/child/child/x"]


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ("date", "2026-01-31", "2026-1-31"),
        ("date-time", "2026-01-31T10:00:00+01:00", "2026-01-31T10"),
        ("time", "10:00:00Z", "10"),
        ("uuid", "a0000000-0000-0000-0000-000000000001", "{a0000000-0000-0000-0000-000000000001}"),
        ("email", "a@b.example", "a@"),
        ("email", "a" * 310 + "@b.example", "a" * 311 + "@b.example"),
        ("uri", "http://localhost:8000/x", "//x"),
        ("uri", "mailto:ada@example.com", "mailto:"),
        ("uri", "urn:isbn:0451450523", "urn:is bn"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "1"),
        ("regex", "a(", None),
        ("a-format-of-their-own", "anything", None),
    ],
)
def test_formats_are_enforced(format_: str, good: str, bad: str | None) -> None:
    call = taking({"properties": {"a": {"format": format_}}})
    assert call(a=good) == {"a": good}
    assert call(a=5) == {"a": 5}
    if bad is not None:
        assert call(a=bad) == {"/a"}


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        ({"type": "string"}, 1, "must be of type string, not integer"),
        ({"type": ["string", "null"]}, [], "must be of type string or null, not array"),
        ({"enum": ["a", 1]}, "b", 'must be one of ["a", 1]'),
        ({"const": 1}, 2, "must be 1"),
        ({"minimum": 2}, 1, "must be at least 2"),
        ({"maximum": 2}, 3, "must be at most 2"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2"),
        ({"minLength": 2}, "a", "must have at least 2 characters"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 item"),
        ({"uniqueItems": True}, [1, 1], "must not have the same item twice"),
        ({"format": "date"}, "x", "must be a valid date"),
        ({"pattern": "^a"}, "b", "must match the pattern ^a"),
        ({"not": {}}, 1, "breaks the rule 'not'"),
        ({"anyOf": [False]}, "x", "matches none of the alternatives"),
        ({"oneOf": [False, {"type": "integer"}]}, "x", "must be of type integer, not string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "must be of type integer or null, not string"),
        (
            {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "string", "maxLength": 1}]},
            "xx",
            "must have at most 1 character",
        ),
        (
            {"anyOf": [{"type": "string", "maxLength": 1}, {"type": "string", "format": "date"}]},
            "xx",
            "matches none of the alternatives",
        ),
        (
            {"anyOf": [{"properties": {"b": {"properties": {"c": {"type": "string"}}}}}, {"required": ["d"]}]},
            {"b": {"c": 1}},
            "matches none of the alternatives (/b/c: must be of type string, not integer)",
        ),
        ({"oneOf": [{}, {}]}, 1, "must match exactly one of the alternatives"),
    ],
    ids=str,
)
def test_problems_are_told_in_words(rule: dict[str, Any], value: Any, message: str) -> None:
    response = taking({"properties": {"a": rule}}).site.invoke("under-test", {"a": value})
    assert response.get_json()["error"]["errors"] == [{"path": "/a", "message": message}]


def test_an_answer_never_repeats_a_large_value() -> None:
    """A message of jsonschema quotes the whole instance: 690 kB for this one."""
    call = taking({"properties": {"a": {"type": "string"}, "b": {"items": {"type": "string"}}}})
    response = call.site.invoke("under-test", {"a": list(range(100_000)), "b": list(range(100_000)), "n" * 9999: 1})
    assert response.status_code == 400
    assert len(response.data) < 16 * 1024
    assert len(response.get_json()["error"]["errors"]) == 20


@pytest.mark.parametrize("letter", ["n", "\U0001f600", '"', "\\"])
def test_unknown_names_are_reported_within_bounds(letter: str) -> None:
    call = Taking(lambda: None, params={}, output={})
    response = call.site.invoke("under-test", {f"{number}" + letter * 300: 1 for number in range(1000)})
    assert response.status_code == 400
    assert response.get_json()["error"]["errors"]
    assert len(response.data) < 16 * 1024


def test_a_long_path_is_reported_within_bounds() -> None:
    deep: dict[str, Any] = {"": 1}
    for _ in range(50):
        deep = {"\U0001f600" * 200: deep}
    call = taking({"properties": {"a": {"$ref": "#/$defs/deep"}}, "$defs": {"deep": DEEP}})
    response = call.site.invoke("under-test", {"a": deep})
    assert response.status_code == 400
    assert len(response.data) < 16 * 1024


DEEP: dict[str, Any] = {"type": "object", "additionalProperties": {"$ref": "#/$defs/deep"}}


def test_what_the_validator_cannot_compute_is_the_callers_mistake() -> None:
    """jsonschema raises OverflowError for multipleOf on a huge number."""
    call = taking({"properties": {"a": {"multipleOf": 0.1}}})
    assert call(a=10**400) == {""}


def test_paths_are_json_pointers() -> None:
    call = taking({"properties": {"a/b": {"items": {"type": "integer"}}, "c~d": {"type": "integer"}}})
    assert call(**{"a/b": ["x"], "c~d": "x"}) == {"/a~1b/0", "/c~0d"}


def test_a_member_that_is_never_allowed_is_named() -> None:
    call = taking({"properties": {"a": {"properties": {"b": False}}}, "patternProperties": {"^x": False}})
    response = call.site.invoke("under-test", {"a": {"b": 1}, "xy": 2})
    assert response.get_json()["error"]["errors"] == [
        {"path": "/a/b", "message": "is not expected here"},
        {"path": "/xy", "message": "is not expected here"},
    ]


def test_everything_wrong_with_an_optional_object_is_reported_in_place() -> None:
    rules = {"type": "object", "required": ["b"], "properties": {"c": {"type": "integer"}}}
    call = taking({"properties": {"a": {"anyOf": [{"items": rules, "type": "array"}, {"type": "null"}]}}})
    assert call(a=[{"c": "x"}, {"b": 1, "c": 2}, {}]) == {"/a/0/b", "/a/0/c", "/a/2/b"}
    assert call(a=5) == {"/a"}


def test_a_const_member_chooses_among_alternatives() -> None:
    def shape(kind: str) -> dict[str, Any]:
        members = {"kind": {"const": kind}, kind: {"type": "integer"}}
        return {"type": "object", "properties": members, "required": ["kind", kind], "additionalProperties": False}

    call = taking({"properties": {"a": {"oneOf": [shape("circle"), shape("square"), {"type": "null"}]}}})
    assert call(a={"kind": "square", "square": "x", "y": 1}) == {"/a/square", "/a/y"}
    assert call(a={"kind": "square"}) == {"/a/square"}
    assert call(a={"kind": "line"}) == {"/a"}
    assert call(a={}) == {"/a"}


def test_unexpected_members_beside_patterns_are_named() -> None:
    call = taking({"patternProperties": {"^x-": {}}, "additionalProperties": False})
    assert call(**{"x-a": 1, "b": 2}) == {"/b"}


@pytest.mark.parametrize(
    ("output", "result", "outcome"),
    [
        ({"type": "array"}, (1, 2), [1, 2]),
        ({"type": "array"}, "text", 500),
        ({"type": "object", "required": ["a"]}, {"a": None}, {"a": None}),
        ({"type": "object", "required": ["a"]}, {}, 500),
        ({"type": "boolean"}, True, True),
    ],
)
def test_results_are_checked_against_the_output_schema(output: dict[str, Any], result: Any, outcome: Any) -> None:
    call = Taking(lambda: result, params={}, output=output)
    assert call.tool["outputSchema"] == output
    assert call() == outcome


def test_an_output_that_is_no_schema_raises() -> None:
    def troubled() -> None: ...

    with pytest.raises(TypeError, match=r"troubled\(\): output must be a JSON Schema dict"):
        McpBlueprint().method(output="text")(troubled)  # type: ignore[call-overload]


def test_the_work_to_find_doubles_grows_with_the_items_and_not_with_their_square() -> None:
    """By comparing each with each other, jsonschema takes 13 seconds for 3,000 small objects."""
    problems = Shape({"uniqueItems": True}).problems
    few, many = ([{"n": number, "text": "x"} for number in range(size)] for size in (100, 1000))
    assert calls_during(lambda: problems(many)) < 15 * calls_during(lambda: problems(few))
    assert not problems(many)
    assert problems([*many, {"text": "x", "n": 7.0}])


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False, None, "", [], {}], True),
        ([[1], [True]], True),
        ([True, [1]], True),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ([{"a": [1]}, {"a": [1.0]}], False),
        ([["a"], "a"], True),
        ([["a", "b"], ["a,b"], ['a","b']], True),
        ([["a", 1], ["a", 1.0]], False),
        (["1", 1, "true", True, "null", None], True),
        ([0, -0.0], False),
        ([2**53, 2.0**53], False),
        ([2**53 + 1, 2.0**53], True),
        ([10**400, 10**400 + 1], True),
        ([10**400, -(10**400), 10**400], False),
        ([0.1, 0.2, 0.30000000000000004, 0.1 + 0.2], False),
    ],
)
def test_doubles_are_those_of_json(items: list[Any], unique: bool) -> None:
    call = taking({"properties": {"a": {"uniqueItems": True}}})
    assert call(a=items) == ({"a": items} if unique else {"/a"})


HASH = 2**61 - 1
"""Python's hash of a whole number is its remainder by this."""


@pytest.mark.parametrize(
    "make",
    [
        lambda n: HASH * n,
        lambda n: -HASH * n,
        lambda n: float(HASH + 1) ** (n % 16) * (1 + n // 16),
        lambda n: [HASH * n],
        lambda n: {"a": {"b": HASH * n}},
        lambda n: [n % 7, [HASH * n], "x"],
        lambda n: str(HASH * n),
    ],
    ids=["integers", "negative", "floats", "in lists", "in objects", "deeper", "texts"],
)
def test_doubles_are_found_in_little_time_whatever_their_hashes(make: Callable[[int], Any]) -> None:
    """In a set, 20,000 numbers with the same hash are compared each with each other."""
    problems = Shape({"uniqueItems": True}).problems
    like = [make(n) for n in range(1, 20_001)]
    other = json.loads(json.dumps(like).replace("0", "1"))
    assert not problems(like)
    usual = max(seconds_during(lambda: problems(other)), 0.05)
    assert seconds_during(lambda: problems(like)) < 10 * usual
    assert problems([*like, like[0]])


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": {"type": "null"}}, {"a": 1, "b": None}, {"b": 1}),
        ({"patternProperties": {"^a$": {}}, "unevaluatedProperties": False}, {"a": 1}, {"a\n": 1}),
        ({"allOf": [{"additionalProperties": {}}], "unevaluatedProperties": False}, {"a": 1}, None),
        ({"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False}, {"a": 1}, None),
        ({"$ref": "#/$defs/a", "unevaluatedProperties": False}, {"a": 1}, {"a": 1, "b": 1}),
        (
            {"anyOf": [{"required": ["b"], "properties": {"b": {}}}, True], "unevaluatedProperties": False},
            {"b": 1},
            {"c": 1},
        ),
        (
            {"oneOf": [{"required": ["b"], "properties": {"b": {}, "c": {}}}, {}], "unevaluatedProperties": False},
            {},
            {"c": 1},
        ),
        (
            {
                "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
                "then": {"properties": {"b": {}}},
                "else": {"properties": {"c": {}}},
                "unevaluatedProperties": False,
            },
            {"a": 1, "b": 1},
            {"a": 1, "c": 1},
        ),
        ({"not": {"not": {"properties": {"a": {}}}}, "unevaluatedProperties": False}, {}, {"a": 1}),
        (
            {"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}, "unevaluatedProperties": False},
            {"a": 1, "b": 1},
            {"b": 1},
        ),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1], [1, 2]),
        ({"prefixItems": [{}], "unevaluatedItems": {"type": "null"}}, [1, None], [1, 2]),
        ({"allOf": [{"items": {}}], "unevaluatedItems": False}, [1, 2], None),
        ({"allOf": [{"unevaluatedItems": {}}], "unevaluatedItems": False}, [1, 2], None),
        ({"contains": {"type": "integer"}, "unevaluatedItems": False}, [1, 2], [1, "x"]),
        ({"$schema": DRAFT_2019, "items": [{}], "unevaluatedItems": False}, [1], [1, 2]),
        ({"$schema": DRAFT_2019, "items": [{}], "additionalItems": {}, "unevaluatedItems": False}, [1, 2], None),
        ({"$schema": DRAFT_2019, "additionalItems": {}, "unevaluatedItems": False}, [], [1]),
    ],
    ids=str,
)
def test_what_has_no_rules_is_refused_where_the_schema_says_so(rules: dict[str, Any], good: Any, bad: Any) -> None:
    """``unevaluatedProperties`` and ``unevaluatedItems`` count the rules in all schemas that apply to the value."""
    problems = Shape({**rules, "$defs": {"a": {"properties": {"a": {}}}}}).problems
    assert problems(good) == []
    assert bad is None or [message for _, message in problems(bad)] in (
        ["is not expected here"],
        ["must be of type null, not integer"],
    )


SEMVER = (  # as semver.org has it
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)


PROMETHEUS = r"^(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?$"
CSV = r'^("(?:[^"]|"")*"|[^,"]*)(,("(?:[^"]|"")*"|[^,"]*))*$'
JSON_PATH = r"^\$(\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\]|\['[^']*'\]|\.\*|\[\*\])*$"


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (SEMVER, "1.0.0-alpha.1+build.5", "01.0.0"),
        (r"^(\w)\1*$", "aaa", "aab"),
        (r"^(\w+\s?)+$", "a word", "!"),
        (PROMETHEUS, "1h30m", "30m1h"),
        (CSV, 'a,"b, ""c""",d', 'a,"b'),
        (JSON_PATH, "$.store.book[0].title", "store"),
        (r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$", "127.0.0.1", "256.0.0.1"),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Passw0rds", "password"),
    ],
)
def test_any_regular_expression_that_compiles_is_taken(pattern: str, good: str, bad: str) -> None:
    by_schema = {"properties": {"a": {"pattern": pattern}}}
    by_field = {"a": fields.String(validate=validate.Regexp(pattern))}
    for params in (by_schema, by_field):
        call = Taking(lambda a="": a, params=params, output={})
        assert call(a=good) == good
        assert call(a=bad) == {"/a"}


BUSY = {"pattern": "^(a+)+$"}
"""A pattern that takes twice as long for each letter more."""
LONG = "a" * 28 + "!"


@pytest.mark.parametrize(
    ("rules", "value", "path"),
    [
        ({"maxLength": 5, **BUSY}, LONG, ""),
        ({"items": {**BUSY, "maxLength": 5}}, ["aaa", LONG], "/1"),
        ({"prefixItems": [{}, {**BUSY, "maxLength": 5}]}, ["aaa", LONG], "/1"),
        ({"additionalProperties": {**BUSY, "maxLength": 5}}, {"b": LONG}, "/b"),
        ({"anyOf": [{**BUSY, "maxLength": 5}, {"type": "null"}]}, LONG, ""),
        ({"allOf": [{**BUSY, "maxLength": 5}]}, LONG, ""),
        ({"allOf": [BUSY], "maxLength": 5}, LONG, ""),
        ({"allOf": [BUSY, {"maxLength": 5}]}, LONG, ""),
        ({"anyOf": [BUSY, {"minLength": 99}], "maxLength": 5}, LONG, ""),
        ({"oneOf": [BUSY, {"minLength": 99}], "maxLength": 5}, LONG, ""),
        ({"not": BUSY, "maxLength": 5}, LONG, ""),
        ({"if": BUSY, "then": False, "maxLength": 5}, LONG, ""),
        ({"$ref": "#/$defs/busy", "maxLength": 5}, LONG, ""),
        ({"propertyNames": {**BUSY, "maxLength": 5}}, {LONG: 1}, ""),
        ({"patternProperties": {BUSY["pattern"]: False}, "propertyNames": {"maxLength": 5}}, {LONG: 1}, ""),
        (
            {
                "patternProperties": {BUSY["pattern"]: {}},
                "propertyNames": {"maxLength": 5},
                "additionalProperties": False,
            },
            {LONG: 1},
            "",
        ),
        ({"items": BUSY, "maxItems": 5}, [LONG] * 6, ""),
        ({"contains": BUSY, "maxItems": 5}, [LONG] * 6, ""),
        ({"additionalProperties": BUSY, "maxProperties": 5}, dict.fromkeys("abcdef", LONG), ""),
    ],
    ids=str,
)
def test_what_is_too_large_is_not_looked_into(rules: dict[str, Any], value: Any, path: str) -> None:
    """So ``maxLength``, ``maxItems`` and ``maxProperties`` bound the time that a pattern can take."""
    call = taking({"properties": {"x": rules}, "$defs": {"busy": BUSY}})

    def invoke() -> None:
        [problem] = call.site.invoke("under-test", {"x": value}).get_json()["error"]["errors"]
        assert problem["path"] == "/x" + path
        assert problem["message"].startswith("must have at most 5 ")

    assert seconds_during(invoke) < 2


def test_what_callers_send_is_never_compiled() -> None:
    """To compile this text takes seconds, and `re` would keep the result."""
    schema = {
        "properties": {"a": {"format": "regex", "pattern": "[a-z]"}},
        "patternProperties": {"^b": {"format": "regex"}},
    }
    call = taking({**schema, "propertyNames": {"pattern": "^[ab]"}})
    text = "(?i)" + "[!-\uffff]" * 180
    assert call(a=text, b=text) == {"a": text, "b": text}
    before = compile_pattern.cache_info().currsize
    assert seconds_during(lambda: [call(**{"a": f"{n}{text}", f"b{n}": text}) for n in range(3)]) < 2
    assert compile_pattern.cache_info().currsize == before


def test_errors_of_alternatives_do_not_fill_the_memory() -> None:
    """jsonschema makes a list of all of them, 3 kB each, for every alternative."""
    wrong = [""] * 20_000
    rules = {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}
    problems = Shape(rules).problems
    assert len(problems(wrong)) == 20
    assert bytes_during(lambda: problems(wrong)) < 1_000_000


NODE = {"$ref": "#/$defs/node"}


@pytest.mark.parametrize("leaf", [{}, {"child": 1}], ids=["right", "wrong"])
@pytest.mark.parametrize(
    "node",
    [
        {"allOf": [{"properties": {"child": NODE}}, {"properties": {"child": NODE}}]},
        {"anyOf": [{"properties": {"child": NODE}}, {"required": ["x"], "properties": {"child": NODE}}]},
        {"anyOf": [{"required": ["x"], "properties": {"child": NODE}}, {"properties": {"child": NODE}}]},
        {"oneOf": [{"required": ["x"], "properties": {"child": NODE}}, {"properties": {"child": NODE}}]},
        {"allOf": [{"properties": {"child": NODE}}], "unevaluatedProperties": False},
        {"if": {"properties": {"child": NODE}}, "then": {"properties": {"child": NODE}}},
        {"if": {"properties": {"child": NODE}}, "else": {"properties": {"child": NODE}}},
        {
            "properties": {"child": {"not": {"not": NODE}}},
            "dependentSchemas": {"child": {"properties": {"child": NODE}}},
        },
        {"properties": {"child": {"$dynamicRef": "#n"}}, "allOf": [{"properties": {"child": {"$dynamicRef": "#n"}}}]},
    ],
    ids=str,
)
def test_the_work_grows_with_the_depth_of_a_value_and_not_with_a_power_of_it(node: Any, leaf: Any) -> None:
    schema = {**NODE, "$defs": {"node": {"type": "object", "$dynamicAnchor": "n", **node}}}

    def deep(depth: int) -> Any:
        value = leaf
        for _ in range(depth):
            value = {"child": value}
        return value

    problems = Shape(schema).problems
    for depth in range(5):
        assert bool(problems(deep(depth))) != Draft202012Validator(schema).is_valid(deep(depth))
    assert calls_during(lambda: problems(deep(12))) < 8 * calls_during(lambda: problems(deep(4)))


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        ({"patternProperties": {"^x": {}}, "unevaluatedProperties": False}, lambda n: {f"x{i}": 1 for i in range(n)}),
        (
            {"allOf": [{"additionalProperties": {}}], "unevaluatedProperties": False},
            lambda n: dict.fromkeys(map(str, range(n)), 1),
        ),
        ({"items": {}, "unevaluatedItems": False}, lambda n: list(range(n))),
        ({"contains": {"type": "integer"}, "unevaluatedItems": False}, lambda n: list(range(n))),
    ],
    ids=str,
)
def test_the_work_grows_with_the_size_of_a_value_and_not_with_its_square(
    rules: Any, value: Callable[[int], Any]
) -> None:
    """jsonschema looks each name and index up in a list."""
    problems = Shape(rules).problems
    few, many = value(2000), value(20_000)
    assert problems(few) == problems(many) == []
    usual = max(seconds_during(lambda: problems(few)), 0.005)
    assert seconds_during(lambda: problems(many)) < 40 * usual


def test_a_schema_is_checked_in_little_time_when_its_method_is_added() -> None:
    """The meta-schema as it is published takes 1.8 ms, 18 seconds for 10,000 tools; counted in calls it is 6,000."""
    properties = {
        "title": {"type": "string", "description": "The title", "minLength": 1, "maxLength": 200},
        "tags": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "integer", "minimum": 0, "maximum": 100},
    }

    def add() -> None:
        McpBlueprint().add_method("f", lambda **kwargs: kwargs, params={"properties": properties})

    add()
    assert calls_during(add) < 800
