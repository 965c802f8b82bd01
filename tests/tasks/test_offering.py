"""How tasks are brought to an engine: outside the request, in a thread that no failure ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.tasks import tasks_of
from tests.conftest import Site
from tests.support.waiting import until


class Engine:
    """Notes what it is offered."""

    def __init__(self) -> None:
        self.offered: list[str] = []

    def offer(self, task_id: str, queue: str | None) -> None:
        self.offered.append(task_id)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class FirstFails(Engine):
    """Refuses the first task, with an exception that cannot even be logged."""

    def offer(self, task_id: str, queue: str | None) -> None:
        super().offer(task_id, queue)
        if len(self.offered) == 1:
            raise Unprintable()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Engine], Callable[[], str]]]:
    sites: list[Site] = []

    def with_engine(engine: Engine) -> Callable[[], str]:
        settings: Any = {"JSONRPC_MCP_TASKS": engine, "JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{tmp_path}/tasks.db"}
        site = Site(McpBlueprint(), **settings)
        site.rpc.tool("work", task=True)(lambda: "done")  # the first with task=, after the app has the blueprint
        sites.append(site)
        call = {"name": "work", "arguments": {}}
        prefer = {"Prefer": "respond-async"}
        return lambda: str(site.client.post("/mcp/tools/invoke", json=call, headers=prefer).get_json()["task"]["id"])

    yield with_engine
    for site in sites:
        tasks_of(site.app).records.close()


@pytest.mark.parametrize("engine", [Engine(), FirstFails()], ids=["works", "first-fails"])
def test_every_task_is_offered(start: Callable[[Engine], Callable[[], str]], engine: Engine) -> None:
    create = start(engine)
    ids = [create(), create()]
    assert until(lambda: len(engine.offered) == 2 and engine.offered) == ids
