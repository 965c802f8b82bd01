"""``notifications/tasks``: clients that listen get the state of their tasks, and of no others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.mcp import tasks_extension
from flask_jsonrpc_mcp.tasks import tasks_of
from tests.conftest import Site, basic, make_auth
from tests.mcp.test_subscriptions import Listening, acknowledged, announcing
from tests.support.mcp_messages import META, ModernClient
from tests.tasks.conftest import CAPABILITIES, TaskClient
from tests.tasks.test_wire import NEEDS_TASKS

SUBSCRIPTION = META + "subscriptionId"


class Listened:
    """A site with a tool that ends when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.may_end = threading.Event()
        settings: dict[str, Any] = {"JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{folder}/tasks.db"}
        self.site = announcing(folder / "mail", make_auth(), **settings)
        self.site.rpc.add_tool(self._wait, "wait", task=True)

    def _wait(self) -> str:
        assert self.may_end.wait(60)
        return "waited"


@pytest.fixture
def listened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listened]:
    monkeypatch.setattr(tasks_extension, "LOOK_EVERY", 0.02)
    made = Listened(tmp_path)
    yield made
    made.may_end.set()
    tasks_of(made.site.app).records.close()


def listening(site: Site, ids: list[Any], user: str) -> Listening:
    return Listening(site, {"taskIds": ids}, headers=basic(user), capabilities=CAPABILITIES)


def test_a_client_gets_the_state_of_its_tasks_until_they_are_over(listened: Listened) -> None:
    client = TaskClient(listened.site.client, basic("writer"))
    task_id = client.start("wait")
    with listening(listened.site, [task_id], "writer") as stream:
        assert stream.next() == acknowledged({"taskIds": [task_id]})
        first = stream.next()
        assert (first["method"], first["params"]["status"]) == ("notifications/tasks", "working")
        listened.may_end.set()
        last = first
        while last["params"]["status"] == "working":
            last = stream.next()
    told = client.get(task_id)
    assert told.pop("resultType") == "complete"
    told["_meta"] = {SUBSCRIPTION: 1}
    assert last["params"] == told


def test_a_client_listens_to_its_own_tasks_only(listened: Listened) -> None:
    task_id = TaskClient(listened.site.client, basic("writer")).start("wait")
    with listening(listened.site, [task_id, "no such task"], "reader") as stream:
        assert stream.next() == acknowledged({})


def test_a_client_that_listens_to_tasks_declares_them(listened: Listened) -> None:
    client = ModernClient(listened.site.client, basic("writer"))
    refused = client.post("subscriptions/listen", {"notifications": {"taskIds": []}})
    assert (refused.status_code, refused.get_json()["error"]) == (400, NEEDS_TASKS)


@pytest.mark.parametrize("ids", ["x", [1], ["x"] * 101])
def test_malformed_task_ids_are_refused(listened: Listened, ids: Any) -> None:
    client = TaskClient(listened.site.client, basic("writer"))
    refused = client.post("subscriptions/listen", {"notifications": {"taskIds": ids}})
    assert refused.get_json()["error"]["code"] == -32602


def test_a_site_that_does_not_announce_changes_announces_no_tasks(tmp_path: Path) -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{tmp_path}/tasks.db")
    site.rpc.add_tool(lambda: 1, "tool", task=True)
    refused = TaskClient(site.client).post("subscriptions/listen", {"notifications": {"taskIds": []}})
    assert refused.get_json()["error"]["code"] == -32601
