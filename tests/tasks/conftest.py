"""Where tasks run in tests: an app in this process, and workers in their own, on each deployment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jsonrpc_mcp.tasks import tasks_of
from tests.apps.tasks_app import AUDIT, USERS, create_app
from tests.conftest import basic
from tests.support.mcp_messages import ModernClient, result
from tests.support.servers import ROOT
from tests.support.services import CELERY_OPTIONS, Postgres, Redis, broker, postgres, postgres_url, running_broker
from tests.support.waiting import until

__all__ = ["broker", "postgres", "postgres_url"]

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES: dict[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {}}
LEASE = 3


@dataclass
class TaskClient(ModernClient):
    """An MCP client that supports tasks."""

    capabilities: dict[str, Any] = field(default_factory=lambda: dict(CAPABILITIES))

    def start(self, name: str, /, **arguments: Any) -> str:
        """Call a tool, and return the id of its task."""
        created = result(self.call(name, arguments))
        assert created["resultType"] == "task", created
        return str(created["taskId"])

    def task(self, method: str, task_id: str, **params: Any) -> Any:
        """Send ``tasks/get``, ``update`` or ``cancel``."""
        return self.post(f"tasks/{method}", {"taskId": task_id, **params}, Mcp_Name=task_id)

    def get(self, task_id: str) -> Any:
        return result(self.task("get", task_id))

    def answer(self, task_id: str, **responses: Any) -> None:
        result(self.task("update", task_id, inputResponses=responses))

    def cancel(self, task_id: str) -> None:
        result(self.task("cancel", task_id))

    def wait(self, task_id: str, *statuses: str) -> Any:
        """Return the task as soon as it has one of the statuses."""
        return until(lambda: found if (found := self.get(task_id))["status"] in statuses else None)

    def end(self, task_id: str) -> Any:
        return self.wait(task_id, "completed", "failed", "cancelled")


class Held:
    """Lets a test decide when a tool in this process goes on; ``threads`` has the names of those that have run it."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.may_end = threading.Event()

    def __call__(self) -> None:
        self.threads.append(threading.current_thread().name)
        assert self.may_end.wait(60)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.may_end.set()


class Worker:
    """A worker process, with everything that it has started."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def kill(self) -> None:
        """End it as a machine without power does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end after what it runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        finally:
            if self.process.poll() is None:
                self.kill()


class Deployment:
    """The app in this process, with its database and its engine; here SQLite and `LocalTasks`.

    :param stopping: What a worker logs when it is told to stop.
    """

    stopping = "Stopping"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.set_users(ada={"id": 1, "permissions": ["write"]}, bob={"id": 2, "permissions": []})
        self._apps: list[Flask] = []

    def settings(self) -> dict[str, Any]:
        return {"JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{self.folder}/tasks.db"}

    def command(self) -> list[str]:
        """What starts a worker, which finds its settings in the environment."""
        return [sys.executable, "-m", "flask", "--app", "tests.apps.tasks_app:create_app", "mcp", "worker"]

    def make_app(self, **settings: Any) -> Flask:
        """Make the app, whose own process runs no tasks."""
        app = create_app({**self._all_settings(), "JSONRPC_MCP_TASK_THREADS": 0, **settings})
        self._apps.append(app)
        return app

    @property
    def app(self) -> Flask:
        """The first app of this deployment."""
        return self._apps[0] if self._apps else self.make_app()

    def client(self, user: str | None = "ada", app: Flask | None = None, **options: Any) -> TaskClient:
        return TaskClient((app or self.app).test_client(), {} if user is None else basic(user), **options)

    @contextmanager
    def worker(self, **settings: Any) -> Iterator[Worker]:
        values = {**self._all_settings(), **settings}
        env = {
            f"FLASK_{name}": value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
        }
        log = self.folder / "worker.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                env={**os.environ, **env},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        worker = Worker(process, log)
        try:
            yield worker
        finally:
            worker.stop()

    def environment(self, **settings: Any) -> dict[str, str]:
        """The settings of a worker."""
        values = {**self._all_settings(), **settings}
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
        return {f"FLASK_{name}": text for name, text in texts.items()}

    def _all_settings(self) -> dict[str, Any]:
        shared = {"SECRET_KEY": "key", "TASKS_FOLDER": str(self.folder), "JSONRPC_MCP_TASK_LEASE": LEASE}
        return {**shared, **self.settings()}

    def set_users(self, **users: Mapping[str, Any]) -> None:
        draft = self.folder / "users.draft"
        draft.write_text(json.dumps(users))
        draft.replace(self.folder / USERS)

    def runs(self, name: str) -> list[str]:
        """The process ids of all runs of a tool."""
        file = self.folder / f"{name}.runs"
        return file.read_text().split() if file.exists() else []

    def audited(self, tool: str) -> list[dict[str, Any]]:
        """The audit trail of a tool."""
        file = self.folder / AUDIT
        lines = file.read_text().splitlines() if file.exists() else []
        return [record for record in map(json.loads, lines) if record["tool"] == tool]

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    def close(self) -> None:
        # A test that runs tasks in this process has a keeper here, which ends soon, and needs the database until then.
        until(lambda: all(thread.name != "mcp-task-keeper" for thread in threading.enumerate()))
        for app in self._apps:
            tasks_of(app).records.close()


class CeleryDeployment(Deployment):
    """The same with PostgreSQL and `CeleryTasks`."""

    stopping = "Warm shutdown"

    def __init__(self, folder: Path, database: str, broker: Redis) -> None:
        super().__init__(folder)
        self._database = database
        # A queue of its own, because all tests share the broker.
        self._celery = {"broker_url": broker.url, "task_default_queue": folder.name}

    def settings(self) -> dict[str, Any]:
        config = {"JSONRPC_MCP_TASKS": "celery", "JSONRPC_MCP_TASKS_DATABASE": self._database}
        return {**config, "CELERY": self._celery}

    def command(self) -> list[str]:
        celery = [sys.executable, "-m", "celery", "-A", "tests.apps.celery_of_tasks:celery_app", "worker"]
        return [*celery, "--concurrency", "4", *CELERY_OPTIONS]


DEPLOYMENTS = ("local", "celery")


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with running_broker(tmp_path_factory.mktemp("broker"), keeps_data=False) as server:
        yield server


def make_deployment(request: pytest.FixtureRequest, folder: Path) -> Deployment:
    """Make the deployment that is the parameter of a fixture. Only one that needs services starts them."""
    if request.param == "local":
        return Deployment(folder)
    postgres: Postgres = request.getfixturevalue("postgres")
    return CeleryDeployment(folder, postgres.new_database(), request.getfixturevalue("shared_broker"))


@pytest.fixture(params=DEPLOYMENTS)
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    made = make_deployment(request, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module", params=DEPLOYMENTS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment with a worker, for all tests that leave it as it is; each uses names of its own."""
    made = make_deployment(request, tmp_path_factory.mktemp("served"))
    with made.worker():
        yield made
    made.close()
