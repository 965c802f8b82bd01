"""What the doctor says of tools with ``task=``, of their workers and of their database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.doctor import examine
from flask_jsonrpc_mcp.doctor_checks import network_filesystem
from flask_jsonrpc_mcp.tasks import tasks_of
from flask_jsonrpc_mcp.tasks.database import tasks
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import make_app, make_auth


def make_blueprint(task: Any = True, **options: Any) -> McpBlueprint:
    rpc = McpBlueprint(**options)

    @rpc.method("build", access=["write"] if options.get("auth") else [])
    @mcp_tool(task=task, annotations={"readOnlyHint": True})
    def build() -> str:
        """Build a report."""
        return "built"

    return rpc


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def make_site(rpc: McpBlueprint, database: Path, **config: Any) -> Flask:
    return make_app(rpc, SECRET_KEY="key", JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{database}", **config)


def found(app: Flask) -> list[tuple[str, str, str | None]]:
    return [(each.slug, each.why, each.tool) for each in examine(app) if each.slug.startswith("task-")]


def see_worker(app: Flask, host: str) -> None:
    facts = {"kind": "worker", "host": host, "pid": 1, "places": 4, "queues": None, "seen": time.time()}
    tasks_of(app).records.see_worker(host, facts)


def test_a_good_app_with_tasks_has_no_findings_and_gets_no_database(database: Path) -> None:
    assert examine(make_site(make_blueprint(), database)) == []
    assert not database.exists()


def test_a_tool_that_most_clients_cannot_call_is_named(database: Path) -> None:
    app = make_site(make_blueprint("required"), database)
    assert found(app) == [("task-required", "most AI clients do not support tasks today, and cannot call it", "build")]
    assert [each.slug for each in examine(app, tools_only=True)] == ["task-required"]


def test_signed_in_callers_whom_a_worker_cannot_load_are_a_warning(database: Path) -> None:
    rpc = make_blueprint(auth=make_auth())
    [(slug, why, tool)] = found(make_site(rpc, database))
    assert (slug, tool) == ("task-user-loader", None)
    assert why.endswith("if your users are not just names, calls of signed-in users fail")
    rpc.user_loader(lambda name: name)
    assert found(make_site(rpc, database)) == []


def test_tasks_that_wait_without_a_worker_are_a_warning(database: Path) -> None:
    app = make_site(make_blueprint(), database)
    McpTestClient(app).start("build")
    assert found(app) == []  # it has waited for a moment only
    with tasks_of(app).records.connection(is_transaction=True) as connection:
        connection.execute(tasks.update().values(updated=time.time() - 60))
    assert found(app) == [("task-worker", "tasks wait, and no worker is running", None)]
    see_worker(app, "garden")
    assert found(app) == []


def test_sqlite_for_two_machines_is_an_error(database: Path) -> None:
    app = make_site(make_blueprint(), database)
    for host in ("garden", "shed"):
        see_worker(app, host)
    assert found(app) == [("task-database", "workers run on garden, shed, but SQLite is for one machine", None)]
    assert next(each.severity for each in examine(app)) == "error"


def test_a_network_disk_is_found_by_the_mount_that_a_file_is_on(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    lines = [
        "/dev/sda1 / ext4 rw 0 0",
        "nas:/data /srv/our\\040data nfs4 rw 0 0",
        "tmpfs /srv/our\\040data/local tmpfs rw 0 0",
    ]
    mounts.write_text("\n".join(lines))
    assert network_filesystem(Path("/srv/our data/site/tasks.db"), mounts) == "nfs4"
    assert network_filesystem(Path("/srv/our data/local/tasks.db"), mounts) is None
    assert network_filesystem(Path("/srv/tasks.db"), mounts) is None
    assert network_filesystem(Path("/srv/tasks.db"), tmp_path / "missing") is None


def test_a_network_disk_is_an_error(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.doctor_checks.network_filesystem", lambda file: "nfs4")
    text = f"{database} is on a network disk (nfs4), where SQLite can lose or corrupt data"
    assert found(make_site(make_blueprint(), database)) == [("task-database", text, None)]


class CeleryTasks:
    """An engine of that name."""

    def offer(self, task_id: str, queue: str | None) -> None: ...


@pytest.mark.parametrize(("installed", "slugs"), [("5.7.0", ["task-celery"]), ("5.6.3", []), (None, [])])
def test_the_celery_whose_workers_end_is_a_warning(
    database: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None, slugs: list[str]
) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.doctor_checks._installed", lambda package: installed)
    assert [slug for slug, _, _ in found(make_site(make_blueprint(tasks=CeleryTasks()), database))] == slugs
    assert found(make_site(make_blueprint(), database)) == []


def test_an_unreachable_database_does_not_stop_the_doctor() -> None:
    app = make_app(make_blueprint(), SECRET_KEY="key", JSONRPC_MCP_TASKS_DATABASE="sqlite:////proc/version")
    assert found(app) == []
