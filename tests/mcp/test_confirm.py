"""Tools that ask before they run: ``@mcp_tool(confirm=...)``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask_limiter import Limiter

from flask_jsonrpc_mcp import Elicit, McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS, WITH_BATCHES
from tests.conftest import Site, asking, basic, make_app, make_auth
from tests.support.answering import CANCEL, DECLINE, EVERYTHING, Respondent, accept, outcome, questions_of
from tests.support.mcp_messages import LegacyClient, ModernClient, client_of, error, result

ERAS = [MODERN, LEGACY[0]]
REFUSED = "Not done: the user declined"
CANNOT_CONFIRM = (
    "Not done: the user must confirm this first, and this MCP client cannot ask. Connect a client with the"
    " capability elicitation to /mcp (before 2026-07-28 it must also accept text/event-stream), or declare the tool"
    " with confirm_required=False to run it without the question"
)


@pytest.fixture
def deleted() -> list[Any]:
    return []


@pytest.fixture
def site(tmp_path: Path, deleted: list[Any]) -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=tmp_path)

    @site.rpc.method("delete")
    @mcp_tool(confirm="Delete article {id}, {why}?")
    def delete(id: int, why: str | None = None) -> str:
        deleted.append(id)
        return f"deleted {id}"

    return site


def deleting(deleted: list[Any]) -> Callable[[int], None]:
    def delete(id: int) -> None:
        deleted.append(id)

    return delete


def person(site: Site, version: str, *answers: Any) -> Respondent:
    return Respondent(client_of(version, site.client, capabilities={"elicitation": {}}), list(answers))


@pytest.mark.parametrize("version", ERAS)
def test_a_person_who_agrees_lets_the_method_run(site: Site, version: str, deleted: list[Any]) -> None:
    client = person(site, version, accept())
    assert client.call("delete", {"id": 7, "why": "old"}) == "deleted 7"
    assert deleted == [7]
    [question] = client.asked
    assert question["params"]["message"] == 'Delete article 7, "old"?'
    assert question["params"]["requestedSchema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("answer", [DECLINE, CANCEL])
def test_a_person_who_does_not_keeps_it_from_running(site: Site, version: str, answer: Any, deleted: list[Any]) -> None:
    assert person(site, version, answer).call("delete", {"id": 7}) == REFUSED
    assert deleted == []


@pytest.mark.parametrize("version", ERAS)
def test_an_answer_that_is_none_is_asked_for_again(site: Site, version: str, deleted: list[Any]) -> None:
    client = person(site, version, {"action": "yes"}, "accept", accept())
    assert client.call("delete", {"id": 7}) == "deleted 7"
    assert len(client.asked) == 3
    assert deleted == [7]


def test_nobody_can_say_yes_before_they_were_asked(site: Site, deleted: list[Any]) -> None:
    """A model could add the answer to its call; only the state says that the question was put."""
    client = ModernClient(site.client, capabilities=EVERYTHING)
    key = next(iter(questions_of(client, "delete", {"id": 7})["inputRequests"]))
    params = {"name": "delete", "arguments": {"id": 7}, "inputResponses": {key: accept()}}
    assert result(client.post("tools/call", params))["resultType"] == "input_required"
    state = questions_of(client, "delete", {"id": 8})["requestState"]
    assert error(client.post("tools/call", {**params, "requestState": state}))[:2] == (400, -32602)
    assert deleted == []


def test_a_yes_that_came_before_the_question_stays_without_effect(site: Site, deleted: list[Any]) -> None:
    """Answers of earlier rounds are part of the state; that signs them, and not that they were asked for."""
    client = ModernClient(site.client, capabilities=EVERYTHING)
    params = {"name": "delete", "arguments": {"id": 7}, "inputResponses": {"confirm": accept()}}
    for _ in range(3):
        needed = result(client.post("tools/call", params))
        assert needed["resultType"] == "input_required"
        params = {"name": "delete", "arguments": {"id": 7}, "requestState": needed["requestState"]}
    assert deleted == []


@pytest.mark.parametrize("version", LEGACY)
def test_a_yes_in_the_request_of_an_older_client_is_not_looked_at(site: Site, version: str, deleted: list[Any]) -> None:
    state = questions_of(ModernClient(site.client, capabilities=EVERYTHING), "delete", {"id": 7})["requestState"]
    params = {"name": "delete", "arguments": {"id": 7}, "inputResponses": {"confirm": accept()}, "requestState": state}
    client = person(site, version, DECLINE)
    assert outcome(client.post("tools/call", params)).startswith("Not done")
    assert deleted == []


def test_a_yes_to_another_question_is_none(site: Site, deleted: list[Any]) -> None:
    """A tool that is confirmed asks again when what it asks has changed meanwhile."""
    client = ModernClient(site.client, capabilities=EVERYTHING)
    needed = questions_of(client, "delete", {"id": 7})
    site.rpc.remove_method("delete")
    site.rpc.add_method("delete", mcp_tool(confirm="Delete all {id}?")(deleting(deleted)))
    responses = {key: accept() for key in needed["inputRequests"]}
    params = {"name": "delete", "arguments": {"id": 7}, "inputResponses": responses}
    second = result(client.post("tools/call", {**params, "requestState": needed["requestState"]}))
    assert second["resultType"] == "input_required"
    assert deleted == []


CANNOT_ASK: list[dict[str, Any]] = [{}, {"elicitation": {"url": {}}}, {"sampling": {}}]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("capabilities", CANNOT_ASK)
def test_clients_that_cannot_ask_are_refused(
    site: Site, version: str, capabilities: dict[str, Any], deleted: list[Any]
) -> None:
    refused = result(client_of(version, site.client, capabilities=capabilities).call("delete", {"id": 7}))
    assert (refused["isError"], refused["content"][0]["text"], deleted) == (True, CANNOT_CONFIRM, [])


@pytest.mark.parametrize("accepted", ["*/*", "application/json", "text/html", ""])
def test_older_clients_that_do_not_accept_events_are_refused(site: Site, accepted: str, deleted: list[Any]) -> None:
    """There is no way to send them the question."""
    client = LegacyClient(site.client, capabilities=EVERYTHING, headers={"Accept": accepted})
    assert outcome(client.call("delete", {"id": 7}).get_json()) == CANNOT_CONFIRM
    batching = LegacyClient(site.client, WITH_BATCHES, capabilities=EVERYTHING)
    batching.initialize()
    [reply] = batching.send([asking("tools/call", {"name": "delete", "arguments": {"id": 7}})]).get_json()
    assert (outcome(reply), deleted) == (CANNOT_CONFIRM, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_may_say_that_it_runs_unasked(site: Site, version: str, deleted: list[Any]) -> None:
    site.rpc.add_tool(deleting(deleted), "trash", confirm="Trash {id}?", confirm_required=False)
    for capabilities in CANNOT_ASK:
        client = client_of(version, site.client, capabilities=capabilities)
        assert result(client.call("trash", {"id": 7}))["isError"] is False
    assert deleted == [7, 7, 7]
    if version >= "2025-06-18":  # who can be asked, is
        assert person(site, version, DECLINE).call("trash", {"id": 7}) == REFUSED
        assert deleted == [7, 7, 7]


def test_that_it_runs_unasked_needs_a_question() -> None:
    for options in ({"confirm_required": False}, {"confirm": None, "confirm_required": False}):
        with pytest.raises(ValueError, match=r"nothing\(\): confirm_required=False needs confirm"):
            mcp_tool(**options)(nothing)
    with pytest.raises(TypeError, match=r"nothing\(\): confirm_required must be True or False, not 'no'"):
        mcp_tool(confirm="Sure?", confirm_required="no")(nothing)  # type: ignore[call-overload]


def test_curl_and_json_rpc_run_it_unasked(site: Site, deleted: list[Any]) -> None:
    assert site.invoke("delete", {"id": 1}).get_json() == {"result": "deleted 1"}
    for number, path in ((2, "/jsonrpc"), (3, "/mcp/tools/delete")):
        assert site.rpc_post(asking("delete", {"id": number}), path).get_json()["result"] == f"deleted {number}"
    assert site.rpc_post(asking("delete", [4])).get_json()["result"] == "deleted 4"
    assert deleted == [1, 2, 3, 4]


@pytest.mark.parametrize("version", ERAS)
def test_a_tool_that_requires_elicitation_refuses_them_instead(site: Site, version: str, deleted: list[Any]) -> None:
    strict = mcp_tool(confirm="Wipe {id}?", requires=["elicitation"])(deleting(deleted))
    site.rpc.add_method("wipe", strict)
    assert error(client_of(version, site.client).call("wipe", {"id": 7}))[1] == -32021
    assert site.invoke("wipe", {"id": 7}).get_json()["error"]["code"] == "missing_capability"
    assert site.rpc_post(asking("wipe", {"id": 7})).get_json()["error"]["code"] == -32021
    assert deleted == []
    assert person(site, version, accept()).call("wipe", {"id": 7}) is None
    assert deleted == [7]


@pytest.mark.parametrize("version", ERAS)
def test_arguments_and_access_are_checked_before_anyone_is_asked(site: Site, version: str, deleted: list[Any]) -> None:
    assert person(site, version).call("delete", {"id": "x"}).startswith("Invalid arguments: /id")
    site.rpc.add_method("hidden", mcp_tool(confirm="Sure?")(lambda: "x"), access=["administer"])
    client = client_of(version, site.client, capabilities=EVERYTHING, headers=basic("writer"))
    assert error(client.call("hidden"))[1] == -32602
    assert deleted == []


@pytest.mark.parametrize("version", ERAS)
def test_a_confirmed_method_may_ask_more(site: Site, version: str) -> None:
    @mcp_tool(confirm="Sure?")
    def ask() -> str:
        more = current_call.ask(why=Elicit("Why?", {"why": str}), when=Elicit("When?", {"when": str}))
        return f"{more['why'].content['why']} {more['when'].content['when']}"

    site.rpc.method(ask)
    client = person(site, version, accept(), accept(why="so"), accept(when="now"))
    assert client.call("ask") == "so now"
    assert [question["params"]["message"] for question in client.asked] == ["Sure?", "Why?", "When?"]


@pytest.mark.parametrize("version", ERAS)
def test_the_key_of_the_confirmation_is_taken(site: Site, version: str, caplog: pytest.LogCaptureFixture) -> None:
    """Clients in tests and scripts answer by it."""

    @mcp_tool(confirm="Sure?")
    def ask() -> str:
        return current_call.elicit("Really?", key="confirm").action

    site.rpc.method(ask)
    client = person(site, version, accept())
    assert client.call("ask").startswith("Internal error")
    assert "the key 'confirm' belongs to another question; give each its own key" in caplog.text


@pytest.mark.parametrize("version", ERAS)
def test_asking_first_does_not_count_as_a_call(version: str, tmp_path: Path, deleted: list[Any]) -> None:
    limiter = Limiter(lambda: "unused", storage_uri="memory://")
    site = Site(McpBlueprint(limiter=limiter), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=tmp_path)
    limiter.init_app(site.app)
    site.rpc.add_method("delete", mcp_tool(confirm="Delete {id}?")(deleting(deleted)), rate_limit="1/hour")
    assert person(site, version, DECLINE).call("delete", {"id": 6}) == REFUSED
    assert person(site, version, accept()).call("delete", {"id": 7}) is None
    assert person(site, version, accept()).call("delete", {"id": 8}).startswith("Too many calls")
    assert deleted == [7]


# The text


SHOWN: list[tuple[Any, str]] = [
    ("a", '"a"'),
    (7, "7"),
    (1.5, "1.5"),
    (True, "true"),
    (None, "none"),
    ("none", '"none"'),
    ([1, "a"], '[1,"a"]'),
    ({"a": None}, '{"a":null}'),
    ("{id}", '"{id}"'),
    ("", '""'),
    ("grüße, 日本, नमस्ते, שלום, 👍", '"grüße, 日本, नमस्ते, שלום, 👍"'),
    ('7" now, and "8', r'"7\" now, and \"8"'),
    ("C:\\new", r'"C:\\new"'),
    ("a\nb\r\tc\x00d\x1b[31m\x7f\x9b", r'"a\nb\r\tc\u0000d\u001b[31m\u007f\u009b"'),
    ("\u0085\u2028\u2029\u000b", r'"\u0085\u2028\u2029\u000b"'),  # other ends of lines
    ("7\u202e\u2066\u200f", r'"7\u202e\u2066\u200f"'),  # right to left
    ("\u200b\u2060\ufeff\xad\u034f\ufe0f", r'"\u200b\u2060\ufeff\u00ad\u034f\ufe0f"'),  # of no width
    ("\xa0\u3000\u3164\u2800", r'"\u00a0\u3000\u3164\u2800"'),  # other blanks
    ("\U000e0041\U000e0100", r'"\udb40\udc41\udb40\udd00"'),  # letters that only a model reads
    (["\u202e"], r'["\u202e"]'),
    ({"\u202e": '"'}, r'{"\u202e":"\""}'),
    ("x" * 200, '"' + "x" * 200 + '"'),
    ("x" * 500, '"' + "x" * 200 + '"…'),
    ("\n" * 500, '"' + r"\n" * 200 + '"…'),
    (["x" * 500], '["' + "x" * 198 + "…"),
    (10**300, "1" + "0" * 199 + "…"),
]


@pytest.mark.parametrize(("given", "shown"), SHOWN)
def test_arguments_are_quoted_so_that_people_see_where_they_end(site: Site, given: Any, shown: str) -> None:
    site.rpc.add_method("show", mcp_tool(confirm="Show {value}?")(lambda value: value))
    needed = questions_of(ModernClient(site.client, capabilities=EVERYTHING), "show", {"value": given})
    [question] = needed["inputRequests"].values()
    assert question["params"]["message"] == f"Show {shown}?"


def with_default(a: int = 5, b: str | None = None, c: bool = False) -> None: ...


def test_arguments_that_are_not_given_are_shown_as_their_defaults(site: Site) -> None:
    site.rpc.add_method("show", mcp_tool(confirm="{a} {b} {c} {{d}}?")(with_default))
    needed = questions_of(ModernClient(site.client, capabilities=EVERYTHING), "show")
    [question] = needed["inputRequests"].values()
    assert question["params"]["message"] == "5 none false {d}?"


def test_what_is_declared_without_rules_is_shown_too(site: Site) -> None:
    site.rpc.add_method("show", mcp_tool(confirm="{a}?")(lambda a=1: a), params={"properties": {"a": True}})
    client = ModernClient(site.client, capabilities=EVERYTHING)
    for arguments, shown in (({}, "none?"), ({"a": 2}, "2?")):
        [question] = questions_of(client, "show", arguments)["inputRequests"].values()
        assert question["params"]["message"] == shown


def parameters(id: int, name: str = "") -> None: ...


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("func", "confirm", "problem"),
    [
        (
            parameters,
            "Delete {ID}?",
            "parameters(): 'Delete {ID}?' uses {ID}, but the function has no parameter 'ID' (it has: id, name)",
        ),
        (
            parameters,
            "{id.real}?",
            "parameters(): '{id.real}?' uses {id.real}, but the function has no parameter 'id.real' (it has: id, name)",
        ),
        (parameters, "{}?", "parameters(): '{}?' uses {}, but the function has no parameter '' (it has: id, name)"),
        (nothing, "{id}?", "nothing(): '{id}?' uses {id}, but the function has no parameter 'id' (it has: none)"),
        (parameters, "{id:03}?", "parameters(): '{id:03}?' can use {id} only without a format or conversion"),
        (parameters, "{id!r}?", "parameters(): '{id!r}?' can use {id} only without a format or conversion"),
        (parameters, "{id?", "parameters(): expected '}' before end of string"),
        (parameters, "id}?", "parameters(): Single '}' encountered in format string"),
        (parameters, 7, "parameters(): confirm must be a str, not int"),
        (parameters, "a\u202eb", "parameters(): confirm has the invisible character U+202E; remove it"),
    ],
)
@pytest.mark.parametrize("marked_first", [True, False])
def test_mistakes_in_the_text_are_found_before_the_app_starts(
    func: Any, confirm: Any, problem: str, marked_first: bool
) -> None:
    rpc = McpBlueprint()

    def copy(*args: Any) -> None: ...

    copy.__qualname__, copy.__signature__, copy.__annotations__ = (  # type: ignore[attr-defined]
        func.__qualname__,
        inspect.signature(func),
        func.__annotations__,
    )

    def declare() -> None:
        decorators: list[Callable[[Any], Any]] = [rpc.method("m"), mcp_tool(confirm=confirm)]
        for decorate in decorators[::-1] if marked_first else decorators:
            decorate(copy)
        make_app(rpc)

    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        declare()


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_that_wants_a_confirmation_runs_without_a_key(deleted: list[Any], version: str) -> None:
    """Without one nobody can be asked, and of older clients nobody even knows whether they could be."""
    site = Site(McpBlueprint())
    site.rpc.add_method("delete", mcp_tool(confirm="Delete {id}?")(deleting(deleted)))
    refused = result(client_of(version, site.client, capabilities=EVERYTHING).call("delete", {"id": 7}))
    assert (refused["isError"], refused["content"][0]["text"], deleted) == (
        True,
        "This server cannot ask: its SECRET_KEY is not set",
        [],
    )


def test_one_confirmation_is_good_for_one_run(site: Site, deleted: list[Any]) -> None:
    client = ModernClient(site.client, capabilities=EVERYTHING)
    asked = result(client.call("delete", {"id": 7}))
    again = {
        "name": "delete",
        "arguments": {"id": 7},
        "requestState": asked["requestState"],
        "inputResponses": {"confirm": {"action": "accept"}},
    }
    assert result(client.post("tools/call", again))["isError"] is False
    assert (error(client.post("tools/call", again))[:2], deleted) == ((400, -32602), [7])


def test_a_person_who_declined_is_asked_again_before_it_runs(site: Site, deleted: list[Any]) -> None:
    client = ModernClient(site.client, capabilities=EVERYTHING)
    state = questions_of(client, "delete", {"id": 7})["requestState"]
    again = {"name": "delete", "arguments": {"id": 7}, "requestState": state}
    declined = result(client.post("tools/call", {**again, "inputResponses": {"confirm": DECLINE}}))
    assert declined["content"][0]["text"] == REFUSED
    accepted = client.post("tools/call", {**again, "inputResponses": {"confirm": accept()}})
    assert (error(accepted)[:2], deleted) == ((400, -32602), [])
