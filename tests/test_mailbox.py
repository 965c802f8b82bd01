"""Questions to older clients: their answers come by other requests, to any worker, and reach the call that waits."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from flask_jsonrpc_mcp import Elicit, ListRoots, McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.mailbox import EXTENSION, current_mailbox

from .conftest import Site, asking, basic, make_app, make_auth
from .conversations import Conversation, text_of
from .mcp_messages import LegacyClient, ModernClient, error, events, result
from .servers import Server, free_port, gunicorn, need

APP = "tests.conversing_app:create_app()"
CAN_ASK: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    with running_redis(tmp_path) as server:
        yield server


@contextmanager
def running_redis(folder: Path) -> Iterator[Server]:
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([need("redis-server"), *options], stdout=subprocess.DEVNULL)
    server = Server(process, port, folder / "redis.log")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def redis_url(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}"


@contextmanager
def conversing(folder: Path, place: str, *options: str, **config: Any) -> Iterator[Server]:
    """Run the conversing app with three workers."""
    env = {f"CONVERSING_JSONRPC_MCP_{name}": str(value) for name, value in config.items()}
    env |= {"CONVERSING_JSONRPC_MCP_MAILBOX": place, "NOTES": str(folder)}
    with gunicorn(APP, folder, "--workers", "3", "--preload", *options, env=env) as server:
        yield server


@pytest.fixture(scope="module", params=["files", "redis"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three workers that share a mailbox: files, or a real Redis."""
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        files = request.param == "files"
        place = str(folder / "mail") if files else redis_url(stack.enter_context(running_redis(folder)))
        yield stack.enter_context(conversing(folder, place, MAX_WAITING=8))


def greeted(server: Server, name: str) -> str:
    """Be greeted: ask for it, answer the question that comes, and return the greeting."""
    client = Conversation(server, capabilities=CAN_ASK)
    messages = client.call("greet").messages()
    question = next(messages)
    assert client.answer(question, result={"action": "accept", "content": {"name": name}}) == 202
    (reply,) = messages
    return text_of(reply)


def test_answers_find_their_call_over_three_workers(server: Server) -> None:
    names = [f"name-{number}" for number in range(18)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda name: greeted(server, name), names)) == [f"Hello {name}" for name in names]


def test_a_request_is_given_up_from_any_worker(server: Server) -> None:
    def give_up(number: int) -> bool:
        client = Conversation(server)
        for message in client.call("stay", {"key": f"stay-{number}", "busy": number % 2 == 0}, token=1).messages():
            assert "id" not in message  # who gave up gets no answer
            if message["params"]["progress"] == 1:
                assert client.send(asking("notifications/cancelled", {"requestId": 1}, id=...)).status == 202
        return (server.log.parent / f"stay-{number}-cancelled").exists()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(give_up, range(4)))


def test_the_level_of_a_session_is_known_to_all_workers(server: Server) -> None:
    client = Conversation(server)
    assert client.open("logging/setLevel", {"level": "info"}).json()["result"] == {}
    for _ in range(9):
        message, reply = client.call("count", {"to": 1}).messages()
        assert message["params"] == {"level": "info", "data": "counted 1"}
        assert text_of(reply) == "1"


def test_killed_workers_leave_only_what_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = tmp_path / "mail"
    with conversing(tmp_path, str(mail)) as server:
        client = Conversation(server, capabilities=CAN_ASK)
        questions = [next(client.call("greet").messages()) for _ in range(3)]
        for worker in workers_of(server):
            os.kill(worker, signal.SIGKILL)
        for question in questions:  # nobody will ever take the answers
            assert client.answer(question, result=ADA) == 202
        assert greeted(server, "Grace") == "Hello Grace"
        left = letters_in(mail)
    assert len(left) == 6  # three questions that look open, and their answers
    set_clock(monkeypatch, max(expires for expires, _ in left) + 1)
    another_letter = Asking(mail).client.post("logging/setLevel", {"level": "info"})
    assert result(another_letter) == {}
    assert [letter[:7] for _, letter in letters_in(mail)] == [b'["info"']


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    for clock in ("cachelib.file.time", "time.time"):  # in this order: the first is imported, with the second in it
        monkeypatch.setattr(clock, lambda: now)


def workers_of(server: Server) -> set[int]:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return {int(child) for child in children}


def files_in(mail: Path) -> list[Path]:
    """All files: there is a folder for each kind of letter."""
    return [file for file in mail.rglob("*") if file.is_file()]


def letters_in(mail: Path) -> list[tuple[int, bytes]]:
    """When each letter expires, and what is in it."""
    found = [file.read_bytes() for file in files_in(mail)]
    return [(int.from_bytes(each[:4], "little"), each[4:]) for each in found]


class Asking:
    """A site whose only tool asks for a name, and a client of it that can be asked."""

    def __init__(self, mailbox: object, auth: Any = None, **config: Any) -> None:
        self.site = Site(McpBlueprint(auth=auth), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=mailbox, **config)
        self.site.tool(lambda: current_call.elicit("Who?", {"name": str}).content["name"], name="ask")
        self.site.tool(lambda: "plain", name="plain")
        self.client = self.connect()

    def connect(self, **options: Any) -> LegacyClient:
        client = LegacyClient(self.site.app.test_client(), capabilities=CAN_ASK, **options)
        client.initialize()
        return client

    def asked(self, respond: Callable[[dict[str, Any]], None], client: LegacyClient | None = None) -> Any:
        """Call the tool, let ``respond`` answer its question, and return the reply."""
        client = self.client if client is None else client
        response: Any = client.call("ask")
        with response:
            assert response.mimetype == "text/event-stream", response.text
            reply: Any = None
            for message in map(read_event, response.response):
                if message is None:
                    continue
                reply = message
                if "method" in message:
                    respond(message)
            return reply

    def answer(self, question: dict[str, Any], client: LegacyClient | None = None, **answer: Any) -> int:
        """Answer on a connection of its own."""
        client = self.client if client is None else client
        other = LegacyClient(self.site.app.test_client(), session=client.session, headers=client.headers)
        return other.send({"jsonrpc": "2.0", "id": question["id"], **answer}).status_code


def read_event(event: bytes) -> Any:
    return None if event == b":\n\n" else json.loads(event.removeprefix(b"data: "))


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    return tmp_path / "mail"


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


def test_letters_are_json_that_only_we_can_read(mail: Path) -> None:
    site = Asking(mail)
    site.client.post("logging/setLevel", {"level": "info"})

    def respond(question: dict[str, Any]) -> None:
        assert site.answer(question, result=ADA) == 202
        assert site.client.session is not None
        assert all(site.client.session not in file.name for file in files_in(mail))

    site.asked(respond)
    assert stat.S_IMODE(mail.stat().st_mode) == 0o700
    (file,) = files_in(mail)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_bytes()[4:])[0] == "info"


def test_a_pickle_in_the_mailbox_is_not_run(mail: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (open, (str(tmp_path / "sprung"), "w"))

    site = Asking(mail)
    site.site.tool(lambda: current_call.log("info", "x"), name="log")
    site.client.post("logging/setLevel", {"level": "info"})
    for file in files_in(mail):
        file.write_bytes(file.read_bytes()[:4] + pickle.dumps(Trap()))
    assert result(site.client.call("log"))["isError"] is False
    site.client.post("logging/setLevel", {"level": "info"})
    assert len(events(site.client.call("log"))) == 2
    assert not (tmp_path / "sprung").exists()


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


def must(fact: bool) -> None:
    assert fact


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
        before = files_in(mail)
        assert before != []  # what someone waits for is known here
        site.client.send({"jsonrpc": "2.0", "id": forged, "result": ADA})
        assert files_in(mail) == before
        assert site.answer(question, result=ADA) == 202

    assert text_of(site.asked(respond)) == "Ada"


def test_an_answer_is_taken_only_while_someone_waits_for_it(mail: Path) -> None:
    site, questions = Asking(mail), []

    def respond(question: dict[str, Any]) -> None:
        questions.append(question)
        assert site.answer(question, result=ADA) == 202

    assert text_of(site.asked(respond)) == "Ada"
    assert site.answer(questions[0], result=ADA) == 202  # heard, and that is all
    assert files_in(mail) == []


def test_an_answer_that_comes_too_late_is_not_kept(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_ANSWER_TIMEOUT=1)
    questions: list[dict[str, Any]] = []
    assert text_of(site.asked(questions.append)) == "The client did not answer in time"
    assert site.answer(questions[0], result=ADA) == 202
    assert files_in(mail) == []


def test_nothing_is_left_of_a_call_whose_client_goes_away_before_it_has_answered_everything(mail: Path) -> None:
    site = Asking(mail)
    site.site.tool(lambda: current_call.ask(who=Elicit("Who?", {"name": str}), where=ListRoots()), name="ask-all")
    response: Any = site.client.call("ask-all")
    with response:
        question = read_event(next(iter(response.response)))
        assert site.answer(question, result=ADA) == 202
    assert files_in(mail) == []


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
        assert [letter for _, letter in letters_in(mail)] == [b"true"]  # the question is still open
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


def result_of_one(response: Any) -> Any:
    """The result of a call, however it came."""
    return events(response)[-1]["result"] if response.mimetype == "text/event-stream" else result(response)


def test_a_client_that_goes_away_while_it_is_asked_frees_its_place(mail: Path) -> None:
    site = Asking(mail, JSONRPC_MCP_MAX_WAITING=1)
    for _ in range(3):
        with site.client.call("ask") as response:
            assert b"elicitation/create" in next(iter(response.response))
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
    assert result(modern.call("ask"))["resultType"] == "input_required"
    assert site.site.invoke("plain", {}).status_code == 200
    assert not mail.exists()
    site.asked(lambda question: must(site.answer(question, result=ADA) == 202))
    assert mail.exists()


def test_without_cachelib_older_clients_are_told_so(
    mail: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = Asking(mail)
    real = builtins.__import__

    def without_cachelib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cachelib"):
            raise ModuleNotFoundError("No module named 'cachelib'", name="cachelib")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_cachelib)
    for _ in range(2):
        failed = result_of_one(site.client.call("ask"))
        assert failed["isError"] is True
        assert "no way to pass answers from one worker to another" in failed["content"][0]["text"]
    assert caplog.text.count("install flask-jsonrpc-mcp[mailbox]") == 1
    assert result(site.client.call("plain"))["isError"] is False
    assert result(ModernClient(site.site.client, capabilities=CAN_ASK).call("ask"))["resultType"] == "input_required"


def test_a_folder_that_others_can_read_is_refused(mail: Path) -> None:
    mail.mkdir(mode=0o755)
    with pytest.raises(RuntimeError, match="JSONRPC_MCP_MAILBOX"):
        Asking(mail)


def test_a_folder_that_others_can_read_meanwhile_is_not_used(mail: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Asking(mail)
    mail.mkdir()
    mail.chmod(0o755)
    assert result_of_one(site.client.call("ask"))["isError"] is True
    assert "there is no mailbox" in caplog.text
    assert result(site.client.call("plain"))["isError"] is False
    assert list(mail.iterdir()) == []


def test_a_link_in_the_temp_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    temp, elsewhere = tmp_path / "temp", tmp_path / "elsewhere"
    temp.mkdir()
    elsewhere.mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temp))
    site = Asking(None)
    site.client.post("logging/setLevel", {"level": "info"})
    (folder,) = temp.iterdir()
    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    assert result_of_one(Asking(None).client.call("ask"))["isError"] is True
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_was_swept_away_is_made_again(mail: Path) -> None:
    site = Asking(mail)
    for _ in range(2):
        assert result(site.client.post("logging/setLevel", {"level": "info"})) == {}
        shutil.rmtree(mail)


@pytest.mark.parametrize("setting", [5, True, "", ["folder"], "memcached://localhost", "http://redis"])
def test_a_setting_that_cannot_work_raises(setting: object) -> None:
    with pytest.raises(ValueError, match="JSONRPC_MCP_MAILBOX must be a folder or a redis:// URL"):
        make_app(McpBlueprint(), JSONRPC_MCP_MAILBOX=setting)


@pytest.mark.parametrize("name", ["ANSWER_TIMEOUT", "MAX_WAITING", "MAX_LISTENERS"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "4", None, True])
def test_a_limit_that_cannot_work_raises(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"JSONRPC_MCP_{name} must be a whole number of at least 1"):
        make_app(McpBlueprint(), **{f"JSONRPC_MCP_{name}": value})


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let there be room for ten letters of each kind, and five more before someone counts."""
    monkeypatch.setattr("flask_jsonrpc_mcp.mailbox_rooms.MAX_LETTERS", 10)
    monkeypatch.setattr("flask_jsonrpc_mcp.mailbox.SWEEP_AFTER", 5)
    return 15


def set_many_levels(site: Asking) -> None:
    for _ in range(30):
        assert result(site.connect().post("logging/setLevel", {"level": "debug"})) == {}


def give_up_many_requests(site: Asking) -> None:
    for number in range(30):
        site.client.send(asking("notifications/cancelled", {"requestId": number}, id=...))


def announce_many_changes(site: Asking) -> None:
    with site.site.app.app_context():
        for number in range(30):
            site.site.rpc.notify_changed(f"articles://{number}")


@pytest.mark.parametrize("flood", [set_many_levels, give_up_many_requests, announce_many_changes])
def test_a_flood_of_letters_is_bounded_and_pushes_out_no_others(
    mail: Path, little_room: int, flood: Callable[[Asking], None]
) -> None:
    site = Asking(mail, JSONRPC_MCP_SUBSCRIPTIONS=True)
    with site.site.app.app_context():
        current_mailbox().put("answer to a question", "kept", 30)  # it expires before all others
    flood(site)
    letters = [letter for _, letter in letters_in(mail)]
    assert b'"kept"' in letters
    assert 10 <= len(letters) - 1 <= little_room


@pytest.mark.parametrize("flood", [give_up_many_requests, announce_many_changes])
def test_a_level_outlives_a_flood_of_other_letters(
    mail: Path, little_room: int, flood: Callable[[Asking], None]
) -> None:
    site = Asking(mail, JSONRPC_MCP_SUBSCRIPTIONS=True)
    site.site.tool(lambda: current_call.log("info", "x"), name="log")
    site.client.post("logging/setLevel", {"level": "info"})
    flood(site)
    assert len(events(site.client.call("log"))) == 2


def test_what_has_expired_is_removed_once_there_is_another_letter(mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.mailbox.SWEEP_EVERY", 0)
    site, now = Asking(mail), time.time()
    with site.site.app.app_context():
        current_mailbox().put("answer to a question", "typed by someone", 30)
        half = mail / "answer" / "half.__wz_cache"
        half.write_text("what a process is writing, or was when it was killed")
        current_mailbox().put("answer to another", "kept", 90)
        assert half.exists()
    set_clock(monkeypatch, now + 80)
    with site.site.app.app_context():
        current_mailbox().put("change of something", "left", 30)
    assert sorted(letter for _, letter in letters_in(mail)) == [b'"kept"', b'"left"']


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


def test_marks_of_what_was_done_once_are_bounded_too(mail: Path, little_room: int) -> None:
    with Asking(mail).site.app.app_context():
        assert [current_mailbox().claim(f"confirmed {number}", 30) for number in range(30)] == [True] * 30
        assert current_mailbox().claim("confirmed 29", 30) is False
    assert 10 <= len(files_in(mail)) <= little_room


def test_letters_in_redis_expire_and_are_named_after_nobody(redis: Server) -> None:
    site = Asking(redis_url(redis))
    site.client.post("logging/setLevel", {"level": "info"})
    with Redis(port=redis.port) as store:
        (key,) = store.keys()
        assert key.startswith(b"flask-jsonrpc-mcp:")
        assert str(site.client.session).encode() not in key
        assert json.loads(store.get(key) or b"")[0] == "info"
        assert 0 < store.ttl(key) <= 60 * 60


def test_a_redis_that_is_down_fails_only_what_needs_it(caplog: pytest.LogCaptureFixture) -> None:
    site = Asking(f"redis://:secret@127.0.0.1:{free_port()}")
    site.site.tool(lambda: current_call.log("info", "x"), name="log")
    assert result(site.client.call("plain"))["isError"] is False
    assert result(site.client.call("log"))["isError"] is False  # nobody can know that it is wanted
    failed = result_of_one(site.client.call("ask"))
    assert (failed["isError"], failed["content"][0]["text"].startswith("This server cannot do that")) == (True, True)
    refused = site.client.post("logging/setLevel", {"level": "info"})
    assert (refused.get_json()["id"], error(refused)[1]) == (1, -32000)
    cancel = asking("notifications/cancelled", {"requestId": 1}, id=...)
    assert site.client.send(cancel).status_code == 202
    assert "the mailbox in JSONRPC_MCP_MAILBOX cannot be reached" in caplog.text
    assert "secret" not in caplog.text


def test_a_redis_that_goes_down_ends_the_calls_that_wait(redis: Server, caplog: pytest.LogCaptureFixture) -> None:
    site = Asking(redis_url(redis))

    def respond(question: dict[str, Any]) -> None:
        redis.stop()
        assert site.answer(question, result=ADA) == 503

    reply = site.asked(respond)
    assert reply["id"] == 1
    assert text_of(reply).startswith("This server cannot do that")
    assert "cannot be reached" in caplog.text


def test_a_redis_that_does_not_answer_holds_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.mailbox_rooms.REDIS_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site = Asking(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        assert result_of_one(site.client.call("ask"))["isError"] is True
    assert "cannot be reached" in caplog.text


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


def test_of_many_who_claim_something_at_once_one_gets_it(mail: Path) -> None:
    app = make_app(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=mail)
    mailbox, ready = app.extensions[EXTENSION], threading.Barrier(8)

    def claim(number: int) -> bool:
        ready.wait()
        return bool(mailbox.claim("confirmed state", 60))

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(claim, range(8))) == [False] * 7 + [True]
