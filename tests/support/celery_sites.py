"""The app in deployed_app.py on gunicorn, with Celery on Redis and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import Server, gunicorn
from tests.support.services import Redis, Service, celery_worker
from tests.support.task_client import TaskClient

APP, CELERY_APP = "tests.apps.deployed_app:create_app()", "tests.apps.make_celery:celery_app"
PLACES = 4
LEASE = 4


@dataclass(frozen=True)
class CelerySite:
    """A web server and a worker.

    :param notes: Where the methods of the app write down what they do.
    """

    notes: Path
    server: Server
    worker: Service
    client: TaskClient


def settings(notes: Path, database: str, broker: Redis, **others: object) -> dict[str, str]:
    """The environment of all processes of a site."""
    config = {"TASKS": "celery", "TASKS_DATABASE": database, "TASK_LEASE": LEASE, **others}
    env = {f"TASKS_APP_JSONRPC_MCP_{name}": str(value) for name, value in config.items()}
    return {"NOTES": str(notes), "TASKS_APP_CELERY__broker_url": broker.url, **env}


@contextmanager
def celery_site(folder: Path, database: str, broker: Redis, **others: object) -> Iterator[CelerySite]:
    """Run two web workers, and a Celery worker with four places. Tasks are offered again after three seconds."""
    env = {**settings(folder, database, broker, **others), "OFFER_AFTER": "3"}
    with (
        celery_worker(CELERY_APP, folder, "--concurrency", str(PLACES), env=env) as worker,
        gunicorn(APP, folder, env=env) as server,
    ):
        client = TaskClient(server)
        client.result("server/discover")  # waits until it has started
        yield CelerySite(folder, server, worker, client)
