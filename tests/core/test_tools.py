"""`rpc.tool`, `rpc.add_tool` and `ToolGroup`: a tool in one decorator, and tools in modules of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, ToolGroup, mcp_tool
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import Site, basic, make_auth


def test_one_decorator_makes_a_tool_of_every_face(site: Site) -> None:
    @site.rpc.tool(
        "shelf.clear", title="Clear a shelf", destructive=True, idempotent=True, annotations={"for": "staff"}
    )
    def clear(shelf: int) -> str:
        """Remove all books of a shelf."""
        return f"shelf {shelf} is empty"

    assert clear(3) == "shelf 3 is empty"
    assert site.describe("shelf.clear").get_json()["tool"] == {
        "name": "shelf.clear",
        "title": "Clear a shelf",
        "description": "Remove all books of a shelf.",
        "inputSchema": {
            "type": "object",
            "properties": {"shelf": {"type": "integer"}},
            "required": ["shelf"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "string"},
        "annotations": {"for": "staff", "destructiveHint": True, "idempotentHint": True},
    }
    for face in ("rest", "jsonrpc", "mcp"):
        assert McpTestClient(site.app, face).call("shelf.clear", {"shelf": 7}).value == "shelf 7 is empty"


def test_the_bare_decorator_takes_name_and_description_from_the_function(site: Site) -> None:
    @site.rpc.tool
    def count_books() -> int:
        """Count all books."""
        return 3

    described = site.describe("count_books").get_json()["tool"]
    assert (described["description"], "annotations" in described) == ("Count all books.", False)


def test_it_takes_what_a_method_takes() -> None:
    rpc = McpBlueprint(auth=make_auth())

    @rpc.tool(
        access=["write"],
        description="For writers",
        read_only=True,
        max_age=60,
        params={"properties": {"id": {}}, "required": ["id"]},
    )
    def read(id: Any) -> Any:
        return id

    site = Site(rpc)
    assert site.names() == []
    assert site.names(headers=basic("writer")) == ["read"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "read", "params": {"id": [1]}}
    reply = site.rpc_get(call, headers=basic("writer"))
    assert (reply.get_json()["result"], reply.cache_control.max_age) == ([1], 60)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("read_only", "readOnlyHint"),
        ("destructive", "destructiveHint"),
        ("idempotent", "idempotentHint"),
        ("open_world", "openWorldHint"),
    ],
)
@pytest.mark.parametrize("value", [True, False])
def test_hints_are_options_of_both_decorators(option: str, hint: str, value: bool) -> None:
    site = Site(McpBlueprint())
    options: Any = {option: value}
    site.rpc.tool("one", **options)(lambda: None)
    site.rpc.method("two")(mcp_tool(**options)(lambda: None))
    for name in ("one", "two"):
        assert site.describe(name).get_json()["tool"]["annotations"] == {hint: value}


def test_an_option_that_is_none_says_nothing(site: Site) -> None:
    site.rpc.tool("plain", read_only=None, title=None, annotations=None)(lambda: None)
    assert "annotations" not in site.describe("plain").get_json()["tool"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"read_only": True, "annotations": {"readOnlyHint": True}},
            "clear(): read_only=True and annotation 'readOnlyHint' say the same; keep one of them",
        ),
        ({"read_only": 1}, "clear(): read_only must be True or False, not 1"),
        (
            {"annotations": {"readOnlyHint": "yes"}},
            "clear(): annotation 'readOnlyHint' must be True or False, not 'yes'",
        ),
        (
            {"annotations": {"readonlyHint": True}},
            "clear(): annotation 'readonlyHint' looks like 'readOnlyHint'; correct it",
        ),
        (
            {"annotations": {"destructivHint": True}},
            "clear(): annotation 'destructivHint' looks like 'destructiveHint'; correct it",
        ),
        (
            {"annotations": {"open_world_hint": True}},
            "clear(): annotation 'open_world_hint' looks like 'openWorldHint'; correct it",
        ),
        (
            {"icons": [{"mimeType": "image/png"}]},
            "clear(): an icon must be a URL or a dict with 'src', not {'mimeType': 'image/png'}",
        ),
        ({"readonly": True}, "clear(): a tool has no option 'readonly'; it has description, params"),
    ],
)
def test_a_wrong_option_raises_and_names_the_function(options: Any, message: str) -> None:
    def clear() -> None: ...

    with pytest.raises((TypeError, ValueError)) as raised:
        McpBlueprint().tool(**options)(clear)
    assert message in str(raised.value)


def test_annotations_of_the_app_itself_may_have_any_other_name(site: Site) -> None:
    free = {"audience": "staff", "hint": "x", "readOnly": True, "title": "Other"}
    site.rpc.tool("free", annotations=free)(lambda: None)
    assert site.describe("free").get_json()["tool"]["annotations"] == free


def test_a_marked_function_cannot_be_registered_as_a_tool_again(site: Site) -> None:
    with pytest.raises(TypeError, match="is marked with @mcp_tool and registered as a tool; remove the mark"):
        site.rpc.tool("twice")(mcp_tool(lambda: None))


@pytest.mark.parametrize(("version", "shown"), [("2026-07-28", True), ("2025-11-25", True), ("2025-06-18", False)])
def test_icons_are_shown_to_clients_whose_version_has_them(site: Site, version: str, shown: bool) -> None:
    big = {"src": "https://shop.example/big.png", "mimeType": "image/png", "sizes": ["96x96"]}
    site.rpc.tool("pay", icons=["https://shop.example/pay.svg", big])(lambda: None)
    [tool] = McpTestClient(site.app, version=version).list_tools()
    assert tool.get("icons") == ([{"src": "https://shop.example/pay.svg"}, big] if shown else None)


class Shelf:
    """An object whose methods are tools."""

    def __init__(self, place: str) -> None:
        self.place = place

    def where(self, book: str) -> str:
        return f"{book} is {self.place}"

    @classmethod
    def kind(cls, book: str) -> str:
        return f"{book} is on a {cls.__name__}"

    @staticmethod
    def size(book: str) -> str:
        return f"{book} is small"

    def __call__(self, book: str) -> str:
        return f"{book} was called {self.place}"


def shelve(place: str, book: str) -> str:
    return f"{book} is {place}"


CALLABLES: dict[str, tuple[Callable[..., str], str]] = {
    "bound method": (Shelf("upstairs").where, "Emma is upstairs"),
    "class method": (Shelf.kind, "Emma is on a Shelf"),
    "static method": (Shelf.size, "Emma is small"),
    "static method as it stands in its class": (vars(Shelf)["size"], "Emma is small"),
    "callable object": (Shelf("upstairs"), "Emma was called upstairs"),
    "partial": (functools.partial(shelve, "upstairs"), "Emma is upstairs"),
}


@pytest.mark.parametrize("form", ["add_tool", "tool", "add_method"])
@pytest.mark.parametrize("kind", CALLABLES)
def test_every_callable_can_be_a_tool(kind: str, form: str, site: Site) -> None:
    func, expected = CALLABLES[kind]
    if form == "add_tool":
        site.rpc.add_tool(func, "find", read_only=True)
    elif form == "tool":
        site.rpc.tool("find", read_only=True)(func)
    else:
        site.rpc.add_method("find", mcp_tool(read_only=True)(functools.partial(func)))
    assert site.invoke("find", {"book": "Emma"}).get_json() == {"result": expected}
    assert site.describe("find").get_json()["tool"]["annotations"] == {"readOnlyHint": True}


def test_methods_of_two_objects_are_two_tools(site: Site) -> None:
    for place in ("upstairs", "downstairs"):
        site.rpc.add_tool(Shelf(place).where, f"where-{place}", title=place)
    assert site.invoke("where-upstairs", {"book": "Emma"}).get_json() == {"result": "Emma is upstairs"}
    assert site.describe("where-downstairs").get_json()["tool"]["title"] == "downstairs"


def test_a_bound_method_can_be_marked(site: Site) -> None:
    class Desk:
        def lend(self) -> str:
            return "lent"

    site.rpc.add_method("lend", mcp_tool(title="Lend")(Desk().lend))
    assert site.describe("lend").get_json()["tool"]["title"] == "Lend"


class Slotted:
    __slots__ = ()

    def __call__(self, book: str) -> str:
        return f"{book} in a slot"


def test_what_cannot_be_marked_can_be_registered_as_a_tool(site: Site) -> None:
    with pytest.raises(TypeError, match=r"register it with rpc\.add_tool"):
        mcp_tool(Slotted())
    site.rpc.add_tool(Slotted(), "slot")
    assert site.invoke("slot", {"book": "Emma"}).get_json() == {"result": "Emma in a slot"}


# Groups


def make_group() -> ToolGroup:
    group = ToolGroup("articles")

    @group.tool(read_only=True)
    def count() -> int:
        return 3

    @group.tool("delete", destructive=True, access=["administer"])
    def delete_article(id: int) -> str:
        return f"deleted {id}"

    @group.method
    @mcp_tool(title="Marked")
    def marked() -> str:
        return "marked"

    @group.method
    def internal() -> str:
        return "internal"

    @group.prompt
    def review(tone: str) -> str:
        return f"Review this in a {tone} tone."

    @group.resource("articles://{id}")
    def article(id: int) -> str:
        return f"article {id}"

    @group.completer("review", "tone")
    def complete_tone(value: str) -> list[str]:
        return ["warm", "cold"]

    @group.completer("articles://{id}", "id")
    def complete_id(value: str) -> list[str]:
        return ["1", "2"]

    return group


def test_a_group_puts_its_names_under_its_own() -> None:
    site = Site(McpBlueprint(auth=make_auth()))
    site.rpc.add_group(make_group())
    assert site.names(headers=basic("admin")) == ["articles.count", "articles.delete", "articles.marked"]
    client = McpTestClient(site.app)
    assert client.call("articles.count").value == 3
    assert client.over("jsonrpc").call("articles.internal").value == "internal"
    assert client.read_resource("articles://7").text == "article 7"
    assert client.get_prompt("articles.review", {"tone": "warm"}).text == "Review this in a warm tone."
    assert client.complete("articles.review", "tone", "") == ["warm", "cold"]
    assert client.complete("articles://{id}", "id", "") == ["1", "2"]


def test_the_permissions_of_a_group_are_needed_besides_those_of_a_tool() -> None:
    site = Site(McpBlueprint(auth=make_auth()))
    site.rpc.add_group(make_group(), access=["write"])
    assert site.names() == []
    assert site.names(headers=basic("writer")) == ["articles.count", "articles.marked"]
    assert site.names(headers=basic("admin")) == ["articles.count", "articles.delete", "articles.marked"]


def test_one_group_can_be_in_several_blueprints() -> None:
    group = make_group()
    for name in ("one", "two"):
        rpc = McpBlueprint(name)
        rpc.add_group(group)
        assert Site(rpc).names() == ["articles.count", "articles.marked"]


def test_a_mistake_in_a_group_names_the_function_when_the_group_is_added() -> None:
    group = ToolGroup("articles")

    @group.tool("no spaces")
    def broken() -> None: ...

    with pytest.raises(ValueError, match=r"broken\(\): 'no spaces' cannot be a method's name"):
        McpBlueprint().add_group(group)


def test_a_group_takes_no_single_text_for_the_permissions_of_a_tool() -> None:
    """Its letters would be the permissions."""
    group = ToolGroup("articles")

    @group.tool(access="write")
    def create() -> None: ...

    with pytest.raises(TypeError, match=r"create\(\): access must be a list of permissions; write access=\['write'\]"):
        McpBlueprint().add_group(group)


@pytest.mark.parametrize("name", ["", "no spaces", None])
def test_a_group_needs_a_name_that_a_method_could_have(name: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="method's name"):
        ToolGroup(name)
