"""pydantic models as hints, as ``params=`` and as ``output=``: pydantic describes, loads and dumps them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.schema import Function, compile_params
from tests.conftest import Taking


class Address(BaseModel):
    street: str
    since: datetime.date = datetime.date(2020, 1, 2)


class Person(BaseModel):
    """Somebody."""

    full_name: str = Field(alias="fullName", min_length=2, description="As in the passport")
    home: Address
    others: list[Address] = []

    @pydantic.field_validator("full_name")
    @classmethod
    def not_anonymous(cls, name: str) -> str:
        if name == "N.N.":
            raise ValueError("must be a real name")
        return name

    @pydantic.model_validator(mode="after")
    def not_too_many(self) -> Person:
        if len(self.others) > 2:
            raise ValueError("has too many homes")
        return self


class Node(BaseModel):
    value: int
    next: Node | None = None


@dataclass
class Household:
    people: list[Person]
    chain: Node | None = None
    notes: list[str] = field(default_factory=list)


ADDRESS = {
    "type": "object",
    "title": "Address",
    "properties": {
        "street": {"type": "string"},
        "since": {"type": "string", "format": "date", "default": "2020-01-02"},
    },
    "required": ["street"],
    "additionalProperties": False,
}
PERSON = {
    "type": "object",
    "title": "Person",
    "description": "Somebody.",
    "properties": {
        "fullName": {"type": "string", "minLength": 2, "description": "As in the passport"},
        "home": ADDRESS,
        "others": {"type": "array", "items": ADDRESS, "default": []},
    },
    "required": ["fullName", "home"],
    "additionalProperties": False,
}
ADA = {"fullName": "Ada", "home": {"street": "Elm"}}
DUMPED = {"fullName": "Ada", "home": {"street": "Elm", "since": "2020-01-02"}, "others": []}


def problems(call: Taking, **arguments: Any) -> list[tuple[str, str]]:
    response = call.site.invoke("under-test", arguments)
    assert response.status_code == 400
    return [(problem["path"], problem["message"]) for problem in response.get_json()["error"]["errors"]]


def test_a_model_is_advertised_loaded_and_dumped() -> None:
    def func(person: Person) -> Person:
        assert isinstance(person, Person)
        return person

    call = Taking(func)
    assert call.schema["properties"] == {"person": PERSON}
    assert "additionalProperties" not in call.tool["outputSchema"]
    assert call(person=ADA) == DUMPED


def test_all_that_breaks_the_schema_is_listed_with_its_path() -> None:
    def func(person: Person) -> None: ...

    wrong = {"fullName": "A", "home": {"since": "May"}, "others": [{"street": 1, "x": 2}]}
    assert sorted(problems(Taking(func), person=wrong)) == [
        ("/person/fullName", "must have at least 2 characters"),
        ("/person/home/since", "must be a valid date"),
        ("/person/home/street", "is required"),
        ("/person/others/0/street", "must be of type string, not integer"),
        ("/person/others/0/x", "is not expected here"),
    ]


def test_what_validators_of_models_refuse_is_listed_with_its_path_and_text() -> None:
    def func(people: list[Person], person: Person) -> None: ...

    unknown = {**ADA, "fullName": "N.N."}
    assert problems(Taking(func), people=[ADA, unknown], person={**ADA, "others": [{"street": "Oak"}] * 3}) == [
        ("/people/1/fullName", "Value error, must be a real name"),
        ("/person", "Value error, has too many homes"),
    ]


def test_models_stand_inside_of_other_classes_and_contain_themselves() -> None:
    def func(household: Household, chain: Node | None = None) -> Household:
        return household

    call = Taking(func)
    chain = {"value": 1, "next": {"value": 2, "next": None}}
    dumped = {"people": [DUMPED], "chain": chain, "notes": []}
    assert call(household={"people": [ADA], "chain": {"value": 1, "next": {"value": 2}}}) == dumped
    assert call(household={"people": [{}], "chain": {"value": 1, "next": {"v": 2}}}) == {
        *("/household/people/0/fullName", "/household/people/0/home"),
        *("/household/chain/next/v", "/household/chain/next/value"),
    }
    assert list(call.schema["$defs"]) == ["Node"]


def test_definitions_of_a_model_do_not_clash_with_our_own() -> None:
    @dataclass
    class OwnNode:
        own: bool
        next: OwnNode | None = None

    OwnNode.__name__ = "Node"
    OwnNode.__annotations__ = {"own": bool, "next": OwnNode | None}

    def func(a, b):  # type: ignore[no-untyped-def]
        return [a.own, b.value]

    func.__annotations__ = {"a": OwnNode, "b": Node}
    call = Taking(func)
    assert list(call.schema["$defs"]) == ["Node", "Node2"]
    assert call(a={"own": True, "next": {"own": False}}, b={"value": 1, "next": {"value": 2}}) == [True, 1]
    assert call(a={"own": True, "next": {"value": 1}}, b={"value": 1, "next": {"own": True}}) == {
        *("/a/next/own", "/a/next/value", "/b/next/own", "/b/next/value"),
    }


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")
    a: int


class Allowing(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Silent(BaseModel):
    a: int


@pytest.mark.parametrize(
    ("model", "result"),
    [(Ignoring, {"a": 1}), (Allowing, {"a": 1, "b": 2}), (Forbidding, {"/b"}), (Silent, {"/b"})],
)
def test_unknown_members_are_refused_unless_the_model_says_otherwise(model: Any, result: Any) -> None:
    def func(whole):  # type: ignore[no-untyped-def]
        return whole

    func.__annotations__ = {"whole": model}
    assert Taking(func, params=model)(a=1, b=2) == result
    nested = Taking(func)(whole={"a": 1, "b": 2})
    assert nested == (result if isinstance(result, dict) else {"/whole/b"})


def test_a_result_may_be_of_a_subclass_with_more_fields() -> None:
    class Longer(Forbidding):
        b: int = 2

    def func() -> Forbidding:
        return Longer(a=1)

    assert Taking(func)() == {"a": 1, "b": 2}


def test_params_are_passed_as_the_model_or_by_the_names_of_its_fields() -> None:
    def whole(person: Person) -> str:
        return person.full_name

    def by_name(full_name: str, home: Address, others: list[Address]) -> list[Any]:
        return [full_name, home.street, others]

    assert Taking(whole, params=Person).schema == PERSON
    assert Taking(whole, params=Person)(**ADA) == "Ada"
    assert Taking(by_name, params=Person)(**ADA) == ["Ada", "Elm", []]
    assert Taking(by_name, params=Person)(**{**ADA, "x": 1}) == {"/x"}


def test_a_model_that_contains_itself_describes_the_params() -> None:
    def func(node: Node) -> int:
        return node.value

    call = Taking(func, params=Node)
    assert call(value=1, next={"value": 2}) == 1
    assert call(next={"next": {}}) == {"/value", "/next/value", "/next/next/value"}


@pytest.mark.parametrize(
    "result",
    [
        {"street": "Elm", "secret": 1},
        SimpleNamespace(street="Elm", since=datetime.date(2020, 1, 2), secret=1),
        Address(street="Elm"),
    ],
    ids=["dict", "object", "model"],
)
def test_output_makes_the_model_of_what_has_its_fields(result: Any) -> None:
    assert Taking(lambda: result, output=Address)() == {"street": "Elm", "since": "2020-01-02"}


def test_a_result_that_the_model_refuses_is_a_failure_of_the_method() -> None:
    assert Taking(lambda: {"street": 1}, output=Address)() == 500


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Owner(BaseModel):
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]  # noqa: UP007
    either: int | list[int] = 0

    @pydantic.field_validator("either")
    @classmethod
    def small(cls, value: Any) -> Any:
        if value == [9]:
            raise ValueError("is too large")
        return value


def test_the_paths_of_errors_name_no_alternatives() -> None:
    def func(owner: Owner) -> str:
        return type(owner.pet).__name__

    call = Taking(func)
    assert "discriminator" not in call.schema["properties"]["owner"]["properties"]["pet"]
    assert call(owner={"pet": {"kind": "dog", "name": "Rex"}}) == "Dog"
    assert call(owner={"pet": {"kind": "cat", "name": "Tom"}}) == {"/owner/pet/lives", "/owner/pet/name"}
    assert problems(call, owner={"pet": {"kind": "cat", "lives": 7}, "either": [9]}) == [
        ("/owner/either", "Value error, is too large")
    ]


class StrictOne(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date
    count: int = 0


def test_a_strict_model_takes_what_json_has() -> None:
    def func(x: StrictOne) -> int:
        return x.day.year

    assert Taking(func)(x={"day": "2026-01-02"}) == 2026


@pydantic.dataclasses.dataclass
class Money:
    amount: int = Field(gt=0)


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]


class Words(RootModel[list[str]]):
    pass


@pytest.mark.parametrize(
    ("hint", "value", "wrong"),
    [
        (Money, {"amount": 5}, {"amount": 0}),
        (Page[Address], {"items": [DUMPED["home"]]}, {"items": [{}]}),
        (Words, ["a"], [1]),
        (pydantic.HttpUrl, "https://example.com/", "example"),
        (pydantic.AwareDatetime, "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05"),
        (list[Address | int], [1, DUMPED["home"]], ["a"]),
    ],
    ids=str,
)
def test_all_that_is_pydantic_s_own_goes_in_and_out(hint: Any, value: Any, wrong: Any) -> None:
    def func(x):  # type: ignore[no-untyped-def]
        return x

    func.__annotations__ = {"x": hint, "return": hint}
    call = Taking(func)
    assert call(x=value) == value
    paths = call(x=wrong)
    assert isinstance(paths, set)
    assert all(path.startswith("/x") for path in paths)


def test_a_schema_that_pydantic_made_is_left_to_jsonschema() -> None:
    def func(x: Address) -> None: ...

    assert not compile_params(Function(func), None).shape.generated
    assert not compile_params(Function(func), Address).shape.generated


class Unclear(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    a: SimpleNamespace


def test_a_model_without_a_json_schema_raises_naming_function_and_parameter() -> None:
    def troubled(x: Unclear) -> None: ...

    with pytest.raises(TypeError, match=r"troubled\(\): parameter 'x': pydantic cannot describe it: .* params="):
        McpBlueprint().method(troubled)


def test_a_model_of_no_object_cannot_be_the_params() -> None:
    def troubled(x: Words) -> None: ...

    with pytest.raises(TypeError, match="a model without fields"):
        McpBlueprint().method("troubled", params=Words)(troubled)


class Leaf(BaseModel):
    kind: Literal["leaf"]


class Branch(BaseModel):
    kind: Literal["branch"]
    child: Annotated[Union[Leaf, Branch, Fork], Field(discriminator="kind")]  # noqa: UP007


class Fork(BaseModel):
    kind: Literal["fork"]
    child: Annotated[Union[Leaf, Branch, Fork], Field(discriminator="kind")]  # noqa: UP007


def test_a_union_with_a_discriminator_is_loaded_in_linear_time() -> None:
    """Without one, pydantic tries every alternative at every level, and this would not end."""
    tree: dict[str, Any] = {"kind": "leaf"}
    for _ in range(50):
        tree = {"kind": "branch", "child": tree}

    def kind_of(tree: Branch) -> str:
        return tree.child.kind

    assert Taking(kind_of)(tree=tree) == "branch"
