"""``flask mcp tasks`` and ``flask mcp worker``, and how ``flask mcp call --background`` starts a task."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

from ..call import Call, Detach
from ..config import PREFIX
from ..errors import RpcError
from ..invoke import invoke
from ..lookup import registries_of
from ..registry import Registry
from ..task_options import TASKS_EXTENSION
from . import output

if TYPE_CHECKING:
    from ..tasks.records import TaskRecord
    from ..tasks.service import Tasks

# Not imported from tasks.records, which needs SQLAlchemy, an extra; a test compares them.
STATUSES = ("queued", "running", "input_required", "completed", "failed", "cancelled")

SHORT_ID = 12
"""Characters of an id in lists. Commands accept the beginning of an id, if it is unique."""

WITH_ID = {"ignore_unknown_options": True}
"""For commands with an id, which may begin with a hyphen."""

WORKER_SEEN = 30
"""Seconds for which a worker counts as alive."""

JOIN_EVERY = 0.2
CELERY = "celery -A make_celery worker"

_COLORS = {"completed": "green", "failed": "red", "input_required": "yellow", "running": "cyan"}


@click.group("tasks")
def tasks() -> None:
    """Show and cancel tasks: calls of tools with task= that run in a worker."""


@tasks.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="List only tasks with this status.")
@click.option("--user", metavar="NAME", help="List only tasks of this user.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number of tasks.")
@output.json_option
@with_appcontext
def list_tasks(status: str | None, user: str | None, limit: int, json_output: bool | None) -> None:
    """List the tasks of all callers, the newest first."""
    service = _service()
    from ..tasks.database import tasks as table

    conditions: list[Any] = [table.c.expires > time.time()]
    if status is not None:
        conditions.append(table.c.state == status)
    if user is not None:
        conditions.append(table.c.user == user)
    records = service.records.find(*conditions, limit=limit, newest_first=True)
    if output.wants_json(json_output):
        output.echo_json([_describe(record, service) for record in records])
        return
    if not records:
        click.echo("There are no tasks")
    rows = [("ID", "Tool", "Status", "User", "Age", "Message")]
    for record in records:
        message = service.status_message(record) or _error_text(record)
        age = _age(time.time() - record.created)
        user_name = record.user or "-"
        rows.append((record.id[:SHORT_ID], record.method, record.state, user_name, age, message))
    _echo_table(rows)
    if any(record.state == "queued" for record in records) and not service.has_worker():
        click.secho(_no_worker(), fg="yellow", err=True)


@tasks.command("show", context_settings=WITH_ID)
@click.argument("id")
@click.option("--arguments", "with_arguments", is_flag=True, help="Show the arguments too, which may have secrets.")
@output.json_option
@with_appcontext
def show_task(id: str, with_arguments: bool, json_output: bool | None) -> None:
    """Show a task with its outcome. ID can be the beginning of an id."""
    service = _service()
    record = _find(service, id)
    described = {**_describe(record, service), **_details(record)}
    if with_arguments:
        # Erased when a task ends.
        described["arguments"] = None if record.call is None else record.call["arguments"]
    if output.wants_json(json_output):
        output.echo_json(described)
        return
    for name, value in described.items():
        if value is not None:
            text = value if isinstance(value, str) else output.in_json(value)
            click.echo(f"{click.style(f'{name}:', fg='cyan')} {output.printable(text)}")


@tasks.command("cancel", context_settings=WITH_ID)
@click.argument("id")
@with_appcontext
def cancel_task(id: str) -> None:
    """Cancel a task. ID can be the beginning of an id."""
    service = _service()
    record = _find(service, id)
    if record.is_over:
        raise click.ClickException(f"The task is over already: {record.state}")
    service.cancel(record)
    now = service.records.get(record.id)
    is_cancelled = now is not None and now.state == "cancelled"
    click.echo(
        "Cancelled" if is_cancelled else "Cancelling; the task ends when its method checks current_call.cancelled"
    )


@tasks.command("workers")
@output.json_option
@with_appcontext
def list_workers(json_output: bool | None) -> None:
    """List the workers that run tasks."""
    workers = _service().records.seen_workers(WORKER_SEEN)
    if output.wants_json(json_output):
        output.echo_json(workers)
        return
    if not workers:
        click.echo(_no_worker())
        return
    rows = [("Host", "PID", "Kind", "Places", "Queues", "Seen")]
    for worker in workers:
        queues = "all" if worker["queues"] is None else ", ".join(worker["queues"])
        seen = f"{_age(time.time() - worker['seen'])} ago"
        rows.append((worker["host"], str(worker["pid"]), worker["kind"], str(worker["places"]), queues, seen))
    _echo_table(rows)


@click.command("worker")
@click.option(
    "--threads", default=4, show_default=True, type=click.IntRange(min=1), help="How many tasks to run at a time."
)
@click.option("--queues", metavar="A,B", help="Run only tasks of these queues; 'default' has those without a queue.")
@click.option("--burst", is_flag=True, help="Exit as soon as no task is queued.")
@click.option("--with-parent", is_flag=True, hidden=True, help="End with the process that started this one.")
@with_appcontext
def run_worker(threads: int, queues: str | None, burst: bool, with_parent: bool) -> None:
    """Run tasks: calls of tools with task=.

    Start one worker on each machine, or let gunicorn do it with the hooks of flask_jsonrpc_mcp.gunicorn. On SIGTERM, it
    finishes the tasks that run and exits. On a second SIGTERM it exits at once, and other workers take over.
    """
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    registries = _registries_with_tasks()
    if with_parent and not (registries and _uses_local_tasks(registries)):
        sys.exit(0)  # gunicorn's hooks start a worker for every app
    if not registries:
        raise click.UsageError("This app has no tool with task=, so there is nothing for a worker to run")
    if not _uses_local_tasks(registries):
        raise click.UsageError(f"The tasks of this app have another engine; start a worker of it, such as: {CELERY}")
    from ..tasks.local import LocalWorker  # SQLAlchemy is an extra

    named = None if queues is None else [name for name in map(str.strip, queues.split(",")) if name]
    worker = LocalWorker(app, threads, named)
    stopping, leaving = threading.Event(), threading.Event()
    parent = os.getppid() if with_parent else None

    def stop(number: int, frame: Any) -> None:
        (leaving if stopping.is_set() and number != signal.SIGHUP else stopping).set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(signal.SIGQUIT, lambda *ignored: leaving.set())
    # In a thread, so that a signal handler never interrupts a transaction.
    running = threading.Thread(target=worker.run, kwargs={"burst": burst}, name="mcp-task-worker")
    running.start()
    if not (burst or with_parent):
        click.echo(f"Running tasks, at most {threads} at a time; CTRL+C to stop", err=True)
    while running.is_alive():
        running.join(JOIN_EVERY)
        if stopping.is_set() and not worker.is_stopping:
            worker.stop()
            click.echo(f"Stopping; tasks that still run: {len(worker.keeper.runs)}", err=True)
        if leaving.is_set() or (parent is not None and os.getppid() != parent):
            worker.keeper.let_go()
            os._exit(1)  # sys.exit() would wait for the threads in which methods still run


def start_in_background(call: Call, registry: Registry, json_output: bool | None) -> Any:
    """Start a call as a task for a worker, and print the id of the task.

    :returns: The result or the error, if the call has not become a task.
    """
    # No threads of this process run the task: they would keep the command from ending.
    current_app.config[PREFIX + "TASK_THREADS"] = 0
    try:
        return invoke(call, registry)
    except RpcError as error:
        return error
    except Detach as detached:
        service = _service()
        try:
            record = service.create(detached.call, registry)
        except RpcError as error:
            return error
    if json_output:
        output.echo_json({"task": _describe(record, service)})
    else:
        click.echo(record.id)
    if not service.has_worker():
        click.secho(_no_worker(), fg="yellow", err=True)
    return None


def _service() -> Tasks:
    if not _registries_with_tasks():
        raise click.UsageError("This app has no tool with task=, so it has no tasks")
    from ..tasks import tasks_of

    return tasks_of(current_app)


def _registries_with_tasks() -> list[Registry]:
    return [each for each in registries_of(current_app).values() if TASKS_EXTENSION in each.extensions]


def _uses_local_tasks(registries: Iterable[Registry]) -> bool:
    """Return whether ``flask mcp worker`` runs tasks of these, and not only a worker of another engine."""
    from ..tasks.local import LocalTasks

    engines = [registry.task_engine or current_app.config[PREFIX + "TASKS"] for registry in registries]
    return any(engine == "local" or isinstance(engine, LocalTasks) for engine in engines)


def _no_worker() -> str:
    is_local = _uses_local_tasks(_registries_with_tasks())
    command = "with: flask mcp worker" if is_local else f"of your engine, such as: {CELERY}"
    return f"No worker is running; start one {command}"


def _find(service: Tasks, id: str) -> TaskRecord:
    from ..tasks.database import tasks as table

    found = service.records.find(table.c.id.startswith(id, autoescape=True), table.c.expires > time.time(), limit=2)
    if not found or not id:
        raise click.UsageError(f"There is no task {id!r}; it may have expired")
    if len(found) > 1:
        raise click.UsageError(f"The ids of several tasks begin with {id!r}; write more of the id")
    return found[0]


def _describe(record: TaskRecord, service: Tasks) -> dict[str, Any]:
    # Clients see "working"; operators see whether a worker has started: "queued" or "running".
    own = {"status": record.state, "user": record.user, "blueprint": record.blueprint}
    return {**service.describe(record), **own}


def _details(record: TaskRecord) -> dict[str, Any]:
    outcome = record.outcome or {}
    error = outcome.get("error")
    return {
        "face": record.face,
        "address": record.address or None,
        "queue": record.queue,
        "runs": record.run,
        "worker": record.runner,
        "questions": list(record.pending or ()) or None,
        "result": outcome.get("value", outcome.get("content")),
        "error": None if error is None else {name: error[name] for name in ("code", "slug", "message")},
    }


def _error_text(record: TaskRecord) -> str:
    error = (record.outcome or {}).get("error")
    return "" if error is None else str(error["message"])


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _echo_table(rows: Iterable[tuple[str, ...]]) -> None:
    table = [tuple(output.printable(cell) for cell in row) for row in rows]
    if len(table) < 2:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for number, row in enumerate(table):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        color = next((_COLORS[cell] for cell in row if cell in _COLORS), None)
        click.secho(line[: max(output.terminal_width(), 60)], bold=number == 0, fg=color)
