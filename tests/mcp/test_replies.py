"""Questions to older clients: their answers come by other requests, and reach the call that waits for them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp import Elicit, ListRoots, current_call, mcp_tool
from tests.conftest import basic, make_auth
from tests.support.conversations import text_of
from tests.support.mailboxes import ADA, CAN_ASK, Asking, messages_in, set_clock
from tests.support.mcp_messages import LegacyClient, ModernClient, error, events, result
from tests.support.servers import free_port


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    return tmp_path / "mail"


def must(fact: bool) -> None:
    assert fact


def result_of_one(response: Any) -> Any:
    """The result of a call, however it came."""
    return events(response)[-1]["result"] if response.mimetype == "text/event-stream" else result(response)


def test_an_older_client_is_asked_on_the_stream_of_its_request(mail: Path) -> None:
    site, questions = Asking(mail), []

    def respond(question: dict[str, Any]) -> None:
        questions.append(question)
        assert site.answer(question, result=ADA) == 202

    assert text_of(site.asked(respond)) == "Ada"
    (question,) = questions
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert question == {
        "jsonrpc": "2.0",
        "id": question["id"],
        "method": "elicitation/create",
        "params": {"message": "Who?", "requestedSchema": {**question["params"]["requestedSchema"], **form}},
    }


@pytest.mark.parametrize("answer", [{"error": {"code": -1, "message": "User rejected"}}, {"error": "x"}])
def test_a_client_may_refuse_to_answer(mail: Path, answer: Any) -> None:
    site = Asking(mail)
    reply = site.asked(lambda question: must(site.answer(question, **answer) == 202))
    assert reply["result"]["isError"] is True
    assert text_of(reply) == "The client refused: it answered the question with an error"


def test_an_answer_may_have_one_mebibyte_and_the_method_hears_of_more(mail: Path) -> None:
    site = Asking(mail)

    def name_of(size: int) -> Any:
        """Answer with so many bytes of JSON."""
        spelled = len(json.dumps({"action": "accept", "content": {"name": ""}}, separators=(",", ":")))
        answer = {"action": "accept", "content": {"name": "x" * (size - spelled)}}
        return site.asked(lambda question: must(site.answer(question, result=answer) == 202))["result"]

    accepted, refused = name_of(1 << 20), name_of((1 << 20) + 1)
    assert accepted["isError"] is False
    assert refused["content"] == [{"type": "text", "text": "The client's answer is larger than 1048576 bytes"}]
    assert refused["isError"] is True


def test_an_answer_that_does_not_fit_is_asked_for_again(mail: Path) -> None:
    site, answers = Asking(mail), [{}, {"action": "accept"}, {"action": "accept", "content": {"name": 7}}, "x", ADA]

    def respond(question: dict[str, Any]) -> None:
        assert site.answer(question, result=answers.pop(0)) == 202

    assert text_of(site.asked(respond)) == "Ada"
    assert answers == []


def test_answers_that_never_fit_end_the_call(mail: Path) -> None:
    site = Asking(mail)
    reply = site.asked(lambda question: must(site.answer(question, result={}) == 202))
    assert reply["error"]["message"] == "The client was asked 20 times, and its answers did not fit the questions"


@pytest.mark.parametrize("forged", ["", "question-1", "ä", 1, 1.5, None, [], {}, True, "W10.x.y", "x" * 5000])
def test_an_answer_to_what_nobody_asked_is_ignored(mail: Path, forged: Any) -> None:
    site = Asking(mail)

    def respond(question: dict[str, Any]) -> None:
        before = messages_in(mail)
        assert before != []  # the mark of the open question
        site.client.send({"jsonrpc": "2.0", "id": forged, "result": ADA})
        assert messages_in(mail) == before
        assert site.answer(question, result=ADA) == 202

    assert text_of(site.asked(respond)) == "Ada"


def test_an_answer_is_taken_only_while_someone_waits_for_it(mail: Path) -> None:
    site, questions = Asking(mail), []

    def respond(question: dict[str, Any]) -> None:
        questions.append(question)
        assert site.answer(question, result=ADA) == 202

    assert text_of(site.asked(respond)) == "Ada"
    assert site.answer(questions[0], result=ADA) == 202  # heard, and that is all
    assert messages_in(mail) == []


def test_an_answer_that_comes_too_late_is_not_kept(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_ANSWER_TIMEOUT=1)
    questions: list[dict[str, Any]] = []
    assert text_of(site.asked(questions.append)) == "The client did not answer in time"
    assert site.answer(questions[0], result=ADA) == 202
    assert messages_in(mail) == []


def test_nothing_is_left_of_a_call_whose_client_goes_away_before_it_has_answered_everything(mail: Path) -> None:
    site, questions = Asking(mail), []
    site.site.tool(lambda: current_call.ask(who=Elicit("Who?", {"name": str}), where=ListRoots()), name="ask-all")

    def respond(question: dict[str, Any]) -> None:
        questions.append(question)
        if len(questions) == 2:
            assert site.answer(questions[0], result=ADA) == 202
            raise BrokenPipeError

    assert site.asked(respond, name="ask-all") is None
    assert len(questions) == 2
    assert messages_in(mail) == []


def test_only_the_session_that_was_asked_can_answer(mail: Path) -> None:
    site = Asking(mail, make_auth(), JSONRPC_MCP_ANSWER_TIMEOUT=60)
    writer = site.connect(headers=basic("writer"))
    again = site.connect(headers=basic("writer"))

    def respond(question: dict[str, Any]) -> None:
        foreign = {"action": "accept", "content": {"name": "Mallory"}}
        assert site.answer(question, again, result=foreign) == 202  # heard, and that is all
        assert site.answer(question, site.client, result=foreign) == 202
        stolen = LegacyClient(site.site.app.test_client(), session=writer.session)
        assert stolen.send({"jsonrpc": "2.0", "id": question["id"], "result": foreign}).status_code == 404
        altered = {**question, "id": question["id"][:-1] + ("A" if question["id"][-1] != "A" else "B")}
        assert site.answer(altered, writer, result=foreign) == 202
        assert [value for _, value, _ in messages_in(mail)] == [True]  # the question is still open
        assert site.answer(question, writer, result=ADA) == 202

    assert text_of(site.asked(respond, writer)) == "Ada"


def test_a_question_that_is_not_answered_in_time_ends_the_call(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_ANSWER_TIMEOUT=1)
    reply = site.asked(lambda question: None)
    assert (reply["result"]["isError"], text_of(reply)) == (True, "The client did not answer in time")


def test_only_so_many_calls_wait_at_a_time(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_MAX_WAITING=1)

    def respond(question: dict[str, Any]) -> None:
        refused = result_of_one(site.connect().call("ask"))
        assert refused["isError"] is True
        assert refused["content"][0]["text"] == "Too many calls are still running; try again later"
        assert result(site.connect().call("plain"))["isError"] is False
        site.answer(question, result=ADA)

    assert text_of(site.asked(respond)) == "Ada"
    assert text_of(site.asked(lambda question: must(site.answer(question, result=ADA) == 202))) == "Ada"


def test_a_client_that_goes_away_while_it_is_asked_frees_its_place(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_MAX_WAITING=1)

    def leave(question: dict[str, Any]) -> None:
        assert question["method"] == "elicitation/create"
        raise BrokenPipeError

    for _ in range(3):
        assert site.asked(leave) is None
    assert text_of(site.asked(lambda question: must(site.answer(question, result=ADA) == 202))) == "Ada"


def test_a_client_that_reads_no_events_cannot_be_asked(mail: Path) -> None:
    site = Asking(mail)
    site.client.headers["Accept"] = "application/json"
    assert error(site.client.call("ask"))[1] == -32021


def test_a_mailbox_is_made_only_when_something_is_left_in_it(mail: Path) -> None:
    """Plain calls have nothing to do with it, in neither era, nor has progress."""
    site = Asking(mail)
    site.site.tool(lambda: current_call.progress(1), name="report")
    modern = ModernClient(site.site.client, capabilities=CAN_ASK)
    for client in (site.client, modern):
        assert result(client.call("plain"))["isError"] is False
        assert result(client.list())["tools"]
        params = {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}
        assert len(events(client.post("tools/call", params))) == 2
    assert site.site.invoke("plain", {}).status_code == 200
    assert not mail.exists()
    site.asked(lambda question: must(site.answer(question, result=ADA) == 202))
    assert mail.exists()


def test_a_level_is_forgotten_when_nothing_was_logged_for_an_hour(mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone can set one, in as many sessions as they like."""
    site, now = Asking(mail), time.time()
    site.site.tool(lambda: current_call.log("info", "x"), name="log")
    site.client.post("logging/setLevel", {"level": "info"})
    for minutes in (40, 80, 100, 130):
        set_clock(monkeypatch, now + 60 * minutes)
        assert len(events(site.client.call("log"))) == 2
    set_clock(monkeypatch, now + 60 * 200)
    assert site.client.call("log").mimetype == "application/json"


def test_a_destructive_tool_is_not_run_when_its_client_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    """It can be asked, so it must be."""
    site, deleted = Asking(f"redis://127.0.0.1:{free_port()}"), []

    @site.site.rpc.method
    @mcp_tool(confirm="Delete {id}?")
    def delete(id: int) -> None:
        deleted.append(id)

    assert result_of_one(site.client.call("delete", {"id": 7}))["isError"] is True
    assert deleted == []


def test_all_questions_of_a_call_are_put_at_once(mail: Path) -> None:
    site = Asking(mail)

    def ask_all() -> list[str]:
        answers = current_call.ask(who=Elicit("Who?", {"name": str}), where=ListRoots())
        return [answers["who"].content["name"], answers["where"][0].uri]

    site.site.rpc.remove_method("ask")
    site.site.tool(ask_all, name="ask")
    waiting: list[dict[str, Any]] = []

    def respond(question: dict[str, Any]) -> None:
        waiting.append(question)
        if len(waiting) == 2:  # the last first
            methods = [each["method"] for each in waiting]
            assert methods == ["elicitation/create", "roots/list"]
            assert site.answer(waiting[1], result={"roots": [{"uri": "file:///home"}]}) == 202
            assert site.answer(waiting[0], result=ADA) == 202

    assert site.asked(respond)["result"]["structuredContent"] == {"result": ["Ada", "file:///home"]}


def test_threads_share_one_mailbox(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_MAX_WAITING=8)
    outcomes: list[str] = []

    def talk(number: int) -> None:
        client = site.connect()
        answer = {"action": "accept", "content": {"name": str(number)}}
        reply = site.asked(lambda question: must(site.answer(question, client, result=answer) == 202), client)
        outcomes.append(text_of(reply))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [str(number) for number in range(8)]
