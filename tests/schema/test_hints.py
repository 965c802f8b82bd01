"""Type hints: what is advertised for them, what is enforced, and what the function gets."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.schema import Function, compile_params
from flask_jsonrpc_mcp.strict_json import to_plain
from tests.conftest import Site, Taking


class Status(enum.Enum):
    DRAFT = "draft"
    LIVE = "live"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Author:
    name: str
    born: datetime.date | None = None
    tags: list[str] = dataclasses.field(default_factory=list)
    initials: str = dataclasses.field(init=False, default="")

    def __post_init__(self) -> None:
        if self.name == "nobody":
            raise ValueError("secret reason")
        self.initials = self.name[:1]


@dataclasses.dataclass
class Node:
    value: datetime.date
    children: list[Node] = dataclasses.field(default_factory=list)


class Link(TypedDict):
    href: str
    when: datetime.date


class LooseLink(Link, total=False):
    rel: str


UserId = NewType("UserId", int)

# hint, schema, a JSON value that fits, what the function gets, a value that does not fit
CASES: list[tuple[Any, dict[str, Any], Any, Any, Any]] = [
    (str, {"type": "string"}, "x", "x", 1),
    (int, {"type": "integer"}, 5, 5, "5"),
    (int, {"type": "integer"}, 5.0, 5, 5.5),
    (int, {"type": "integer"}, 0, 0, True),
    (float, {"type": "number"}, 1.5, 1.5, "1.5"),
    (float, {"type": "number"}, 5, 5.0, 10**400),
    (bool, {"type": "boolean"}, False, False, 0),
    (None, {"type": "null"}, None, None, 0),
    (list, {"type": "array"}, [1, "a"], [1, "a"], {}),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1], ["a"]),
    (Sequence[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"], "a"),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2), ["a"]),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}, []),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}, {"a": "b"}),
    (Mapping[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}, 1),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "a", "a", "c"),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, 1, 1, True),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, None, None, "b"),
    (Status, {"type": "string", "enum": ["draft", "live"]}, "live", Status.LIVE, "LIVE"),
    (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH, 3),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None, "x"),  # noqa: UP045
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3, 3, "x"),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "x", []),  # noqa: UP007
    (datetime.date, {"type": "string", "format": "date"}, "2026-02-03", datetime.date(2026, 2, 3), "2026-02-30"),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2026-02-03T04:05:06Z",
        datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc),
        "2026-02-03",
    ),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2026-02-03 04:05:06.5",
        datetime.datetime(2026, 2, 3, 4, 5, 6, 500000),
        "20260203T040506",
    ),
    (datetime.time, {"type": "string", "format": "time"}, "04:05", datetime.time(4, 5), "25:00"),
    (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=7)), uuid.UUID(int=7), "7"),
    (UserId, {"type": "integer"}, 7, 7, "7"),
    (Any, {}, [{"a": None}], [{"a": None}], ...),
]


@pytest.mark.parametrize(("hint", "schema", "value", "loaded", "wrong"), CASES, ids=lambda part: str(part)[:40])
def test_a_hint_is_advertised_enforced_and_loaded(
    hint: Any, schema: dict[str, Any], value: Any, loaded: Any, wrong: Any
) -> None:
    received = []

    def func(x):  # type: ignore[no-untyped-def]
        received.append(x)

    func.__annotations__ = {"x": hint}
    call = Taking(func)
    assert call.schema == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert call(x=value) is None
    assert received == [loaded]
    assert type(received[0]) is type(loaded)
    if wrong is not ...:
        problems = call(x=wrong)
        assert problems
        assert all(path.startswith("/x") for path in problems)
    assert len(received) == 1


@pytest.mark.parametrize(
    ("sent", "loaded"),
    [
        ("1.10", Decimal("1.10")),
        ("0.00000001", Decimal("0.00000001")),
        (0.1, Decimal("0.1")),
        (3, Decimal(3)),
        (1e300, Decimal("1e300")),
    ],
)
def test_a_decimal_is_exact_whether_sent_as_text_or_number(sent: Any, loaded: Decimal) -> None:
    received = []

    def func(price: Decimal) -> Decimal:
        received.append(price)
        return price

    call = Taking(func)
    assert call(price=sent) == f"{loaded:f}"
    assert received == [loaded]
    assert call(price="ten") == {"/price"}
    assert call(price=10**1000) == {"/price"}


def test_annotated_adds_a_description_and_keywords() -> None:
    def func(title: Annotated[str, "The headline", {"minLength": 3, "maxLength": 5}]) -> None: ...

    call = Taking(func)
    assert call.schema["properties"]["title"] == {
        "type": "string",
        "description": "The headline",
        "minLength": 3,
        "maxLength": 5,
    }
    assert call(title="ok") == {"/title"}
    assert call(title="fine") is None


def test_defaults_are_advertised_and_used() -> None:
    def func(a: int = 1, b: str = "x", c: datetime.date = datetime.date(2026, 1, 2)) -> list[Any]:
        return [a, b, c]

    call = Taking(func)
    assert "required" not in call.schema
    assert {name: member["default"] for name, member in call.schema["properties"].items()} == {
        "a": 1,
        "b": "x",
        "c": "2026-01-02",
    }
    assert call() == [1, "x", "2026-01-02"]


def test_a_default_without_a_form_in_json_is_left_out() -> None:
    marker = object()

    def func(a: Any = marker) -> bool:
        return a is marker

    call = Taking(func)
    assert call.schema["properties"] == {"a": {}}
    assert call() is True


def test_a_default_of_none_makes_the_parameter_nullable() -> None:
    """We chose this: many Flask apps write ``x: int = None``."""

    def func(x: int = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return x

    call = Taking(func)
    assert call.schema["properties"]["x"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert call(x=None) is None
    assert call(x=2.0) == 2


def test_a_dataclass_is_built_and_its_result_dumped() -> None:
    def func(author: Author) -> Author:
        assert isinstance(author, Author)
        return author

    call = Taking(func)
    assert call.schema["properties"]["author"] == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "born": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert call.tool["outputSchema"]["required"] == ["name", "born", "tags", "initials"]
    result = {"name": "Ada", "born": "1815-12-10", "tags": [], "initials": "A"}
    assert call(author={"name": "Ada", "born": "1815-12-10"}) == result
    assert call(author={"name": 1, "tags": [2], "age": 3}) == {"/author/name", "/author/tags/0", "/author/age"}


def test_a_dataclass_that_refuses_its_values_is_an_argument_error_without_its_text() -> None:
    def func(authors: list[Author]) -> None: ...

    call = Taking(func)
    response = call.site.invoke("under-test", {"authors": [{"name": "Ada"}, {"name": "nobody"}]})
    assert response.status_code == 400
    assert response.get_json()["error"]["errors"] == [{"path": "/authors/1", "message": "is not a valid Author"}]


def test_a_typed_dict_has_required_and_optional_members() -> None:
    def func(link: LooseLink) -> int:
        return link["when"].year

    call = Taking(func)
    assert call.schema["properties"]["link"]["required"] == ["href", "when"]
    assert call(link={"href": "/", "when": "2026-01-02"}) == 2026
    assert call(link={"href": "/", "when": "2026-01-02", "rel": 1, "x": 2}) == {"/link/rel", "/link/x"}


def test_a_class_that_contains_itself_is_written_under_defs() -> None:
    def func(a: Node, b: Node | None = None) -> int:
        return a.value.year + sum(child.value.year for child in a.children)

    call = Taking(func)
    assert call.schema["properties"]["a"] == {"$ref": "#/$defs/Node"}
    assert list(call.schema["$defs"]) == ["Node"]
    leaf = {"value": "2000-01-01"}
    assert call(a={"value": "0026-01-01", "children": [leaf, leaf]}) == 4026
    assert call(a={"value": "2000-01-01", "children": [{"value": 1}]}) == {"/a/children/0/value"}


def test_a_union_loads_by_the_first_alternative_that_fits() -> None:
    def func(x: datetime.date | Author | int) -> str:
        return type(x).__name__

    call = Taking(func)
    assert [call(x="2026-01-01"), call(x={"name": "Ada"}), call(x=3)] == ["date", "Author", "int"]
    assert call(x="soon") == {"/x"}


def test_a_fixed_tuple_has_a_type_per_item() -> None:
    def func(point: tuple[int, datetime.date]) -> tuple[int, int]:
        return point[0], point[1].year

    call = Taking(func)
    assert call(point=[1, "2026-01-01"]) == [1, 2026]
    assert call(point=[1]) == {"/point"}
    assert call(point=["a", "b"]) == {"/point/0", "/point/1"}


def test_members_of_a_mapping_are_loaded() -> None:
    def func(days: dict[str, datetime.date]) -> dict[str, int]:
        return {name: day.year for name, day in days.items()}

    assert Taking(func)(days={"a": "2026-01-01"}) == {"a": 2026}


def test_parameters_without_hints_take_anything() -> None:
    def func(a, b=2):  # type: ignore[no-untyped-def]
        return [a, b]

    call = Taking(func)
    assert call.schema["properties"] == {"a": {}, "b": {"default": 2}}
    assert call(a={"x": None}) == [{"x": None}, 2]
    assert "outputSchema" in call.tool
    assert call.tool["outputSchema"] == {}


def test_no_parameters_are_an_object_without_properties() -> None:
    def func() -> int:
        return 1

    call = Taking(func)
    assert call.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert call(surprise=1) == {"/surprise"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (dict, {"type": "object"}),
        (None, {"type": "null"}),
        (Iterator[str], {"type": "array", "items": {"type": "string"}}),
        (Iterator[int], {"type": "array", "items": {"type": "integer"}}),
        (AsyncIterator[int], {"type": "array", "items": {"type": "integer"}}),
        (Any, {}),
        (
            Link,
            {
                "type": "object",
                "properties": {"href": {"type": "string"}, "when": {"type": "string", "format": "date"}},
            },
        ),
    ],
    ids=str,
)
def test_the_return_hint_is_the_output_schema(hint: Any, schema: dict[str, Any]) -> None:
    def func():  # type: ignore[no-untyped-def]
        ...

    func.__annotations__ = {"return": hint}
    advertised = Taking(func).tool["outputSchema"]
    assert {key: advertised[key] for key in schema} == schema


@pytest.mark.parametrize(
    ("item", "schema", "values", "result"),
    [
        (str, {"type": "string"}, ["a", "b"], "ab"),
        (Literal["a", "b"], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["a"], ["a"]),
        (
            datetime.date,
            {"type": "array", "items": {"type": "string", "format": "date"}},
            [datetime.date(2026, 1, 2)],
            ["2026-01-02"],
        ),
        (
            Annotated[str, {"maxLength": 1}],
            {"type": "array", "items": {"type": "string", "maxLength": 1}},
            ["a", "b"],
            ["a", "b"],
        ),
    ],
    ids=str,
)
def test_a_generator_of_plain_text_gives_one_text_and_any_other_a_list(
    item: Any, schema: dict[str, Any], values: list[Any], result: Any
) -> None:
    def func():  # type: ignore[no-untyped-def]
        yield from values

    func.__annotations__ = {"return": Iterator[item]}
    call = Taking(func)
    assert call.tool["outputSchema"] == schema
    assert call() == result


def test_an_iterable_that_is_no_generator_gives_a_list() -> None:
    def func() -> Iterable[str]:
        return ["a", "b"]

    call = Taking(func)
    assert call.tool["outputSchema"] == {"type": "array", "items": {"type": "string"}}
    assert call() == ["a", "b"]


def test_callables_of_every_kind_can_be_methods() -> None:
    class Adder:
        def __call__(self, a: int, b: int) -> int:
            return a + b

        def plus_one(self, a: int) -> int:
            return a + 1

    assert Taking(Adder())(a=1, b=2) == 3
    assert Taking(functools.partial(Adder(), b=5))(a=1) == 6
    rpc = McpBlueprint()
    rpc.add_method("plus", Adder().plus_one)


def test_hints_written_as_text_are_resolved() -> None:
    def func(x: Author) -> int:
        return len(x.name)

    assert Taking(func)(x={"name": "Ada"}) == 3


def test_the_same_text_means_what_it_means_in_its_own_module() -> None:
    def schema_in(kind: type) -> Any:
        module: dict[str, Any] = {"Thing": kind}
        exec("def take(thing: 'Thing') -> None: ...", module)  # noqa: S102 (two modules, in short)
        return Taking(module["take"]).schema["properties"]["thing"]

    assert schema_in(int) == {"type": "integer"}
    assert schema_in(str) == {"type": "string"}


def test_alternatives_are_shown_in_the_order_in_which_each_method_has_them() -> None:
    """Equal hints share what is made of them; these are equal, and not the same to look at."""

    def one() -> Literal["a", "b"]:
        return "a"

    def other() -> Literal["b", "a"]:
        return "a"

    rpc = McpBlueprint()
    for func in (one, other):
        rpc.add_method(None, mcp_tool(func))
    shown = [tool["outputSchema"]["enum"] for tool in Site(rpc).list_tools().get_json()["tools"]]
    assert shown == [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize("text", ["int int", "5", "print"])
def test_text_that_is_no_hint_raises(text: str) -> None:
    def take(thing: Any) -> None: ...

    take.__annotations__["thing"] = text
    with pytest.raises(TypeError, match=r"take\(\): parameter 'thing': "):
        McpBlueprint().add_method("take", take)


def test_type_aliases_are_looked_through() -> None:
    """What ``type Number = int`` makes in Python 3.12 and newer."""

    def func(x):  # type: ignore[no-untyped-def]
        ...

    func.__annotations__ = {"x": TypeAliasType("Number", int)}
    assert Taking(func).schema["properties"] == {"x": {"type": "integer"}}


DURATION = {"type": "string", "format": "duration"}
BYTES = {"type": "string", "contentEncoding": "base64"}
TEXT = {"type": "string"}
NUMBERS = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}


# hint, schema, a JSON value that fits, what the function gets, a value that does not fit, what the caller reads then
BOTH_WAYS: list[tuple[Any, dict[str, Any], Any, Any, Any, str]] = [
    (set[int], NUMBERS, [1, 2], {1, 2}, [1, 1.0], "must not have the same item twice"),
    (frozenset[int], NUMBERS, [1, 2], frozenset({1, 2}), ["a"], "must be of type integer, not string"),
    (AbstractSet[int], NUMBERS, [1, 2], {1, 2}, {}, "must be of type array, not object"),
    (set, {"type": "array", "uniqueItems": True}, [1, 2], {1, 2}, [[]], "must not have lists or objects as items"),
    (
        set[datetime.date],
        {**NUMBERS, "items": {"type": "string", "format": "date"}},
        ["2026-01-02"],
        {datetime.date(2026, 1, 2)},
        ["x"],
        "must be a valid date",
    ),
    (bytes, BYTES, "AP8=", b"\x00\xff", "A", "must be base64"),
    (bytes, BYTES, "", b"", "A_8=", "must be base64"),
    (
        datetime.timedelta,
        DURATION,
        "P1DT2H3M4.5S",
        datetime.timedelta(1, 7384, 500_000),
        "1 day",
        "must be a valid duration",
    ),
    (datetime.timedelta, DURATION, "-PT5M", -datetime.timedelta(minutes=5), "P", "must be a valid duration"),
    (
        datetime.timedelta,
        DURATION,
        "P14D",
        datetime.timedelta(14),
        "P1M",
        "must not have years or months, because their length varies",
    ),
    (datetime.timedelta, DURATION, "PT0S", datetime.timedelta(0), "P999999999W", "is too large"),
    (Path, TEXT, "a/b.txt", Path("a/b.txt"), 1, "must be of type string, not integer"),
    (PurePosixPath, TEXT, "/etc", PurePosixPath("/etc"), None, "must be of type string, not null"),
]


@pytest.mark.parametrize(
    ("hint", "schema", "value", "loaded", "wrong", "says"), BOTH_WAYS, ids=lambda part: str(part)[:30]
)
def test_a_hint_goes_in_and_out(
    hint: Any, schema: dict[str, Any], value: Any, loaded: Any, wrong: Any, says: str
) -> None:
    received = []

    def func(x):  # type: ignore[no-untyped-def]
        received.append(x)
        return x

    func.__annotations__ = {"x": hint, "return": hint}
    call = Taking(func)
    assert call.schema["properties"] == {"x": schema}
    assert call.tool["outputSchema"] == schema
    assert call(x=value) == value
    assert received == [loaded]
    assert type(received[0]) is type(loaded)
    [problem] = call.site.invoke("under-test", {"x": wrong}).get_json()["error"]["errors"]
    assert problem["message"] == says
    assert problem["path"].startswith("/x")


@pytest.mark.parametrize("text", ["P2W", "P1W", "PT36H", "+PT1,5S", "P1Y2M", "PT1H1S"])
def test_every_duration_of_iso_8601_fits_its_format(text: str) -> None:
    def func(x: Annotated[str, {"format": "duration"}]) -> None: ...

    assert Taking(func)(x=text) is None


DURATIONS = st.timedeltas()
ROUND_TRIPS = st.binary() | DURATIONS | st.frozensets(st.integers(0, 9) | st.text(max_size=2))


@settings(max_examples=200, deadline=None)
@given(ROUND_TRIPS)
def test_what_is_dumped_loads_as_the_same(value: Any) -> None:
    hint = type(value)

    def func(x):  # type: ignore[no-untyped-def]
        ...

    func.__annotations__ = {"x": hint}
    _, loaded = compile_params(Function(func), None).bind({"x": to_plain(value)})
    assert loaded == {"x": value}


def test_items_of_a_set_are_sent_in_their_order() -> None:
    def func() -> set[str]:
        return {"c", "a", "b"}

    assert Taking(func)() == ["a", "b", "c"]


class Unspeakable:
    pass


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        (Unspeakable, "Unspeakable cannot be serialised as JSON"),
        (complex, "complex cannot be serialised as JSON"),
        (set[list[int]], "cannot be in a set, because it has no hash; use a list"),
        (dict[int, str], "int cannot be a member name"),
        ("Missing", "'Missing' is not a name of its module"),
        (list[Unspeakable], "Unspeakable"),
    ],
    ids=str,
)
def test_a_hint_without_a_form_in_json_raises_naming_function_and_parameter(hint: Any, says: str) -> None:
    def troubled(x):  # type: ignore[no-untyped-def]
        ...

    troubled.__annotations__ = {"x": hint}
    with pytest.raises(TypeError, match=says) as caught:
        McpBlueprint().method(troubled)
    assert "troubled()" in str(caught.value)


def test_a_return_hint_without_a_form_in_json_raises() -> None:
    def troubled() -> Unspeakable: ...  # type: ignore[empty-body]

    with pytest.raises(TypeError, match=r"troubled\(\): the return hint: Unspeakable .* output="):
        McpBlueprint().method(troubled)


def test_parameters_no_caller_could_name_raise() -> None:
    rpc = McpBlueprint()

    def several(*args: int) -> None: ...
    def any_name(**kwargs: int) -> None: ...
    def by_place(a: int, /) -> None: ...

    for func in (several, any_name, by_place):
        with pytest.raises(TypeError, match=r"pass params="):
            rpc.method(func)


def test_keywords_that_are_no_schema_raise() -> None:
    def func(x: Annotated[int, {"minimum": "zero"}]) -> None: ...

    with pytest.raises(ValueError, match="not a valid JSON Schema"):
        McpBlueprint().method(func)
