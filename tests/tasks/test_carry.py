"""What a task carries from the request that creates it to the worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from flask import g

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call
from flask_jsonrpc_mcp.tasks import tasks_of
from flask_jsonrpc_mcp.tasks.local import LocalWorker
from tests.conftest import Site, asking, basic, make_auth
from tests.support.answering import accept
from tests.support.mcp_messages import error
from tests.tasks.conftest import TaskClient


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(rpc: McpBlueprint | None = None) -> Site:
        config: Any = {"SECRET_KEY": "key", "JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{tmp_path}/tasks.db"}
        made.append(Site(rpc or make_blueprint(), **config, JSONRPC_MCP_TASK_THREADS=0))
        return made[-1]

    yield make
    for site in made:
        tasks_of(site.app).records.close()


def make_blueprint(carried: Any = None, **options: Any) -> McpBlueprint:
    """A blueprint whose tool returns what ``restore`` got."""
    rpc = McpBlueprint(**options)

    @rpc.before_request
    def find_tenant() -> None:
        g.tenant = "shop" if carried is None else carried

    @rpc.carry
    def carry() -> Any:
        return {"tenant": g.tenant}

    @rpc.restore
    def restore(carried: Any) -> None:
        g.tenant = carried["tenant"]

    @rpc.tool(task=True)
    def tenant() -> Any:
        return g.tenant

    return rpc


def run(site: Site) -> None:
    LocalWorker(site.app, 1).run(burst=True)


def test_a_worker_gets_what_the_request_carries(make_site: Callable[..., Site]) -> None:
    site = make_site()
    client = TaskClient(site.client)
    task_id = client.start("tenant")
    handle = site.invoke("tenant", {}, headers={"Prefer": "respond-async"}).get_json()["task"]
    run(site)
    assert client.get(task_id)["result"]["structuredContent"] == "shop"
    assert site.client.get(handle["url"]).get_json()["result"] == "shop"


def test_each_run_of_a_task_gets_what_it_carries(make_site: Callable[..., Site]) -> None:
    rpc = make_blueprint()

    @rpc.tool(task=True)
    def ask() -> str:
        return f"{g.tenant} {current_call.elicit('Which?', {'colour': str}, key='colour').content['colour']}"

    site = make_site(rpc)
    client = TaskClient(site.client)
    task_id = client.start("ask")
    run(site)
    client.answer(task_id, colour=accept(colour="red"))
    run(site)
    assert client.get(task_id)["result"]["structuredContent"] == "shop red"


def test_each_blueprint_carries_its_own(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.app.register_blueprint(make_blueprint("other", name="other", url_prefix="/other"))
    clients = TaskClient(site.client), TaskClient(site.client, path="/other/mcp")
    started = [client.start("tenant") for client in clients]
    run(site)
    seen = [
        client.get(task_id)["result"]["structuredContent"] for client, task_id in zip(clients, started, strict=True)
    ]
    assert seen == ["shop", "other"]


def test_the_user_is_loaded_after_what_is_carried(make_site: Callable[..., Site]) -> None:
    """A loader may look for the user among those of the tenant."""
    rpc = make_blueprint(auth=make_auth())

    @rpc.user_loader
    def find_user(name: str) -> str:
        return name if g.tenant == "shop" else ""

    site = make_site(rpc)
    client = TaskClient(site.client, basic("writer"))
    task_id = client.start("tenant")
    run(site)
    assert client.get(task_id)["status"] == "completed"


@pytest.mark.parametrize(
    ("carried", "reason"),
    [(UUID(int=1), "Object of type UUID is not JSON serializable"), (float("nan"), "Out of range float values")],
)
def test_what_is_not_json_is_not_carried(
    make_site: Callable[..., Site], caplog: pytest.LogCaptureFixture, carried: Any, reason: str
) -> None:
    site = make_site(make_blueprint(carried))
    with caplog.at_level(logging.ERROR):
        status, code, _ = error(TaskClient(site.client).call("tenant"))
    assert (status, code) == (200, -32603)
    assert f"carry() must return plain JSON: {reason}" in caplog.text
    assert tasks_of(site.app).records.count(1) == 0


@pytest.mark.parametrize("failure", [LookupError("no tenant"), SystemExit("no tenant")])
def test_a_task_that_cannot_be_restored_fails_and_its_tool_does_not_run(
    make_site: Callable[..., Site], failure: BaseException
) -> None:
    site = make_site()
    runs: list[None] = []
    site.rpc.add_tool(lambda: runs.append(None), "work", task=True)

    @site.rpc.restore
    def restore(carried: Any) -> None:
        raise failure

    client = TaskClient(site.client)
    task_id = client.start("work")
    run(site)
    ended = client.get(task_id)
    assert (ended["status"], ended["error"]["code"], runs) == ("failed", -32603, [])
    assert "no tenant" not in str(ended)


def test_a_restore_can_say_why_the_tool_does_not_run(make_site: Callable[..., Site]) -> None:
    site = make_site()

    @site.rpc.restore
    def restore(carried: Any) -> None:
        raise RpcError("This shop is closed")

    client = TaskClient(site.client)
    task_id = client.start("tenant")
    run(site)
    ended = client.get(task_id)
    assert (ended["status"], ended["error"]["message"]) == ("failed", "This shop is closed")


def test_the_other_calls_of_a_batch_are_answered_if_carry_raises(make_site: Callable[..., Site]) -> None:
    rpc = McpBlueprint()
    rpc.carry(lambda: 1 / 0)
    rpc.restore(print)
    rpc.add_tool(lambda: 3, "add")
    rpc.add_tool(lambda: None, "archive", task="required")
    batch = [asking(name, {}, id=name) for name in ("add", "archive", "add")]
    first, second, third = make_site(rpc).rpc_post(batch).get_json()
    assert first == third == {"jsonrpc": "2.0", "result": 3, "id": "add"}
    assert (second["id"], second["error"]["code"]) == ("archive", -32603)


def test_async_functions_carry_and_restore(make_site: Callable[..., Site]) -> None:
    site = make_site()
    seen: list[Any] = []

    @site.rpc.carry
    async def carry() -> list[int]:
        return [7]

    @site.rpc.restore
    async def restore(carried: Any) -> None:
        g.tenant = "async"
        seen.append(carried)

    client = TaskClient(site.client)
    task_id = client.start("tenant")
    run(site)
    assert (client.get(task_id)["result"]["structuredContent"], seen) == ("async", [[7]])


def test_what_is_carried_is_erased_when_the_task_ends(make_site: Callable[..., Site]) -> None:
    site = make_site()
    task_id = TaskClient(site.client).start("tenant")
    records: Any = tasks_of(site.app).records
    assert records.get(task_id).call["carried"] == {"tenant": "shop"}
    run(site)
    assert records.get(task_id).call is None


@pytest.mark.parametrize(("given", "missing"), [("carry", "restore"), ("restore", "carry")])
def test_one_without_the_other_is_an_error_at_set_up(make_site: Callable[..., Site], given: str, missing: str) -> None:
    rpc = McpBlueprint()

    def keep(*carried: Any) -> None: ...

    assert getattr(rpc, given)(keep) is keep
    with pytest.raises(
        ValueError, match=rf"keep\(\): @rpc.carry and @rpc.restore need each other; add @rpc.{missing} too"
    ):
        make_site(rpc)
