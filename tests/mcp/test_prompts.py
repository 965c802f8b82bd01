"""Prompts: declared like methods, listed and got by clients of every version."""

from __future__ import annotations

import datetime
import logging
import re
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from flask_limiter import Limiter
from marshmallow import fields

from flask_jsonrpc_mcp import (
    AudioContent,
    Call,
    EmbeddedResource,
    ImageContent,
    McpBlueprint,
    PromptMessage,
    ResourceLink,
    RpcError,
    TextContent,
    mcp_tool,
    method_called,
)
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import Site, basic, make_app, make_auth
from tests.support.mcp_messages import LegacyClient, ModernClient, client_of, error, result


def text(said: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": said}}


def get(site: Site, name: str, version: str = MODERN, /, **arguments: Any) -> Any:
    return client_of(version, site.client).post("prompts/get", {"name": name, "arguments": arguments})


@pytest.fixture
def site() -> Site:
    return Site(McpBlueprint(), SECRET_KEY="key")


# Declaring


def test_the_decorator_returns_the_function_with_and_without_options() -> None:
    rpc = McpBlueprint()

    def greet(name: str) -> str:
        return f"Greet {name}."

    assert rpc.prompt(greet) is greet
    assert rpc.prompt("other", title="Other")(greet) is greet
    assert rpc.add_prompt("third", greet) is greet
    assert greet("Ann") == "Greet Ann."
    assert [prompt["name"] for prompt in McpTestClient(make_app(rpc)).list_prompts()] == ["greet", "other", "third"]


def takes_anything(*values: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda rpc, f: rpc.prompt("a b")(f), "f(): 'a b' cannot be a method's name; use 1 to 128 of the letters"),
        (lambda rpc, f: rpc.prompt(7)(f), "f(): a method's name must be a str, not int"),
        (
            lambda rpc, f: rpc.prompt("p", output={})(f),
            "f(): a prompt has no option 'output'; it has description, params, access, scopes, timeout, rate_limit,"
            " title",
        ),
        (lambda rpc, f: rpc.prompt("p", title=1)(f), "f(): title must be a str, not int"),
        (lambda rpc, f: rpc.prompt("p", title="a\u202eb")(f), "f(): title has the invisible character U+202E"),
        (lambda rpc, f: rpc.prompt("p", access="write")(f), "f(): access must be a list of permissions; write access="),
        (
            lambda rpc, f: rpc.prompt("p", timeout=0)(f),
            "f(): timeout must be a number of seconds greater than 0",
        ),
        (lambda rpc, f: rpc.prompt("p", rate_limit="1/day")(f), "f(): a rate limit needs a limiter"),
        (lambda rpc, f: rpc.prompt("p", params=[])(f), "f(): params must be a JSON Schema dict"),
        (lambda rpc, f: rpc.prompt(takes_anything), "takes_anything(): parameter '*values: "),
        (
            lambda rpc, f: rpc.prompt("p")(rpc.prompt("p")(f)),
            "f(): the name 'p' already belongs to f(); give one of them another name",
        ),
    ],
)
def test_mistakes_name_the_function_and_the_fix(declare: Any, problem: str) -> None:
    def f() -> str:
        return ""

    f.__qualname__ = "f"
    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        declare(McpBlueprint(), f)


def test_a_prompt_and_a_method_may_share_a_name(site: Site) -> None:
    site.tool(lambda: "run", name="same")
    site.rpc.add_prompt("same", lambda: "said")
    assert result(get(site, "same"))["messages"] == [text("said")]
    assert result(ModernClient(site.client).call("same"))["structuredContent"] == "run"
    assert site.invoke("same", {}).get_json() == {"result": "run"}


def test_a_prompt_is_no_method_elsewhere(site: Site) -> None:
    site.rpc.add_prompt("greet", lambda: "hi")
    assert site.invoke("greet", {}).status_code == 404
    assert site.rpc_post({"jsonrpc": "2.0", "method": "greet", "id": 1}).get_json()["error"]["code"] == -32601
    assert error(ModernClient(site.client).call("greet"))[1] == -32602
    assert site.names() == []


# Listing


def declare_summary(rpc: McpBlueprint) -> None:
    @rpc.prompt("summarise", title="Summarise", access=[])
    def summarise(
        id: Annotated[int, "Which article", {"title": "Article"}],
        length: Annotated[Literal["short", "long"], "How long"] = "short",
        tags: list[str] | None = None,
    ) -> str:
        """Summarise an article."""
        return f"{id} {length} {tags}"


@pytest.mark.parametrize("version", VERSIONS)
def test_prompts_are_described_as_each_version_knows_them(site: Site, version: str) -> None:
    """Titles came with 2025-06-18."""
    declare_summary(site.rpc)
    site.rpc.add_prompt("plain", lambda: "x")
    listed = result(client_of(version, site.client).post("prompts/list"))
    titled = version >= "2025-06-18"
    first = {"name": "id", "title": "Article", "description": "Which article", "required": True}
    summary = {
        "name": "summarise",
        "title": "Summarise",
        "description": "Summarise an article.",
        "arguments": [first, {"name": "length", "description": "How long"}, {"name": "tags"}],
    }
    if not titled:
        del summary["title"], first["title"]
    assert listed["prompts"] == [summary, {"name": "plain", "description": "plain"}]
    assert "nextCursor" not in listed


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_prompts_are_listed_page_by_page_in_the_order_they_were_added(version: str) -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_PAGE_SIZE=2)
    for name in "edcba":
        site.rpc.add_prompt(name, lambda: "")
    client = client_of(version, site.client)
    names: list[list[str]] = []
    params: dict[str, Any] = {}
    for _ in range(3):
        page = result(client.post("prompts/list", params))
        names.append([prompt["name"] for prompt in page["prompts"]])
        params = {"cursor": page.get("nextCursor")}
    assert names == [["e", "d"], ["c", "b"], ["a"]]
    assert params == {"cursor": None}
    assert result(client.post("prompts/list", {"cursor": "OTk="}))["prompts"] == []
    for wrong in ("!", 7, "LTE="):
        assert error(client.post("prompts/list", {"cursor": wrong}))[1] == -32602


def test_a_list_says_for_how_long_and_for_whom_it_is_good() -> None:
    for rpc, scope in ((McpBlueprint(), "public"), (McpBlueprint(auth=make_auth()), "private")):
        site = Site(rpc, JSONRPC_MCP_LIST_MAX_AGE=60)
        rpc.add_prompt("p", lambda: "")
        listed = result(ModernClient(site.client).post("prompts/list"))
        assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 60_000, scope)


def test_a_name_without_dots_is_a_matter_of_tools_only() -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_TOOL_NAME_STYLE="no-dots")
    site.rpc.add_prompt("a.b", lambda: "said")
    listed = result(ModernClient(site.client).post("prompts/list"))
    assert [prompt["name"] for prompt in listed["prompts"]] == ["a.b"]
    assert result(get(site, "a.b"))["messages"] == [text("said")]
    assert error(get(site, "a_b"))[1] == -32602


@pytest.mark.parametrize("version", VERSIONS)
def test_without_prompts_there_is_nothing_to_ask_for(site: Site, version: str) -> None:
    """What is not declared as a capability does not exist; adding a prompt at run time declares it."""
    client = client_of(version, site.client)
    opening = "server/discover" if version == MODERN else "initialize"

    def capabilities() -> Any:
        opened = client.initialize() if isinstance(client, LegacyClient) else client.post(opening)
        return result(opened)["capabilities"]

    for method in ("prompts/list", "prompts/get", "completion/complete"):
        assert error(client.post(method, {"name": "x"}))[1] == -32601
    assert "prompts" not in capabilities()
    site.rpc.add_prompt("x", lambda: "said")
    assert capabilities()["prompts"] == {}
    assert ("completions" in capabilities()) is (version >= "2025-03-26")
    assert result(client.post("prompts/get", {"name": "x"}))["messages"] == [text("said")]


def test_what_is_added_or_removed_is_so_at_once(site: Site) -> None:
    site.rpc.add_prompt("a", lambda: "one")
    client = ModernClient(site.client)

    def names() -> list[str]:
        return [prompt["name"] for prompt in result(client.post("prompts/list"))["prompts"]]

    assert names() == ["a"]
    site.rpc.add_prompt("b", lambda: "two")
    assert names() == ["a", "b"]
    site.rpc.remove_prompt("a")
    assert names() == ["b"]
    assert error(get(site, "a")) == (400, -32602, "Unknown prompt: a")
    with pytest.raises(KeyError):
        site.rpc.remove_prompt("a")
    site.rpc.add_prompt("a", lambda: "three")
    assert result(get(site, "a"))["messages"] == [text("three")]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_prompt_that_removes_itself_has_still_been_said(site: Site, version: str) -> None:
    def once() -> str:
        site.rpc.remove_prompt("once")
        return "said"

    site.rpc.add_prompt("once", once)
    site.rpc.add_prompt("other", lambda: "")
    assert result(get(site, "once", version))["messages"] == [text("said")]
    assert error(get(site, "once", version))[1] == -32602


def test_two_blueprints_have_prompts_of_their_own() -> None:
    one, two = McpBlueprint("one", url_prefix="/one"), McpBlueprint("two", url_prefix="/two")
    one.add_prompt("p", lambda: "first")
    two.add_prompt("q", lambda: "second")
    client = make_app(one, two).test_client()
    for prefix, there, absent in (("/one", "p", "q"), ("/two", "q", "p")):
        site = ModernClient(client, path=f"{prefix}/mcp")
        assert [prompt["name"] for prompt in result(site.post("prompts/list"))["prompts"]] == [there]
        assert error(site.post("prompts/get", {"name": absent}))[1] == -32602


# Arguments


@dataclass
class Point:
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("hint", "sent", "value"),
    [
        (str, "5", "5"),
        (str, "true", "true"),
        (str, "", ""),
        (int, "5", 5),
        (int, "-5", -5),
        (int, "5.0", 5),
        (int, 5, 5),
        (float, "1e3", 1000.0),
        (bool, "true", True),
        (bool, "false", False),
        (int | None, "null", None),
        (int | None, "7", 7),
        (str | None, "null", "null"),
        (int | str, "7", "7"),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
        (Literal["1", "2"], "1", "1"),
        (Literal[1, 2], "1", 1),
        (Point, '{"x": 1}', Point(1)),
        (Any, "5", "5"),
    ],
)
@pytest.mark.parametrize("version", [MODERN, LEGACY[-1]])
def test_arguments_arrive_as_texts_and_become_what_the_hints_say(
    site: Site, version: str, hint: Any, sent: Any, value: Any
) -> None:
    got = []

    def taken(value: Any) -> str:
        got.append(value)
        return ""

    taken.__annotations__ = {"value": hint, "return": str}
    site.rpc.add_prompt("p", taken)
    result(get(site, "p", version, value=sent))
    assert got == [value]
    assert type(got[0]) is type(value)


DEFINITIONS = {"point": {"$ref": "#/$defs/other"}, "other": {"type": "object"}}


def test_a_text_may_stand_for_what_a_definition_describes(site: Site) -> None:
    schema = {"properties": {"p": {"$ref": "#/$defs/point"}}, "required": ["p"], "$defs": DEFINITIONS}
    site.rpc.add_prompt("p", lambda p: str(p), params=schema)
    assert result(get(site, "p", p='{"x": 1}'))["messages"] == [text("{'x': 1}")]


def test_a_constant_says_what_a_text_stands_for(site: Site) -> None:
    schema = {"properties": {"a": {"const": 5}, "b": {"const": "5"}}, "required": ["a", "b"]}
    site.rpc.add_prompt("p", lambda a, b: f"{a!r} {b!r}", params=schema)
    assert result(get(site, "p", a="5", b="5"))["messages"] == [text("5 '5'")]


def test_a_marshmallow_schema_loads_the_texts(site: Site) -> None:
    loaded = {"day": fields.Date(required=True), "n": fields.Int(required=True)}
    site.rpc.add_prompt("p", lambda day, n: f"{day:%d.%m.%Y} {n + 1}", params=loaded)
    assert result(get(site, "p", day="2026-01-02", n="1"))["messages"] == [text("02.01.2026 2")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("arguments", "path"),
    [({}, "/id"), ({"id": "x"}, "/id"), ({"id": "1", "more": "2"}, "/more"), ({"id": [1]}, "/id")],
)
def test_arguments_that_do_not_fit_are_invalid_params(site: Site, version: str, arguments: Any, path: str) -> None:
    """Unlike a tool's they are an error of the protocol: no model reads the answer."""
    declare_summary(site.rpc)
    response = get(site, "summarise", version, **arguments)
    body = response.get_json()["error"]
    assert response.status_code == (400 if version == MODERN else 200)
    assert (body["code"], body["message"]) == (-32602, "Invalid params")
    assert [problem["path"] for problem in body["data"]["errors"]] == [path]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_params_that_are_none_of_a_prompt_are_refused(site: Site, version: str) -> None:
    declare_summary(site.rpc)
    client = client_of(version, site.client)
    for params in ({}, {"name": 7}, {"name": ["summarise"]}, {"name": "summarise", "arguments": [1]}):
        headers = {"Mcp_Name": "x"} if version == MODERN else {}
        assert client.post("prompts/get", params, **headers).get_json()["error"]["code"] in (-32602, -32020)


# Answering


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("returned", "messages"),
    [
        ("hi", [text("hi")]),
        ("", [text("")]),
        ([], []),
        (["a", "b"], [text("a"), text("b")]),
        (TextContent("x"), [text("x")]),
        (PromptMessage("hi", "assistant"), [text("hi", "assistant")]),
        ((PromptMessage("a"), PromptMessage("b", role="assistant")), [text("a"), text("b", "assistant")]),
        (
            ImageContent(b"1", "image/gif"),
            [{"role": "user", "content": {"type": "image", "data": "MQ==", "mimeType": "image/gif"}}],
        ),
        (
            EmbeddedResource("a:b", "c", "text/plain"),
            [
                {
                    "role": "user",
                    "content": {
                        "type": "resource",
                        "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "c"},
                    },
                }
            ],
        ),
    ],
)
def test_what_a_prompt_returns_becomes_messages(site: Site, version: str, returned: Any, messages: Any) -> None:
    site.rpc.add_prompt("p", lambda: returned, description="Say it.")
    got = result(get(site, "p", version))
    assert (got["description"], got["messages"]) == ("Say it.", messages)
    assert set(got) - {"description", "messages"} == ({"resultType", "_meta"} if version == MODERN else set())


@pytest.mark.parametrize("version", VERSIONS)
def test_content_that_a_version_does_not_know_is_told_in_words(site: Site, version: str) -> None:
    site.rpc.add_prompt("p", lambda: [AudioContent(b"1"), ResourceLink("a:b", "Report")])
    sound, link = [message["content"] for message in result(get(site, "p", version))["messages"]]
    known = {"type": "audio", "data": "MQ==", "mimeType": "audio/wav"}
    assert sound == (known if version >= "2025-03-26" else {"type": "text", "text": "[audio of type audio/wav]"})
    named = {"type": "resource_link", "uri": "a:b", "name": "Report"}
    assert link == (named if version >= "2025-06-18" else {"type": "text", "text": "Report: a:b"})


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_async_and_generator_functions_are_prompts_too(site: Site, version: str) -> None:
    async def later() -> str:
        return "later"

    def one_by_one() -> Iterator[PromptMessage]:
        yield PromptMessage("a")
        yield PromptMessage("b", "assistant")

    async def one_by_one_later() -> AsyncIterator[PromptMessage]:
        yield PromptMessage("c")

    for function in (later, one_by_one, one_by_one_later):
        site.rpc.prompt(function)
    assert result(get(site, "later", version))["messages"] == [text("later")]
    assert result(get(site, "one_by_one", version))["messages"] == [text("a"), text("b", "assistant")]
    assert result(get(site, "one_by_one_later", version))["messages"] == [text("c")]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(
    "wrong",
    [None, 5, {"role": "user"}, [1], PromptMessage("x", "system"), PromptMessage(7), "\ud800"],  # type: ignore[arg-type]
)
def test_what_is_no_message_is_logged_and_not_told(
    site: Site, version: str, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site.rpc.add_prompt("p", lambda: wrong)
    status, code, message = error(get(site, "p", version))
    assert (status, code) == (200, -32603)
    assert message.startswith("Internal error, see the server log for id ")
    assert message.rpartition(" ")[2] in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_what_fails_in_a_prompt_is_an_error_of_the_protocol(
    site: Site, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(how: str) -> str:
        if how == "expected":
            raise RpcError("no such article", code=-32044, data={"id": 7})
        raise ValueError("secret")

    site.rpc.prompt(fail)
    response = get(site, "fail", version, how="expected")
    assert response.status_code == 200
    assert response.get_json()["error"] == {"code": -32044, "message": "no such article", "data": {"id": 7}}
    response = get(site, "fail", version, how="unexpected")
    message = response.get_json()["error"]["message"]
    assert (response.status_code, response.get_json()["error"]["code"]) == (200, -32603)
    assert "secret" not in response.text
    assert "secret" in caplog.text
    assert message.rpartition(" ")[2] in caplog.text


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_prompt_that_takes_too_long_is_given_up(site: Site, version: str) -> None:
    over = threading.Event()
    site.rpc.add_prompt("slow", lambda: str(over.wait(30)), timeout=0.01)
    assert error(get(site, "slow", version)) == (200, -32003, "The method has not ended after 0.01 seconds")
    over.set()


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_prompt_can_have_a_rate_limit(version: str) -> None:
    limiter = Limiter(lambda: "unused", storage_uri="memory://")
    site = Site(McpBlueprint(limiter=limiter), SECRET_KEY="key")
    limiter.init_app(site.app)
    site.rpc.add_prompt("rare", lambda: "once", rate_limit="1/hour")
    site.rpc.add_prompt("often", lambda: "again")
    site.tool(lambda: "a tool's count is its own", name="rare", rate_limit="1/hour")
    assert "own" in client_of(version, site.client).call("rare").text
    result(get(site, "rare", version))
    refused = get(site, "rare", version)
    assert error(refused)[:2] == (429, -32005)
    assert int(refused.headers["Retry-After"]) > 0
    result(get(site, "often", version))


def test_a_call_of_a_prompt_is_logged_and_signalled_like_any_other(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.rpc.add_prompt("p", lambda: "x")
    heard: list[Any] = []

    def hear(app: Any, call: Call, method: Any, outcome: str, **_: Any) -> None:
        heard.append((call.kind, call.name, method and method.name, outcome))

    with method_called.connected_to(hear, site.app), caplog.at_level(logging.INFO):
        get(site, "p")
        get(site, "absent")
    assert heard == [("prompt", "p", "p", "ok"), ("prompt", "absent", None, "tool_not_found")]
    assert "call face=mcp name='p' caller='' outcome=ok" in caplog.text


# Access

CALLERS = [None, "reader", "writer", "admin"]


@pytest.fixture
def guarded() -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
    site.rpc.add_prompt("public", lambda: "for all")
    site.rpc.add_prompt("hidden", lambda: "for some", access=["write", "administer"])
    return site


@pytest.mark.parametrize("version", [MODERN, LEGACY[0], LEGACY[-1]])
@pytest.mark.parametrize("caller", CALLERS)
def test_a_prompt_one_may_not_use_is_as_one_that_is_not_there(guarded: Site, version: str, caller: str | None) -> None:
    client = client_of(version, guarded.client, headers=basic(caller) if caller else {})
    names = [prompt["name"] for prompt in result(client.post("prompts/list"))["prompts"]]
    got = {name: client.post("prompts/get", {"name": name}) for name in ("public", "hidden", "absent")}
    assert result(got["public"])["messages"] == [text("for all")]
    if caller == "admin":
        assert names == ["public", "hidden"]
        assert result(got["hidden"])["messages"] == [text("for some")]
        return
    assert names == ["public"]
    assert got["hidden"].status == got["absent"].status
    assert got["hidden"].data.replace(b"hidden", b"absent") == got["absent"].data
    assert list(got["hidden"].headers) == list(got["absent"].headers)
    status = 401 if caller is None else 400 if version == MODERN else 200
    assert error(got["hidden"]) == (status, -32602, "Unknown prompt: hidden")
    assert ("WWW-Authenticate" in got["hidden"].headers) is (caller is None)


def test_without_sign_in_an_unknown_prompt_is_just_unknown(site: Site) -> None:
    site.rpc.add_prompt("hidden", lambda: "", access=["write"])
    for name in ("hidden", "absent"):
        assert error(get(site, name)) == (400, -32602, f"Unknown prompt: {name}")
        assert error(get(site, name, LEGACY[0])) == (200, -32602, f"Unknown prompt: {name}")


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_wrong_credentials_are_refused_before_anything(guarded: Site, version: str) -> None:
    for method in ("prompts/list", "prompts/get"):
        response = client_of(version, guarded.client, headers=basic("admin", "wrong")).post(method, {"name": "public"})
        assert response.status_code == 401


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(("caller", "status"), [(None, 401), ("reader", 403), ("admin", 200)])
def test_listing_can_take_permissions_of_its_own(version: str, caller: str | None, status: int) -> None:
    site = Site(McpBlueprint(auth=make_auth(), discover_access=["administer"]), SECRET_KEY="key")
    site.rpc.add_prompt("public", lambda: "for all")
    client = client_of(version, site.client, headers=basic(caller) if caller else {})
    assert client.post("prompts/list").status_code == status
    assert result(client.post("prompts/get", {"name": "public"}))["messages"] == [text("for all")]


def test_the_mark_of_a_tool_says_nothing_about_a_prompt(site: Site) -> None:
    """One function may be both."""

    @site.rpc.prompt
    @site.rpc.method
    @mcp_tool(requires=["sampling"])
    def both(n: int) -> str:
        return str(n + 1)

    assert result(get(site, "both", n="1"))["messages"] == [text("2")]
