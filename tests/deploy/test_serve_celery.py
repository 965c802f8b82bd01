"""``make serve-celery``: the sample site as on several machines."""

from __future__ import annotations

from pathlib import Path

from benchmarks.servers import processes_of
from tests.conftest import basic
from tests.support.load import wait_until
from tests.support.servers import ROOT, free_port, running
from tests.support.task_client import TaskClient, value_of


def test_make_serve_celery_runs_tasks_on_a_celery_worker_and_leaves_nothing_behind(tmp_path: Path) -> None:
    port, env = free_port(), {"SECRET_KEY": "key" * 16, "WEB_CONCURRENCY": "2"}
    with running(["make", "serve-celery", f"PORT={port}"], port, tmp_path, cwd=ROOT, env=env) as server:
        client = TaskClient(server, basic("admin"))
        ids = value_of(client.wait(client.start("articles.import", articles=[{"title": "From a worker"}])))
        [article] = ids
        assert server.invoke("articles.get", {"id": article}).json()["result"]["title"] == "From a worker"
        processes = processes_of(server.process.pid)
        programs = " ".join(Path(f"/proc/{process}/cmdline").read_text() for process in processes)
        assert all(name in programs for name in ("postgres", "redis-server", "celery", "gunicorn"))
    wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes), "all processes have ended")
    assert "Each could run on another machine" in server.log.read_text()
