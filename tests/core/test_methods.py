"""The two decorators: what they make of a function, and which mistakes they refuse."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import flask_jsonrpc_mcp
from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from tests.conftest import Site, make_app


def test_the_public_names() -> None:
    """Adding a public name is a decision."""
    assert sorted(flask_jsonrpc_mcp.__all__) == [
        "AudioContent",
        "CachedPasswords",
        "Call",
        "Caller",
        "Elicit",
        "ElicitUrl",
        "Elicited",
        "EmbeddedResource",
        "ImageContent",
        "ListRoots",
        "McpBlueprint",
        "PromptMessage",
        "ResourceLink",
        "Root",
        "RpcError",
        "SIGNED_IN",
        "Sample",
        "Sampled",
        "Secret",
        "TaskOptions",
        "TextContent",
        "ToolGroup",
        "ToolResult",
        "current_call",
        "mcp_tool",
        "method_called",
    ]


def test_both_decorators_return_the_very_function() -> None:
    rpc = McpBlueprint()

    def func(a: int) -> int:
        return a + 1

    assert mcp_tool(func) is func
    assert mcp_tool(title="T")(func) is func
    assert rpc.method(func) is func
    assert rpc.method("again")(func) is func
    assert rpc.add_method("third", func) is func
    assert func(1) == 2


@pytest.mark.parametrize("method_first", [True, False])
@pytest.mark.parametrize("bare", [True, False])
def test_either_order_bare_or_called(site: Site, method_first: bool, bare: bool) -> None:
    def func() -> str:
        """Greets."""
        return "hello"

    mark: Any = mcp_tool if bare else mcp_tool(title="Greeting")
    add: Any = site.rpc.method if bare else site.rpc.method("greet")
    if method_first:
        mark(add(func))
    else:
        add(mark(func))
    [tool] = site.list_tools().get_json()["tools"]
    assert tool["name"] == ("func" if bare else "greet")
    assert tool.get("title") == (None if bare else "Greeting")
    assert tool["description"] == "Greets."


def test_a_method_that_is_not_marked_is_no_tool(site: Site) -> None:
    @site.rpc.method
    def hidden() -> int:
        return 1

    assert site.names() == []
    assert site.describe("hidden").status_code == 404
    assert site.invoke("hidden", {}).status_code == 404


def test_one_function_under_two_names_and_on_two_blueprints(site: Site) -> None:
    other = Site(McpBlueprint())

    @mcp_tool
    @other.rpc.method("c")
    @site.rpc.method("b")
    @site.rpc.method("a")
    def func() -> None: ...

    assert site.names() == ["a", "b"]
    assert other.names() == ["c"]


def test_a_tool_shows_exactly_what_was_declared(site: Site) -> None:
    @site.rpc.method("node.create", description="Create a node.", output={"type": "boolean"})
    @mcp_tool(title="Create node", annotations={"destructiveHint": False, "category": "content"})
    def create(title: str, kind: str = "page") -> bool:
        return True

    assert site.list_tools().get_json()["tools"] == [
        {
            "name": "node.create",
            "title": "Create node",
            "description": "Create a node.",
            "inputSchema": {
                "type": "object",
                "properties": {"title": {"type": "string"}, "kind": {"type": "string", "default": "page"}},
                "required": ["title"],
                "additionalProperties": False,
            },
            "outputSchema": {"type": "boolean"},
            "annotations": {"destructiveHint": False, "category": "content"},
        }
    ]


def test_what_is_not_declared_is_left_out_of_a_list(site: Site) -> None:
    site.tool(lambda: 1, name="bare")
    [tool] = site.list_tools().get_json()["tools"]
    assert list(tool) == ["name", "description", "inputSchema"]
    assert tool["description"] == "bare"
    assert tool["inputSchema"]["properties"] == {}


def test_properties_keep_the_declared_order(site: Site) -> None:
    def func(zebra: int, apple: int, mango: int = 1) -> None: ...

    site.tool(func)
    assert (
        site.list_tools().data.index(b"zebra")
        < site.list_tools().data.index(b"apple")
        < site.list_tools().data.index(b"mango")
    )


def func() -> None: ...


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("with space", "cannot be a method's name"),
        ("", "cannot be a method's name"),
        ("a/b", "cannot be a method's name"),
        ("é", "cannot be a method's name"),
        ("x" * 129, "cannot be a method's name"),
        ("line\n", "cannot be a method's name"),
        ("rpc.discover", "JSON-RPC reserves names"),
        (7, "must be a str, not int"),
    ],
)
def test_a_bad_name_raises(name: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        McpBlueprint().add_method(name, func)
    assert "func()" in str(caught.value)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 128])
def test_a_good_name_is_taken(name: str) -> None:
    McpBlueprint().add_method(name, func)


def test_a_name_can_be_given_only_once() -> None:
    rpc = McpBlueprint()
    rpc.add_method("twice", func)

    def other() -> None: ...

    with pytest.raises(ValueError, match=r"other\(\): the name 'twice' already belongs to func\(\)"):
        rpc.add_method("twice", other)


@pytest.mark.parametrize("name", ["list", "describe", "invoke"])
def test_a_tool_cannot_take_the_name_of_a_path(name: str) -> None:
    def tool() -> None: ...

    with pytest.raises(ValueError, match=rf"tool\(\): a tool cannot be called '{name}'"):
        McpBlueprint().add_method(name, mcp_tool(tool))

    def late() -> None: ...

    rpc = McpBlueprint()
    mcp_tool(rpc.add_method(name, late))
    with pytest.raises(ValueError, match=r"late\(\): a tool cannot be called"):
        make_app(rpc)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"annotations": ["readOnlyHint"]}, "annotations must be a dict"),
        ({"annotations": {"readOnlyHint": "yes"}}, "'readOnlyHint' must be True or False"),
        ({"annotations": {"destructiveHint": 1}}, "'destructiveHint' must be True or False"),
        ({"annotations": {"x": 1j}}, "annotations: complex cannot be serialised as JSON"),
        ({"title": 5}, "title must be a str"),
        ({"title": "Pay\u202eee"}, r"invisible character U\+202E"),
    ],
    ids=str,
)
def test_a_bad_mark_raises(options: dict[str, Any], says: str) -> None:
    def troubled() -> None: ...

    with pytest.raises((TypeError, ValueError), match=says) as caught:
        mcp_tool(**options)(troubled)
    assert "troubled()" in str(caught.value)


@pytest.mark.parametrize("text", ["a\x00b", "a\x1b[31m", "a\u200bb", "a\U000e0041", "a\u202e"])
def test_a_description_a_person_could_not_see_raises(text: str) -> None:
    """Descriptions are read by models: what people cannot see must not be in them."""
    with pytest.raises(ValueError, match="description has the invisible character"):
        McpBlueprint().add_method("f", func, description=text)


@pytest.mark.parametrize("access", ["write", [1], [""], [None], None])
def test_access_must_be_a_list_of_permissions(access: Any) -> None:
    with pytest.raises(TypeError, match="access must be a list of permissions"):
        McpBlueprint().add_method("f", func, access=access)


def test_validate_output_must_be_true_or_false() -> None:
    with pytest.raises(TypeError, match=r"func\(\): validate_output must be True or False, not 'no'"):
        McpBlueprint().add_method("f", func, validate_output="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("age", [-1, "60", True, 1.5])
def test_max_age_must_be_whole_seconds(age: Any) -> None:
    with pytest.raises(ValueError, match=r"func\(\): max_age must be a whole number of seconds"):
        McpBlueprint().add_method("f", func, max_age=age)


def test_an_option_that_does_not_exist_raises() -> None:
    with pytest.raises(TypeError, match=r"func\(\): a method has no option 'permission'; it has description, params"):
        McpBlueprint().add_method("f", func, permission=["write"])  # type: ignore[call-arg]


def test_the_decorator_called_with_a_function_keeps_its_options() -> None:
    site = Site(McpBlueprint())

    @mcp_tool
    def wipe() -> None: ...

    site.rpc.method(wipe, access=["admin"])  # type: ignore[call-overload]
    assert site.names() == []
    assert site.invoke("wipe", {}).status_code == 404


def test_marking_a_wrapper_leaves_what_it_wraps_alone() -> None:
    """``functools.wraps`` copies the attributes of a function, and what is known of it must not go along."""
    site = Site(McpBlueprint())

    @site.rpc.method("private")
    def private() -> str:
        return "private"

    @site.rpc.method("wrapper")
    @mcp_tool
    @functools.wraps(private)
    def wrapper() -> str:
        return "wrapped"

    assert site.names() == ["wrapper"]
    assert site.invoke("private", {}).status_code == 404


def test_a_mark_goes_through_a_decorator_that_wraps() -> None:
    site = Site(McpBlueprint())

    def twice(func: Any) -> Any:
        @functools.wraps(func)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs) * 2

        return inner

    @site.rpc.method("doubled")
    @twice
    @mcp_tool(title="Doubled")
    def number(n: int) -> int:
        return n

    assert site.invoke("doubled", {"n": 2}).get_json() == {"result": 4}
    assert site.describe("doubled").get_json()["tool"]["title"] == "Doubled"


def test_a_second_mark_is_for_the_second_blueprint() -> None:
    first, second = Site(McpBlueprint()), Site(McpBlueprint())

    def shared() -> None: ...

    first.rpc.add_method("x", mcp_tool(title="First")(shared))
    second.rpc.add_method("x", mcp_tool(title="Second")(shared))
    titles = [site.describe("x").get_json()["tool"]["title"] for site in (first, second)]
    assert titles == ["First", "Second"]


def test_a_title_must_be_given_by_name() -> None:
    with pytest.raises(TypeError, match=r"write @mcp_tool\(title='Create'\)"):
        mcp_tool("Create")  # type: ignore[call-overload]


def test_a_partial_is_described_by_its_function() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    site = Site(McpBlueprint())
    site.tool(functools.partial(add, b=1), name="increment")
    assert site.describe("increment").get_json()["tool"]["description"] == "Add two numbers."


@pytest.mark.parametrize("permissions", ["see tools", None, [5]])
def test_discover_access_must_be_a_list_of_permissions(permissions: Any) -> None:
    with pytest.raises(TypeError, match="discover_access must be a list of permissions"):
        McpBlueprint(discover_access=permissions)


def test_what_cannot_be_marked_says_so() -> None:
    with pytest.raises(TypeError, match=r"cannot be marked; register it with rpc\.add_tool"):
        mcp_tool(len)


def test_a_built_in_can_be_a_method_with_a_schema(site: Site) -> None:
    site.rpc.add_method("length", len, params={"properties": {"text": {"type": "string"}}})
    assert site.names() == []


def test_a_nameless_callable_needs_a_name() -> None:
    class Nameless:
        def __call__(self) -> None: ...

    with pytest.raises(TypeError, match="has no name of its own"):
        McpBlueprint().add_method(None, Nameless())
