"""Tasks by REST and JSON-RPC: a handle where the caller prefers one, its outcome, and the list of a caller's own."""

from __future__ import annotations

import base64
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from flask_jsonrpc_mcp.levels import EXTENSION as WAITING
from flask_jsonrpc_mcp.levels import waiting_slot
from flask_jsonrpc_mcp.tasks import tasks_of
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import Site, asking, basic, make_auth, make_token_auth
from tests.support.waiting import until

ASYNC = {"Prefer": "respond-async"}
WRITER, ADMIN = basic("writer"), basic("admin")
INVALID_CURSOR = "Invalid cursor: send the nextCursor of the page before, or none"
NO_WORKER = "Waiting for a worker; none is running"


def make_site(**config: Any) -> Site:
    """A site whose tasks run in `McpTestClient.run_tasks`, or with a database in threads of this process."""
    rpc = McpBlueprint(auth=make_auth())

    @rpc.method("reports.build")
    @mcp_tool(task=True)
    def build(year: int) -> dict[str, int]:
        """Build a report."""
        if year < 1900:
            raise RpcError("There are no books that old", data={"first": 1900})
        current_call.progress(12, 12, "December")
        return {"pages": year % 100}

    @rpc.method("reports.archive")
    @mcp_tool(task="required")
    def archive() -> str:
        """Archive all reports."""
        return "archived"

    @rpc.method("reports.ask")
    @mcp_tool(task=True)
    def ask() -> str:
        """Ask before the report is built."""
        return str(current_call.elicit("Which year?", {"year": int}).content)

    @rpc.method("reports.count")
    @mcp_tool
    def count() -> int:
        """Count the reports."""
        return 3

    return Site(rpc, **config)


@pytest.fixture
def site() -> Site:
    return make_site()


@pytest.fixture
def worker(site: Site) -> McpTestClient:
    return McpTestClient(site.app)


def task_of(response: TestResponse, **expected: Any) -> dict[str, Any]:
    """The task in a reply, after a look at what differs from run to run."""
    body = response.get_json()
    task = dict(body.get("result", body)["task"] if "task" not in body else body["task"])
    task_id = task["id"]
    assert re.fullmatch(r"[\w-]{43}", task_id)
    for name in ("created", "updated", "expires"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", task.pop(name))
    if task["status"] == "working":
        assert task.pop("message") in (None, NO_WORKER)  # by how long it has waited
    assert task == {"id": task_id, "url": f"/mcp/tasks/{task_id}", "tool": "reports.build"} | expected
    return task | {"id": task_id}


QUEUED = {"status": "working", "progress": None}
DONE = {"status": "completed", "message": None, "progress": {"done": 12, "total": 12, "message": "December"}}


# REST


def test_a_caller_who_prefers_so_gets_a_handle_and_later_the_result(site: Site, worker: McpTestClient) -> None:
    response = site.invoke("reports.build", {"year": 2026}, headers=ASYNC)
    task = task_of(response, **QUEUED)
    assert response.status_code == 202
    headers = {
        name: response.headers[name] for name in ("Location", "Retry-After", "Preference-Applied", "Cache-Control")
    }
    assert headers == {
        "Location": task["url"],
        "Retry-After": "1",
        "Preference-Applied": "respond-async",
        "Cache-Control": "no-store",
    }
    waiting = site.client.get(task["url"])
    assert (waiting.status_code, waiting.headers["Retry-After"]) == (200, "1")
    assert waiting.get_json().keys() == {"task"}
    task_of(waiting, **QUEUED)
    assert worker.run_tasks() == 1
    done = site.client.get(task["url"])
    task_of(done, **DONE)
    assert done.get_json()["result"] == {"pages": 26}
    assert done.get_json().keys() == {"task", "result"}
    assert (done.status_code, "Retry-After" in done.headers, done.headers["Cache-Control"]) == (200, False, "no-store")


@pytest.mark.parametrize(
    "prefer",
    [
        "",
        "return=minimal",
        "respond-async=no",
        "wait=soon",
        "wait=-1",
        'foo="a, respond-async, b"',
        "respond" + " " * 200_000 + "async",  # read in a time that grows with its length alone
    ],
)
def test_without_that_preference_the_tool_runs_in_the_request(site: Site, worker: McpTestClient, prefer: str) -> None:
    response = site.invoke("reports.build", {"year": 2026}, headers={"Prefer": prefer})
    assert (response.status_code, response.get_json()) == (200, {"result": {"pages": 26}})
    assert "Preference-Applied" not in response.headers


@pytest.mark.parametrize(
    "prefer",
    ["Respond-Async", "handling=lenient, respond-async", 'respond-async; foo="bar"', "return=minimal,respond-async"],
)
def test_the_preference_is_read_as_its_rfc_says(site: Site, worker: McpTestClient, prefer: str) -> None:
    response = site.invoke("reports.build", {"year": 2026}, headers={"Prefer": prefer})
    assert (response.status_code, response.headers["Preference-Applied"]) == (202, "respond-async")


def test_other_tools_ignore_the_preference(site: Site) -> None:
    response = site.invoke("reports.count", {}, headers=ASYNC)
    assert (response.status_code, response.get_json()) == (200, {"result": 3})


def test_a_caller_who_waits_gets_the_result_itself(tmp_path: Path) -> None:
    site = make_site(JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{tmp_path / 'tasks.db'}")
    response = site.invoke("reports.build", {"year": 2026}, headers={"Prefer": "respond-async, wait=30"})
    assert (response.status_code, response.get_json()) == (200, {"result": {"pages": 26}})
    assert response.headers["Preference-Applied"] == "respond-async, wait=30"
    assert "Location" not in response.headers
    failing: list[tuple[str, dict[str, int]]] = [("reports.build", {"year": 1}), ("reports.ask", {})]
    for name, arguments in failing:
        failed = site.invoke(name, arguments, headers={"Prefer": "wait=30"})
        plain = site.invoke(name, arguments)
        assert (failed.status_code, failed.get_json()) == (plain.status_code, plain.get_json())
        assert failed.headers["Preference-Applied"] == "wait=30"


def test_a_caller_who_waits_in_vain_gets_a_handle(site: Site, worker: McpTestClient) -> None:
    response = site.invoke("reports.build", {"year": 2026}, headers={"Prefer": "wait=0"})
    task_of(response, **QUEUED)
    assert (response.status_code, response.headers["Preference-Applied"]) == (202, "wait=0")


@pytest.mark.parametrize("path", ["/mcp/tools/reports.build", "/jsonrpc"])
def test_a_caller_gets_a_handle_at_once_if_too_many_wait_already(tmp_path: Path, path: str) -> None:
    database = f"sqlite:///{tmp_path / 'tasks.db'}"
    site = make_site(JSONRPC_MCP_TASKS_DATABASE=database, JSONRPC_MCP_MAX_WAITING=1)
    body = {"year": 2026} if path != "/jsonrpc" else asking("reports.build", {"year": 2026})
    with site.app.app_context(), waiting_slot():
        response = site.client.post(path, json=body, headers={"Prefer": "respond-async, wait=30"})
        assert (response.status_code, response.headers["Preference-Applied"]) == (202, "respond-async")
    waited = site.client.post(path, json=body, headers={"Prefer": "respond-async, wait=30"})
    assert (waited.status_code, waited.headers["Preference-Applied"]) == (200, "respond-async, wait=30")


def test_a_caller_who_waits_counts_as_a_client_that_waits(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'tasks.db'}"
    site = make_site(JSONRPC_MCP_TASKS_DATABASE=database, JSONRPC_MCP_MAX_WAITING=1)
    may_end, replies = threading.Event(), []

    @site.rpc.tool("reports.long", task=True)
    def long() -> str:
        """Build a report that takes long."""
        assert may_end.wait(60)
        return "long"

    def call() -> None:
        replies.append(site.invoke("reports.long", {}, headers={"Prefer": "wait=60"}))

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: site.app.extensions.get(WAITING))
    second = site.invoke("reports.build", {"year": 2026}, headers={"Prefer": "wait=60"})
    may_end.set()
    thread.join()
    assert (second.status_code, replies[0].get_json()) == (202, {"result": "long"})
    assert not site.app.extensions[WAITING]


class NoTables:
    """An engine that makes the database unusable as soon as a task is stored."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def offer(self, task_id: str, queue: str | None) -> None:
        self.rename("mcp_{}", "{}_away")

    def rename(self, old: str, new: str) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            for table in ("tasks", "task_workers"):
                connection.execute(f"ALTER TABLE {old.format(table)} RENAME TO {new.format(table)}")


@pytest.mark.parametrize("path", ["/mcp/tools/reports.build", "/jsonrpc"])
def test_a_caller_who_waits_keeps_the_handle_when_the_database_fails(tmp_path: Path, path: str) -> None:
    """A caller who is told to try again would run the tool twice."""
    engine = NoTables(tmp_path / "tasks.db")
    site = make_site(JSONRPC_MCP_TASKS=engine, JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{engine.file}")
    body = {"year": 2026} if path != "/jsonrpc" else asking("reports.build", {"year": 2026})
    response = site.client.post(path, json=body, headers={"Prefer": "wait=2"})
    assert response.status_code == 202
    task = task_of(response, **QUEUED)
    assert response.headers["Location"] == task["url"]
    engine.rename("{}_away", "mcp_{}")
    task_of(site.client.get(task["url"]), **QUEUED)
    tasks_of(site.app).records.close()


def test_a_tool_that_requires_tasks_always_answers_with_one(site: Site, worker: McpTestClient) -> None:
    response = site.invoke("reports.archive", {})
    task = task_of(response, tool="reports.archive", **QUEUED)
    assert (response.status_code, "Preference-Applied" in response.headers) == (202, False)
    worker.run_tasks()
    assert site.client.get(task["url"]).get_json()["result"] == "archived"
    notified = site.rpc_post([asking("reports.archive", id=1)])
    assert notified.status_code == 200
    assert notified.get_json()[0]["result"]["task"]["status"] == "working"


def test_what_is_wrong_with_a_call_is_said_at_once(site: Site, worker: McpTestClient) -> None:
    plain = site.invoke("reports.build", {"year": "soon"})
    response = site.invoke("reports.build", {"year": "soon"}, headers=ASYNC)
    assert (response.status_code, response.get_json()) == (plain.status_code, plain.get_json())
    assert response.status_code == 400
    assert worker.run_tasks() == 0


def test_an_error_of_the_tool_is_written_as_in_the_plain_call(site: Site, worker: McpTestClient) -> None:
    plain = site.invoke("reports.build", {"year": 1})
    url = site.invoke("reports.build", {"year": 1}, headers=ASYNC).headers["Location"]
    worker.run_tasks()
    response = site.client.get(url)
    task_of(response, **{**DONE, "progress": None})
    assert response.status_code == 200
    assert response.get_json()["error"] == plain.get_json()["error"]
    assert response.get_json()["error"] == {
        "code": "execution_error",
        "message": "Tool execution failed: There are no books that old",
        "data": {"first": 1900},
    }


def test_errors_and_progress_are_limited_as_results_are() -> None:
    site = make_site(JSONRPC_MCP_TASK_MAX_RESULT=1000)

    @site.rpc.tool("reports.fail", task=True)
    def fail() -> None:
        """Fail with many words."""
        current_call.progress(1, 2, "so\nfar " * 1000)
        raise RpcError("Too old", data={"words": "x" * 1000})

    worker = McpTestClient(site.app)
    url = site.invoke("reports.fail", {}, headers=ASYNC).headers["Location"]
    worker.run_tasks()
    body = site.client.get(url).get_json()
    message = body["error"]["message"]
    assert re.fullmatch(r".*: The result has 1\d\d\d bytes; a task can store at most 1000", message)
    assert (body["task"]["status"], "data" in body["error"]) == ("completed", False)
    assert body["task"]["progress"] == {"done": 1, "total": 2, "message": ("so far " * 1000)[:999] + "…"}


def test_a_caller_who_cannot_be_asked_gets_that_as_the_outcome(site: Site, worker: McpTestClient) -> None:
    url = site.invoke("reports.ask", {}, headers=ASYNC).headers["Location"]
    worker.run_tasks()
    body = site.client.get(url).get_json()
    assert (body["task"]["status"], body["error"]["code"]) == ("failed", "missing_capability")
    assert body["error"] == site.invoke("reports.ask", {}).get_json()["error"]


def test_delete_cancels_what_waits_and_leaves_what_is_over(site: Site, worker: McpTestClient) -> None:
    url = site.invoke("reports.build", {"year": 2026}, headers=ASYNC).headers["Location"]
    for _ in range(2):
        cancelled = site.client.delete(url)
        task_of(cancelled, status="cancelled", message=None, progress=None)
        assert (cancelled.status_code, cancelled.get_json().keys()) == (200, {"task"})
    assert worker.run_tasks() == 0


def test_a_running_task_is_asked_to_end() -> None:
    site = make_site()
    started: list[tuple[int, str, str]] = []

    @site.rpc.tool("reports.endless", task=True)
    def endless() -> str:
        """Run until it is cancelled."""
        response = site.client.delete(url[0], headers=WRITER)
        started.append((response.status_code, response.headers["Retry-After"], response.get_json()["task"]["message"]))
        return "done anyway"

    worker = McpTestClient(site.app)
    url = [site.invoke("reports.endless", {}, headers=ASYNC).headers["Location"]]
    worker.run_tasks()
    assert started == [(202, "1", "Cancelling")]
    assert site.client.get(url[0]).get_json()["result"] == "done anyway"


# Whose they are


def test_a_task_of_another_caller_looks_as_if_it_did_not_exist(site: Site, worker: McpTestClient) -> None:
    url = site.invoke("reports.build", {"year": 2026}, headers=ASYNC | WRITER).headers["Location"]
    unknown = "/mcp/tasks/" + "x" * 43
    for headers in ({}, ADMIN):
        for verb in ("GET", "DELETE", "HEAD"):
            foreign, random = (site.client.open(path, method=verb, headers=headers) for path in (url, unknown))
            assert (foreign.status, foreign.headers, foreign.data) == (random.status, random.headers, random.data)
            assert foreign.status_code == 404
        for method in ("rpc.tasks.get", "rpc.tasks.cancel"):
            asked = [asking(method, {"id": path.rpartition("/")[2]}) for path in (url, unknown)]
            foreign, random = (site.rpc_post(each, headers=headers) for each in asked)
            assert (foreign.status, foreign.headers, foreign.data) == (random.status, random.headers, random.data)
    assert site.client.get(unknown).get_json() == {"error": {"code": "task_not_found", "message": "Task not found"}}
    assert site.client.get(url, headers=WRITER).get_json()["task"]["status"] == "working"


def test_a_caller_finds_their_own_tasks_again_the_newest_first(site: Site, worker: McpTestClient) -> None:
    site.app.config["JSONRPC_MCP_PAGE_SIZE"] = 2
    made = [site.invoke("reports.build", {"year": 2000 + number}, headers=ASYNC | WRITER) for number in range(5)]
    ids = [response.get_json()["task"]["id"] for response in made][::-1]
    site.invoke("reports.build", {"year": 2026}, headers=ASYNC | ADMIN)
    site.invoke("reports.build", {"year": 2026}, headers=ASYNC)
    site.client.delete(f"/mcp/tasks/{ids[1]}", headers=WRITER)

    def listed(**query: str) -> tuple[list[str], str | None]:
        response = site.client.get("/mcp/tasks", query_string=query, headers=WRITER)
        assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
        body = response.get_json()
        assert body["tasks"] == [
            site.client.get(each["url"], headers=WRITER).get_json()["task"] for each in body["tasks"]
        ]
        return [task["id"] for task in body["tasks"]], body["nextCursor"]

    first, cursor = listed()
    assert cursor is not None
    site.invoke("reports.build", {"year": 2026}, headers=ASYNC | WRITER)  # a newer one does not move the pages
    second, cursor = listed(cursor=cursor)
    assert cursor is not None
    third, end = listed(cursor=cursor)
    assert (first + second + third, end) == (ids, None)
    assert listed(status="cancelled") == ([ids[1]], None)
    by_rpc = site.rpc_post(asking("rpc.tasks.list", {"status": "cancelled"}), headers=WRITER).get_json()["result"]
    assert by_rpc == site.client.get("/mcp/tasks?status=cancelled", headers=WRITER).get_json()


def test_no_credential_and_no_whole_id_leaves_the_table_of_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    rpc = McpBlueprint(auth=make_token_auth())

    @rpc.tool("say", task=True)
    def say(word: str) -> str:
        """Say a word."""
        current_call.log("info", "saying it")
        return word.upper()

    file = tmp_path / "tasks.db"
    site = Site(rpc, JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{file}")
    worker = McpTestClient(site.app)
    headers = {"Authorization": "Bearer writer-token", "Cookie": "session=cookie-of-writer", **ASYNC}
    url = site.invoke("say", {"word": "argument"}, headers=headers).headers["Location"]

    def stored() -> bytes:
        return b"".join(each.read_bytes() for each in tmp_path.iterdir())

    assert b"argument" in stored()
    assert worker.run_tasks() == 1
    assert site.client.get(url, headers=headers).get_json()["result"] == "ARGUMENT"
    for secret in ("writer-token", "cookie-of-writer", "Bearer "):
        assert secret.encode() not in stored()
        assert secret not in caplog.text
    assert url.rpartition("/")[2] not in caplog.text


def test_those_who_have_not_signed_in_have_no_list(site: Site, worker: McpTestClient) -> None:
    response = site.client.get("/mcp/tasks")
    assert (response.status_code, response.get_json()["error"]["code"]) == (401, "unauthorized")
    assert response.headers["WWW-Authenticate"].startswith("Basic ")
    by_rpc = site.rpc_post(asking("rpc.tasks.list"))
    assert (by_rpc.status_code, by_rpc.get_json()["error"]["code"]) == (401, -32601)
    nothing_to_sign_in = Site(McpBlueprint())
    nothing_to_sign_in.rpc.tool("slow", task=True)(lambda: None)
    response = nothing_to_sign_in.client.get("/mcp/tasks")
    error = {"code": "not_found", "message": "Anonymous callers have no list of tasks"}
    assert (response.status_code, response.get_json()) == (404, {"error": error})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("status=lost", "status must be one of working, input_required, completed, failed, cancelled"),
        ("cursor=nonsense", INVALID_CURSOR),
        ("cursor=%C3%BC", INVALID_CURSOR),
    ],
)
def test_a_list_says_what_it_does_not_understand(site: Site, worker: McpTestClient, query: str, message: str) -> None:
    response = site.client.get(f"/mcp/tasks?{query}", headers=WRITER)
    assert (response.status_code, response.get_json()["error"]["message"]) == (400, message)


def test_an_id_or_cursor_with_nul_is_as_any_other_that_never_was(postgres_url: str) -> None:
    """PostgreSQL refuses a text with NUL."""
    site = make_site(JSONRPC_MCP_TASKS_DATABASE=postgres_url)
    by_path, by_rpc = site.client.get("/mcp/tasks/a%00"), site.rpc_post(asking("rpc.tasks.get", ["a\0"]))
    assert (by_path.status_code, by_path.get_json()["error"]["code"]) == (404, "task_not_found")
    assert by_rpc.get_json()["error"] == {"code": -32602, "message": "Task not found"}
    cursor = base64.urlsafe_b64encode(bytes(8) + b"a\0").decode()
    listed = site.client.get("/mcp/tasks", query_string={"cursor": cursor}, headers=WRITER)
    assert (listed.status_code, listed.get_json()["error"]["message"]) == (400, INVALID_CURSOR)
    tasks_of(site.app).records.close()


def test_without_a_tool_with_tasks_there_is_nothing_at_these_paths() -> None:
    site = Site(McpBlueprint())
    site.tool(lambda: 3, name="count")
    for response in (
        site.client.get("/mcp/tasks"),
        site.client.get("/mcp/tasks/1"),
        site.client.delete("/mcp/tasks/1"),
    ):
        assert (response.status_code, response.get_json()["error"]["code"]) == (404, "not_found")
    response = site.rpc_post(asking("rpc.tasks.get", {"id": "1"}))
    assert response.get_json()["error"] == {"code": -32601, "message": "Method not found"}


def test_the_url_of_a_task_has_the_variables_of_the_blueprints_prefix() -> None:
    rpc = McpBlueprint(url_prefix="/<tenant>")
    rpc.tool("slow", task=True)(lambda: None)
    site = Site(rpc)
    McpTestClient(site.app)
    call = asking("slow", {})
    response = site.client.post("/elm/mcp/tools/slow", json=call, headers=ASYNC)
    task = response.get_json()["result"]["task"]
    assert response.headers["Location"] == task["url"] == f"/elm/mcp/tasks/{task['id']}"
    assert site.client.get(task["url"]).get_json()["task"]["url"] == task["url"]


# JSON-RPC


@pytest.mark.parametrize("path", ["/jsonrpc", "/mcp/tools/reports.build"])
def test_a_json_rpc_call_becomes_a_task_by_the_same_header(site: Site, worker: McpTestClient, path: str) -> None:
    response = site.rpc_post(asking("reports.build", {"year": 2026}), path, headers=ASYNC)
    task = task_of(response, **QUEUED)
    assert response.get_json().keys() == {"jsonrpc", "result", "id"}
    assert (response.status_code, response.headers["Location"]) == (202, task["url"])
    assert (response.headers["Retry-After"], response.headers["Preference-Applied"]) == ("1", "respond-async")
    worker.run_tasks()
    by_name, by_position = (site.rpc_post(asking("rpc.tasks.get", each)) for each in ({"id": task["id"]}, [task["id"]]))
    assert by_name.get_json() == by_position.get_json()
    task_of(by_name, **DONE)
    assert by_name.get_json()["result"]["result"] == {"pages": 26}


def test_an_error_of_the_tool_is_a_json_rpc_error(site: Site, worker: McpTestClient) -> None:
    call = asking("reports.build", {"year": 1})
    plain = site.rpc_post(call).get_json()["error"]
    task_id = site.rpc_post(call, headers=ASYNC).get_json()["result"]["task"]["id"]
    worker.run_tasks()
    assert site.rpc_post(asking("rpc.tasks.get", [task_id])).get_json()["result"]["error"] == plain


def test_a_json_rpc_caller_who_waits_gets_the_result_itself(tmp_path: Path) -> None:
    site = make_site(JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{tmp_path / 'tasks.db'}")
    for year, status in ((2026, 200), (1, 200)):
        call = asking("reports.build", {"year": year})
        response = site.rpc_post(call, headers={"Prefer": "wait=30"})
        assert (response.status_code, response.get_json()) == (status, site.rpc_post(call).get_json())
        assert response.headers["Preference-Applied"] == "wait=30"


def test_batches_and_gets_ignore_the_header(site: Site) -> None:
    batch = site.rpc_post([asking("reports.build", {"year": 2026})], headers=ASYNC)
    assert batch.get_json() == [{"jsonrpc": "2.0", "result": {"pages": 26}, "id": 1}]
    site.app.config["JSONRPC_MCP_GET_METHODS"] = "all"
    assert site.rpc_get(asking("reports.build", {"year": 2026}), headers=ASYNC).get_json()["result"] == {"pages": 26}
    required = site.rpc_get(asking("reports.archive", {}), headers=ASYNC)
    assert required.get_json()["error"]["code"] == -32021


def test_get_cancels_no_task(site: Site, worker: McpTestClient) -> None:
    task_id = site.rpc_post(asking("reports.build", {"year": 2026}), headers=ASYNC).get_json()["result"]["task"]["id"]
    response = site.rpc_get(asking("rpc.tasks.cancel", {"id": task_id}))
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert site.rpc_get(asking("rpc.tasks.get", {"id": task_id})).get_json()["result"]["task"]["status"] == "working"


def test_a_notification_starts_a_task_without_a_reply(site: Site, worker: McpTestClient) -> None:
    response = site.rpc_post(asking("reports.build", {"year": 2026}, id=...), headers=ASYNC)
    assert (response.status_code, response.data) == (204, b"")
    assert worker.run_tasks() == 1


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        ("rpc.tasks.get", {}, -32602, "params.id must be a string"),
        ("rpc.tasks.get", {"id": 7}, -32602, "params.id must be a string"),
        ("rpc.tasks.get", {"task": "x"}, -32602, "params of rpc.tasks.get can only have id"),
        ("rpc.tasks.cancel", ["x", "y"], -32602, "params of rpc.tasks.cancel can only have id"),
        ("rpc.tasks.get", {"id": "x"}, -32602, "Task not found"),
        (
            "rpc.tasks.list",
            {"status": 1},
            -32602,
            "status must be one of working, input_required, completed, failed, cancelled",
        ),
        ("rpc.tasks.remove", {}, -32601, "Method not found"),
    ],
)
def test_json_rpc_says_what_it_does_not_understand(
    site: Site, worker: McpTestClient, method: str, params: Any, code: int, message: str
) -> None:
    response = site.rpc_post(asking(method, params), headers=WRITER)
    assert (response.status_code, response.get_json()["error"]) == (200, {"code": code, "message": message})


def test_polling_counts_toward_no_rate_limit() -> None:
    from flask_limiter import Limiter

    limiter = Limiter(lambda: "one", storage_uri="memory://")
    rpc = McpBlueprint(auth=make_token_auth(), limiter=limiter, rate_limit="1/hour")
    rpc.tool("slow", task=True)(lambda: None)
    site = Site(rpc)
    limiter.init_app(site.app)
    McpTestClient(site.app)
    url = site.invoke("slow", {}, headers=ASYNC).headers["Location"]
    assert site.invoke("slow", {}, headers=ASYNC).status_code == 429
    for _ in range(3):
        assert site.client.get(url).status_code == 200
        assert "result" in site.rpc_post(asking("rpc.tasks.get", [url.rpartition("/")[2]])).get_json()


def test_the_arguments_themselves_become_a_task_by_the_same_header(site: Site, worker: McpTestClient) -> None:
    response = site.client.post("/mcp/tools/reports.build", json={"year": 2026}, headers=ASYNC)
    task = task_of(response, **QUEUED)
    assert (response.status_code, response.headers["Location"]) == (202, task["url"])
    worker.run_tasks()
    assert site.client.get(task["url"]).get_json()["result"] == {"pages": 26}
