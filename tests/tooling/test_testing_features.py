"""The test kit with methods that report and ask, and with prompts and resources, in every version of MCP."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from flask_jsonrpc_mcp import Elicit, ListRoots, McpBlueprint, PromptMessage, RpcError, Sample, current_call, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from flask_jsonrpc_mcp.testing import LogMessage, McpTestClient, Progress
from tests.conftest import make_app, make_auth


@pytest.fixture
def app() -> Flask:
    rpc = McpBlueprint(auth=make_auth())

    @rpc.method
    @mcp_tool
    def count(to: int) -> int:
        """Count, and say so."""
        for number in range(1, to + 1):
            current_call.progress(number, to, f"at {number}")
        current_call.log("warning", {"counted": to}, logger="counter")
        if to > 5:
            raise RpcError("too far")
        return to

    @rpc.method
    @mcp_tool
    def book(nights: int) -> dict[str, Any]:
        """Book a stay."""
        person = current_call.elicit("Who travels?", {"name": str, "age": int}, key="person")
        if not person.accepted:
            return {"booked": False}
        advice = current_call.sample(f"A hotel for {person.content['name']}?", key="advice").text
        return {"booked": True, "name": person.content["name"], "nights": nights, "advice": advice}

    @rpc.method
    @mcp_tool
    def plan() -> dict[str, Any]:
        """Ask for all at once."""
        asked = current_call.ask(go=Elicit("Go?"), roots=ListRoots(), idea=Sample("Any idea?"))
        return {"go": asked["go"].action, "roots": [root.uri for root in asked["roots"]], "idea": asked["idea"].text}

    @rpc.method
    @mcp_tool(confirm="Delete {id}?")
    def delete(id: int) -> bool:
        """Delete something."""
        return True

    @rpc.prompt(access=["write"])
    def review(code: str, language: str = "Python") -> list[PromptMessage]:
        """Ask for a review."""
        return [PromptMessage(f"Review this {language}:"), PromptMessage(code, role="assistant")]

    @rpc.completer("review", "language")
    def languages(value: str, code: str = "") -> list[str]:
        return [name for name in ("Perl", "PHP", "Python") if name.startswith(value) and name not in code]

    @rpc.resource("shop://hours", mime_type="text/plain")
    def hours() -> str:
        """When we are open."""
        return "9 to 5"

    @rpc.resource("shop://items/{id}")
    def item(id: int) -> dict[str, Any] | None:
        """One item."""
        if id == 13:
            raise ValueError("unlucky")
        return {"id": id} if id < 100 else None

    @rpc.resource("shop://logo")
    def logo() -> bytes:
        """Our logo."""
        return b"\x89PNG"

    return make_app(rpc, SECRET_KEY="key")


@pytest.fixture(params=VERSIONS)
def client(app: Flask, request: pytest.FixtureRequest) -> McpTestClient:
    return McpTestClient(app, version=request.param)


@pytest.fixture(params=[version for version in VERSIONS if version >= "2025-06-18"])
def talker(app: Flask, request: pytest.FixtureRequest) -> McpTestClient:
    """A client of a version that has forms."""
    return McpTestClient(app, version=request.param)


def test_progress_and_log_of_a_call_are_collected(client: McpTestClient) -> None:
    result = client.call("count", {"to": 2}, listen=True)
    assert result.value == 2
    said = ["at 1", "at 2"] if client.version >= "2025-03-26" else [None, None]
    assert result.progress == [Progress(1, 2, said[0]), Progress(2, 2, said[1])]
    assert result.log == [LogMessage("warning", {"counted": 2}, "counter")]


def test_they_are_collected_for_a_call_that_fails_too(client: McpTestClient) -> None:
    result = client.call("count", {"to": 6}, listen=True)
    assert (result.error.message, len(result.progress), len(result.log)) == ("too far", 6, 1)
    assert isinstance(result.error.cause, RpcError)


def test_calls_that_report_nothing_can_be_listened_to(client: McpTestClient) -> None:
    assert client.call("count", {"to": "x"}, listen=True).progress == []


def test_questions_are_answered_one_after_the_other(talker: McpTestClient) -> None:
    answers = {"person": {"name": "Ada", "age": 36}, "advice": "The Ritz"}
    result = talker.call("book", {"nights": 2}, answers=answers)
    assert result.value == {"booked": True, "name": "Ada", "nights": 2, "advice": "The Ritz"}
    assert list(result.questions) == ["person", "advice"]
    assert result.questions["person"]["params"]["message"] == "Who travels?"


def test_questions_are_answered_all_at_once(talker: McpTestClient) -> None:
    result = talker.call("plan", answers={"go": "accept", "roots": ["file:///a"], "idea": "Sleep"})
    assert result.value == {"go": "accept", "roots": ["file:///a"], "idea": "Sleep"}


def test_a_person_can_decline(talker: McpTestClient) -> None:
    assert talker.call("book", {"nights": 2}, answers={"person": "decline"}).value == {"booked": False}
    refused = talker.call("delete", {"id": 3}, answers={"confirm": "cancel"})
    assert refused.error.message == "Not done: the user declined"
    assert talker.call("delete", {"id": 3}, answers={"confirm": "accept"}).value is True


def test_a_question_that_the_test_did_not_expect_fails_it(talker: McpTestClient) -> None:
    error = talker.call("book", {"nights": 2}).error
    key = "person" if talker.version == MODERN else "question-1"
    assert (error.slug, error.advice) == ("input_required", f"answer it: answers={{{key!r}: ...}}")


def test_an_answer_that_does_not_fit_fails_the_test_with_the_form(talker: McpTestClient) -> None:
    error = talker.call("book", {"nights": 2}, answers={"person": {"name": "Ada", "age": "old"}, "advice": "?"}).error
    assert error.slug == "input_required"
    assert str(error.advice).startswith("the answer to 'person' does not fit this form: {")
    assert "'age'" in str(error.advice)


def test_versions_without_forms_cannot_be_asked_for_them(app: Flask) -> None:
    result = McpTestClient(app, version="2025-03-26").call("book", {"nights": 2}, answers={"person": {}})
    assert result.error.slug == "missing_capability"


def test_a_client_without_capabilities_gets_missing_capability(app: Flask) -> None:
    plain = McpTestClient(app, capabilities={})
    for client in (plain, plain.over("mcp", version=LEGACY[0]), plain.over("rest"), plain.over("jsonrpc")):
        assert client.call("book", {"nights": 2}).error.slug == "missing_capability"


def test_prompts(client: McpTestClient) -> None:
    writer = client.as_user("writer", "writer")
    assert [prompt["name"] for prompt in writer.list_prompts()] == ["review"]
    result = writer.get_prompt("review", {"code": "x = 1"})
    assert [message["role"] for message in result.value] == ["user", "assistant"]
    assert result.text == "Review this Python:\nx = 1"
    assert writer.get_prompt("review", {"cod": "x"}).error.slug == "invalid_arguments"
    assert client.list_prompts() == []


def test_a_prompt_that_is_not_found_says_why(client: McpTestClient) -> None:
    error = client.as_user("reader", "reader").get_prompt("review").error
    assert error.message == "Unknown prompt: review"
    assert error.advice == "'review' needs permissions that 'reader' does not have: 'write'"
    assert client.get_prompt("revue").error.advice == "There is no prompt 'revue'; did you mean review?"


def test_resources(client: McpTestClient) -> None:
    assert [resource["uri"] for resource in client.list_resources()] == ["shop://hours", "shop://logo"]
    assert [template["uriTemplate"] for template in client.list_resource_templates()] == ["shop://items/{id}"]
    assert client.read_resource("shop://hours").value == client.read_resource("shop://hours").text == "9 to 5"
    assert client.read_resource("shop://items/7").value == {"id": 7}
    assert client.read_resource("shop://logo").value == b"\x89PNG"


def test_a_resource_that_cannot_be_read_says_why(client: McpTestClient) -> None:
    assert client.read_resource("shop://items/100").error.message == "Unknown resource: shop://items/100"
    assert client.read_resource("shop://hour").error.advice is not None
    assert isinstance(client.read_resource("shop://items/13").error.cause, ValueError)


def test_completion(client: McpTestClient) -> None:
    writer = client.as_user("writer", "writer")
    assert writer.complete("review", "language", "P") == ["Perl", "PHP", "Python"]
    assert writer.complete("review", "language", "P", context={"code": "Perl"}) == ["PHP", "Python"]
