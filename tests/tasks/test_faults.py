"""What is promised of tasks when something goes wrong, on each deployment."""

from __future__ import annotations

import secrets
import threading
from functools import partial

import pytest

from flask_jsonrpc_mcp.tasks import run, tasks_of
from flask_jsonrpc_mcp.tasks.database import tasks
from tests.conftest import basic
from tests.support.answering import accept
from tests.support.mcp_messages import error, result
from tests.support.waiting import until
from tests.tasks.conftest import LEASE, Deployment, TaskClient

LOST = "The worker that ran this has gone; it may have done a part of its work"


def start_running(deployment: Deployment, client: TaskClient, tool: str, name: str) -> str:
    task_id = client.start(tool, name=name)
    until(lambda: deployment.runs(name))
    return task_id


def has_run(deployment: Deployment, name: str, number: int) -> bool:
    return len(deployment.runs(name)) == number


def is_over(deployment: Deployment, task_id: str) -> bool:
    """Look at the table, because to ask for a task may change it."""
    record = tasks_of(deployment.app).records.get(task_id)
    return record is not None and record.is_over


def lease_of(deployment: Deployment, task_id: str) -> float:
    record = tasks_of(deployment.app).records.get(task_id)
    assert record is not None
    return record.lease or 0.0


def test_a_task_whose_worker_is_killed_fails_and_says_that_a_part_may_be_done(deployment: Deployment) -> None:
    client = deployment.client()
    with deployment.worker() as worker:
        task_id = start_running(deployment, client, "work", "a")
        worker.kill()
    failed = client.end(task_id)
    assert (failed["status"], failed["error"]) == ("failed", {"code": -32603, "message": LOST})
    assert failed["statusMessage"] == LOST
    assert len(deployment.runs("a")) == 1


def test_a_task_whose_worker_is_killed_fails_without_anyone_asking_for_it(deployment: Deployment) -> None:
    client = deployment.client()
    with deployment.worker() as worker:
        task_id = start_running(deployment, client, "work", "a")
        worker.kill()
    with deployment.worker():
        until(partial(is_over, deployment, task_id))
    assert client.get(task_id)["status"] == "failed"
    assert len(deployment.runs("a")) == 1


def test_a_task_whose_worker_is_killed_is_audited_once(deployment: Deployment) -> None:
    client = deployment.client()
    with deployment.worker() as worker:
        task_id = start_running(deployment, client, "work", "a")
        worker.kill()
    with deployment.worker():  # which notices it, as does the process that is asked
        assert client.end(task_id)["status"] == "failed"
        assert client.end(client.start("quick", name="b"))["status"] == "completed"
        until(lambda: deployment.audited("quick") and deployment.audited("work"))
    [record] = deployment.audited("work")
    assert (record["outcome"], record["arguments"]) == ("worker_lost", {"name": "a"})
    assert (record["face"], record["caller"], record["credential"]) == ("mcp", "ada", "basic")
    assert (record["address"], record["client"]) == ("127.0.0.1", "test 1")


def test_an_idempotent_task_whose_worker_is_killed_runs_again(deployment: Deployment) -> None:
    client = deployment.client()
    with deployment.worker() as worker:
        task_id = start_running(deployment, client, "steady", "a")
        worker.kill()
    deployment.let_go("a")
    with deployment.worker():
        ended = client.end(task_id)
    assert (ended["status"], ended["result"]["structuredContent"]) == ("completed", {"name": "a"})
    assert len(set(deployment.runs("a"))) == 2
    assert [record["outcome"] for record in deployment.audited("steady")] == ["ok"]


def test_a_task_that_ends_its_worker_runs_three_times_at_most(deployment: Deployment) -> None:
    deployment.make_app(JSONRPC_MCP_TASK_LEASE=1)
    client = deployment.client()
    task_id = client.start("poison", name="a")
    for number in (1, 2, 3):
        with deployment.worker(JSONRPC_MCP_TASK_LEASE=1):
            until(partial(has_run, deployment, "a", number))
    with deployment.worker(JSONRPC_MCP_TASK_LEASE=1):
        failed = client.end(task_id)
        assert failed["error"] == {"code": -32603, "message": "Running this ended its worker 3 times"}
        assert client.end(client.start("quick", name="b"))["status"] == "completed"
    assert len(deployment.runs("a")) == 3
    assert [record["outcome"] for record in deployment.audited("poison")] == ["worker_lost"]


def test_a_task_that_is_delivered_51_times_runs_once(deployment: Deployment) -> None:
    client = deployment.client()
    task_id = client.start("quick", name="a")

    def deliver() -> None:
        with deployment.app.app_context():
            run(task_id)

    threads = [threading.Thread(target=deliver) for _ in range(51)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get(task_id)["status"] == "completed"
    assert len(deployment.runs("a")) == 1


FOREIGN = {"another user": ("bob", "/mcp"), "anonymous": (None, "/mcp"), "another blueprint": ("ada", "/other/mcp")}


@pytest.mark.parametrize("who", FOREIGN)
def test_a_foreign_task_looks_like_one_that_never_was(deployment: Deployment, who: str) -> None:
    task_id, (user, path) = deployment.client().start("work", name="a"), FOREIGN[who]
    records = tasks_of(deployment.app).records
    before, stranger = records.get(task_id), deployment.client(user, path=path)
    never = secrets.token_urlsafe(32)
    for method, params in (
        ("get", {}),
        ("update", {"inputResponses": {"colour": accept(colour="red")}}),
        ("cancel", {}),
    ):
        seen = [stranger.task(method, each, **params) for each in (task_id, never)]
        assert [error(each) for each in seen] == [(400, -32602, "Task not found")] * 2
        real, random = [(each.status_code, sorted(each.headers), each.data) for each in seen]
        assert real == random
    assert records.get(task_id) == before


def test_a_queued_task_that_is_cancelled_never_runs(deployment: Deployment) -> None:
    client = deployment.client()
    task_id = client.start("quick", name="a")
    first = client.task("cancel", task_id)
    assert client.get(task_id)["status"] == "cancelled"
    assert client.task("cancel", task_id).data == first.data
    with deployment.worker():
        assert client.end(client.start("quick", name="b"))["status"] == "completed"
    assert deployment.runs("a") == []
    assert client.get(task_id)["status"] == "cancelled"


def test_a_running_task_sees_that_it_is_cancelled(served: Deployment) -> None:
    client = served.client()
    task_id = start_running(served, client, "patient", "a0")
    client.cancel(task_id)
    asked = client.get(task_id)
    assert asked["status"] == "cancelled" or asked["statusMessage"] == "Cancelling"
    ended = client.end(task_id)
    assert ended["status"] == "cancelled"
    assert "result" not in ended
    assert len(served.runs("a0-cancelled")) == 1


def test_a_task_that_ignores_its_cancellation_has_its_real_end(served: Deployment) -> None:
    client = served.client()
    task_id = start_running(served, client, "work", "a1")
    client.cancel(task_id)
    assert client.get(task_id)["status"] == "working"
    served.let_go("a1")
    ended = client.end(task_id)
    assert (ended["status"], ended["result"]["structuredContent"]) == ("completed", {"name": "a1"})
    client.cancel(task_id)
    assert client.get(task_id) == ended


def test_a_cancellation_and_an_end_at_once_leave_one_final_state(served: Deployment) -> None:
    clients = [served.client() for _ in range(8)]
    ids = [client.start("quick", name=f"race-{number}") for number, client in enumerate(clients)]
    pairs = list(zip(clients, ids, strict=True))
    threads = [threading.Thread(target=client.cancel, args=(task_id,)) for client, task_id in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = [client.end(task_id) for client, task_id in pairs]
    assert [client.get(task_id)["status"] for client, task_id in pairs] == [each["status"] for each in ended]
    for number, each in enumerate(ended):
        assert len(served.runs(f"race-{number}")) <= 1
        assert ("result" in each) == (each["status"] == "completed")


def test_a_queued_task_does_not_run_for_a_caller_who_may_not_any_more(deployment: Deployment) -> None:
    writers = {name: {"id": number, "permissions": ["write"]} for number, name in enumerate(("ada", "bob", "eve"))}
    deployment.set_users(**writers)
    ids = {name: deployment.client(name).start("write", name=name) for name in writers}
    # Ada may not write any more, Bob is deleted, and Eve's name belongs to another user.
    deployment.set_users(ada={"id": 0, "permissions": []}, eve={"id": 9, "permissions": ["write"]})
    with deployment.worker():
        for task_id in ids.values():
            until(partial(is_over, deployment, task_id))
    deployment.set_users(**writers)
    for name, task_id in ids.items():
        failed = deployment.client(name).get(task_id)
        assert (failed["status"], failed["error"]) == ("failed", {"code": -32602, "message": "Unknown tool: write"})
        assert deployment.runs(name) == []


def test_a_permission_that_came_later_does_not_count(deployment: Deployment) -> None:
    """Permissions are those at the creation and in the worker, both: a task does not gain any."""
    client = deployment.client("bob")
    assert error(client.call("write", {"name": "a"})) == (400, -32602, "Unknown tool: write")


def test_a_task_runs_as_its_caller(served: Deployment) -> None:
    client = served.client()
    ended = client.end(client.start("write", name="a3"))
    assert ended["result"]["structuredContent"] == "ada"


def test_questions_in_a_task_are_asked_until_each_has_its_answer(served: Deployment) -> None:
    client = served.client()
    task_id = client.start("ask_two", name="a4")
    assert list(client.wait(task_id, "input_required")["inputRequests"]) == ["first", "second"]
    client.answer(task_id, first=accept(n=1), unasked=accept(n=5))
    left = client.get(task_id)
    assert (left["status"], list(left["inputRequests"])) == ("input_required", ["second"])
    client.answer(task_id, first=accept(n=9))  # it has its answer
    client.answer(task_id, second=accept(n="two"))
    again = client.wait(task_id, "input_required")
    assert list(again["inputRequests"]) == ["second~2"]
    client.answer(task_id, second=accept(n=7))  # an old key
    client.answer(task_id, **{"second~2": accept(n=2)})
    ended = client.end(task_id)
    assert ended["result"]["structuredContent"] == "1 2"


def test_of_two_answers_at_once_one_counts(served: Deployment) -> None:
    client = served.client()
    task_id = client.start("ask", name="a5")
    client.wait(task_id, "input_required")
    clients = [served.client() for _ in range(6)]
    colours = [f"colour {number}" for number in range(6)]
    threads = [
        threading.Thread(target=each.answer, args=(task_id,), kwargs={"colour": accept(colour=colour)})
        for each, colour in zip(clients, colours, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.end(task_id)["result"]["structuredContent"] in colours
    assert len(served.runs("a5")) == 2


def test_an_answer_after_the_cancellation_has_no_effect(served: Deployment) -> None:
    client = served.client()
    task_id = client.start("ask", name="a6")
    client.wait(task_id, "input_required")
    client.cancel(task_id)
    cancelled = client.get(task_id)
    client.answer(task_id, colour=accept(colour="red"))
    assert client.get(task_id) == cancelled
    assert client.end(client.start("quick", name="b6"))["status"] == "completed"
    assert cancelled["status"] == "cancelled"
    assert len(served.runs("a6")) == 1


def test_a_result_that_cannot_be_kept_is_an_error_of_the_tool(served: Deployment) -> None:
    client, limit = served.client(), 1024 * 1024
    too_big = f"The result has {limit + 12} bytes; a task can store at most {limit}"
    for tool, arguments, text in (
        ("size", {"characters": limit}, too_big),
        ("broken", {"kind": "nan"}, "Internal error, see the server log for id "),
        ("broken", {"kind": "object"}, "Internal error, see the server log for id "),
    ):
        ended = client.end(client.start(tool, **arguments))
        assert (ended["status"], ended["result"]["isError"]) == ("completed", True)
        assert ended["result"]["content"][0]["text"].startswith(text)
    assert client.end(client.start("quick", name="b7"))["result"]["isError"] is False


def test_an_expired_task_is_gone_whatever_it_did(deployment: Deployment) -> None:
    client = deployment.client()
    records = tasks_of(deployment.app).records
    queued = client.start("quick", name="queued")
    expire(deployment, queued)
    with deployment.worker():
        done = client.start("quick", name="done")
        client.end(done)
        asked = client.start("ask", name="asked")
        client.wait(asked, "input_required")
        running = start_running(deployment, client, "patient", "running")
        for task_id in (done, asked, running):
            expire(deployment, task_id)
        for task_id in (queued, done, asked, running):
            for method in ("get", "update", "cancel"):
                refused = client.task(method, task_id, inputResponses={})
                assert error(refused) == (400, -32602, "Task not found")
        until(lambda: deployment.runs("running-cancelled"))
        until(lambda: records.count(10) == 0)
    assert deployment.runs("queued") == []


def expire(deployment: Deployment, task_id: str) -> None:
    states = ("queued", "running", "input_required", "completed")
    assert tasks_of(deployment.app).records.change(task_id, states, expires=0.0)


def test_a_caller_with_too_many_tasks_gets_429_and_others_are_served(deployment: Deployment) -> None:
    deployment.make_app(JSONRPC_MCP_MAX_TASKS=2, JSONRPC_MCP_MAX_QUEUED=5)
    ada, bob, anyone = (deployment.client(user) for user in ("ada", "bob", None))
    first = [ada.start("quick", name="a"), ada.start("quick", name="b")]
    refused = ada.call("quick", {"name": "c"})
    text = "You have 2 tasks that are not over; wait for one of them, or cancel it"
    assert (*error(refused), refused.headers["Retry-After"]) == (429, -32005, text, "5")
    bob.start("quick", name="d")
    anyone.start("quick", name="e")
    ada.cancel(first[0])
    ada.start("quick", name="f")
    anyone.start("quick", name="g")
    full = bob.call("quick", {"name": "h"})
    text = "Too many tasks wait for a worker; try again later"
    assert (*error(full), full.headers["Retry-After"]) == (503, -32004, text, "5")
    assert result(bob.call("plain", {"name": "i"}))["structuredContent"] == "i"


def test_a_method_that_holds_the_lock_of_the_interpreter_is_not_lost(served: Deployment) -> None:
    client = served.client()
    ended = client.end(client.start("holder", name="a8", seconds=LEASE / 2))
    assert (ended["status"], len(served.runs("a8"))) == ("completed", 1)


def test_workers_whose_clocks_differ_do_not_lose_a_task(deployment: Deployment) -> None:
    client, records = deployment.client(), tasks_of(deployment.app).records
    with deployment.worker(TASKS_CLOCK_SHIFT=-LEASE / 6):
        task_id = start_running(deployment, client, "work", "a")
        with deployment.worker(TASKS_CLOCK_SHIFT=LEASE / 6):
            until(lambda: len(records.seen_workers(LEASE)) == 2)
            first = lease_of(deployment, task_id)
            until(lambda: lease_of(deployment, task_id) > first + 2 * LEASE)
            deployment.let_go("a")
            assert client.end(task_id)["status"] == "completed"
    assert len(deployment.runs("a")) == 1


def test_a_task_without_a_worker_says_so(deployment: Deployment) -> None:
    client = deployment.client()
    task_id = client.start("quick", name="a")
    waiting = until(lambda: client.get(task_id).get("statusMessage"))
    assert waiting == "Waiting for a worker; none is running"


def test_a_worker_that_is_told_to_stop_ends_after_what_it_runs(deployment: Deployment) -> None:
    client = deployment.client()
    with deployment.worker() as worker:
        task_id = start_running(deployment, client, "work", "a")
        worker.process.terminate()
        until(lambda: deployment.stopping in worker.log.read_text())
        late = client.start("quick", name="b")
        deployment.let_go("a")
        worker.process.wait(timeout=60)
        assert client.get(task_id)["status"] == "completed"
    assert deployment.runs("b") == []
    with deployment.worker():
        assert client.end(late)["status"] == "completed"


def test_nothing_of_a_credential_is_stored(deployment: Deployment) -> None:
    deployment.set_users(**{"ada-the-password": {"id": 1, "permissions": []}})
    client = TaskClient(deployment.make_app().test_client(), basic("ada-the-password"))
    record = tasks_of(deployment.app).records.get(client.start("quick", name="a"))
    assert record is not None
    # The name of the user, which is the password in these tests, is stored twice.
    stored = repr({**vars(record), "user": "", "caller": {**record.caller, "user": "", "identity": []}})
    assert "ada-the-password" not in stored
    assert "Basic" not in stored


def test_the_arguments_and_answers_of_a_task_that_is_over_are_erased(served: Deployment) -> None:
    client = served.client()
    task_id = client.start("ask", name="secret argument")
    client.wait(task_id, "input_required")
    client.answer(task_id, colour=accept(colour="secret answer"))
    client.end(task_id)
    [record] = tasks_of(served.app).records.find(tasks.c.id == task_id)
    assert (record.call, record.answers, record.pending) == (None, None, None)
