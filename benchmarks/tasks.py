"""Tasks on both engines, beside plain Celery and FastMCP on Docket: ``make bench-tasks`` writes TASKS.md.

All contenders run at the same time on this machine, and are asked in turn, so that the ratios hold whatever else runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from benchmarks.run import FOLDER
from benchmarks.table import format_table
from tests.support.celery_sites import APP, CELERY_APP, settings
from tests.support.load import wait_until
from tests.support.servers import ROOT, Server, free_port, gunicorn, running
from tests.support.services import Redis, celery_worker, local_worker, running_broker, running_postgres
from tests.support.task_client import TaskClient

LOCAL, CELERY, PLAIN, DOCKET = "LocalTasks, SQLite", "CeleryTasks, PostgreSQL", "plain Celery", "FastMCP on Docket"
PLACES = "4"
CLIENTS = 8
DOCKET_PYTHON = ROOT / ".peers/docket/bin/python"
MAX_GET, MAX_START = 1.5, 2.0
FIRST_POLL = 0.1
"""Seconds until a task is asked for, so that asking takes no time from its start. Clients wait for longer."""


class Contender(Protocol):
    """A way to start a task that returns the time at which it runs, and to ask for it."""

    def start(self) -> str: ...

    def value(self, id: str) -> float | None: ...

    def plain(self) -> None: ...


@dataclass(frozen=True)
class McpTasks:
    client: TaskClient

    def start(self) -> str:
        return self.client.start("clock")

    def value(self, id: str) -> float | None:
        task = self.client.get(id)
        if task["status"] != "completed":
            assert task["status"] == "working", task
            return None
        structured = task["result"]["structuredContent"]
        return float(structured["result"] if isinstance(structured, dict) else structured)

    def plain(self) -> None:
        self.client.result("tools/call", name="plain_clock", arguments={})


@dataclass(frozen=True)
class CeleryRoutes:
    server: Server

    def _fetch(self, path: str, method: str) -> Any:
        request = urllib.request.Request(self.server.url + path, method=method)  # noqa: S310 (our own server)
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            return json.loads(response.read())

    def start(self) -> str:
        return str(self._fetch("/start", "POST")["id"])

    def value(self, id: str) -> float | None:
        value: float | None = self._fetch(f"/result/{id}", "GET")["value"]
        return value

    def plain(self) -> None:
        """It has no plain call."""


@dataclass
class Times:
    """Milliseconds of each measure, and tasks a second."""

    creation: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    get: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)


@contextmanager
def contenders(folder: Path) -> Iterator[dict[str, Contender]]:
    with ExitStack() as stack:
        enter = stack.enter_context
        found: dict[str, Contender] = {}
        folders = {name: folder / name.partition(",")[0].replace(" ", "-") for name in (LOCAL, CELERY, PLAIN, DOCKET)}
        for each in folders.values():
            each.mkdir()
        postgres = enter(running_postgres())

        def redis(name: str) -> Redis:
            return enter(running_broker(folders[name], keeps_data=False))

        env = {
            "NOTES": str(folders[LOCAL]),
            "TASKS_APP_JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{folders[LOCAL]}/tasks.db",
        }
        enter(local_worker(APP, folders[LOCAL], "--threads", PLACES, env=env))
        found[LOCAL] = McpTasks(TaskClient(enter(gunicorn(APP, folders[LOCAL], env=env))))
        env = settings(folders[CELERY], postgres.new_database(), redis(CELERY))
        enter(celery_worker(CELERY_APP, folders[CELERY], "--concurrency", PLACES, env=env, name="ours"))
        found[CELERY] = McpTasks(TaskClient(enter(gunicorn(APP, folders[CELERY], env=env))))
        plain, env = "benchmarks.apps.plain_celery", {"BROKER": redis(PLAIN).url}
        worker = celery_worker(f"{plain}:celery_app", folders[PLAIN], "--concurrency", PLACES, env=env, name="plain")
        enter(worker)
        found[PLAIN] = CeleryRoutes(enter(gunicorn(f"{plain}:app", folders[PLAIN], env=env)))
        if DOCKET_PYTHON.exists():
            port, env = free_port(), {"BROKER": redis(DOCKET).url}
            command = [str(DOCKET_PYTHON), "-m", "uvicorn", "--port", str(port), "--log-level", "error"]
            command += ["--app-dir", str(FOLDER / "peers"), "docket_app:app"]
            found[DOCKET] = McpTasks(TaskClient(enter(running(command, port, folders[DOCKET], env=env))))
        yield found


def one_task(contender: Contender, times: Times) -> None:
    """Start a task, ask for it until it is there, and make a plain call."""
    begun = time.time()
    task = contender.start()
    times.creation.append(1000 * (time.time() - begun))
    time.sleep(FIRST_POLL)
    times.start.append(1000 * (_awaited(contender, task) - begun))
    # When no worker is busy. In turn, because the second finds the caches warmer.
    measures: list[tuple[list[float], Callable[[], object]]] = [
        (times.get, partial(contender.value, task)),
        (times.plain, contender.plain),
    ]
    for measured, call in measures if len(times.get) % 2 else reversed(measures):
        asked = time.perf_counter()
        call()
        measured.append(1000 * (time.perf_counter() - asked))


def many_tasks(contender: Contender, number: int) -> float:
    """Start many tasks from several clients, wait for all, and return how many a second have ended."""
    begun = time.time()
    with ThreadPoolExecutor(CLIENTS) as pool:
        ids = list(pool.map(lambda _: contender.start(), range(number)))
        last = max(pool.map(lambda task: _awaited(contender, task), ids))
    return number / (last - begun)


def _awaited(contender: Contender, id: str) -> float:
    values: list[float] = []

    def is_there() -> bool:
        value = contender.value(id)
        values.extend([] if value is None else [value])
        return bool(values)

    wait_until(is_there, "the task is completed", patience=120)
    return values[0]


def measure(found: dict[str, Contender], rounds: int, tasks: int) -> dict[str, Times]:
    all_times = {name: Times() for name in found}
    for contender in found.values():  # the first of each process takes longer
        for _ in range(5):
            one_task(contender, Times())
    for _ in range(rounds):
        for name, contender in found.items():
            one_task(contender, all_times[name])
    for name, contender in found.items():
        all_times[name].rates.append(many_tasks(contender, tasks))
    return all_times


def report(all_times: dict[str, Times], rounds: int, tasks: int) -> str:
    rows = []
    for name, times in all_times.items():
        plain = "" if name == PLAIN else f"{median(times.plain):.1f}"
        cells = [f"{median(each):.1f}" for each in (times.creation, times.start, times.get)]
        rows.append([name, *cells, plain, f"{times.rates[0]:,.0f}"])
    header = ["", "creation ms", "call to start ms", "get ms", "plain call ms", "tasks a second"]
    lines = []
    for name in (LOCAL, CELERY):
        get = ratio(all_times[name].get, all_times[name].plain)
        lines.append(verdict(f"`tasks/get` over a plain call, {name}", get, MAX_GET))
    start = ratio(all_times[CELERY].start, all_times[PLAIN].start)
    lines.append(verdict("call to start, CeleryTasks over plain Celery", start, MAX_START))
    return f"""# Tasks

Written by `make bench-tasks`: medians of {rounds} tasks one after the other, all contenders in turn,
and {tasks} tasks from {CLIENTS} clients. Each has {PLACES} places, and two gunicorn workers in front; FastMCP
has uvicorn, and runs tasks in the process of its server. Every request opens a connection of its own.
With other load on the machine, every step that waits for another process takes longer, and the ratios grow.

{format_table(header, rows)}
{chr(10).join(lines)}
"""


def ratio(one: list[float], other: list[float]) -> float:
    return median(one) / median(other)


def verdict(what: str, value: float, limit: float) -> str:
    return f"* {what}: {value:.2f}, at most {limit:g}: {'met' if value <= limit else 'not met'}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--print", action="store_true", help="write no file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contenders(Path(folder)) as found:
        text = report(measure(found, options.rounds, options.tasks), options.rounds, options.tasks)
    sys.stdout.write(text)
    if not options.print:
        (FOLDER / "TASKS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
