"""Every message we send in each protocol version obeys the rules of that version.

The rules are in `mcp_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema
import pytest

from flask_jsonrpc_mcp import (
    AudioContent,
    Elicit,
    EmbeddedResource,
    ImageContent,
    ListRoots,
    McpBlueprint,
    PromptMessage,
    ResourceLink,
    RpcError,
    Sample,
    TextContent,
    current_call,
    mcp_tool,
)
from flask_jsonrpc_mcp.mcp.protocol import MODERN, VERSIONS
from tests.conftest import Site, asking, basic, make_auth
from tests.support.answering import DECLINE, EVERYTHING, Respondent, sampled
from tests.support.mcp_messages import META, LegacyClient, ModernClient, client_of, events
from tests.support.mcp_rules import ERROR, check, check_notification, check_question, record

BLOCKS: list[Any] = [
    TextContent("x", annotations={"priority": 1}),
    ImageContent(b"1"),
    AudioContent(b"2"),
    ResourceLink("a:b", "c", title="t"),
    EmbeddedResource("a:b", b"c"),
    "d",
]

QUESTIONS = {
    "form": lambda: current_call.elicit("?", {"a": int, "b": str | None}).action,
    "page": lambda: current_call.elicit_url("?", "https://p.example").action,
    "model": lambda: current_call.sample(["a", PromptMessage(AudioContent(b"1"))], system_prompt="b").text,
    "folders": lambda: len(current_call.roots()),
    "all": lambda: len(current_call.ask(a=Elicit("?"), b=Sample("?"), c=ListRoots())),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(
        McpBlueprint(auth=make_auth()),
        SECRET_KEY="key",
        JSONRPC_MCP_PAGE_SIZE=3,
        JSONRPC_MCP_INSTRUCTIONS="Try.",
        JSONRPC_MCP_MAILBOX=tmp_path_factory.mktemp("mailbox"),
    )
    _declare_prompts_and_resources(site.rpc)
    for question, ask in QUESTIONS.items():
        site.tool(ask, name=question)

    @site.rpc.method("typed")
    @mcp_tool(title="Typed", annotations={"readOnlyHint": True, "title": "T", "own": [1]})
    def typed(a: Annotated[int, "A number"], b: str | None = None) -> dict[str, Any]:
        """Take and give objects."""
        if a < 0:
            raise RpcError("negative")
        return {"a": a, "b": b}

    for name, value in {
        "text": "x",
        "number": 1,
        "null": None,
        "array": [1, "a"],
        "block": TextContent("x", annotations={"priority": 1}),
        "blocks": BLOCKS,
    }.items():
        site.tool(lambda value=value: value, name=name, params={})

    @site.rpc.method("words")
    @mcp_tool
    def words() -> Iterator[str]:
        yield "a"

    @site.rpc.method("report")
    @mcp_tool
    def report() -> None:
        current_call.progress(1, 2, "half")
        current_call.progress(2.5)
        current_call.log("info", {"a": [1]}, "part")
        current_call.log("error", "text")

    return site


def _declare_prompts_and_resources(rpc: McpBlueprint) -> None:
    @rpc.prompt("blocks", title="Blocks")
    def blocks(a: Annotated[int, "A number", {"title": "A"}], b: Literal["x", "y"] = "x") -> list[Any]:
        """Say everything."""
        return [PromptMessage(block, "assistant") for block in BLOCKS]

    rpc.add_prompt("text", lambda: "said")
    rpc.add_prompt("ask", lambda: current_call.elicit("?").action)
    rpc.completer("blocks", "a")(lambda value: [str(number) for number in range(200)])
    audience = {"audience": ["user"], "priority": 0.5}
    rpc.add_resource("a://text", lambda: "x", name="x", title="X", mime_type="text/x", annotations=audience, max_age=5)
    rpc.add_resource("a://bytes", lambda: b"x", name="x")
    rpc.add_resource("a://ask", lambda: current_call.elicit("?").action, name="x")
    rpc.add_resource("a://several", lambda: [EmbeddedResource("a:b", b"c"), EmbeddedResource("a:c", "d")], name="x")
    rpc.add_resource("b://{n}", lambda n: None if n == "0" else {"n": n}, name="y", title="Y", mime_type="a/b")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_message_obeys_its_version(site: Site, version: str) -> None:
    client = client_of(version, site.client)
    opening = client.initialize() if isinstance(client, LegacyClient) else client.post("server/discover")
    check(version, "initialize" if isinstance(client, LegacyClient) else "server/discover", opening.get_json())
    if isinstance(client, LegacyClient):
        check(version, "ping", client.post("ping").get_json())
    names = [listed["name"] for listed in all_of(client, "tools/list", "tools")]
    assert len(names) == 14
    for name in [*names, "absent"]:
        check(version, "tools/call", client.call(name).get_json())
    for arguments in ({"a": 1}, {"a": -1}, {"a": "x"}):
        check(version, "tools/call", client.call("typed", arguments).get_json())
    for failure in (client.list(cursor="!"), client.post("nope", {})):
        check(version, "tools/list", failure.get_json())


def all_of(client: ModernClient | LegacyClient, method: str, member: str) -> list[Any]:
    """What a list has on all of its pages, each of which is checked."""
    listed: list[Any] = []
    params: dict[str, Any] = {}
    while True:
        page = client.post(method, params).get_json()
        check(client.version, method, page)
        listed += page["result"][member]
        if "nextCursor" not in page["result"]:
            return listed
        params = {"cursor": page["result"]["nextCursor"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_prompts_and_resources_obey_their_version(site: Site, version: str) -> None:
    client = client_of(version, site.client)
    prompts = [prompt["name"] for prompt in all_of(client, "prompts/list", "prompts")]
    for name in [*prompts, "absent"]:
        for arguments in ({}, {"a": "1"}, {"a": "x"}):
            check(version, "prompts/get", client.post("prompts/get", {"name": name, "arguments": arguments}).get_json())
    uris = [resource["uri"] for resource in all_of(client, "resources/list", "resources")]
    assert len(all_of(client, "resources/templates/list", "resourceTemplates")) == 1
    assert (len(prompts), len(uris)) == (3, 4)
    for uri in [*uris, "b://1", "b://0", "absent://1"]:
        check(version, "resources/read", client.post("resources/read", {"uri": uri}).get_json())
    for ref in (
        {"type": "ref/prompt", "name": "blocks"},
        {"type": "ref/prompt", "name": "absent"},
        {"type": "ref/resource", "uri": "b://{n}"},
    ):
        for name in ("a", "b", "n"):
            params = {"ref": ref, "argument": {"name": name, "value": ""}}
            check(version, "completion/complete", client.post("completion/complete", params).get_json())


@pytest.mark.parametrize("version", VERSIONS)
def test_notifications_obey_their_version(site: Site, version: str) -> None:
    client = client_of(version, site.client)
    meta = {"progressToken": "token"}
    if isinstance(client, LegacyClient):
        assert client.post("logging/setLevel", {"level": "debug"}).get_json()["result"] == {}
    else:
        meta[META + "logLevel"] = "debug"
    *notifications, reply = events(client.post("tools/call", {"name": "report", "arguments": {}, "_meta": meta}))
    assert len(notifications) == 4
    for notification in notifications:
        check_notification(version, notification)
    check(version, "tools/call", reply)


@pytest.mark.parametrize("version", VERSIONS)
def test_questions_obey_their_version(site: Site, version: str) -> None:
    client = client_of(version, site.client, capabilities=EVERYTHING)
    for name in QUESTIONS:
        asked = Respondent(client, answer_anything)
        check(version, "tools/call", asked.post("tools/call", {"name": name, "arguments": {}}))
        assert asked.asked or version < "2025-11-25"
        for question in asked.asked:
            check_question(version, question)
        if version == MODERN:
            check(version, "tools/call", client.call(name).get_json())
    for method, params in (("prompts/get", {"name": "ask"}), ("resources/read", {"uri": "a://ask"})):
        check(version, method, Respondent(client, answer_anything).post(method, params))
        if version == MODERN:
            check(version, method, client.post(method, params).get_json())


def answer_anything(question: dict[str, Any]) -> Any:
    if question["method"] == "roots/list":
        return {"roots": []}
    return sampled("yes") if question["method"] == "sampling/createMessage" else DECLINE


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_without_a_request_has_no_id(site: Site, version: str) -> None:
    """The schemas of MCP refuse a null id."""
    for response in (
        site.client.post("/mcp", data=b"{", content_type="application/json"),
        site.client.post("/mcp", json=asking("ping"), headers=basic("admin", "wrong")),
        site.client.get("/mcp"),
    ):
        jsonschema.validate(response.get_json(), record({"jsonrpc": {"const": "2.0"}, "error": ERROR}))


def test_the_rules_refuse_what_belongs_to_another_version() -> None:
    """Else the checks above would prove nothing."""
    called = {"content": [], "isError": False}
    for version, result in (
        (MODERN, called),
        ("2025-11-25", {**called, "resultType": "complete"}),
        ("2025-11-25", {**called, "structuredContent": [1]}),
        ("2025-03-26", {**called, "structuredContent": {}}),
        ("2024-11-05", {**called, "content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}),
        ("2025-11-25", {"resultType": "input_required", "inputRequests": {}, "requestState": ""}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            check(version, "tools/call", {"jsonrpc": "2.0", "id": 1, "result": result})
    others: list[tuple[str, str, Any]] = [
        ("2025-03-26", "prompts/list", {"prompts": [{"name": "a", "title": "b"}]}),
        ("2025-11-25", "prompts/list", {"prompts": [{"name": "a", "arguments": [{"name": "b", "type": "string"}]}]}),
        ("2025-03-26", "resources/list", {"resources": [{"uri": "a", "name": "b", "title": "c"}]}),
        ("2025-11-25", "resources/list", {"resources": [{"uri": "a"}]}),
        ("2025-11-25", "resources/read", {"contents": [], "ttlMs": 0}),
        (MODERN, "resources/read", {"contents": []}),
        ("2025-11-25", "completion/complete", {"completion": {"values": ["a"] * 101, "total": 1, "hasMore": False}}),
    ]
    for version, method, other in others:
        with pytest.raises(jsonschema.ValidationError):
            check(version, method, {"jsonrpc": "2.0", "id": 1, "result": other})
    page = {"method": "elicitation/create", "params": {"mode": "url", "message": "a", "url": "b"}}
    check_question(MODERN, page)
    with pytest.raises(jsonschema.ValidationError):
        check_question("2025-11-25", page)
