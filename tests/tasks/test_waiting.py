"""Clients without tasks, if their requests wait for the worker that runs the tool."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool
from werkzeug.serving import make_server

from flask_jsonrpc_mcp import McpBlueprint, RpcError, TaskOptions, current_call
from flask_jsonrpc_mcp.bridge.remote_server import Bridge
from flask_jsonrpc_mcp.bridge.site import Site as BridgedSite
from flask_jsonrpc_mcp.cli.app_server import AppServer
from flask_jsonrpc_mcp.levels import EXTENSION as WAITING
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN
from flask_jsonrpc_mcp.tasks import tasks_of
from flask_jsonrpc_mcp.tasks.local import LocalWorker
from tests.conftest import Site, asking, basic, make_auth
from tests.support.answering import EVERYTHING, Respondent, accept
from tests.support.mcp_messages import LegacyClient, ModernClient, client_of, error, events, modern_meta, result
from tests.support.servers import free_port
from tests.support.stdio_client import Connection, modern
from tests.support.waiting import until
from tests.tasks.conftest import Deployment, Held, TaskClient

VERSIONS = (MODERN, *LEGACY)
ERAS = VERSIONS[:2]
OURS = ["tasks.get", "tasks.cancel"]
STILL_RUNNING = re.compile(
    r"Still running( \(.+\))?\. Call `tasks.get` with id ([\w-]{43}) to wait for its result,"
    r" or `tasks.cancel` to end it"
)


@pytest.fixture
def make_site(tmp_path: Path, held: Held) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(rpc: McpBlueprint | None = None, **config: Any) -> Site:
        settings = {"SECRET_KEY": "key", "JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{tmp_path}/tasks.db"}
        site = Site(rpc or McpBlueprint(), **{**settings, "JSONRPC_MCP_TASK_WAIT": 60, **config})
        add_tools(site.rpc, held)
        made.append(site)
        return site

    yield make
    held.may_end.set()
    for site in made:
        tasks_of(site.app).records.close()


def add_tools(rpc: McpBlueprint, held: Held) -> None:
    @rpc.tool(task=True)
    def slow(name: str = "x") -> list[str]:
        held()
        return [name]

    @rpc.tool(task=True)
    def counting() -> str:
        current_call.progress(1, 3, "one")
        held()
        return "counted"

    @rpc.tool(task=True)
    def optional() -> dict[str, int] | None:
        return {"pages": 12}

    @rpc.tool(task=True)
    def failing() -> None:
        raise RpcError("There is no such month")

    @rpc.tool(task="required")
    def only_tasks() -> str:
        return threading.current_thread().name

    @rpc.tool(task=TaskOptions(late=True))
    def late(now: bool) -> str:
        if not now:
            current_call.detach()
        return threading.current_thread().name

    @rpc.tool(task=True)
    def ask() -> str:
        answers = [current_call.elicit(f"{word}?", {"colour": str}, key=word) for word in ("First", "Second")]
        return " ".join(str(answer.content["colour"]) if answer.accepted else answer.action for answer in answers)

    @rpc.tool(task=True)
    def ask_later() -> str:
        held()
        try:
            return str(current_call.elicit("Which?", {"colour": str}, key="which").content["colour"])
        except RpcError as refused:
            return f"not asked: {refused.message}"

    @rpc.tool(task=True)
    def patient() -> str:
        held.threads.append(threading.current_thread().name)
        until(lambda: current_call.cancelled or held.may_end.is_set())
        raise RpcError("Given up")

    @rpc.tool
    def plain() -> str:
        return threading.current_thread().name


def text_of(reply: Any) -> str:
    [block] = reply["content"]
    return str(block["text"])


def id_of(reply: Any) -> str:
    """The id in the text for the model."""
    found = STILL_RUNNING.fullmatch(text_of(reply))
    assert found, reply
    return found[2]


def started(site: Site, held: Held, name: str, client: Any) -> str:
    """Call a tool that takes longer than its request waits, and return the id of its task."""
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 1
    reply = result(client.call(name))
    assert reply["isError"] is True
    until(lambda: held.threads)
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 60
    return id_of(reply)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["slow", "optional", "failing"])
def test_the_answer_is_that_of_a_plain_call(
    make_site: Callable[..., Site], held: Held, version: str, name: str
) -> None:
    held.may_end.set()
    site = make_site()
    client = client_of(version, site.client)
    waited = result(client.call(name))
    assert all(thread == "mcp-task" for thread in held.threads)
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 0
    assert waited == result(client.call(name))


def test_only_tools_with_tasks_run_in_the_worker(make_site: Callable[..., Site]) -> None:
    client = ModernClient(make_site().client)
    here = threading.current_thread().name
    seen = [result(client.call(name, arguments))["structuredContent"] for name, arguments in NAMED]
    assert seen == [here, "mcp-task", here, "mcp-task"]


NAMED: list[tuple[str, dict[str, Any]]] = [
    ("plain", {}),
    ("only_tasks", {}),
    ("late", {"now": True}),
    ("late", {"now": False}),
]


def test_a_client_with_tasks_gets_a_handle(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site()
    client = TaskClient(site.client)
    task_id = client.start("slow")
    assert not set(OURS) & {tool["name"] for tool in result(client.list())["tools"]}
    held.may_end.set()
    assert client.end(task_id)["status"] == "completed"
    assert error(client.call("tasks.get", {"id": task_id}))[1] == -32602


@pytest.mark.parametrize("version", ERAS)
def test_a_tool_that_takes_longer_is_waited_for_by_another_one(
    make_site: Callable[..., Site], held: Held, version: str
) -> None:
    site = make_site()
    client = client_of(version, site.client)
    task_id = started(site, held, "slow", client)
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 1
    waiting = result(client.call("tasks.get", {"id": task_id}))
    assert (id_of(waiting), waiting["isError"]) == (task_id, False)
    held.may_end.set()
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 60
    ended = result(client.call("tasks.get", {"id": task_id}))
    assert ended == result(client.call("slow"))
    assert text_of(ended) == '["x"]'


def test_the_text_says_how_far_it_is(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site()
    client = ModernClient(site.client)
    task_id = started(site, held, "counting", client)
    until(lambda: TaskClient(site.client).get(task_id).get("statusMessage"))
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 1
    assert text_of(result(client.call("tasks.get", {"id": task_id}))).startswith("Still running (1 of 3: one). Call")


@pytest.mark.parametrize("version", ERAS)
def test_progress_is_sent_while_the_request_waits(make_site: Callable[..., Site], held: Held, version: str) -> None:
    site = make_site()
    client = client_of(version, site.client)
    client.call("plain")  # opens a session
    streamed: list[Any] = []

    def watch() -> None:
        asked = {"name": "counting", "arguments": {}, "_meta": {"progressToken": "p"}}
        streamed.extend(events(client.post("tools/call", asked)))

    thread = threading.Thread(target=watch)
    thread.start()
    records = tasks_of(site.app).records
    until(lambda: any(record.progress for record in records.find()))
    held.may_end.set()
    thread.join()
    progress, reply = streamed
    assert progress["params"] == {"progressToken": "p", "progress": 1, "total": 3, "message": "one"}
    assert text_of(reply["result"]) == "counted"


@pytest.mark.parametrize("version", ERAS)
def test_the_two_tools_are_listed_at_the_end(make_site: Callable[..., Site], version: str) -> None:
    site = make_site(JSONRPC_MCP_PAGE_SIZE=5)
    client = client_of(version, site.client)
    first = result(client.list())
    last = result(client.list(cursor=first["nextCursor"]))
    assert "nextCursor" not in last
    names = [tool["name"] for page in (first, last) for tool in page["tools"]]
    assert (names[-2:], len(names)) == (OURS, 12)
    assert last["tools"][-1]["inputSchema"]["required"] == ["id"]
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 0
    off = result(client.list(cursor=first["nextCursor"]))["tools"]
    assert off == last["tools"][:-2]
    assert "tasks.get" not in site.client.get("/mcp/tools/list").text


def test_without_a_tool_with_tasks_nothing_is_listed(tmp_path: Path) -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_TASK_WAIT=60)
    site.rpc.add_tool(lambda: 1, "one")
    client = ModernClient(site.client)
    assert [tool["name"] for tool in result(client.list())["tools"]] == ["one"]
    assert error(client.call("tasks.get", {"id": "x"}))[1] == -32602


def test_names_without_dots(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site(JSONRPC_MCP_TOOL_NAME_STYLE="no-dots", JSONRPC_MCP_TASK_WAIT=1)
    client = ModernClient(site.client)
    assert [tool["name"] for tool in result(client.list())["tools"]][-2:] == ["tasks_get", "tasks_cancel"]
    text = text_of(result(client.call("slow")))
    found = re.fullmatch(r"Still running\. Call `tasks_get` with id (\S+) to .* `tasks_cancel` to end it", text)
    assert found
    held.may_end.set()
    assert text_of(result(client.call("tasks_get", {"id": found[1]}))) == '["x"]'


@pytest.mark.parametrize("version", ERAS)
def test_a_tool_is_cancelled_by_another_one(make_site: Callable[..., Site], held: Held, version: str) -> None:
    site = make_site()
    client = client_of(version, site.client)
    task_id = started(site, held, "patient", client)
    cancelled = result(client.call("tasks.cancel", {"id": task_id}))
    assert text_of(cancelled) == "It will end when it notices that it is cancelled"
    ended = result(client.call("tasks.get", {"id": task_id}))
    assert (text_of(ended), ended["isError"]) == ("Cancelled", True)
    assert text_of(result(client.call("tasks.cancel", {"id": task_id}))) == "It is cancelled"


@pytest.mark.parametrize("tool", OURS)
@pytest.mark.parametrize("arguments", [{"id": "never"}, {"id": 7}, {}])
def test_an_id_that_never_was_is_not_found(
    make_site: Callable[..., Site], tool: str, arguments: dict[str, Any]
) -> None:
    reply = result(ModernClient(make_site().client).call(tool, arguments))
    assert (text_of(reply), reply["isError"]) == ("Task not found", True)


def test_the_task_of_another_caller_is_not_found(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site(McpBlueprint(auth=make_auth()))
    task_id = started(site, held, "slow", ModernClient(site.client, basic("writer")))
    other = ModernClient(site.client, basic("reader"))
    assert [text_of(result(other.call(tool, {"id": task_id}))) for tool in OURS] == ["Task not found"] * 2
    held.may_end.set()
    assert text_of(result(ModernClient(site.client, basic("writer")).call("tasks.get", {"id": task_id}))) == '["x"]'


@pytest.mark.parametrize("version", ERAS)
def test_questions_are_asked_as_in_a_plain_call(make_site: Callable[..., Site], version: str) -> None:
    site = make_site()
    respondent = Respondent(
        client_of(version, site.client, capabilities=EVERYTHING), [accept(colour="red"), accept(colour="blue")]
    )
    assert respondent.call("ask") == "red blue"
    assert [question["params"]["message"] for question in respondent.asked] == ["First?", "Second?"]
    states = sorted(record.state for record in tasks_of(site.app).records.find())
    assert states == ["cancelled", "cancelled", "completed"]


@pytest.mark.parametrize("version", ERAS)
def test_a_question_after_the_wait_is_asked_by_the_tool_that_waits(
    make_site: Callable[..., Site], held: Held, version: str
) -> None:
    site = make_site()
    client = client_of(version, site.client, capabilities=EVERYTHING)
    task_id = started(site, held, "ask_later", client)
    held.may_end.set()
    assert Respondent(client, [accept(colour="red")]).call("tasks.get", {"id": task_id}) == "red"
    assert [record.state for record in tasks_of(site.app).records.find()] == ["completed"]


def test_a_refused_question_reaches_the_tool_in_the_worker(make_site: Callable[..., Site], held: Held) -> None:
    held.may_end.set()
    client = client_of(LEGACY[0], make_site().client, capabilities=EVERYTHING)
    refused = {"error": {"code": -1, "message": "no"}}
    answer = "not asked: The client refused: it answered the question with an error"
    assert Respondent(client, [refused]).call("ask_later") == answer


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_cannot_be_asked_gets_the_error_of_a_plain_call(
    make_site: Callable[..., Site], version: str
) -> None:
    site = make_site()
    client = client_of(version, site.client)
    waited = client.call("ask")
    site.app.config["JSONRPC_MCP_TASK_WAIT"] = 0
    plain = client.call("ask")
    assert (waited.status_code, waited.get_json()["error"]) == (plain.status_code, plain.get_json()["error"])


def test_a_client_that_cancels_its_request_cancels_the_task(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site()
    client = LegacyClient(site.client)
    client.initialize()
    thread = threading.Thread(target=client.call, args=["patient"])
    thread.start()
    until(lambda: held.threads)
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    thread.join()
    records = tasks_of(site.app).records
    until(lambda: [record.state for record in records.find()] == ["cancelled"])


def test_a_server_that_stops_does_not_wait(make_site: Callable[..., Site], held: Held) -> None:
    held.may_end.set()
    site = make_site(JSONRPC_MCP_IS_ENDING=lambda: True)
    id_of(result(ModernClient(site.client).call("slow")))


def test_a_request_does_not_wait_if_too_many_wait_already(make_site: Callable[..., Site], held: Held) -> None:
    site, replies = make_site(JSONRPC_MCP_MAX_WAITING=1), list[Any]()
    thread = threading.Thread(target=lambda: replies.append(ModernClient(site.client).call("slow")))
    thread.start()
    until(lambda: site.app.extensions.get(WAITING))
    client = ModernClient(site.client)
    second = result(client.call("only_tasks"))
    task_id = id_of(second)
    until(lambda: TaskClient(site.client).get(task_id)["status"] == "completed")
    assert (second["isError"], text_of(result(client.call("tasks.get", {"id": task_id})))) == (True, "mcp-task")
    held.may_end.set()
    thread.join()
    assert text_of(result(replies[0])) == '["x"]'
    assert not site.app.extensions[WAITING]


def test_a_worker_that_is_lost_is_an_error(make_site: Callable[..., Site], held: Held) -> None:
    site = make_site(JSONRPC_MCP_TASK_THREADS=0, JSONRPC_MCP_TASK_WAIT=1)
    client = ModernClient(site.client)
    task_id = id_of(result(client.call("slow")))
    tasks_of(site.app).records.claim(task_id, "a worker that is gone", 0)
    assert client.call("tasks.get", {"id": task_id}).get_json()["error"]["code"] == -32603


def test_no_connection_is_held_while_a_request_waits(make_site: Callable[..., Site], held: Held) -> None:
    site, held_connections = make_site(JSONRPC_MCP_TASK_THREADS=0), set[int]()

    def take(connection: Any, *ignored: object) -> None:
        held_connections.add(id(connection))

    def give_back(connection: Any, *ignored: object) -> None:
        held_connections.discard(id(connection))

    event.listen(Pool, "checkout", take)
    event.listen(Pool, "checkin", give_back)
    reply: list[Any] = []
    thread = threading.Thread(target=lambda: reply.append(ModernClient(site.client).call("slow")))
    thread.start()
    records = tasks_of(site.app).records
    until(lambda: len(records.find()) == 1)
    until(lambda: not held_connections)
    held.may_end.set()
    LocalWorker(site.app, 1).run(burst=True)
    thread.join()
    event.remove(Pool, "checkout", take)
    event.remove(Pool, "checkin", give_back)
    assert text_of(result(reply[0])) == '["x"]'


@pytest.mark.parametrize("name", [*OURS, "tasks_get"])
def test_a_tool_with_such_a_name_is_an_error_at_set_up(name: str) -> None:
    def own() -> None: ...

    rpc = McpBlueprint()
    rpc.add_tool(own, name, task=True)
    with pytest.raises(ValueError, match=rf"own\(\): with JSONRPC_MCP_TASK_WAIT, '{name}' is a tool of this package"):
        Site(rpc, JSONRPC_MCP_TASK_WAIT=50)
    Site(rpc)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, None])
def test_the_setting_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(ValueError, match="JSONRPC_MCP_TASK_WAIT must be a whole number of at least 0"):
        Site(McpBlueprint(), JSONRPC_MCP_TASK_WAIT=wrong)


@contextmanager
def on_stdio(site: Site, version: str) -> Iterator[Connection[AppServer]]:
    connection = Connection(AppServer(site.app))
    try:
        if version != MODERN:
            info = {"name": "test", "version": "1"}
            params = {"protocolVersion": version, "capabilities": EVERYTHING, "clientInfo": info}
            connection.ask(asking("initialize", params))
        yield connection
        connection.rest()
    finally:
        connection.close()


def call_on(version: str, name: str, id: Any = 1, arguments: Any = None, **params: Any) -> dict[str, Any]:
    meta = {"_meta": modern_meta(**EVERYTHING)} if version == MODERN else {}
    return asking("tools/call", {"name": name, "arguments": arguments or {}, **params, **meta}, id)


@pytest.mark.parametrize("version", ERAS)
def test_on_stdio_a_tool_that_takes_longer_is_waited_for_by_another_one(
    make_site: Callable[..., Site], held: Held, version: str
) -> None:
    site = make_site(JSONRPC_MCP_TASK_WAIT=1)
    with on_stdio(site, version) as connection:
        task_id = id_of(connection.ask(call_on(version, "slow"))["result"])
        held.may_end.set()
        site.app.config["JSONRPC_MCP_TASK_WAIT"] = 60
        assert text_of(connection.ask(call_on(version, "tasks.get", 2, {"id": task_id}))["result"]) == '["x"]'
    assert held.threads == ["mcp-task"]


@pytest.mark.parametrize("version", ERAS)
def test_on_stdio_questions_are_asked_as_in_a_plain_call(make_site: Callable[..., Site], version: str) -> None:
    answers = {"First": accept(colour="red"), "Second": accept(colour="blue")}
    with on_stdio(make_site(), version) as connection:
        reply = connection.ask(call_on(version, "ask"))
        for key, answer in answers.items():
            if version == MODERN:
                assert list(reply["result"]["inputRequests"]) == [key]
                given = {"inputResponses": {key: answer}, "requestState": reply["result"]["requestState"]}
                reply = connection.ask(call_on(version, "ask", **given))
            else:
                assert reply["params"]["message"] == f"{key}?"
                reply = connection.ask({"jsonrpc": "2.0", "id": reply["id"], "result": answer})
        assert text_of(reply["result"]) == "red blue"


def test_on_stdio_a_client_that_cancels_its_request_cancels_the_task(
    make_site: Callable[..., Site], held: Held
) -> None:
    site = make_site()
    with on_stdio(site, MODERN) as connection:
        connection.send(call_on(MODERN, "patient"))
        until(lambda: held.threads)
        connection.send(asking("notifications/cancelled", {"requestId": 1}, id=...))
        records = tasks_of(site.app).records
        until(lambda: [record.state for record in records.find()] == ["cancelled"])


@pytest.mark.parametrize("endpoint", [None, "/mcp/tools/invoke"])
def test_the_bridge_calls_tools_by_rest_or_json_rpc_where_no_request_waits(
    make_site: Callable[..., Site], held: Held, endpoint: str | None
) -> None:
    held.may_end.set()
    server = make_server("127.0.0.1", free_port(), make_site().app, threaded=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    connection = Connection(Bridge(BridgedSite(f"http://127.0.0.1:{server.port}", timeout=30, endpoint=endpoint)))
    try:
        listed = connection.ask(modern("tools/list"))["result"]["tools"]
        called, required = (connection.ask(call_on(MODERN, name))["result"] for name in ("slow", "only_tasks"))
    finally:
        connection.rest()
        connection.server.close()
        connection.close()
        server.shutdown()
        serving.join()
        server.server_close()
    assert not set(OURS) & {tool["name"] for tool in listed}
    assert text_of(called) == '["x"]'
    assert "mcp-task" not in held.threads
    assert required["isError"] is True
    assert re.fullmatch(
        r"The tool runs as a task of the site; the bridge cannot wait for its result, at /mcp/tasks/[\w-]{43}",
        text_of(required),
    )


def test_a_worker_elsewhere_runs_what_a_request_waits_for(served: Deployment) -> None:
    app = served.make_app(JSONRPC_MCP_TASK_WAIT=60)
    client = ModernClient(app.test_client(), basic("ada"), capabilities=EVERYTHING)
    assert text_of(result(client.call("quick", {"name": "waited-quick"}))) == "waited-quick"
    assert served.runs("waited-quick") != [str(os.getpid())]
    assert Respondent(client, [accept(colour="red")]).call("ask", {"name": "waited-ask"}) == "red"
    app.config["JSONRPC_MCP_TASK_WAIT"] = 1
    ids = {name: id_of(result(client.call(name, {"name": f"waited-{name}"}))) for name in ("work", "patient")}
    served.let_go("waited-work")
    app.config["JSONRPC_MCP_TASK_WAIT"] = 60
    assert json.loads(text_of(result(client.call("tasks.get", {"id": ids["work"]})))) == {"name": "waited-work"}
    until(lambda: served.runs("waited-patient"))
    client.call("tasks.cancel", {"id": ids["patient"]})
    assert text_of(result(client.call("tasks.get", {"id": ids["patient"]}))) == "Cancelled"
    assert served.runs("waited-patient-cancelled")
