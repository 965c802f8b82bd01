"""The kit for the tests of other people's apps, used as they would."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from flask import Flask, request, session

from flask_jsonrpc_mcp import ImageContent, McpBlueprint, RpcError, TextContent, ToolResult, mcp_tool
from flask_jsonrpc_mcp.doctor import examine
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from flask_jsonrpc_mcp.problems import Problem
from flask_jsonrpc_mcp.testing import FACES, CallFailed, McpTestClient, assert_tools_valid
from tests.conftest import make_app, make_auth, make_token_auth

WAYS = [("rest", MODERN), ("jsonrpc", MODERN), *(("mcp", version) for version in VERSIONS)]


@pytest.fixture
def app() -> Flask:
    """A shop with everything that a test might want to see."""
    rpc = McpBlueprint(auth=make_auth())

    @rpc.method("price")
    @mcp_tool(title="Price", annotations={"readOnlyHint": True})
    def price(item: Annotated[str, {"maxLength": 5}], count: int = 1) -> dict[str, Any]:
        """Tell a price."""
        if item == "gold":
            raise RpcError("gold is not for sale", code=-32050, data={"item": item})
        return {"price": len(item) // (count - 7)}

    @rpc.method("echo")
    @mcp_tool
    def echo(value: Any):  # type: ignore[no-untyped-def]
        return value

    @rpc.method("words")
    @mcp_tool
    def words() -> list[str]:
        return ["egg", "ham"]

    @rpc.method("say")
    @mcp_tool
    def say(text: str) -> str:
        return text

    @rpc.method("stock", access=["write"])
    @mcp_tool
    def stock() -> str:
        return "plenty"

    @rpc.method("inner")
    def inner() -> str:
        return "not a tool"

    @rpc.method("picture")
    @mcp_tool
    def picture() -> list[TextContent | ImageContent]:
        return [TextContent("a dot"), ImageContent(b"png")]

    @rpc.method("chart")
    @mcp_tool
    def chart() -> ToolResult:
        return ToolResult({"total": 42}, content="42 in all")

    return make_app(rpc, SECRET_KEY="key")


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def client(app: Flask, request: pytest.FixtureRequest) -> McpTestClient:
    face, version = request.param
    return McpTestClient(app, face=face, version=version)


def test_a_call_gives_its_value_on_every_face(client: McpTestClient) -> None:
    result = client.call("price", {"item": "egg", "count": 8})
    assert result
    assert result.ok
    assert result.value == {"price": 3}
    assert result.text == '{"price":3}'
    assert result.status == 200


@pytest.mark.parametrize(
    "value", [None, 0, "", "five", "ünï", [1, {"a": None}], {"result": 5}, {"result": {"a": 1}}, {}]
)
def test_any_value_is_the_same_on_every_face(client: McpTestClient, value: Any) -> None:
    assert client.call("echo", {"value": value}).value == value


def test_declared_values_are_the_same_on_every_face(client: McpTestClient) -> None:
    assert client.call("words").value == ["egg", "ham"]
    assert client.call("say", {"text": "5"}).value == "5"


def test_content_is_what_a_model_is_shown(client: McpTestClient) -> None:
    result = client.call("picture")
    assert [block["type"] for block in result.content] == ["text", "image"]
    assert result.text == "a dot"


def test_faces_without_content_show_the_value(app: Flask) -> None:
    result = McpTestClient(app).call("chart")
    assert (result.value, result.text) == ({"total": 42}, "42 in all")
    assert McpTestClient(app, face="rest").call("chart").text == '{"total":42}'


def test_wrong_arguments_are_the_same_problems_on_every_face(client: McpTestClient) -> None:
    error = client.call("price", {"item": "golden", "cuont": 1}).error
    assert (error.slug, error.code) == ("invalid_arguments", -32602)
    assert error.paths == ["/item", "/cuont"]
    assert error.problems[1] == Problem("/cuont", "is not expected here")
    assert error.cause is None


def test_an_expected_failure_is_the_same_on_every_face(client: McpTestClient) -> None:
    error = client.call("price", {"item": "gold"}).error
    assert (error.slug, error.code, error.message) == ("execution_error", -32050, "gold is not for sale")
    assert error.data == {"item": "gold"}
    assert isinstance(error.cause, RpcError)


def test_the_exception_of_a_bug_is_shown_to_the_test_alone(client: McpTestClient) -> None:
    result = client.call("price", {"item": "egg", "count": 7})
    assert (result.error.slug, result.error.code) == ("execution_error", -32603)
    assert "ZeroDivisionError" not in str(result.reply)
    with pytest.raises(CallFailed, match="because of ZeroDivisionError: ") as caught:
        result.value  # noqa: B018 (it raises)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    seen = pytest.ExceptionInfo.from_exception(caught.value.__cause__).traceback
    assert [entry.name for entry in seen] == ["price"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("pirce", "There is no method 'pirce'; did you mean price or picture?"),
        ("stock", "'stock' needs permissions that 'reader' does not have: 'write'"),
    ],
)
def test_a_name_that_is_not_found_says_why_to_the_test_alone(client: McpTestClient, name: str, advice: str) -> None:
    result = client.as_user("reader", "reader").call(name)
    assert (result.error.slug, result.error.code) == ("tool_not_found", -32601)
    assert result.error.advice == advice
    assert "permissions" not in str(result.reply)


def test_a_method_that_is_no_tool_says_so(app: Flask) -> None:
    assert McpTestClient(app, face="jsonrpc").call("inner").value == "not a tool"
    assert McpTestClient(app).call("inner").error.advice == (
        "'inner' is not a tool, so only JSON-RPC and the command line can call it; @rpc.tool makes it one"
    )


def test_signing_in_makes_another_client(client: McpTestClient) -> None:
    assert client.call("stock").error.slug == "unauthorized"
    assert client.as_user("writer", "writer").call("stock").value == "plenty"
    assert client.as_user("writer", "wrong").call("stock").error.slug == "unauthorized"
    assert client.call("stock").error.slug == "unauthorized"


def test_a_token_signs_in() -> None:
    rpc = McpBlueprint(auth=make_token_auth())
    rpc.add_method("stock", mcp_tool(lambda: "plenty"), access=["write"])
    client = McpTestClient(make_app(rpc)).with_token("writer-token")
    assert client.call("stock").value == "plenty"
    assert client.with_headers({"Authorization": ""}).call("stock").error.slug == "unauthorized"


def test_tools_are_listed_page_by_page_to_the_end(client: McpTestClient) -> None:
    client.app.config["JSONRPC_MCP_PAGE_SIZE"] = 2
    names = [tool["name"] for tool in client.list_tools()]
    assert ("inner" in names) == (client.face == "jsonrpc")
    assert [name for name in names if name != "inner"] == ["price", "echo", "words", "say", "picture", "chart"]
    assert "stock" in [tool["name"] for tool in client.as_user("writer", "writer").list_tools()]


def test_a_tool_is_described(client: McpTestClient) -> None:
    assert client.describe("price")["description"] == "Tell a price."
    with pytest.raises(AssertionError, match="'stock' not found or access denied"):
        client.describe("stock")


def test_a_list_that_is_refused_says_why() -> None:
    client = McpTestClient(make_app(McpBlueprint(auth=make_auth(), require_auth=True)))
    for face in FACES:
        with pytest.raises(CallFailed, match="Valid credentials are required") as caught:
            client.over(face).list_tools()
        assert (caught.value.failure.slug, caught.value.failure.code) == ("unauthorized", -32600)
    with pytest.raises(CallFailed, match="Valid credentials are required"):
        client.over("mcp", version=LEGACY[0]).list_tools()


def test_a_failure_explains_itself_in_full(app: Flask) -> None:
    with pytest.raises(CallFailed) as caught:
        McpTestClient(app).call("price", {"item": "golden", "cuont": 1}).value  # noqa: B018 (it raises)
    assert str(caught.value) == (
        "price failed on mcp 2026-07-28: invalid_arguments (-32602, HTTP 200)\n"
        "  /item: must have at most 5 characters\n"
        "  /cuont: is not expected here\n"
        "  called with {'item': 'golden', 'cuont': 1}"
    )


def test_a_failure_that_was_expected_and_did_not_come_shows_the_value(app: Flask) -> None:
    with pytest.raises(AssertionError, match=r"say should fail on rest, but returned 'hello'"):
        McpTestClient(app, face="rest").call("say", {"text": "hello"}).error  # noqa: B018 (it raises)


def test_results_show_what_they_are(app: Flask) -> None:
    client = McpTestClient(app, face="rest")
    assert repr(client.as_user("ada", "secret")) == "<McpTestClient of 'site' on rest>"
    assert repr(client.over("mcp")) == "<McpTestClient of 'site' on mcp 2026-07-28>"
    assert repr(client.call("say", {"text": "hello"})) == "<say on rest returned 'hello'>"
    failed = client.call("price", {"item": "gold"})
    assert repr(failed) == "<price on rest failed, execution_error: gold is not for sale>"
    assert failed.text == "gold is not for sale"
    assert not failed


def test_positional_arguments_go_by_jsonrpc(app: Flask) -> None:
    assert McpTestClient(app, face="jsonrpc").call("say", ["hello"]).value == "hello"


def test_arguments_that_travel_in_headers_are_mirrored() -> None:
    rpc = McpBlueprint()
    seen = []

    @rpc.method
    @mcp_tool
    def near(
        place: Annotated[str, {"x-mcp-header": "Place"}], open: Annotated[bool, {"x-mcp-header": "Open"}] = False
    ) -> str:
        seen.append(request.headers.get("Mcp-Param-Open"))
        return place

    client = McpTestClient(make_app(rpc))
    assert client.call("near", {"place": "Zürich", "open": True}).value == "Zürich"
    assert client.call("near", {"place": " x"}).value == " x"
    assert seen == ["true", None]


def test_several_blueprints_are_chosen_by_name() -> None:
    one, other = McpBlueprint("one", url_prefix="/1"), McpBlueprint("other", url_prefix="/2")
    one.add_method("which", mcp_tool(lambda: "one"))
    other.add_method("which", mcp_tool(lambda: "other"))
    app = make_app(one, other)
    for face in FACES:
        assert McpTestClient(app, face=face, blueprint="other").call("which").value == "other"
    with pytest.raises(LookupError, match="several McpBlueprints, 'one', 'other'; choose one"):
        McpTestClient(app)
    with pytest.raises(LookupError, match="no McpBlueprint 'third'; it has 'one', 'other'"):
        McpTestClient(app, blueprint="third")


def test_mistakes_in_using_the_kit_say_what_is_right(app: Flask) -> None:
    with pytest.raises(LookupError, match="has no McpBlueprint; register one"):
        McpTestClient(Flask("empty"))
    with pytest.raises(ValueError, match="face must be one of 'mcp', 'jsonrpc', 'rest', not 'soap'"):
        McpTestClient(app, face="soap")
    with pytest.raises(ValueError, match="version must be one of 2026-07-28, "):
        McpTestClient(app, version="2023-01-01")
    with pytest.raises(ValueError, match="only MCP has prompts and resources; this client uses 'rest'"):
        McpTestClient(app, face="rest").list_prompts()


@pytest.mark.parametrize(
    "config",
    [
        {"JSONRPC_MCP_ALLOWED_HOSTS": ["site.example", "other.example"]},
        {"JSONRPC_MCP_ALLOWED_HOSTS": [".site.example"]},
        {"TRUSTED_HOSTS": ["site.example"]},
        {"SERVER_NAME": "site.example"},
        {"APPLICATION_ROOT": "/below"},
        {"PREFERRED_URL_SCHEME": "https"},
    ],
    ids=lambda config: next(iter(config)),
)
def test_the_app_is_reached_by_a_name_of_its_own(config: dict[str, Any]) -> None:
    rpc = McpBlueprint()
    rpc.add_method("where", mcp_tool(lambda: request.url_root))
    root = McpTestClient(make_app(rpc, **config)).call("where").value
    expected = {"APPLICATION_ROOT": "http://localhost/below/", "PREFERRED_URL_SCHEME": "https://localhost/"}
    assert root == expected.get(next(iter(config)), "http://site.example/")


def test_answers_that_are_not_ours_are_failures_too() -> None:
    """Such as the page of an app that is closed for today."""
    app = make_app(McpBlueprint())
    app.before_request(lambda: ("closed", 503))
    for face in FACES:
        error = McpTestClient(app, face=face).call("anything").error
        assert (error.slug, error.message) == ("http_503", "HTTP 503 Service Unavailable")


def test_a_flask_client_can_bring_its_cookies() -> None:
    rpc = McpBlueprint()
    rpc.add_method("cart", mcp_tool(lambda: session.get("cart", 0)))
    app = make_app(rpc, SECRET_KEY="key")
    http = app.test_client()
    with http.session_transaction() as cookies:
        cookies["cart"] = 3
    assert McpTestClient(app, http=http).call("cart").value == 3
    assert McpTestClient(app).call("cart").value == 0


def test_calls_in_several_threads_observe_only_themselves(app: Flask) -> None:
    client = McpTestClient(app, face="rest")
    together = threading.Barrier(4)

    @app.before_request
    def meet() -> None:
        together.wait(timeout=30)

    items = ["gold", "golden", "egg", "silver"]
    with ThreadPoolExecutor(4) as pool:
        errors = list(pool.map(lambda item: client.call("price", {"item": item, "count": 7}).error, items))
    assert [error.code for error in errors] == [-32050, -32602, -32603, -32602]


def test_a_healthy_app_passes() -> None:
    rpc = McpBlueprint()

    @rpc.method
    @mcp_tool(annotations={"readOnlyHint": True})
    def say(text: str) -> str:
        """Say something."""
        return text

    assert_tools_valid(make_app(rpc))
    with pytest.raises(AssertionError, match="no-secret-key\\n"):
        assert_tools_valid(make_app(rpc), tools_only=False)


def test_what_is_only_good_to_know_does_not_fail_a_test() -> None:
    """granian, which sends no events while a method runs, is installed wherever these tests run."""
    rpc = McpBlueprint()
    rpc.add_method("look", mcp_tool(lambda: 1), description="Look.", streams=True)
    app = make_app(rpc, SECRET_KEY="key")
    assert [finding.severity for finding in examine(app)] == ["info"]
    assert_tools_valid(app, tools_only=False)


def test_an_app_that_is_not_says_what_to_do() -> None:
    rpc = McpBlueprint()
    for name in ("a.b", "a.c"):
        rpc.add_method(name, mcp_tool(lambda: 1), description="One.")
    app = make_app(rpc)
    with pytest.raises(AssertionError) as caught:
        assert_tools_valid(app)
    assert str(caught.value) == (
        "flask mcp doctor finds problems in 'site'\n"
        "\n"
        "warning name-dots: a.b, a.c\n"
        "  some clients and model APIs accept only letters, digits, '_' and '-' in the name of a tool\n"
        "  fix: set JSONRPC_MCP_TOOL_NAME_STYLE = 'no-dots', or choose a name without dots\n"
        "\n"
        "to ignore what is intended: assert_tools_valid(app, ignore=['name-dots'])"
    )
    assert_tools_valid(app, ["name-dots"])
    app.config["JSONRPC_MCP_DOCTOR_IGNORE"] = ["name-dots:a.b"]
    assert_tools_valid(app, ["name-dots:a.c"])
    with pytest.raises(AssertionError, match=r"name-dots: a\.c\n"):
        assert_tools_valid(app)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Someone's project with a test of a tool, as the README shows it."""
    pytester.makeconftest(
        """
        import pytest
        from flask import Flask
        from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

        @pytest.fixture
        def app():
            rpc = McpBlueprint()

            @rpc.method("add")
            @mcp_tool
            def add(a: int, b: int) -> int:
                return a // b + b

            app = Flask("theirs")
            app.register_blueprint(rpc)
            return app
        """
    )
    return pytester


def test_pytest_has_a_fixture_for_the_app_of_a_project(project: pytest.Pytester) -> None:
    project.makepyfile('def test_add(mcp):\n    assert mcp.call("add", {"a": 4, "b": 2}).value == 4')
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_failing_test_of_a_project_shows_where_the_method_failed(project: pytest.Pytester) -> None:
    project.makepyfile('def test_add(mcp):\n    assert mcp.call("add", {"a": 4, "b": 0}).value == 4')
    ran = project.runpytest_subprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        [
            "*return a // b + b",
            "E *ZeroDivisionError*",
            "E *flask_jsonrpc_mcp.testing.CallFailed: add failed on mcp 2026-07-28: execution_error (-32603, HTTP 200)",
            "*called with {'a': 4, 'b': 0}",
            "*because of ZeroDivisionError: *",
        ]
    )


def test_the_plugin_imports_nothing_of_ours_until_it_is_used(project: pytest.Pytester) -> None:
    """Or coverage would miss the lines that run when our modules, or an app, are imported."""
    project.makeconftest("")
    project.makepyfile(
        """
        import sys

        def test_nothing(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("flask_jsonrpc_mcp")
            assert not [name for name in sys.modules if name == "flask" or name.startswith("flask_jsonrpc_mcp")]
        """
    )
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
