"""Dataclasses, attrs classes, NamedTuples and TypedDicts as hints: their members, and what a subclass may add."""

from __future__ import annotations

import dataclasses
import datetime
import typing
from typing import Annotated, Any

import attrs
import pytest
import typing_extensions
from typing_extensions import NotRequired, ReadOnly, Required

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Taking
from tests.support.counting import calls_during

if typing.TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


class Total(typing.TypedDict):
    a: int
    b: NotRequired[int]
    c: Annotated[NotRequired[int], "Not always there"]
    d: ReadOnly[NotRequired[Annotated[int, {"minimum": 1}]]]


class Loose(Total, total=False):
    e: int
    f: Required[int]


class Extended(typing_extensions.TypedDict, total=False):
    a: Required[int]
    b: int
    c: NotRequired[int]


@pytest.mark.parametrize(("kind", "required"), [(Total, ["a"]), (Loose, ["a", "f"]), (Extended, ["a"])])
def test_a_typed_dict_requires_what_its_marks_say(kind: Any, required: list[str]) -> None:
    """In this file hints are text when the class is made, so the class itself has not seen the marks."""

    def func(x):  # type: ignore[no-untyped-def]
        return x

    func.__annotations__ = {"x": kind, "return": kind}
    call = Taking(func)
    assert call.schema["properties"]["x"]["required"] == required
    assert call.tool["outputSchema"]["required"] == required
    value = dict.fromkeys(required, 1)
    assert call(x=value) == value
    assert call(x={}) == {f"/x/{name}" for name in required}


@dataclasses.dataclass
class Base:
    a: int = 0


@dataclasses.dataclass
class Derived(Base):
    b: int = 1


def test_a_result_may_be_of_a_subclass_with_more_fields() -> None:
    def func() -> Base:
        return Derived()

    call = Taking(func)
    assert "additionalProperties" not in call.tool["outputSchema"]
    assert call() == {"a": 0, "b": 1}


@dataclasses.dataclass
class Picky:
    a: Any

    def __post_init__(self) -> None:
        if not self.a > 0:
            raise ValueError


def test_a_dataclass_may_refuse_its_values_with_a_type_error_too() -> None:
    def func(x: Picky) -> None: ...

    call = Taking(func)
    assert call(x={"a": 1}) is None
    assert call(x={"a": 0}) == {"/x"}
    assert call(x={"a": "text"}) == {"/x"}


class Place(typing.NamedTuple):
    street: str
    since: datetime.date = datetime.date(2020, 1, 2)


@attrs.define
class Home:
    street: str = attrs.field(validator=attrs.validators.max_len(5))
    since: datetime.date = datetime.date(2020, 1, 2)


@attrs.define
class Attributes:
    _hidden: int
    inner: list[Home] = attrs.field(factory=list)
    computed: int = attrs.field(init=False, default=7)


@pytest.mark.parametrize("kind", [Place, Home])
def test_a_named_tuple_and_an_attrs_class_are_objects(kind: Any) -> None:
    def func(x):  # type: ignore[no-untyped-def]
        assert isinstance(x, kind)
        assert isinstance(x.since, datetime.date)
        return x

    func.__annotations__ = {"x": kind, "return": kind}
    call = Taking(func)
    day = {"type": "string", "format": "date"}
    assert call.schema["properties"]["x"] == {
        "type": "object",
        "properties": {"street": {"type": "string"}, "since": {**day, "default": "2020-01-02"}},
        "required": ["street"],
        "additionalProperties": False,
    }
    assert call.tool["outputSchema"] == {
        "type": "object",
        "properties": {"street": {"type": "string"}, "since": day},
        "required": ["street", "since"],
    }
    assert call(x={"street": "Elm"}) == {"street": "Elm", "since": "2020-01-02"}
    assert call(x={"since": "May", "y": 1}) == {"/x/street", "/x/since", "/x/y"}


def test_an_attrs_class_is_made_by_the_names_of_its_arguments() -> None:
    def func(x: Attributes) -> Attributes:
        return x

    call = Taking(func)
    assert list(call.schema["properties"]["x"]["properties"]) == ["hidden", "inner"]
    home = {"street": "Elm", "since": "2020-01-02"}
    assert call(x={"hidden": 1, "inner": [home]}) == {"hidden": 1, "inner": [home], "computed": 7}


def test_what_classes_refuse_is_listed_for_all_of_them() -> None:
    def func(homes: list[Home], by_name: dict[str, Home], home: Home) -> None: ...

    long = {"street": "Elm Street"}
    response = Taking(func).site.invoke(
        "under-test", {"homes": [long, {"street": "Elm"}, long], "by_name": {"a": long}, "home": long}
    )
    assert response.get_json()["error"]["errors"] == [
        {"path": path, "message": "is not a valid Home"} for path in ("/homes/0", "/homes/2", "/by_name/a", "/home")
    ]


@dataclasses.dataclass
class WithInitVar:
    a: int
    scale: dataclasses.InitVar[int]


@dataclasses.dataclass
class Unresolvable:
    a: Missing


@dataclasses.dataclass
class BadDefault:
    a: int = "text"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (WithInitVar, "WithInitVar cannot be created from its fields alone, because of 'scale'"),
        (Unresolvable, "Unresolvable: the hint 'Missing' is not a name of its module"),
        (BadDefault, "'a': the default 'text' does not match its hint"),
    ],
)
def test_a_dataclass_no_arguments_could_make_raises(kind: type, says: str) -> None:
    def troubled(x):  # type: ignore[no-untyped-def]
        ...

    troubled.__annotations__ = {"x": kind}
    with pytest.raises(TypeError, match=says) as caught:
        McpBlueprint().method(troubled)
    assert "troubled()" in str(caught.value)


@dataclasses.dataclass
class Tree:
    left: Tree | None = None
    right: Tree | int | None = None


def test_defaults_and_alternatives_within_a_class_that_contains_itself() -> None:
    def func(tree: Tree) -> list[str]:
        return [type(tree.left).__name__, type(tree.right).__name__]

    call = Taking(func)
    assert call(tree={"left": {}, "right": 5}) == ["Tree", "int"]
    assert call(tree={"right": {"right": {}}}) == ["NoneType", "Tree"]
    assert call(tree={"left": {"left": 1, "x": 2}}) == {"/tree/left/left", "/tree/left/x"}


@dataclasses.dataclass
class Plus:
    right: Plus | Times | list[int]
    op: typing.Literal["+"] = "+"


@dataclasses.dataclass
class Times:
    right: Plus | Times | list[int]
    op: typing.Literal["*"] = "*"


@pytest.mark.parametrize(
    ("op", "number", "kind"),
    [({}, 1, "Plus"), ({"op": "*"}, 1, "Times"), ({}, "x", None), ({"op": "*"}, "x", None)],
    ids=["fits several", "fits the last", "wrong", "wrong in the last"],
)
def test_the_work_for_a_tree_of_alternatives_grows_with_its_depth(op: Any, number: Any, kind: str | None) -> None:
    """Without memory, each level takes as long as all below it, once for each alternative."""

    def func(tree: Plus | Times) -> str:
        return type(tree).__name__

    call = Taking(func)

    def grow(depth: int) -> Any:
        tree: Any = [number] * 50
        for _ in range(depth):
            tree = {"right": tree, **op}
        return tree

    low, high = grow(4), grow(16)
    assert call(tree=high) == kind if kind else isinstance(call(tree=high), set)
    assert calls_during(lambda: call(tree=high)) < 6 * calls_during(lambda: call(tree=low))
