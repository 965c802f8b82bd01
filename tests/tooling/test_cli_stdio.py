"""``flask mcp stdio``: the app itself at the other end of the lines, in both eras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask, g, request
from flask.cli import ScriptInfo

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.cli.app_server import AppServer
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from tests.apps import cli_app
from tests.bridge.test_clients import converse
from tests.conftest import PERMISSIONS, asking, make_app, make_auth
from tests.deploy.test_clients import MODERN, success
from tests.deploy.test_sample_app import FOR_ADMINS, FOR_EDITORS, PUBLIC
from tests.support.mcp_messages import META, modern_meta
from tests.support.servers import ROOT
from tests.support.stdio_client import Connection

ASKABLE: dict[str, Any] = {"elicitation": {}, "roots": {}}


@contextmanager
def connected(app: Flask, **options: str) -> Iterator[Connection[AppServer]]:
    connection = Connection(AppServer(app, **options))
    try:
        yield connection
    finally:
        connection.close()


def modern_call(name: str, id: Any = 1, meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    return asking("tools/call", {"name": name, **params, "_meta": {**modern_meta(**ASKABLE), **(meta or {})}}, id)


def legacy_call(name: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return asking("tools/call", {"name": name, **params}, id)


def handshake() -> dict[str, Any]:
    params = {"protocolVersion": LEGACY[0], "capabilities": ASKABLE, "clientInfo": {"name": "test", "version": "1"}}
    return asking("initialize", params)


def initialize(connection: Connection[AppServer]) -> Any:
    return connection.ask(handshake())["result"]


def text_of(reply: Any) -> str:
    return str(reply["result"]["content"][0]["text"])


@pytest.fixture
def connection() -> Iterator[Connection[AppServer]]:
    with connected(cli_app.create_app()) as opened:
        yield opened


def test_a_modern_client_is_served_at_once(connection: Connection[AppServer]) -> None:
    found = connection.ask(asking("server/discover", {"_meta": modern_meta()}))["result"]
    assert found["supportedVersions"] == [MODERN]
    assert text_of(connection.ask(modern_call("text"))).startswith("first")


def test_an_older_client_is_served_after_its_handshake(connection: Connection[AppServer]) -> None:
    assert connection.ask(legacy_call("text"))["error"]["code"] == -32600
    assert initialize(connection)["protocolVersion"] == LEGACY[0]
    assert text_of(connection.ask(legacy_call("text"))).startswith("first")


def test_without_a_user_it_serves_what_anyone_may_use(connection: Connection[AppServer]) -> None:
    """Nobody can sign in here, so what is hidden is unknown, and there is no challenge."""
    listed = connection.ask(asking("tools/list", {"_meta": modern_meta()}))["result"]["tools"]
    assert "stays.cancel" not in [tool["name"] for tool in listed]
    assert connection.ask(modern_call("stays.cancel", arguments={"id": 1}))["error"] == {
        "code": -32602,
        "message": "Unknown tool: stays.cancel",
    }


def test_it_serves_as_a_user_with_their_permissions() -> None:
    with connected(cli_app.create_app(), user="writer") as connection:
        assert text_of(connection.ask(modern_call("stays.cancel", arguments={"id": 1}))) == "Stay 1 has begun"


def test_an_anonymous_caller_is_not_the_user_that_was_in_g_before() -> None:
    auth = make_auth()
    rpc = McpBlueprint(auth=auth)
    rpc.add_method("whoami", mcp_tool(lambda: f"user: {auth.current_user()}"))
    app = make_app(rpc, SECRET_KEY="key")
    app.before_request(lambda: setattr(g, "flask_httpauth_user", "admin"))
    with connected(app) as connection:
        assert text_of(connection.ask(modern_call("whoami"))) == "user: None"
        initialize(connection)
        assert text_of(connection.ask(legacy_call("whoami", 2))) == "user: None"


@pytest.mark.parametrize("failure", [RuntimeError("secret"), SystemExit(3)], ids=repr)
def test_a_failing_permissions_loader_fails_that_request_only(failure: BaseException) -> None:
    rpc, ran = McpBlueprint(), []
    rpc.add_method("f", mcp_tool(lambda: ran.append(1)))
    failures = [failure]

    @rpc.permissions_loader
    def load(user: None) -> list[str]:
        if failures:
            raise failures.pop()
        return []

    with connected(make_app(rpc)) as connection:
        failed = connection.ask(modern_call("f"))["error"]
        assert (failed["code"], "secret" in failed["message"], ran) == (-32603, False, [])
        assert "result" in connection.ask(modern_call("f", 2))
    assert ran == [1]


def test_every_request_has_a_flask_request_of_its_own() -> None:
    rpc, ended = McpBlueprint(), []

    @rpc.method
    @mcp_tool
    def count() -> int:
        g.count = g.get("count", 0) + 1
        assert request.path == "/mcp"
        return int(g.count)

    app = make_app(rpc, SECRET_KEY="key")
    app.teardown_request(lambda error: ended.append(error))
    with connected(app) as connection:
        assert [text_of(connection.ask(modern_call("count", number))) for number in (1, 2)] == ["1", "1"]
        connection.rest()
    assert len(ended) >= 2


def test_progress_and_log_come_before_the_result(connection: Connection[AppServer]) -> None:
    connection.send(modern_call("count", meta={"progressToken": 7, META + "logLevel": "info"}))
    *reports, reply = [connection.receive() for _ in range(5)]
    assert [report["method"].rpartition("/")[2] for report in reports] == [
        "progress",
        "progress",
        "message",
        "progress",
    ]
    assert reply["id"] == 1


def test_an_older_client_sets_its_log_level_for_the_connection(connection: Connection[AppServer]) -> None:
    initialize(connection)
    assert "result" in connection.ask(legacy_call("count"))
    assert connection.ask(asking("logging/setLevel", {"level": "warning"}))["result"] == {}
    message = connection.ask(legacy_call("count", 2))
    assert message["params"] == {"level": "warning", "data": "that was all", "logger": "counter"}
    assert connection.receive()["id"] == 2


def test_a_modern_client_is_asked_in_the_result(connection: Connection[AppServer]) -> None:
    asked = connection.ask(modern_call("delete", arguments={"id": 7}))["result"]
    assert asked["inputRequests"]["confirm"]["params"]["message"] == "Delete 7?"
    again = {"inputResponses": {"confirm": {"action": "accept"}}, "requestState": asked["requestState"]}
    assert text_of(connection.ask(modern_call("delete", 2, arguments={"id": 7}, **again))) == "7 deleted"


@pytest.mark.parametrize("version", [MODERN, *LEGACY])
def test_a_tool_that_must_be_confirmed_does_not_run_for_a_client_that_cannot_ask(version: str) -> None:
    with connected(cli_app.create_app()) as connection:
        call = asking("tools/call", {"name": "delete", "arguments": {"id": 7}})
        if version == MODERN:
            call["params"]["_meta"] = modern_meta()
        else:
            info = {"name": "test", "version": "1"}
            connection.ask(
                asking("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info}, 0)
            )
        assert text_of(connection.ask(call)).startswith("Not done: the user must confirm this first")


def test_an_older_client_is_asked_on_the_line(connection: Connection[AppServer]) -> None:
    initialize(connection)
    question = connection.ask(legacy_call("greet"))
    assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Who are you?")
    answer = {"action": "accept", "content": {"name": "Ada", "age": 36}}
    assert text_of(connection.ask({"jsonrpc": "2.0", "id": question["id"], "result": answer})) == "Hello Ada, 36"


def test_an_error_as_an_answer_is_one_for_the_method(connection: Connection[AppServer]) -> None:
    initialize(connection)
    question = connection.ask(legacy_call("where"))
    refusal = {"code": -1, "message": "no folders today"}
    reply = connection.ask({"jsonrpc": "2.0", "id": question["id"], "error": refusal})
    assert (reply["result"]["isError"], text_of(reply)) == (True, "no folders today")


@dataclass(frozen=True)
class Waiting:
    """A connection with a call of a method that waits."""

    connection: Connection[AppServer]
    go_on: threading.Event
    saw: list[bool]


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    rpc = McpBlueprint()
    runs, go_on, saw = threading.Event(), threading.Event(), list[bool]()

    @rpc.method
    @mcp_tool
    def wait() -> bool:
        """Wait, and tell whether anyone else still does."""
        runs.set()
        assert go_on.wait(60)
        saw.append(current_call.cancelled)
        return saw[-1]

    with connected(make_app(rpc)) as connection:
        connection.send(modern_call("wait", "w"))
        assert runs.wait(60)
        yield Waiting(connection, go_on, saw)


def test_a_cancelled_call_is_told_and_not_answered(waiting: Waiting) -> None:
    waiting.connection.send(asking("notifications/cancelled", {"requestId": "w"}, id=...))
    waiting.go_on.set()
    assert waiting.connection.rest() == []
    assert waiting.saw == [True]


def test_a_call_that_runs_at_the_end_of_the_input_is_not_cancelled(waiting: Waiting) -> None:
    """Whoever pipes a request into the program waits for its answer."""
    waiting.connection.loop.close()
    waiting.go_on.set()
    assert waiting.connection.receive()["result"]["structuredContent"] is False
    waiting.connection.rest()


@pytest.mark.parametrize("message", [modern_call("count"), handshake()], ids=["request", "handshake"])
def test_an_app_that_exits_before_a_request_has_failed_that_request_only(message: Any) -> None:
    failures = [SystemExit(3)]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    app = cli_app.create_app()
    app.before_request(fail_once)
    with connected(app) as connection:
        connection.send(message)
        [reply] = connection.rest()
        assert (reply["id"], reply["error"]["code"]) == (1, -32603)
    failures.append(SystemExit(3))
    with connected(app) as connection:
        assert [("error" in connection.ask(message)) for _ in range(2)] == [True, False]


def test_who_listens_hears_of_changes() -> None:
    rpc = McpBlueprint()
    app = make_app(rpc, SECRET_KEY="key", JSONRPC_MCP_SUBSCRIPTIONS=True)
    with connected(app) as connection:
        wanted = {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()}
        acknowledged = connection.ask(asking("subscriptions/listen", wanted, "listening"))
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        with app.app_context():
            rpc.add_method("late", mcp_tool(lambda: 1))
        changed = connection.receive()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"]["_meta"][META + "subscriptionId"] == "listening"
        [end] = connection.rest()
        assert (end["id"], end["result"]["resultType"]) == ("listening", "complete")


def test_a_subscription_ends_when_the_permission_for_a_resource_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.mcp.subscriptions.IDENTIFY_EVERY", 0)
    rpc = McpBlueprint(auth=make_auth())
    rpc.user_loader(lambda name: name)
    rpc.add_resource("notes://today", lambda: "today", name="today", access=["write"])
    with connected(make_app(rpc, SECRET_KEY="key", JSONRPC_MCP_SUBSCRIPTIONS=True), user="writer") as connection:
        wanted = {"notifications": {"resourceSubscriptions": ["notes://today"]}, "_meta": modern_meta()}
        acknowledged = connection.ask(asking("subscriptions/listen", wanted, "listening"))
        assert acknowledged["params"]["notifications"] == wanted["notifications"]
        monkeypatch.setitem(PERMISSIONS, "writer", [])
        end = connection.receive()
        assert (end["id"], end["result"]["resultType"]) == ("listening", "complete")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "This app requires sign-in (require_auth=True)"),
        (["--user", "nobody"], "There is no user 'nobody'"),
    ],
)
def test_what_cannot_work_fails_at_the_start(options: list[str], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rpc = McpBlueprint(auth=make_auth(), require_auth=True)
    rpc.user_loader(lambda name: None)
    app = make_app(rpc)
    monkeypatch.setattr("flask_jsonrpc_mcp.cli.app_server.claim_standard_streams", lambda: ())
    result = CliRunner().invoke(mcp, ["stdio", *options], obj=ScriptInfo(create_app=lambda: app))
    assert (result.exit_code, problem in result.output) == (2, True), result.output


def test_standard_output_is_for_the_protocol_alone(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "tests.apps.chatty_app", "mcp", "stdio"],
        cwd=ROOT,
        input=json.dumps(modern_call("shout")).encode() + b"\n",
        capture_output=True,
        check=True,
        timeout=120,
    )
    [line] = ran.stdout.splitlines()
    assert text_of(json.loads(line)) == "said"
    for said in (b"imported", b"printed", b"written", b"echoed"):
        assert said in ran.stderr


@pytest.fixture(scope="module")
def site_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    database = tmp_path_factory.mktemp("stdio") / "site.sqlite3"
    env = {"DATABASE_URL": f"sqlite:///{database}", "SECRET_KEY": "key" * 16, "SITE_ENV": "development"}
    subprocess.run([sys.executable, "-m", "sample_app.seed"], cwd=ROOT, env={**os.environ, **env}, check=True)
    return {**env, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", LEGACY[0])])
def test_a_real_client_uses_the_sample_site(mode: str, version: str, site_env: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flask", "--app", "sample_app", "mcp", "stdio"]
    with converse(command, tmp_path, mode, **site_env) as visitor:
        assert visitor.welcome == {"version": version, "server": "elm-street-garden"}
        assert visitor.names() == PUBLIC
        assert visitor.call("articles.search", query="compost", limit=1)["isError"] is False
    with converse([*command, "--user", "admin"], tmp_path, mode, **site_env) as visitor:
        assert visitor.names() == PUBLIC | FOR_EDITORS | FOR_ADMINS
        assert visitor.call("cache.rebuild") == success(True, version)
