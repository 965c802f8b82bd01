"""`CeleryTasks` without a worker: what it needs, and what it sends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, TaskOptions
from flask_jsonrpc_mcp.tasks import tasks_of
from flask_jsonrpc_mcp.tasks.celery_tasks import CeleryTasks
from tests.support.mcp_messages import ModernClient, result
from tests.support.servers import free_port
from tests.support.task_client import CAN_TASKS


@pytest.fixture
def celery() -> Celery:
    """A Celery app with a broker in this process."""
    return Celery("site", broker="memory://", set_as_current=False)


@pytest.fixture
def apps() -> Iterator[list[Flask]]:
    made: list[Flask] = []
    yield made
    for app in made:
        tasks_of(app).records.close()


def make_site(apps: list[Flask], folder: Path, celery: Celery | None, tasks: Any = None) -> ModernClient:
    rpc = McpBlueprint(tasks=tasks)
    rpc.add_tool(lambda secret: secret, "reports.build", task=True)
    rpc.add_tool(lambda: "done", "shops.import", task=TaskOptions(queue="imports"))
    app = Flask("site")
    app.config["JSONRPC_MCP_TASKS_DATABASE"] = f"sqlite:///{folder}/tasks.db"
    if tasks is None:
        app.config["JSONRPC_MCP_TASKS"] = "celery"
    if celery is not None:
        app.extensions["celery"] = celery
    app.register_blueprint(rpc)
    apps.append(app)
    return ModernClient(app.test_client(), capabilities=CAN_TASKS)


def message_in(celery: Celery, queue: str) -> Any:
    with celery.connection_for_read() as connection:
        simple = connection.SimpleQueue(queue)
        message = simple.get(timeout=30)
        message.ack()
        simple.close()
        return message


def test_the_broker_gets_the_id_of_a_task_and_nothing_else(apps: list[Flask], tmp_path: Path, celery: Celery) -> None:
    client = make_site(apps, tmp_path, celery)
    task = result(client.call("reports.build", {"secret": "plum"}))["taskId"]
    message = message_in(celery, "celery")
    assert message.payload[:2] == [[task], {}]
    assert message.headers["task"] == "flask_jsonrpc_mcp.run"
    assert (message.headers["argsrepr"], message.headers["ignore_result"]) == ("(...)", True)
    assert "plum" not in repr(message.payload) + repr(message.headers)
    assert "reports" not in repr(message.payload) + repr(message.headers)


def test_a_tool_and_an_engine_have_queues(apps: list[Flask], tmp_path: Path, celery: Celery) -> None:
    client = make_site(apps, tmp_path, None, CeleryTasks(celery, queue="mcp"))
    for tool, arguments, queue in (("reports.build", {"secret": "plum"}, "mcp"), ("shops.import", {}, "imports")):
        task = result(client.call(tool, arguments))["taskId"]
        assert message_in(celery, queue).payload[0] == [task]


def test_a_broker_that_is_gone_is_left_alone_for_a_while(apps: list[Flask], tmp_path: Path) -> None:
    gone = Celery("site", broker=f"redis://127.0.0.1:{free_port()}", set_as_current=False)
    make_site(apps, tmp_path, gone)
    engine = tasks_of(apps[0]).engine
    with apps[0].app_context():
        with pytest.raises(Exception, match="onnect"):
            engine.offer("id", None)
        with pytest.raises(ConnectionError, match=r"^the broker of Celery cannot be reached$"):
            engine.offer("id", None)


def test_an_app_without_celery_says_what_to_do(apps: list[Flask], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"app.extensions\['celery'\] has no Celery app: create it before"):
        make_site(apps, tmp_path, None)


def test_without_the_package_the_error_names_the_extra(
    apps: list[Flask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    monkeypatch.delitem(sys.modules, "flask_jsonrpc_mcp.tasks.celery_tasks")
    with pytest.raises(RuntimeError, match=r"install flask-jsonrpc-mcp\[celery\]"):
        make_site(apps, tmp_path, None)
