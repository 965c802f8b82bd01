"""Runs the official MCP conformance suite against the fixture app under gunicorn: ``make conformance``.

With ``OAUTH=yes`` in the environment the app takes access tokens; the suite sends none, and must see no difference.
Without it, the scenarios of the tasks extension are run too, one by one, because no suite has them: with a worker on
SQLite, and with Celery on Redis and PostgreSQL.

All eras are served by one running server with three workers of eight threads. For each, what its version requires must
pass, and so must everything else that the suite has for it: a failure that is not in the era's ``expected-*.yml`` fails
the run; so does one that is there and does not happen, and so does a warning.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import Server, gunicorn, need
from tests.support.services import celery_worker, local_worker, running_broker, running_postgres

HERE = Path(__file__).parent
VERSIONS = ("2025-11-25", "2026-07-28")

SUMMARY = "=== SUMMARY ==="
NOT_SCORED = "\nNot scored for "
"""Before a list of scenarios that were run with the required ones: of extensions, or from after the release."""

APP = "tests.conformance.fixture:app"
CELERY_APP = "tests.conformance.fixture.make_celery:celery_app"
WORKERS = ("--workers", "3", "--threads", "8")
TASK_SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
    "tasks-status-notifications",
)
PLACES = "6"
"""How many tasks run at a time: some scenarios leave one behind that takes a minute."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with on_sqlite(folder) as server:
            outcomes = {version: judge(server, version, folder) for version in VERSIONS}
            if "OAUTH" not in os.environ:
                outcomes["tasks on SQLite"] = judge_tasks(server, "with a worker on SQLite", folder)
        if "OAUTH" not in os.environ:
            with on_celery(folder) as server:
                outcomes["tasks on Celery"] = judge_tasks(server, "with Celery on Redis and PostgreSQL", folder)
    for line, _ in outcomes.values():
        print(line)
    failed = [version for version, (_, passed) in outcomes.items() if not passed]
    if failed:
        sys.exit(f"conformance: not passed at {', '.join(failed)}")


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Server]:
    env = {"CONFORMANCE_JSONRPC_MCP_TASKS_DATABASE": f"sqlite:///{folder}/tasks.db"}
    with local_worker(APP, folder, "--threads", PLACES, env=env), gunicorn(APP, folder, *WORKERS, env=env) as server:
        server.request("/.well-known/mcp.json")
        yield server


@contextmanager
def on_celery(folder: Path) -> Iterator[Server]:
    with running_postgres() as postgres, running_broker(folder) as redis:
        env = {
            "CONFORMANCE_JSONRPC_MCP_TASKS": "celery",
            "CONFORMANCE_JSONRPC_MCP_TASKS_DATABASE": postgres.new_database(),
            "CONFORMANCE_CELERY__broker_url": redis.url,
        }
        celery = celery_worker(CELERY_APP, folder, "--concurrency", PLACES, env=env)
        with celery, gunicorn(APP, folder, *WORKERS, env=env) as server:
            server.request("/.well-known/mcp.json")
            yield server


def judge_tasks(server: Server, how: str, folder: Path) -> tuple[str, bool]:
    """Run the scenarios of the tasks extension, none of which may fail; say how it went, and whether that is enough."""
    passed = 0
    for name in TASK_SCENARIOS:
        baseline = ("--expected-failures", str(HERE / f"expected-{VERSIONS[-1]}.yml"))
        ran = run(server, "--scenario", name, *baseline, "--output-dir", str(folder / how / name))
        if ran.returncode == 0:
            passed += 1
        else:
            print(summary_of(ran), flush=True)
    line = f"conformance of tasks {how}: {passed} of {len(TASK_SCENARIOS)} scenarios"
    return line, passed == len(TASK_SCENARIOS)


def judge(server: Server, version: str, folder: Path) -> tuple[str, bool]:
    """Run the suite at one version; say how it went in a line, and whether that is enough."""
    required = run(server, "--requirements", version, "--output-dir", str(folder / f"required-{version}"))
    passed_required, all_required = count_required(required.stdout)
    baseline = HERE / f"expected-{version}.yml"
    everything = run(
        server,
        *("--suite", "all", "--spec-version", version),
        *("--expected-failures", str(baseline), "--output-dir", str(folder / version)),
    )
    scenarios = outcomes_in(everything.stdout)
    known = len(re.findall(r"^ +- ", baseline.read_text(), re.MULTILINE))
    line = (
        f"conformance at {version}: {passed_required} of {all_required} required,"
        f" {sum(scenarios.values())} of {len(scenarios)} scenarios"
    )
    passed = True
    if required.returncode != 0 or not 0 < all_required == passed_required:
        print(summary_of(required), flush=True)
        passed = False
    if everything.returncode != 0 or not scenarios:
        print(summary_of(everything), flush=True)
        passed = False
    return (f"{line}, {known} known gaps" if known else line), passed


def run(server: Server, *options: str) -> subprocess.CompletedProcess[str]:
    command = [need("npx"), "--no-install", "conformance", "server", "--url", f"{server.url}/mcp", *options]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False)


def outcomes_in(output: str) -> dict[str, bool]:
    """Read the summary: each scenario by its name, and whether it passed."""
    summary = output.partition(SUMMARY)[2].partition(NOT_SCORED)[0]
    return {name: sign == "✓" for sign, name in re.findall(r"^([✓✗]) ([\w-]+):", summary, re.MULTILINE)}


def count_required(output: str) -> tuple[int, int]:
    """Count the required scenarios that passed, and all of them."""
    extra = re.findall(r"^ +[✓✗] ([\w-]+) \(", output.partition(NOT_SCORED)[2], re.MULTILINE)
    required = {name: passed for name, passed in outcomes_in(output).items() if name not in extra}
    return sum(required.values()), len(required)


def summary_of(result: subprocess.CompletedProcess[str]) -> str:
    return result.stdout.partition(SUMMARY)[2] or result.stdout + result.stderr


if __name__ == "__main__":
    main()
