"""Methods that ask their client: the same method and the same answers in both eras."""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from marshmallow import fields

from flask_jsonrpc_mcp import (
    AudioContent,
    Elicit,
    ElicitUrl,
    EmbeddedResource,
    ListRoots,
    McpBlueprint,
    PromptMessage,
    RpcError,
    Sample,
    ask,
    current_call,
    mcp_tool,
    method_called,
)
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from tests.conftest import Site, asking
from tests.support.answering import CANCEL, DECLINE, EVERYTHING, Respondent, accept, questions_of, sampled
from tests.support.mcp_messages import LegacyClient, ModernClient, client_of, error

ERAS = [MODERN, LEGACY[0]]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=tmp_path)


def respondent(site: Site, version: str, answers: Any, **capabilities: Any) -> Respondent:
    client = client_of(version, site.client, capabilities=capabilities or EVERYTHING)
    return Respondent(client, answers)


# Forms


@dataclasses.dataclass
class Trip:
    to: str
    day: datetime.date | None = None


class Stay(TypedDict, total=False):
    to: str


SPELLINGS = {
    "dict of hints": ({"to": str}, {"to": "Bonn"}, {"to": "Bonn"}),
    "dataclass": (Trip, {"to": "Bonn", "day": "2026-01-02"}, Trip("Bonn", datetime.date(2026, 1, 2))),
    "TypedDict": (Stay, {"to": "Bonn"}, {"to": "Bonn"}),
    "marshmallow": ({"to": fields.String(), "n": fields.Integer()}, {"to": "Bonn", "n": 2}, {"to": "Bonn", "n": 2}),
    "JSON Schema": (
        {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        {"to": "Bonn"},
        {"to": "Bonn"},
    ),
    "nothing": (None, {}, {}),
}


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2025-06-18"])
@pytest.mark.parametrize(("schema", "content", "value"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_person_is_asked_in_every_spelling_of_a_form(
    site: Site, version: str, schema: Any, content: Any, value: Any
) -> None:
    got: list[Any] = []

    def ask() -> str:
        answer = current_call.elicit("Where to?", schema)
        got.append((answer.action, answer.accepted, answer.content))
        return "done"

    site.tool(ask)
    client = respondent(site, version, [accept(**content)])
    assert client.call("ask") == "done"
    assert got == [("accept", True, value)]
    [question] = client.asked
    assert question["method"] == "elicitation/create"
    assert question["params"].pop("requestedSchema")["type"] == "object"
    mode = {"mode": "form"} if version == MODERN else {}
    assert question["params"] == {**mode, "message": "Where to?"}


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("answer", [DECLINE, CANCEL, {**DECLINE, "content": {"to": "Bonn"}}])
def test_a_person_may_not_want_to(site: Site, version: str, answer: Any) -> None:
    def ask() -> list[Any]:
        answer = current_call.elicit("Where to?", {"to": str})
        return [answer.action, answer.accepted, answer.content]

    site.tool(ask)
    assert respondent(site, version, [answer]).call("ask") == [answer["action"], False, None]


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    "unusable",
    [
        {},
        [],
        "accept",
        None,
        {"action": "maybe"},
        {"action": ["accept"]},
        accept(),
        accept(n="x"),
        {"action": "accept"},
        {"action": "accept", "content": [1]},
        {"action": "accept", "content": None},
    ],
)
def test_an_answer_that_is_none_is_asked_for_again(site: Site, version: str, unusable: Any) -> None:
    site.tool(lambda: current_call.elicit("How many?", {"n": int}).content["n"], name="ask")
    client = respondent(site, version, [unusable, accept(n=5)])
    assert client.call("ask") == 5
    assert len(client.asked) == 2
    assert client.asked[0] == client.asked[1]


@pytest.mark.parametrize("version", ERAS)
def test_a_client_may_leave_out_the_content_of_an_empty_form(site: Site, version: str) -> None:
    for answer in ({"action": "accept"}, {"action": "accept", "content": None}, accept(more=1)):
        site.tool(lambda: current_call.elicit("Sure?").accepted, name="ask")
        assert respondent(site, version, [answer]).call("ask") is True
        site.rpc.remove_method("ask")


def test_a_client_whose_answers_never_fit_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it is we who ask again; a client of 2026-07-28 sends its request again by itself."""
    monkeypatch.setattr(ask, "MAX_ROUNDS", 3)
    site.tool(lambda: current_call.elicit("How many?", {"n": int}).action, name="ask")
    client = respondent(site, LEGACY[0], lambda question: accept())
    assert client.call("ask")["message"] == "The client was asked 3 times, and its answers did not fit the questions"
    assert len(client.asked) == 3


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda: current_call.elicit("Trip?", {"trip": Trip}), "'trip': a form can ask for a text, a number, true or"),
        (lambda: current_call.elicit({"to": str}), "the message of a question must be a str, not dict"),  # type: ignore[arg-type]
        (lambda: current_call.elicit("\ud800"), "surrogates not allowed"),
        (lambda: current_call.elicit("A?", key=7), "the key of a question must be a str, not int"),  # type: ignore[arg-type]
        (lambda: current_call.ask(a="A?"), "'a' must be an Elicit, ElicitUrl, Sample or ListRoots, not str"),  # type: ignore[arg-type]
        (lambda: current_call.elicit_url("Pay", 7), "the url of a question must be a str, not int"),  # type: ignore[arg-type]
        (lambda: current_call.sample(7), "int is not a content block"),  # type: ignore[arg-type]
        (lambda: current_call.sample("Hi", options={"temperature": object()}), "object cannot be serialised as JSON"),
        (
            lambda: current_call.sample(PromptMessage(EmbeddedResource("a:b", "c"))),
            "sampling takes text, image and audio content, not resource",
        ),
    ],
)
def test_a_question_that_cannot_be_put_is_a_mistake_of_the_method(
    site: Site, version: str, ask: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.tool(ask, name="ask")
    assert respondent(site, version, []).call("ask").startswith("Internal error")
    assert problem in caplog.text


# Pages


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("answer", [{"action": "accept"}, DECLINE, CANCEL])
def test_a_person_is_asked_to_open_a_page(site: Site, version: str, answer: Any) -> None:
    site.tool(lambda: current_call.elicit_url("Please pay", "https://pay.example/7").action, name="ask")
    client = respondent(site, version, [answer], elicitation={"url": {}})
    assert client.call("ask") == answer["action"]
    [question] = client.asked
    if version != MODERN:
        assert len(question["params"].pop("elicitationId")) == 32
    assert question == {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Please pay", "url": "https://pay.example/7"},
    }


# Models and folders


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_of_the_client_is_asked(site: Site, version: str) -> None:
    def ask() -> list[Any]:
        answer = current_call.sample(
            [PromptMessage("Hi"), PromptMessage("Hello", "assistant"), "Bye"],
            max_tokens=7,
            system_prompt="Be kind.",
            options={"temperature": 0.5, "stopSequences": ["."]},
        )
        return [answer.text, answer.content, answer.model, answer.stop_reason]

    site.tool(ask)
    client = respondent(site, version, [sampled("Good bye")])
    assert client.call("ask") == ["Good bye", [{"type": "text", "text": "Good bye"}], "m", "endTurn"]
    assert client.asked == [
        {
            "method": "sampling/createMessage",
            "params": {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": "Hi"}},
                    {"role": "assistant", "content": {"type": "text", "text": "Hello"}},
                    {"role": "user", "content": {"type": "text", "text": "Bye"}},
                ],
                "systemPrompt": "Be kind.",
                "temperature": 0.5,
                "stopSequences": ["."],
                "maxTokens": 7,
            },
        }
    ]


@pytest.mark.parametrize("version", ["2025-03-26", "2024-11-05"])
def test_a_model_is_sent_what_its_version_knows(site: Site, version: str) -> None:
    site.tool(lambda: current_call.sample(PromptMessage(AudioContent(b"1"))).text, name="ask")
    client = respondent(site, version, [sampled('"heard"')])
    assert client.call("ask") == "heard"
    known = {"type": "audio", "data": "MQ==", "mimeType": "audio/wav"}
    content = known if version == "2025-03-26" else {"type": "text", "text": "[audio of type audio/wav]"}
    assert client.asked[0]["params"]["messages"] == [{"role": "user", "content": content}]


@pytest.mark.parametrize("version", ERAS)
def test_a_model_may_answer_in_several_blocks(site: Site, version: str) -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "", "mimeType": "a/b"},
        {"type": "text", "text": "b"},
    ]
    unusable = [{}, "text", {"model": "m"}, {"model": "m", "content": []}, {"model": "m", "content": [1]}, {"model": 1}]
    site.tool(lambda: current_call.sample("Hi").text, name="ask")
    answers = [*unusable, {"role": "assistant", "model": "m", "content": blocks}]
    client = respondent(site, version, answers)
    assert client.call("ask") == "ab"
    assert len(client.asked) == len(unusable) + 1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_folders_of_the_client_are_asked_for(site: Site, version: str) -> None:
    site.tool(lambda: [[root.uri, root.name] for root in current_call.roots()], name="ask")
    roots = [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}, {"uri": "file:///c", "name": 7}]
    client = respondent(site, version, [{"roots": [{}]}, {"roots": {}}, {"roots": roots}])
    assert client.call("ask") == [["file:///a", "A"], ["file:///b", None], ["file:///c", None]]
    assert client.asked == [{"method": "roots/list"}] * 3


# Several questions


@pytest.mark.parametrize("version", ERAS)
def test_several_things_are_asked_at_once(site: Site, version: str) -> None:
    def ask() -> list[Any]:
        answers = current_call.ask(
            name=Elicit("Who?", {"name": str}),
            poem=Sample("A poem"),
            roots=ListRoots(),
            pay=ElicitUrl("Pay", "https://p"),
        )
        return [answers["name"].content["name"], answers["poem"].text, len(answers["roots"]), answers["pay"].action]

    site.tool(ask)

    def answer(question: dict[str, Any]) -> Any:
        if question["method"] == "roots/list":
            return {"roots": []}
        if question["method"] == "sampling/createMessage":
            return sampled("Roses")
        return {"action": "accept"} if question["params"].get("mode") == "url" else accept(name="Ann")

    client = respondent(site, version, answer)
    assert client.call("ask") == ["Ann", "Roses", 0, "accept"]
    assert len(client.asked) == 4


def test_only_what_has_no_answer_yet_is_asked_again(site: Site) -> None:
    def ask() -> str:
        answers = current_call.ask(a=Elicit("A?", {"v": str}), b=Elicit("B?", {"v": str}))
        return f"{answers['a'].content['v']}{answers['b'].content['v']}"

    site.tool(ask)
    client = ModernClient(site.client, capabilities=EVERYTHING)
    first = questions_of(client, "ask")
    assert set(first["inputRequests"]) == {"a", "b"}
    params = {"name": "ask", "arguments": {}}
    answered = {"inputResponses": {"a": accept(v="x")}, "requestState": first["requestState"]}
    second = client.post("tools/call", {**params, **answered}).get_json()["result"]
    assert set(second["inputRequests"]) == {"b"}
    answered = {"inputResponses": {"b": accept(v="y")}, "requestState": second["requestState"]}
    assert client.post("tools/call", {**params, **answered}).get_json()["result"]["structuredContent"] == "xy"


@pytest.mark.parametrize("version", ERAS)
def test_a_question_may_depend_on_the_answer_to_another(site: Site, version: str) -> None:
    runs: list[int] = []

    def ask() -> str:
        runs.append(1)
        name = current_call.elicit("Who?", {"name": str}).content["name"]
        colour = current_call.elicit(f"Which colour, {name}?", {"colour": str}, key="colour").content["colour"]
        number = current_call.elicit("How many?", {"n": int}).content["n"]
        return f"{name} {colour} {number}"

    site.tool(ask)
    client = respondent(site, version, [accept(name="Ann"), accept(colour="red"), accept(n=2)])
    assert client.call("ask") == "Ann red 2"
    assert [question["params"]["message"] for question in client.asked] == ["Who?", "Which colour, Ann?", "How many?"]
    assert len(runs) == 4


def test_questions_have_keys(site: Site) -> None:
    def ask(which: int) -> Any:
        for _ in range(which):
            current_call.elicit("Again?", key="again")
        current_call.elicit("First?")
        return current_call.elicit("Second?").action

    site.tool(ask)
    client = ModernClient(site.client, capabilities=EVERYTHING)
    assert list(questions_of(client, "ask", {"which": 0})["inputRequests"]) == ["question-1"]
    assert list(questions_of(client, "ask", {"which": 2})["inputRequests"]) == ["again"]


@pytest.mark.parametrize("version", ERAS)
def test_one_key_for_two_questions_is_a_mistake_of_the_method(
    site: Site, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the answer to one would take the place of the answer to the other, for ever."""

    def ask() -> str:
        return current_call.elicit("A?", key="k").action + current_call.elicit("B?", key="k").action

    site.tool(ask)
    assert respondent(site, version, lambda question: accept()).call("ask").startswith("Internal error")
    assert "the key 'k' belongs to another question; give each its own key" in caplog.text


@pytest.mark.parametrize("version", ERAS)
def test_the_same_question_may_be_asked_twice_by_one_key(site: Site, version: str) -> None:
    site.tool(lambda: [current_call.elicit("A?", key="k").action for _ in range(2)], name="ask")
    client = respondent(site, version, [accept()])
    assert client.call("ask") == ["accept", "accept"]


@pytest.mark.parametrize("version", ERAS)
def test_an_answer_counts_only_for_the_question_it_was_given_to(site: Site, version: str) -> None:
    """A form that has changed meanwhile is another one."""
    prices = [1, 2, 2]
    site.tool(lambda: current_call.elicit(f"Pay {prices.pop(0)}?").action, name="ask")
    client = respondent(site, version, [accept(), DECLINE])
    assert client.call("ask") == "decline"
    assert [question["params"]["message"] for question in client.asked] == ["Pay 1?", "Pay 2?"]


# Who can be asked


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    ("ask", "capabilities", "missing"),
    [
        (lambda: current_call.elicit("?"), {"sampling": {}, "roots": {}}, {"elicitation": {}}),
        (lambda: current_call.elicit("?"), {"elicitation": {"url": {}}}, {"elicitation": {}}),
        (lambda: current_call.elicit_url("?", "https://p"), {"elicitation": {}}, {"elicitation": {"url": {}}}),
        (lambda: current_call.sample("?"), {"elicitation": {}}, {"sampling": {}}),
        (lambda: current_call.roots(), {"elicitation": {}}, {"roots": {}}),
        (
            lambda: current_call.ask(a=ListRoots(), b=Sample("?")),
            {"elicitation": {}},
            {"roots": {}, "sampling": {}},
        ),
    ],
)
def test_a_client_that_cannot_is_told_what_it_takes(
    site: Site, version: str, ask: Any, capabilities: Any, missing: Any
) -> None:
    site.tool(ask, name="ask")
    response = client_of(version, site.client, capabilities=capabilities).call("ask")
    assert error(response)[:2] == (400 if version == MODERN else 200, -32021)
    assert response.get_json()["error"]["data"] == {"requiredCapabilities": missing}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_that_has_no_such_question_cannot_be_asked_it(site: Site, version: str) -> None:
    """Whatever its client says it can: forms came with 2025-06-18, pages with 2025-11-25."""
    site.tool(lambda: current_call.elicit("?").action, name="form")
    site.tool(lambda: current_call.elicit_url("?", "https://p.example").action, name="page")
    for name, since in (("form", "2025-06-18"), ("page", "2025-11-25")):
        outcome = respondent(site, version, lambda question: accept()).call(name)
        assert outcome == "accept" if version >= since else outcome["code"] == -32021


def test_a_method_may_do_without(site: Site) -> None:
    def ask() -> str:
        try:
            return current_call.elicit("?").action
        except RpcError as error:
            return f"unasked: {error.message}"

    site.tool(ask)
    said = "unasked: This needs an MCP client with the capability elicitation"
    assert ModernClient(site.client).call("ask").get_json()["result"]["structuredContent"] == said
    assert site.invoke("ask", {}).get_json() == {"result": said}
    assert site.rpc_post(asking("ask")).get_json()["result"] == said


def test_faces_that_cannot_ask_say_so_in_their_own_words(site: Site) -> None:
    site.rpc.add_method("ask", mcp_tool(annotations={"readOnlyHint": True})(lambda: current_call.elicit("?").action))
    text = "This needs an MCP client with the capability elicitation"
    needed: dict[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
    rest = site.invoke("ask", {})
    assert rest.status_code == 400
    assert rest.get_json()["error"]["code"] == "missing_capability"
    assert text in rest.get_json()["error"]["message"]
    for response in (
        site.rpc_post(asking("ask")),
        site.rpc_get(asking("ask")),
        site.rpc_post(asking("ask"), "/mcp/tools/ask"),
        site.rpc_get(asking("ask"), "/mcp/tools/ask"),
    ):
        assert response.get_json()["error"] == {"code": -32021, "message": text, "data": needed}
    [batched] = site.rpc_post([asking("ask")]).get_json()
    assert batched["error"]["code"] == -32021
    assert site.rpc_post(asking("ask", id=...)).status_code == 204


def test_an_older_client_cannot_be_asked_in_a_batch_or_without_a_stream(site: Site) -> None:
    site.tool(lambda: current_call.elicit("?").action, name="ask")
    client = LegacyClient(site.client, "2025-03-26", capabilities=EVERYTHING)
    client.initialize()
    [batched] = client.send([asking("tools/call", {"name": "ask"})]).get_json()
    assert batched["error"]["code"] == -32021
    plain = client.send(asking("tools/call", {"name": "ask"}), Accept="application/json")
    assert plain.get_json()["error"]["code"] == -32021


@pytest.mark.parametrize("version", ERAS)
def test_without_a_key_nobody_can_be_asked(version: str, tmp_path: Path) -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_MAILBOX=tmp_path)
    site.tool(lambda: current_call.elicit("?").action, name="ask")
    status, code, message = error(client_of(version, site.client, capabilities=EVERYTHING).call("ask"))
    assert status == 200
    if version == MODERN:
        assert (code, message) == (-32000, "This server cannot ask: its SECRET_KEY is not set")
    else:
        assert code == -32021  # without a session nobody knows what the client can do


def test_a_client_that_refuses_to_be_asked_fails_the_question(site: Site) -> None:
    """An older client may answer a request with an error."""

    def ask() -> str:
        try:
            return current_call.elicit("?").action
        except RpcError as error:
            return error.message

    site.tool(ask)
    client = respondent(site, LEGACY[0], [{"error": {"code": -1, "message": "no"}}])
    assert client.call("ask") == "The client refused: it answered the question with an error"


# Methods of every kind


@pytest.mark.parametrize("version", ERAS)
def test_a_method_that_catches_everything_does_not_swallow_the_question(site: Site, version: str) -> None:
    def ask() -> str:
        try:
            return current_call.elicit("Sure?").action
        except Exception:
            return "swallowed"

    site.tool(ask)
    assert respondent(site, version, [accept()]).call("ask") == "accept"


@pytest.mark.parametrize("version", ERAS)
def test_methods_of_every_kind_can_ask(site: Site, version: str) -> None:
    async def later() -> str:
        return current_call.elicit("Sure?").action

    def one_by_one() -> Iterator[str]:
        yield "a "
        yield current_call.elicit("Sure?").action

    async def one_by_one_later() -> AsyncIterator[str]:
        yield "a "
        yield current_call.elicit("Sure?").action

    for function in (later, one_by_one, one_by_one_later):
        site.tool(function)
        site.tool(function, name=f"{function.__name__}_in_time", timeout=30)
    for name in ("later", "one_by_one", "one_by_one_later"):
        for ending in ("", "_in_time"):
            said = respondent(site, version, [accept()]).call(name + ending)
            assert said == ("accept" if name == "later" else "a accept")


@pytest.mark.parametrize("version", ERAS)
def test_prompts_and_resources_can_ask(site: Site, version: str) -> None:
    site.rpc.add_prompt("p", lambda topic: f"{topic}: {current_call.elicit('Sure?').action}")
    site.rpc.add_resource("a://{key}", lambda key: f"{key}: {current_call.elicit('Sure?').action}", name="r")
    got = respondent(site, version, [accept()]).post("prompts/get", {"name": "p", "arguments": {"topic": "x"}})
    assert got["result"]["messages"][0]["content"]["text"] == "x: accept"
    got = respondent(site, version, [DECLINE]).post("resources/read", {"uri": "a://7"})
    assert got["result"]["contents"][0]["text"] == "7: decline"
    assert ("ttlMs" in got["result"]) is (version == MODERN)


def test_there_is_no_call_outside_of_one() -> None:
    for use in (
        lambda: current_call.elicit("?"),
        lambda: current_call.progress(1),
        lambda: current_call.log("info", "x"),
        lambda: current_call.cancelled,
        lambda: current_call.name,
    ):
        with pytest.raises(RuntimeError, match="Working outside of a call"):
            use()


@pytest.mark.parametrize("version", ERAS)
def test_the_log_and_the_signal_tell_a_run_that_asks_from_one_that_ends(
    site: Site, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.tool(lambda: current_call.elicit("Sure?").action, name="ask")
    heard: list[Any] = []

    def hear(app: Any, outcome: str, error: Any, **_: Any) -> None:
        heard.append((outcome, error))

    with method_called.connected_to(hear, site.app), caplog.at_level(logging.INFO):
        respondent(site, version, [accept()]).call("ask")
    assert heard == [("input_required", None), ("ok", None)]
    assert caplog.text.count("outcome=input_required") == 1
    assert caplog.text.count("outcome=ok") == 1
