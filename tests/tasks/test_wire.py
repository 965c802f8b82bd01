"""Tasks over MCP: what clients send and get, with the threads of one process as the worker."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, RpcError, TaskOptions, current_call, method_called
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from flask_jsonrpc_mcp.tasks import tasks_of
from tests.conftest import Site, basic, make_auth
from tests.support.answering import accept
from tests.support.mcp_messages import SERVER_INFO, LegacyClient, ModernClient, error, result
from tests.support.waiting import until
from tests.tasks.conftest import CAPABILITIES, TASKS, Held, TaskClient

META = {SERVER_INFO: {"name": "site", "version": "0.0.0"}}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NEEDS_TASKS = {
    "code": -32021,
    "message": f"This needs an MCP client with the capability extensions.{TASKS}",
    "data": {"requiredCapabilities": {"extensions": {TASKS: {}}}},
}


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(rpc: McpBlueprint | None = None, **config: Any) -> Site:
        database = {"SECRET_KEY": "key", "JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{tmp_path}/tasks.db"}
        made.append(Site(rpc or McpBlueprint(), **{**database, **config}))
        return made[-1]

    yield make
    for site in made:
        tasks_of(site.app).records.close()


@pytest.fixture
def site(make_site: Callable[..., Site], held: Held) -> Site:
    site = make_site()

    @site.rpc.tool(task=True)
    def slow(name: str = "x") -> dict[str, str]:
        """Wait for the test."""
        held()
        return {"name": name}

    @site.rpc.tool(task="required")
    def only_tasks() -> str:
        return "done"

    @site.rpc.tool
    def plain() -> str:
        return "plain"

    return site


@pytest.fixture
def client(site: Site) -> TaskClient:
    return TaskClient(site.client)


def test_the_extension_is_announced_if_a_tool_has_tasks(site: Site) -> None:
    capabilities = result(ModernClient(site.client).post("server/discover"))["capabilities"]
    assert capabilities == {"tools": {}, "logging": {}, "extensions": {TASKS: {}}}
    legacy = LegacyClient(site.client)
    assert result(legacy.initialize())["capabilities"] == {"tools": {}, "logging": {}}


def test_without_a_tool_with_tasks_there_is_no_extension(make_site: Callable[..., Site]) -> None:
    site = make_site()
    client = TaskClient(site.client)
    assert result(client.post("server/discover"))["capabilities"] == {"tools": {}, "logging": {}}
    assert error(client.task("get", "x")) == (404, -32601, "Method not found")


def test_a_client_with_tasks_gets_a_handle_and_then_the_result(client: TaskClient, held: Held) -> None:
    created = result(client.call("slow", {"name": "a"}))
    assert TIME.fullmatch(created["createdAt"])
    assert created == {
        "resultType": "task",
        "taskId": created["taskId"],
        "status": "working",
        "createdAt": created["createdAt"],
        "lastUpdatedAt": created["createdAt"],
        "ttlMs": 86_400_000,
        "pollIntervalMs": 1000,
        "_meta": META,
    }
    until(lambda: held.threads)
    working = client.get(created["taskId"])
    assert (working["resultType"], working["status"]) == ("complete", "working")
    assert not {"result", "error", "inputRequests", "requestState"} & set(working)
    held.may_end.set()
    ended = client.end(created["taskId"])
    assert ended == {
        **created,
        "resultType": "complete",
        "status": "completed",
        "lastUpdatedAt": ended["lastUpdatedAt"],
        "result": {
            "resultType": "complete",
            "content": [{"type": "text", "text": '{"name":"a"}'}],
            "structuredContent": {"name": "a"},
            "isError": False,
            "_meta": META,
        },
    }


def test_other_clients_run_the_tool_in_their_request(site: Site, held: Held) -> None:
    held.may_end.set()
    for client in (ModernClient(site.client), LegacyClient(site.client)):
        assert result(client.call("slow", {"name": "a"}))["structuredContent"] == {"name": "a"}
    assert site.invoke("slow", {"name": "a"}).get_json()["result"] == {"name": "a"}


def test_a_tool_that_requires_tasks_refuses_other_clients(site: Site, client: TaskClient) -> None:
    assert client.end(client.start("only_tasks"))["result"]["structuredContent"] == "done"
    refused = ModernClient(site.client).call("only_tasks")
    assert (refused.status_code, refused.get_json()["error"]) == (400, NEEDS_TASKS)
    legacy = LegacyClient(site.client, LEGACY[0], capabilities=CAPABILITIES)
    assert legacy.call("only_tasks").get_json()["error"] == NEEDS_TASKS


@pytest.mark.parametrize("method", ["get", "update", "cancel"])
def test_the_methods_of_tasks_need_the_extension(site: Site, client: TaskClient, method: str) -> None:
    task_id = client.start("slow")
    undeclared = TaskClient(site.client, capabilities={})
    for each in (task_id, "no such task"):
        refused = undeclared.task(method, each)
        assert (refused.status_code, refused.get_json()["error"]) == (400, NEEDS_TASKS)


@pytest.mark.parametrize("method", ["list", "result"])
def test_the_methods_of_the_older_tasks_do_not_exist(client: TaskClient, method: str) -> None:
    assert error(client.task(method, "x")) == (404, -32601, "Method not found")


def test_the_header_with_the_name_is_the_id_if_it_is_sent(client: TaskClient) -> None:
    task_id = client.start("slow")
    wrong = client.post("tasks/get", {"taskId": task_id}, Mcp_Name="another")
    text = f"Header mismatch: Mcp-Name is 'another', but the body has {task_id!r}"
    assert error(wrong) == (400, -32020, text)
    assert result(client.post("tasks/get", {"taskId": task_id}, Mcp_Name=None))["taskId"] == task_id


@pytest.mark.parametrize("task_id", ["", "x", "é" * 10, "x" * 10_000, "a\x00b"])
def test_an_unknown_task_is_not_found(client: TaskClient, task_id: str) -> None:
    found = client.post("tasks/get", {"taskId": task_id}, Mcp_Name=None)
    assert error(found) == (400, -32602, "Task not found")


def test_params_of_another_type_are_named(client: TaskClient) -> None:
    assert error(client.post("tasks/get", {"taskId": 7}, Mcp_Name=None)) == (
        400,
        -32602,
        "params.taskId must be a string",
    )
    task_id = client.start("slow")
    text = "params.inputResponses must be an object"
    assert error(client.post("tasks/update", {"taskId": task_id, "inputResponses": []})) == (400, -32602, text)


def test_mistakes_are_answered_at_once_and_make_no_task(client: TaskClient, site: Site) -> None:
    refused = result(client.call("slow", {"name": 7}))
    assert (refused["isError"], refused["resultType"]) == (True, "complete")
    assert error(client.call("no such tool")) == (400, -32602, "Unknown tool: no such tool")
    assert tasks_of(site.app).records.count(1) == 0


def test_a_tool_that_fails_is_completed_and_a_protocol_error_is_failed(make_site: Callable[..., Site]) -> None:
    site = make_site()

    @site.rpc.tool(task=True)
    def fail() -> None:
        raise RpcError("No such year", status=409)

    @site.rpc.tool(task=True)
    def roots() -> int:
        return len(current_call.roots())

    client, plain = TaskClient(site.client), ModernClient(site.client)
    ended = client.end(client.start("fail"))
    assert (ended["status"], ended["result"]) == ("completed", result(plain.call("fail")))
    failed = client.end(client.start("roots"))
    assert (failed["status"], failed["error"]) == ("failed", plain.call("roots").get_json()["error"])
    assert failed["statusMessage"] == "This needs an MCP client with the capability roots"
    assert "result" not in failed


def test_progress_is_the_message_of_the_task(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site()

    @site.rpc.tool(task=True)
    def report() -> None:
        current_call.progress(3, 12, "April")
        held()

    client = TaskClient(site.client)
    task_id = client.start("report")
    working = until(lambda: found if "statusMessage" in (found := client.get(task_id)) else None)
    assert (working["status"], working["statusMessage"]) == ("working", "3 of 12: April")
    assert working["_meta"]["flask-jsonrpc-mcp/progress"] == {"done": 3, "total": 12, "message": "April"}


def test_the_log_of_a_task_is_the_log_of_the_app(
    make_site: Callable[..., Site], caplog: pytest.LogCaptureFixture
) -> None:
    """MCP has no place for it, and the whole id of a task is a key to it. Each message is one line."""
    site = make_site()

    @site.rpc.tool(task=True)
    def tell() -> None:
        current_call.log("warning", "disk is full\nof x")

    client = TaskClient(site.client)
    task_id = client.start("tell")
    client.end(task_id)
    [record] = [each for each in caplog.records if "disk is full" in each.getMessage()]
    assert (record.levelname, record.getMessage()) == ("WARNING", f"task {task_id[:8]}… of 'tell': disk is full of x")
    assert task_id not in caplog.text


def test_a_late_tool_asks_before_there_is_a_task(make_site: Callable[..., Site]) -> None:
    site = make_site()
    runs = []

    @site.rpc.tool(task=TaskOptions(late=True))
    def import_shop(url: str) -> str:
        runs.append(current_call.in_task)
        if url == "known":
            return "known already"
        answer = current_call.elicit("Into which shop?", {"shop": str})
        current_call.detach()
        return f"{url} into {answer.content['shop']}"

    client = TaskClient(site.client)
    assert result(client.call("import_shop", {"url": "known"}))["structuredContent"] == "known already"
    asked = result(client.call("import_shop", {"url": "new"}))
    assert (asked["resultType"], "taskId" in asked) == ("input_required", False)
    answers = {"inputResponses": {"question-1": accept(shop="bikes")}, "requestState": asked["requestState"]}
    created = result(client.post("tools/call", {"name": "import_shop", "arguments": {"url": "new"}, **answers}))
    assert (created["resultType"], "requestState" in created) == ("task", False)
    assert client.end(created["taskId"])["result"]["structuredContent"] == "new into bikes"
    assert runs == [False, False, False, True]


def test_detach_returns_for_clients_without_tasks(make_site: Callable[..., Site]) -> None:
    site = make_site()

    @site.rpc.tool(task=TaskOptions(late=True))
    def late() -> bool:
        current_call.detach()
        return current_call.in_task

    assert result(ModernClient(site.client).call("late"))["structuredContent"] is False
    assert site.invoke("late", {}).get_json()["result"] is False


def test_a_task_asks_without_a_secret_key(make_site: Callable[..., Site]) -> None:
    site = make_site(SECRET_KEY=None)

    @site.rpc.tool(task=True)
    def ask() -> str:
        return str(current_call.elicit("Who?", {"name": str}).content["name"])

    client = TaskClient(site.client)
    task_id = client.start("ask")
    asked = client.wait(task_id, "input_required")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    form = {"mode": "form", "message": "Who?", "requestedSchema": schema}
    assert asked["inputRequests"] == {"question-1": {"method": "elicitation/create", "params": form}}
    assert asked["pollIntervalMs"] == 2000
    client.answer(task_id, **{"question-1": accept(name="Ada")})
    assert client.end(task_id)["result"]["structuredContent"] == "Ada"


def test_a_confirmation_is_asked_once_and_before_the_task(make_site: Callable[..., Site]) -> None:
    site = make_site()

    @site.rpc.tool(task=True, confirm="Delete all?")
    def delete_all() -> str:
        return "deleted"

    client = TaskClient(site.client)
    asked = result(client.call("delete_all"))
    answers = {"inputResponses": {"confirm": accept()}, "requestState": asked["requestState"]}
    created = result(client.post("tools/call", {"name": "delete_all", "arguments": {}, **answers}))
    assert client.end(created["taskId"])["result"]["structuredContent"] == "deleted"


def test_the_signal_is_sent_for_the_creation_and_for_the_run(site: Site, client: TaskClient, held: Held) -> None:
    outcomes: list[tuple[str, bool]] = []

    def note(app: Any, call: Any, outcome: str, **others: Any) -> None:
        outcomes.append((outcome, call.in_task))

    held.may_end.set()
    with method_called.connected_to(note, site.app):
        client.end(client.start("slow"))
    assert outcomes == [("task", False), ("ok", True)]


def test_the_timeout_of_a_method_limits_its_run(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site()

    @site.rpc.tool(task=True, timeout=0.1)
    def endless() -> None:
        held()

    client = TaskClient(site.client)
    ended = client.end(client.start("endless"))
    assert ended["status"] == "completed"
    assert ended["result"]["content"][0]["text"] == "The method has not ended after 0.1 seconds"


def test_a_signed_in_caller_whom_no_worker_can_load_gets_no_task(make_site: Callable[..., Site]) -> None:
    auth = make_auth()
    auth.verify_password(lambda username, password: {"id": 1, "name": username})
    auth.get_user_roles(lambda user: [])
    site = make_site(McpBlueprint(auth=auth))
    site.rpc.add_tool(lambda: "x", "tool", task=True)
    client = TaskClient(site.client, basic("ada"))
    status, code, message = error(client.call("tool"))
    assert (status, code) == (200, -32603)
    assert "@rpc.user_loader" in message


def test_a_user_who_is_a_name_needs_no_user_loader(make_site: Callable[..., Site]) -> None:
    auth = make_auth()
    site = make_site(McpBlueprint(auth=auth))
    site.rpc.add_tool(lambda: auth.current_user(), "who", task=True, access=["write"])
    client = TaskClient(site.client, basic("writer"))
    assert client.end(client.start("who"))["result"]["structuredContent"] == "writer"


def test_a_task_runs_in_a_request_of_its_own(make_site: Callable[..., Site]) -> None:
    from flask import request

    site = make_site()

    @site.rpc.tool(task=True)
    def look() -> dict[str, Any]:
        return {"address": request.remote_addr, "path": request.path, "cookies": dict(request.cookies)}

    site.client.set_cookie("session", "secret")
    client = TaskClient(site.client, {"Authorization": ""})
    ended = client.end(client.start("look"))
    assert ended["result"]["structuredContent"] == {"address": "127.0.0.1", "path": "/mcp", "cookies": {}}
