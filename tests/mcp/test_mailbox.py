"""Messages between processes: the same behaviour in an SQLite file and in Redis, and what happens if these fail."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from redis import Redis

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp import mailbox as mailbox_module
from flask_jsonrpc_mcp.errors import NoMailbox
from flask_jsonrpc_mcp.mailbox import EXTENSION, FILE, Mailbox
from tests.conftest import asking, make_app
from tests.support.answering import questions_of
from tests.support.conversations import text_of
from tests.support.load import wait_until
from tests.support.mailboxes import ADA, CAN_ASK, Asking, messages_in, redis_url, running_redis, set_clock
from tests.support.mcp_messages import ModernClient, error, events, result
from tests.support.servers import ROOT, Server, free_port


def open_mailbox(place: object) -> Mailbox:
    """The mailbox of a new app; apps of one name and secret key share theirs, as the workers of one app do."""
    app = make_app(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=place)
    mailbox: Mailbox = app.extensions[EXTENSION]
    return mailbox


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    return tmp_path / "mail"


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, mail: Path) -> object:
    """Where a mailbox is: one after the other in both backends, each time an empty one."""
    if request.param == "sqlite":
        return mail
    server: Server = request.getfixturevalue("redis")
    with Redis(port=server.port) as store:
        store.flushall()
    return redis_url(server)


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep ten messages of each kind."""
    monkeypatch.setattr(mailbox_module, "MAX_OF_KIND", 10)


# What both backends do.


def test_a_value_stays_until_it_is_replaced_popped_or_deleted(place: object) -> None:
    mailbox = open_mailbox(place)
    value = {"list": [1, 2.5, "ä", None, True], "empty": {}}
    mailbox.put("answer 1", value, 60)
    assert [mailbox.get("answer 1"), mailbox.get("answer 1")] == [value, value]
    mailbox.put("answer 1", 0, 60)
    mailbox.put("answer 2", "second", 60)
    assert mailbox.get_all(["answer 1", "answer 2", "answer 3"]) == {"answer 1": 0, "answer 2": "second"}
    assert [mailbox.pop("answer 1"), mailbox.pop("answer 1"), mailbox.get("answer 1")] == [0, None, None]
    mailbox.delete(["answer 1", "answer 2"])
    assert mailbox.get_all(["answer 1", "answer 2"]) == {}


def test_values_expire(place: object) -> None:
    mailbox = open_mailbox(place)
    mailbox.put("answer 1", 1, 1)
    assert mailbox.get("answer 1") == 1
    wait_until(lambda: mailbox.get("answer 1") is None, "the value expires")
    assert mailbox.pop("answer 1") is None
    assert mailbox.wait_for(["answer 1"], 0, lambda: False) is None


def test_the_newest_messages_of_each_kind_are_kept(place: object, little_room: None) -> None:
    mailbox = open_mailbox(place)
    mailbox.put("answer 1", "waited for", 30)  # the oldest message, and the first to expire
    for number in range(30):
        mailbox.put(f"level {number}", number, 60)
    assert mailbox.get_all(f"level {number}" for number in range(30)) == {f"level {n}": n for n in range(20, 30)}
    assert mailbox.get("answer 1") == "waited for"


def test_a_thousand_messages_of_each_kind_are_kept(place: object) -> None:
    mailbox = open_mailbox(place)
    for number in range(1001):
        mailbox.put(f"level {number}", number, 60)
    assert [mailbox.get(f"level {number}") for number in (0, 1, 1000)] == [None, 1, 1000]


def test_a_value_that_was_put_again_counts_as_new(place: object, little_room: None) -> None:
    mailbox = open_mailbox(place)
    for number in range(10):
        mailbox.put(f"level {number}", number, 60)
    mailbox.put("level 0", "again", 60)
    mailbox.put("level 10", 10, 60)
    assert (mailbox.get("level 0"), mailbox.get("level 1")) == ("again", None)


def test_messages_that_were_taken_push_out_nothing(place: object, little_room: None) -> None:
    mailbox = open_mailbox(place)
    mailbox.put("answer first", "waited for", 60)
    for number in range(30):
        mailbox.put(f"answer {number}", number, 60)
        if number % 2:
            assert mailbox.pop(f"answer {number}") == number
        else:
            assert mailbox.wait_for([f"answer {number}"], 5, lambda: False) == {f"answer {number}": number}
    assert mailbox.get("answer first") == "waited for"


def test_waiting_ends_when_all_values_are_there(place: object) -> None:
    mailbox = open_mailbox(place)
    mailbox.put("answer 1", 1, 60)
    keys = ["answer 1", "answer 2", "answer 3"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mailbox.wait_for, keys, 30, lambda: False)
        open_mailbox(place).put("answer 3", 3, 60)
        open_mailbox(place).put("answer 2", 2, 60)
        assert waiting.result() == {"answer 1": 1, "answer 2": 2, "answer 3": 3}
    assert mailbox.get_all(keys) == {}


def test_waiting_ends_when_its_time_is_over_or_when_it_is_given_up(place: object) -> None:
    mailbox = open_mailbox(place)
    assert mailbox.wait_for(["answer 1"], 0, lambda: False) is None
    assert mailbox.wait_for(["answer 1"], 3600, lambda: True) is None


def put_the_time(place: object, key: str) -> None:
    open_mailbox(place).put(key, time.time(), 300)


def test_a_value_of_another_process_arrives_at_once(place: object) -> None:
    mailbox, process = open_mailbox(place), multiprocessing.get_context("spawn")
    sender = process.Process(target=put_the_time, args=(place, "answer 1"))
    sender.start()
    values = mailbox.wait_for(["answer 1"], 120, lambda: False)
    arrived = time.time()
    sender.join()
    assert values is not None
    assert arrived - values["answer 1"] < 10  # not at the end of the two minutes


def pop_many(place: object, start: Any, outcomes: Any) -> None:
    mailbox = open_mailbox(place)
    start.wait()
    outcomes.put([mailbox.pop(f"state {number}") is not None for number in range(100)])


def test_of_two_processes_that_pop_a_value_one_gets_it(place: object) -> None:
    mailbox, process = open_mailbox(place), multiprocessing.get_context("spawn")
    for number in range(100):
        mailbox.put(f"state {number}", True, 60)
    start, outcomes = process.Barrier(2), process.Queue()
    racers = [process.Process(target=pop_many, args=(place, start, outcomes)) for _ in range(2)]
    for racer in racers:
        racer.start()
    popped = [outcomes.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert [sum(both) for both in zip(*popped, strict=True)] == [1] * 100


def test_of_many_threads_that_pop_a_value_one_gets_it(place: object) -> None:
    mailbox, ready = open_mailbox(place), threading.Barrier(8)
    mailbox.put("state 1", True, 60)

    def pop(number: int) -> bool:
        ready.wait()
        return mailbox.pop("state 1") is not None

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(pop, range(8))) == [False] * 7 + [True]


FORKING = """
import os, sys
from tests.mcp.test_mailbox import open_mailbox
mailbox = open_mailbox(sys.argv[1])
mailbox.put("answer 0", 0, 60)
children = []
for number in range(1, 4):
    children.append(os.fork())
    if children[-1] == 0:
        for _ in range(50):
            mailbox.put(f"answer {number}", mailbox.get("answer 0"), 60)
        os._exit(0)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
assert mailbox.wait_for([f"answer {number}" for number in range(4)], 5, lambda: False) is not None
"""


def test_workers_that_are_forked_from_one_that_used_it_use_it_too(place: object) -> None:
    subprocess.run([sys.executable, "-c", FORKING, str(place)], check=True, cwd=ROOT)


# Failures.


@pytest.fixture
def no_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a backend again at once."""
    monkeypatch.setattr(mailbox_module, "RETRY_AFTER", 0)


def test_a_file_that_failed_is_tried_again(mail: Path, no_break: None, caplog: pytest.LogCaptureFixture) -> None:
    mailbox = open_mailbox(mail)
    mail.write_text("no folder")
    with pytest.raises(NoMailbox):
        mailbox.put("answer 1", 1, 60)
    assert "the mailbox cannot be reached: " in caplog.text
    mail.unlink()
    mailbox.put("answer 1", 1, 60)
    assert mailbox.get("answer 1") == 1


def test_a_redis_that_was_down_is_tried_again(tmp_path: Path, no_break: None) -> None:
    port = free_port()
    mailbox = open_mailbox(f"redis://127.0.0.1:{port}")
    with pytest.raises(NoMailbox):
        mailbox.put("answer 1", 1, 60)
    for _ in range(2):  # the second is a restart, which closes the connections of the first
        with running_redis(tmp_path, port):
            mailbox.put("answer 1", 1, 60)
            assert [mailbox.pop("answer 1"), mailbox.pop("answer 1")] == [1, None]


def test_a_mailbox_that_hangs_is_tried_by_one_thread_after_ten_times_as_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Many operations of one request, and many requests, must not each wait for it; the log has one line about it."""
    monkeypatch.setattr(mailbox_module, "TIMEOUT", 0.3)
    later, clock = [0.0], time.monotonic
    monkeypatch.setattr("time.monotonic", lambda: clock() + later[0])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        mailbox = open_mailbox(f"redis://127.0.0.1:{silent.getsockname()[1]}")

        def fail(_: object = None) -> None:
            with pytest.raises(NoMailbox):
                mailbox.put("answer 1", 1, 60)

        for _ in range(20):
            fail()
        mailbox.delete(["answer 1"])  # says nothing: it expires
        assert accepted(silent) == 1
        later[0] = 2
        fail()
        assert accepted(silent) == 0
        later[0] = 1000
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(fail, range(8)))
        assert accepted(silent) == 1
    assert caplog.text.count("retrying in") == 2


def accepted(listener: socket.socket) -> int:
    """How many have connected since the last time."""
    number = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return number
        number += 1


def report_much() -> None:
    """Report a hundred times, and look each time whether the call was cancelled."""
    for number in range(50):
        current_call.log("info", "still here")
        current_call.progress(number)
        assert not current_call.cancelled


def test_a_method_that_reports_waits_once_for_a_redis_that_hangs(
    tmp_path: Path, no_break: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As if a second passed between two reports, in which both the level and a cancellation could have come."""
    monkeypatch.setattr("flask_jsonrpc_mcp.call.POLL_EVERY", 0)
    with running_redis(tmp_path) as redis:
        site = Asking(redis_url(redis))
        site.site.tool(report_much, name="report")
        assert result(site.client.post("logging/setLevel", {"level": "info"})) == {}
        redis.process.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            response = site.client.post(
                "tools/call", {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}
            )
            assert time.monotonic() - began < 20  # about one second; each report would wait as long
        finally:
            redis.process.send_signal(signal.SIGCONT)
        *progress, reply = events(response)
        assert ([each["method"] for each in progress], reply["result"]["isError"]) == (
            ["notifications/progress"] * 50,
            False,
        )
        assert caplog.text.count("cannot be reached") == 1


@contextmanager
def full_disk(file: Path) -> Iterator[None]:
    """No file can grow, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process is stopped in the middle of writing."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def not_a_file(file: Path) -> Iterator[None]:
    file.unlink()
    file.mkdir()
    yield
    file.rmdir()


@pytest.mark.parametrize("broken", [full_disk, locked, not_a_file])
def test_what_cannot_be_written_is_an_error_and_changes_nothing(
    mail: Path,
    no_break: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: Callable[[Path], Any],
) -> None:
    monkeypatch.setattr(mailbox_module, "TIMEOUT", 0.1)
    mailbox = open_mailbox(mail)
    mailbox.put("state 1", 1, 60)
    with broken(mail / FILE):
        for _ in range(2):
            with pytest.raises(NoMailbox):
                mailbox.pop("state 1")
        with pytest.raises(NoMailbox):
            mailbox.put("state 1", "x" * 100_000, 60)
    assert str(mail) in caplog.text
    assert mailbox.pop("state 1") == (None if broken is not_a_file else 1)
    mailbox.put("state 1", 2, 60)
    assert [mailbox.pop("state 1"), mailbox.pop("state 1")] == [2, None]


def test_an_agreement_that_could_not_be_used_is_good_for_a_run_later(
    mail: Path, no_break: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A person who agreed while the disk was full is not said to have agreed already."""
    site, deleted = Asking(mail), []

    @site.site.rpc.method
    @mcp_tool(confirm="Delete {id}?")
    def delete(id: int) -> None:
        deleted.append(id)

    client = ModernClient(site.site.client, capabilities=CAN_ASK)
    asked = questions_of(client, "delete", {"id": 7})
    params = {"name": "delete", "arguments": {"id": 7}, "requestState": asked["requestState"]}
    params["inputResponses"] = {"confirm": {"action": "accept", "content": {}}}
    with full_disk(mail / FILE):
        refused = client.post("tools/call", params)
        assert error(refused)[2].startswith("Not run: this server cannot reach its mailbox")
    assert deleted == []
    assert result(client.post("tools/call", params))["isError"] is False
    assert (deleted, error(client.post("tools/call", params))[1]) == ([7], -32602)


def test_a_damaged_file_is_replaced(mail: Path, no_break: None, caplog: pytest.LogCaptureFixture) -> None:
    mailbox = open_mailbox(mail)
    mailbox.put("level 1", 1, 60)
    (mail / FILE).write_bytes(b"half of a page" * 1000)
    with pytest.raises(NoMailbox):
        mailbox.get("level 1")
    assert mailbox.get("level 1") is None
    mailbox.put("level 1", 2, 60)
    assert mailbox.get("level 1") == 2


def test_without_the_client_of_redis_clients_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    site = Asking("redis://127.0.0.1", JSONRPC_MCP_SUBSCRIPTIONS=True)
    for _ in range(2):
        failed = result_of_one(site.client.call("ask"))
        assert failed["isError"] is True
        assert "its workers cannot pass messages to each other" in failed["content"][0]["text"]
    assert caplog.text.count("install flask-jsonrpc-mcp[redis]") == 1
    assert result(site.client.call("plain"))["isError"] is False
    modern = ModernClient(site.site.client, capabilities=CAN_ASK)
    assert error(modern.call("ask"))[1:] == (-32000, NoMailbox.default_message)
    assert result(modern.post("server/discover"))["capabilities"]["tools"] == {}


def result_of_one(response: Any) -> Any:
    """The result of a call, however it came."""
    return events(response)[-1]["result"] if response.mimetype == "text/event-stream" else result(response)


def test_a_redis_that_is_down_fails_only_what_needs_it(no_break: None, caplog: pytest.LogCaptureFixture) -> None:
    site = Asking(f"redis://:secret@127.0.0.1:{free_port()}")
    site.site.tool(lambda: current_call.log("info", "x"), name="log")
    assert result(site.client.call("plain"))["isError"] is False
    assert result(site.client.call("log"))["isError"] is False  # the level of the session is unknown
    failed = result_of_one(site.client.call("ask"))
    assert (failed["isError"], failed["content"][0]["text"].startswith("This server cannot do that")) == (True, True)
    refused = site.client.post("logging/setLevel", {"level": "info"})
    assert (refused.get_json()["id"], error(refused)[1]) == (1, -32000)
    cancel = asking("notifications/cancelled", {"requestId": 1}, id=...)
    assert site.client.send(cancel).status_code == 202
    assert "the mailbox cannot be reached" in caplog.text
    assert "secret" not in caplog.text


def test_a_redis_that_goes_down_ends_the_calls_that_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_redis(tmp_path) as redis:
        site = Asking(redis_url(redis))

        def respond(question: dict[str, Any]) -> None:
            redis.stop()
            assert site.answer(question, result=ADA) == 503

        reply = site.asked(respond)
    assert reply["id"] == 1
    assert text_of(reply).startswith("This server cannot do that")
    assert "cannot be reached" in caplog.text


# The folder, the file and the keys.


def test_only_this_user_can_read_messages_and_keys_are_hashed(mail: Path) -> None:
    site = Asking(mail)
    site.client.post("logging/setLevel", {"level": "info"})
    assert stat.S_IMODE(mail.stat().st_mode) == 0o700
    assert [(kind, value[0]) for kind, value, _ in messages_in(mail)] == [("level", "info")]
    assert all(str(site.client.session).encode() not in file.read_bytes() for file in mail.iterdir())


def test_keys_in_redis_are_hashed_and_expire(redis: Server) -> None:
    with Redis(port=redis.port) as store:
        store.flushall()
        site = Asking(f"unix://{redis.log.parent}/redis.socket")
        site.client.post("logging/setLevel", {"level": "info"})
        kind, message = sorted(store.keys(), key=len)
        assert message.startswith(kind + b":")
        assert kind.startswith(b"flask-jsonrpc-mcp:")
        assert str(site.client.session).encode() not in message
        assert all(0 < store.ttl(key) <= 60 * 60 for key in (kind, message))


def test_apps_with_different_secret_keys_do_not_share_messages(place: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sites in one temp folder, or in one Redis."""
    if isinstance(place, Path):
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
    where = None if isinstance(place, Path) else place
    one, other = (make_app(McpBlueprint(), JSONRPC_MCP_MAILBOX=where) for _ in range(2))
    one.secret_key, other.secret_key = "one", "other"  # after registration, as many apps do
    one.extensions[EXTENSION].put("answer 1", 1, 60)
    assert other.extensions[EXTENSION].get("answer 1") is None
    assert one.extensions[EXTENSION].get("answer 1") == 1


def test_a_folder_that_others_can_read_is_refused(mail: Path) -> None:
    mail.mkdir(mode=0o755)
    with pytest.raises(RuntimeError, match="JSONRPC_MCP_MAILBOX"):
        Asking(mail)


def test_a_folder_that_others_can_read_meanwhile_is_not_used(
    mail: Path, no_break: None, caplog: pytest.LogCaptureFixture
) -> None:
    site = Asking(mail)
    mail.mkdir()
    mail.chmod(0o755)
    assert result_of_one(site.client.call("ask"))["isError"] is True
    assert "is not a folder that only this user can read and write" in caplog.text
    assert result(site.client.call("plain"))["isError"] is False
    assert list(mail.iterdir()) == []
    mail.chmod(0o700)
    assert result(site.client.post("logging/setLevel", {"level": "info"})) == {}


def test_a_link_in_the_temp_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    temp, elsewhere = tmp_path / "temp", tmp_path / "elsewhere"
    temp.mkdir()
    elsewhere.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    site = Asking(None)
    site.client.post("logging/setLevel", {"level": "info"})
    (folder,) = temp.iterdir()
    assert folder.name.startswith("flask-jsonrpc-mcp-")
    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    assert result_of_one(site.client.call("ask"))["isError"] is True
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_another_user_has_made_meanwhile_is_not_used(
    tmp_path: Path, no_break: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    site = Asking(None, JSONRPC_MCP_ANSWER_TIMEOUT=1)
    site.client.post("logging/setLevel", {"level": "info"})
    (folder,) = tmp_path.iterdir()
    shutil.rmtree(folder)  # as a job does that cleans the temp folder
    folder.mkdir(mode=0o700)
    with monkeypatch.context() as patched:
        patched.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
        assert result_of_one(site.client.call("ask"))["isError"] is True
    assert "is not a folder that only this user can read and write" in caplog.text
    assert list(folder.iterdir()) == []


def test_a_folder_that_was_swept_away_is_made_again(mail: Path) -> None:
    site = Asking(mail)
    for _ in range(2):
        assert result(site.client.post("logging/setLevel", {"level": "info"})) == {}
        shutil.rmtree(mail)


def test_a_relative_folder_is_in_the_instance_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a relative database of Flask-SQLAlchemy: the folder does not depend on where the process was started."""
    started, instance = tmp_path / "started", tmp_path / "instance"
    started.mkdir()
    monkeypatch.chdir(started)
    app = Flask("site", instance_path=str(instance))
    app.config["JSONRPC_MCP_MAILBOX"] = "mail"
    app.register_blueprint(McpBlueprint())
    app.extensions[EXTENSION].put("answer 1", 1, 60)
    assert (instance / "mail" / FILE).exists()
    assert list(started.iterdir()) == []


@pytest.mark.parametrize("setting", [5, True, "", ["folder"], "memcached://localhost", "http://redis"])
def test_a_setting_that_cannot_work_raises(setting: object) -> None:
    with pytest.raises(ValueError, match="JSONRPC_MCP_MAILBOX must be a folder or a redis:// URL"):
        make_app(McpBlueprint(), JSONRPC_MCP_MAILBOX=setting)


@pytest.mark.parametrize(("name", "least"), [("ANSWER_TIMEOUT", 1), ("MAX_WAITING", 0)])
@pytest.mark.parametrize("value", [-1, 0.5, "4", None, True])
def test_a_limit_that_cannot_work_raises(name: str, least: int, value: object) -> None:
    with pytest.raises(ValueError, match=f"JSONRPC_MCP_{name} must be a whole number of at least {least}"):
        make_app(McpBlueprint(), **{f"JSONRPC_MCP_{name}": value})


# What anyone can send.


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
def test_a_flood_of_messages_is_bounded_and_pushes_out_no_others(
    mail: Path, little_room: None, flood: Callable[[Asking], None]
) -> None:
    site = Asking(mail, JSONRPC_MCP_SUBSCRIPTIONS=True)
    site.site.app.extensions[EXTENSION].put("answer to a question", "kept", 30)  # it expires before all others
    flood(site)
    values = [value for _, value, _ in messages_in(mail)]
    assert (values[0], len(values)) == ("kept", 11)


@pytest.mark.parametrize("flood", [give_up_many_requests, announce_many_changes])
def test_a_level_outlives_a_flood_of_other_messages(
    place: object, little_room: None, flood: Callable[[Asking], None]
) -> None:
    site = Asking(place, JSONRPC_MCP_SUBSCRIPTIONS=True)
    site.site.tool(lambda: current_call.log("info", "x"), name="log")
    site.client.post("logging/setLevel", {"level": "info"})
    flood(site)
    assert len(events(site.client.call("log"))) == 2


def test_what_has_expired_is_removed_with_the_next_message(mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox, now = open_mailbox(mail), time.time()
    mailbox.put("answer to a question", "typed by someone", 30)
    mailbox.put("answer to another", "kept", 90)
    set_clock(monkeypatch, now + 80)
    mailbox.put("change of something", "left", 30)
    assert [value for _, value, _ in messages_in(mail)] == ["kept", "left"]
