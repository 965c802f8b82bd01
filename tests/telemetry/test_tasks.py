"""Tasks, seen from outside: the trace of a run in a worker, the depth of the queue, and whether tasks can be kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from prometheus_client import CollectorRegistry

from flask_jsonrpc_mcp import McpBlueprint, TaskOptions, current_call, method_called
from flask_jsonrpc_mcp.tasks import tasks_of
from flask_jsonrpc_mcp.tasks.local import LocalWorker
from flask_jsonrpc_mcp.telemetry.metrics import Prometheus
from tests.conftest import Site
from tests.support.mcp_messages import META, result
from tests.support.waiting import until
from tests.tasks.conftest import TaskClient
from tests.telemetry.spans import Recorder
from tests.telemetry.test_audit import Kept
from tests.telemetry.test_metrics import metrics_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def make_site(folder: Path, **options: Any) -> Site:
    """A site whose own process runs no tasks."""
    database = f"sqlite:///{folder}/tasks.db"
    settings: Any = {"SECRET_KEY": "key", "JSONRPC_MCP_TASKS_DATABASE": database, "JSONRPC_MCP_TASK_THREADS": 0}
    site = Site(McpBlueprint(**options), **settings)

    @site.rpc.tool("work", task=True)
    def work() -> str:
        return "done"

    return site


def test_a_run_in_a_worker_is_traced_counted_and_audited(tmp_path: Path) -> None:
    recorder, audit = Recorder(), Kept()
    prometheus = Prometheus(access=[], registry=CollectorRegistry())
    site = make_site(tmp_path, telemetry=[recorder.telemetry, prometheus], audit=audit)
    client = TaskClient(site.client)
    meta = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    created = result(client.post("tools/call", {"name": "work", "arguments": {}, "_meta": meta}))
    assert metrics_of(site)["mcp_queue_depth"] == {("tasks",): 1}
    assert audit.records == []

    LocalWorker(site.app, 1).run(burst=True)
    assert client.end(created["taskId"])["status"] == "completed"
    assert {labels[0] for labels in metrics_of(site)["mcp_server_operation_duration_seconds_count"]} == {
        "tools/call",
        "tasks/get",
    }
    request, run, *_ = recorder.take()
    assert (request["name"], request["parent"], "status" in request) == ("tools/call work", PARENT, False)
    assert (run["name"], run["kind"], run["parent"]) == ("execute_tool work", "INTERNAL", "tools/call work")
    found = metrics_of(site)
    assert found["mcp_queue_depth"] == {("tasks",): 0}
    assert found["mcp_calls_total"] == {("work", "mcp", "task"): 1, ("work", "mcp", "ok"): 1}
    record = audit.take()
    assert (record["tool"], record["outcome"], record["trace_id"]) == ("work", "ok", TRACE)
    tasks_of(site.app).records.close()


def test_a_method_that_becomes_a_task_is_no_error(tmp_path: Path) -> None:
    recorder = Recorder()
    site = make_site(tmp_path, telemetry=[recorder.telemetry])

    @site.rpc.tool("late", task=TaskOptions(late=True))
    def late() -> str:
        current_call.detach()
        return "done"

    TaskClient(site.client).start("late")
    request, run = recorder.take()
    assert ("status" in request, "status" in run, run["attributes"]["jsonrpc_mcp.outcome"]) == (False, False, "task")
    tasks_of(site.app).records.close()


def test_an_app_that_cannot_keep_tasks_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, is_ready in ((tmp_path, True), (tmp_path / "file", False)):
        site = make_site(folder)
        response = site.client.get("/mcp/health?ready")
        assert response.get_json()["checks"]["tasks"]["ok"] is is_ready
        assert str(tmp_path) not in response.text
        tasks_of(site.app).records.close()


def test_without_the_database_of_tasks_all_other_metrics_are_served(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    site = make_site(tmp_path / "file", telemetry=[Prometheus(access=[], registry=CollectorRegistry())])
    site.invoke("work", {})
    found = metrics_of(site)
    assert ("mcp_queue_depth" in found, found["mcp_calls_total"]) == (False, {("work", "rest", "ok"): 1})
    tasks_of(site.app).records.close()


def test_the_audit_of_a_run_in_a_worker_has_the_client_that_created_the_task(tmp_path: Path) -> None:
    audit = Kept()
    site = make_site(tmp_path, audit=audit)
    meta = {META + "clientInfo": {"name": "assistant", "version": "2"}}
    TaskClient(site.client).post("tools/call", {"name": "work", "arguments": {}, "_meta": meta})
    site.invoke("work", {}, headers={"Prefer": "respond-async", "User-Agent": "reporter/1"})
    LocalWorker(site.app, 1).run(burst=True)
    found = sorted((each["face"], each["client"], each["client_id"]) for each in audit.records)
    assert found == [("mcp", "assistant 2", None), ("rest", "reporter/1", None)]
    tasks_of(site.app).records.close()


def test_a_run_whose_worker_is_lost_is_reported_by_the_process_that_notices_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, audit = Recorder(), Kept()
    prometheus = Prometheus(access=[], registry=CollectorRegistry())
    site = make_site(tmp_path, telemetry=[recorder.telemetry, prometheus], audit=audit)
    client = TaskClient(site.client)
    meta = {"traceparent": f"00-{TRACE}-{PARENT}-01", META + "clientInfo": {"name": "assistant", "version": "2"}}
    task_id = result(client.post("tools/call", {"name": "work", "arguments": {}, "_meta": meta}))["taskId"]
    tasks_of(site.app).records.claim(task_id, "a worker that is gone", 0)
    signals: list[dict[str, Any]] = []

    def receive(app: Flask, **values: Any) -> None:
        signals.append(values)

    with caplog.at_level(logging.INFO), method_called.connected_to(receive, site.app):
        for _ in range(3):
            assert client.get(task_id)["status"] == "failed"
        until(lambda: signals)
    [signal] = signals
    lost = "The worker that ran this has gone; it may have done a part of its work"
    assert (signal["outcome"], signal["error"].message, signal["call"].in_task) == ("worker_lost", lost, True)
    assert "call face=mcp name='work' caller='' outcome=worker_lost" in caplog.text
    record = audit.take()
    assert (record["outcome"], record["client"], record["trace_id"]) == ("worker_lost", "assistant 2", TRACE)
    assert metrics_of(site)["mcp_calls_total"] == {("work", "mcp", "task"): 1, ("work", "mcp", "worker_lost"): 1}
    tasks_of(site.app).records.close()


def test_a_cancelled_run_whose_worker_is_lost_is_reported_too(tmp_path: Path) -> None:
    audit = Kept()
    site = make_site(tmp_path, audit=audit)
    client = TaskClient(site.client)
    task_id = client.start("work")
    tasks_of(site.app).records.claim(task_id, "a worker that is gone", 0)
    tasks_of(site.app).records.change(task_id, ("running",), cancel=True)
    assert client.get(task_id)["status"] == "cancelled"
    until(lambda: audit.records)
    assert audit.take()["outcome"] == "worker_lost"
    tasks_of(site.app).records.close()


@pytest.mark.parametrize("face", ["mcp", "rest"])
def test_a_run_in_a_worker_belongs_to_the_request_that_created_its_task(tmp_path: Path, face: str) -> None:
    """Also if the client sends no trace of its own."""
    recorder = Recorder()
    site = make_site(tmp_path, telemetry=[recorder.telemetry])
    recorder.instrument(site.app)
    if face == "mcp":
        TaskClient(site.client).start("work")
    else:
        site.invoke("work", {}, headers={"Prefer": "respond-async"})
    LocalWorker(site.app, 1).run(burst=True)
    *_, creating, run = recorder.take()
    assert creating["kind"] == "SERVER"
    assert (run["name"], run["parent"]) == ("execute_tool work", creating["name"])
    tasks_of(site.app).records.close()
