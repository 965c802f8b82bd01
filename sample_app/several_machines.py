"""``make serve-celery``: run the site as on several machines, but on this one.

This starts PostgreSQL, Redis and a Celery worker on loopback, then gunicorn, and stops all of them when it ends. Each
process has the settings that it would have on a machine of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.services import celery_worker, running_broker, running_postgres

CELERY_APP = "sample_app.make_celery:celery_app"

WELCOME = """
    This is the sample site with PostgreSQL, Redis and a Celery worker. Each could run on another machine:

      web     gunicorn, process {web}, with FLASK_JSONRPC_MCP_TASKS=celery
      tasks   {database}
      broker  {broker}
      worker  celery -A sample_app.make_celery worker, process {worker}, log {log}

    Try, in another terminal, an import that a worker runs:

      curl -i -u admin:admin -H 'Content-Type: application/json' -H 'Prefer: respond-async' \\
        'http://127.0.0.1:{port}/mcp/tools/invoke' \\
        -d '{{"name": "articles.import", "arguments": {{"articles": [{{"title": "From a worker"}}]}}}}'

    Then kill the worker while it runs a task, or stop Redis, and see what happens to the task.
"""


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    port = os.environ.get("PORT") or "8000"
    with (
        tempfile.TemporaryDirectory() as name,
        running_postgres() as postgres,
        running_broker(Path(name)) as redis,
    ):
        folder, database = Path(name), postgres.new_database()
        env = {
            "DATABASE_URL": database,
            "FLASK_JSONRPC_MCP_TASKS": "celery",
            "FLASK_JSONRPC_MCP_TASKS_DATABASE": database,
            "FLASK_CELERY__broker_url": redis.url,
            # Reserve no messages in advance: tasks wait in the broker for a free worker, not behind a long task.
            "FLASK_CELERY__worker_prefetch_multiplier": "1",
            "SITE_ENV": "development",
        }
        with celery_worker(CELERY_APP, folder, "--concurrency", "2", env=env) as worker:
            gunicorn = [sys.executable, "-m", "gunicorn", "--config", "sample_app/gunicorn_conf.py", "wsgi:app"]
            site = subprocess.Popen(gunicorn, env={**os.environ, **env})  # noqa: S603 (our own server)
            try:
                facts = {"database": database, "broker": redis.url, "worker": worker.pid, "log": worker.log}
                print(WELCOME.format(web=site.pid, port=port, **facts), file=sys.stderr, flush=True)  # noqa: T201 (for people)
                return site.wait()
            finally:
                site.terminate()
                site.wait()


def _leave(number: int, frame: Any) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
