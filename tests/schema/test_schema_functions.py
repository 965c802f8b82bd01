"""What is read off a function: its hints, its defaults, and whether it can take what ``params=`` lets through."""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import marshmallow
import pytest
from marshmallow import fields

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Taking
from tests.schema.test_schema_classes import Base, Derived

Positive = Annotated[int, "A number", {"minimum": 1}]
Dated = Annotated[datetime.date, {"examples": [datetime.date(2026, 1, 2)]}]
Strange = Annotated[str, {"examples": [object()]}]


def test_a_hint_with_keywords_may_have_the_default_none() -> None:
    """Python 3.10 makes such a hint into an Optional, which fails for want of a hash."""

    def func(x: Positive = None) -> Any:  # type: ignore[assignment]
        return x

    call = Taking(func)
    assert call.schema["properties"]["x"] == {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
        "description": "A number",
        "default": None,
    }
    assert call() is None
    assert call(x=0) == {"/x"}


def test_a_hint_with_keywords_in_a_union_works_or_says_what_to_write() -> None:
    """Only newer Pythons can build such a union."""

    def func(x: Positive | None = None) -> Any:
        return x

    if sys.version_info >= (3, 13):
        assert Taking(func)(x=0) == {"/x"}
        return
    with pytest.raises(TypeError, match=r"func\(\): parameter 'x': .* write the union inside, as in Annotated"):
        McpBlueprint().method(func)


def test_values_in_a_note_are_plain_json() -> None:
    def func(x: Dated) -> None: ...

    assert Taking(func).schema["properties"]["x"]["examples"] == ["2026-01-02"]

    def troubled(x: Strange) -> None: ...

    with pytest.raises(TypeError, match=r"troubled\(\): .*object cannot be serialised as JSON"):
        McpBlueprint().method(troubled)


def test_a_default_that_breaks_its_own_hint_raises() -> None:
    def troubled(x: int = "a") -> None: ...  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"troubled\(\): parameter 'x': the default 'a' does not match its hint"):
        McpBlueprint().method(troubled)


def test_a_default_that_is_sent_in_another_form_is_left_out() -> None:
    def func(x: Base = Derived()) -> int:  # noqa: B008
        return x.a

    call = Taking(func)
    assert "default" not in call.schema["properties"]["x"]
    assert call() == 0


class Traced:
    """A decorator that is an object, as many libraries have them."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


def test_the_hints_of_a_wrapped_function_are_found() -> None:
    def func(x: int) -> datetime.date:
        return datetime.date(x, 1, 1)

    call = Taking(Traced(func))
    assert call.schema["properties"] == {"x": {"type": "integer"}}
    assert call.tool["outputSchema"]["format"] == "date"
    assert call(x=2026) == "2026-01-01"


class Service:
    def get(self, id: int) -> int:
        return id

    def anything(self, **kwargs: Any) -> Any:
        return kwargs

    def __call__(self, **kwargs: Any) -> Any:
        return kwargs


@pytest.mark.parametrize("options", [{}, {"params": {"properties": {"id": {}}, "required": ["id"]}}])
def test_a_method_that_is_not_bound_raises(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"register the bound method: rpc\.add_tool"):
        McpBlueprint().add_method("get", Service.get, **options)


async def anything(**kwargs: Any) -> Any:
    return kwargs


@pytest.mark.parametrize("func", [anything, Service(), functools.partial(Service().anything)], ids=repr)
def test_an_argument_cannot_collide_with_the_self_of_the_call(func: Any) -> None:
    call = Taking(func, params={}, output={})
    assert call(other=1) == {"other": 1}
    assert call(self=1) == {"/self"}


def test_a_declared_argument_that_collides_raises() -> None:
    rpc = McpBlueprint()

    async def by_hint(a: int, self: int) -> None: ...

    async def stream(a: int, self: int) -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="cannot be called 'self'"):
        rpc.method(by_hint)
    with pytest.raises(TypeError, match="cannot be called 'self'"):
        rpc.method(stream)
    with pytest.raises(TypeError, match="cannot be called 'self'"):
        rpc.add_method("f", Service().anything, params={"properties": {"self": {}}})


STARS = {"properties": {"stars": {"type": "integer"}}, "required": ["stars"]}


def unlike(arguments):  # type: ignore[no-untyped-def]
    return arguments


def hinted(star: dict[str, Any]) -> Any:
    return star


@pytest.mark.parametrize("func", [unlike, hinted])
@pytest.mark.parametrize("params", [STARS, {"stars": fields.Integer(required=True)}], ids=["dict", "marshmallow"])
def test_one_parameter_may_take_all_arguments_in_one_piece(func: Any, params: Any) -> None:
    assert Taking(func, params=params, output={})(stars=3) == {"stars": 3}


def test_one_parameter_may_take_the_object_a_schema_makes() -> None:
    class BaseSchema(marshmallow.Schema):
        a = fields.Integer()

        @marshmallow.post_load
        def make(self, data: dict[str, Any], **kwargs: Any) -> Base:
            return Base(**data)

    def func(base: Base) -> int:
        return base.a

    assert Taking(func, params=BaseSchema)(a=3) == 3
    with pytest.raises(TypeError, match=r"'base' is not in params; give it the name of .*, or hint it as dict"):
        McpBlueprint().method(params={"properties": {"a": {}}})(func)


def slip(star):  # type: ignore[no-untyped-def]
    ...


def hinted_slip(rating: int) -> None: ...


def by_place(stars, /):  # type: ignore[no-untyped-def]
    ...


def by_keyword(*, arguments):  # type: ignore[no-untyped-def]
    ...


@pytest.mark.parametrize("params", [STARS, {"stars": fields.Integer(required=True)}], ids=["dict", "marshmallow"])
@pytest.mark.parametrize(
    ("func", "says"),
    [
        (slip, "did you mean 'stars'"),
        (hinted_slip, "'rating' is not in params; give it the name of a declared argument"),
        (by_place, "'stars' cannot be passed by name; remove the '/'"),
        (by_keyword, "remove the '\\*'"),
    ],
)
def test_one_parameter_that_looks_like_a_slip_raises(func: Any, says: str, params: Any) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        McpBlueprint().method(params=params)(func)
    assert func.__name__ in str(caught.value)
