"""Many tasks, questions and cancellations, while workers are killed at random: ``make soak-tasks``.

In the end every task must be over, none that is not idempotent may have run twice, and no row may be left that runs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from tests.support.celery_sites import APP, celery_site
from tests.support.servers import gunicorn
from tests.support.services import Service, local_worker, running_broker, running_postgres, wait_until_ready
from tests.support.task_client import TaskClient, runs_in

ENGINES = ("local", "celery")
CLIENTS = 8
PATIENCE = 120


@dataclass(frozen=True)
class Soaked:
    """Where tasks run, and how to kill what runs them."""

    notes: Path
    client: TaskClient
    database: str
    worker: Service
    restart: Callable[[int], None]


@dataclass
class Soak:
    """What has become of the tasks.

    :param kills: How often a worker was killed.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    problems: list[str] = field(default_factory=list)


@contextmanager
def deployed(engine: str, folder: Path) -> Iterator[Soaked]:
    if engine == "celery":
        with running_postgres() as postgres, running_broker(folder) as broker:
            database = postgres.new_database()
            with celery_site(folder, database, broker) as site:
                yield Soaked(folder, site.client, database, site.worker, lambda n: wait_until_ready(site.worker, n))
        return
    database = f"sqlite:///{folder}/tasks.db"
    settings = {"TASKS_DATABASE": database, "TASK_LEASE": 4, "TASK_THREADS": 0}
    env = {"NOTES": str(folder), **{f"TASKS_APP_JSONRPC_MCP_{name}": str(value) for name, value in settings.items()}}
    with local_worker(APP, folder, env=env) as worker, gunicorn(APP, folder, env=env) as server:
        yield Soaked(folder, TaskClient(server), database, worker, lambda n: None)


def soak(site: Soaked, tasks: int, kills: int, seed: int) -> Soak:
    """Run so many tasks, while workers are killed so often."""
    seen, chance = Soak(), random.Random(seed)  # noqa: S311 (a test, which can be repeated)
    plans = [(number, chance.random(), chance.random() * 0.3) for number in range(tasks)]
    left, lock = [tasks], threading.Lock()

    def run_one(plan: tuple[int, float, float]) -> None:
        try:
            ended = run_task(site.client, *plan)
            with lock:
                seen.statuses[ended["status"]] += 1
        except AssertionError as error:
            with lock:
                seen.problems.append(f"task {plan}: {error}")
        with lock:
            left[0] -= 1

    def kill_workers() -> None:
        for number in range(1, kills + 1):
            threshold = tasks - number * tasks // (kills + 1)
            while left[0] > threshold:
                if over.wait(0.02):
                    return
            site.worker.kill()
            site.worker.start()
            site.restart(number + 1)
            seen.kills += 1

    over = threading.Event()
    killer = threading.Thread(target=kill_workers)
    killer.start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(run_one, plans))
    over.set()
    killer.join()
    seen.problems += check_rest(site)
    return seen


def run_task(client: TaskClient, number: int, kind: float, seconds: float) -> Any:
    """Start a task of some kind, take part in it, and return its end."""
    if kind < 0.2:
        task = client.start("greet")
        if client.wait(task, "input_required", "failed", patience=PATIENCE)["status"] == "input_required":
            client.answer(task, {"name": "Ada"})
    else:
        task = client.start("echo_again" if kind < 0.6 else "echo", number=number, seconds=seconds)
        if kind > 0.9:
            client.cancel(task)
    return client.wait(task, patience=PATIENCE)


def check_rest(site: Soaked) -> list[str]:
    """Look for tasks that are not over, and for those that ran too often."""
    engine = create_engine(site.database)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT state, method, run FROM mcp_tasks")).all()
    engine.dispose()
    problems = [
        f"{method} is {state}" for state, method, _ in found if state not in ("completed", "failed", "cancelled")
    ]
    problems += [f"{method} ran {run} times" for _, method, run in found if method == "echo" and run > 1]
    problems += [f"{key} ran {times} times" for key, times in runs_in(site.notes).items() if times > 3]
    return problems


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))  # noqa: S311
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    failed = False
    for engine in options.engine or ENGINES:
        with tempfile.TemporaryDirectory() as folder, deployed(engine, Path(folder)) as site:
            seen = soak(site, options.tasks, options.kills, options.seed)
        print(
            f"{engine}: {dict(seen.statuses)}, {seen.kills} workers killed, {len(seen.problems)} problems", flush=True
        )
        for problem in seen.problems:
            print(f"  {problem}")
        failed |= bool(seen.problems)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
