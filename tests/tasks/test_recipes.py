"""Celery and other queues as engines: the recipes of the documentation, each with a worker and a real Redis."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.documents import read_blocks
from tests.support.servers import FLASK_RUN, ROOT, serving
from tests.support.services import Redis, Service
from tests.support.task_client import TaskClient, value_of

WORKERS = {
    "RqTasks": ["rq", "worker", "mcp", "--path", ".", "--url", "{redis}"],
    "DramatiqTasks": ["dramatiq", "site_of_recipe", "--processes", "1", "--threads", "2"],
    "HueyTasks": ["huey_consumer", "site_of_recipe.huey"],
}


def test_celery_runs_a_task_with_the_files_of_the_page(tmp_path: Path, broker: Redis, postgres_url: str) -> None:
    blocks = [block.text for block in read_blocks(ROOT / "docs/tasks-on-several-machines.md")]
    [site] = [text for text in blocks if 'Celery(app.name, broker="redis://broker")' in text]
    [make_celery] = [text for text in blocks if text.startswith("from app import")]
    [command] = [text for text in blocks if text.startswith("celery -A make_celery worker")]
    site = site.replace("redis://broker", broker.url).replace("postgresql+psycopg://app@db/app", postgres_url)
    (tmp_path / "app.py").write_text(site)
    (tmp_path / "make_celery.py").write_text(make_celery)
    worker = Service([sys.executable, "-m", *command.split()], tmp_path / "worker.log", {}, cwd=tmp_path)
    with serving(FLASK_RUN, "app:app", tmp_path) as server:
        client = TaskClient(server)
        worker.start()
        try:
            task = client.start("build_report", year=2026)
            assert value_of(client.wait(task, patience=60)) == {"pages": 12}, worker.log.read_text()
        finally:
            worker.stop()


@pytest.mark.parametrize("engine", WORKERS)
def test_a_task_runs_on_the_workers_of_another_queue(
    engine: str, tmp_path: Path, broker: Redis, postgres_url: str
) -> None:
    blocks = read_blocks(ROOT / "docs/tasks-on-several-machines.md")
    [recipe] = [block.text for block in blocks if f"class {engine}" in block.text]
    (tmp_path / "site_of_recipe.py").write_text(recipe)
    env = {"REDIS_URL": broker.url, "TASKS_DATABASE": postgres_url, "PYTHONPATH": str(tmp_path)}
    program, *options = (part.format(redis=broker.url) for part in WORKERS[engine])
    worker = Service(
        [sys.executable, str(Path(sys.executable).parent / program), *options],
        tmp_path / "worker.log",
        env,
        cwd=tmp_path,
    )
    with serving(FLASK_RUN, "site_of_recipe:app", tmp_path, env={**os.environ, **env}) as server:
        client = TaskClient(server)
        worker.start()
        try:
            tasks = [client.start("double", number=number) for number in range(3)]
            assert [value_of(client.wait(task, patience=60)) for task in tasks] == [0, 2, 4], worker.log.read_text()
        finally:
            worker.stop()
