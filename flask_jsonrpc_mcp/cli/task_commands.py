"""``flask mcp tasks``, which shows and cancels the tasks of all callers, and ``flask mcp call --background``."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from flask import current_app
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
    if not any(TASKS_EXTENSION in registry.extensions for registry in registries_of(current_app).values()):
        raise click.UsageError("This app has no tool with task=, so it has no tasks")
    from ..tasks import tasks_of

    return tasks_of(current_app)


def _no_worker() -> str:
    configured = current_app.config[PREFIX + "TASKS"]
    with_tasks = [each for each in registries_of(current_app).values() if TASKS_EXTENSION in each.extensions]
    is_local = any((registry.task_engine or configured) == "local" for registry in with_tasks)
    command = "with: flask mcp worker" if is_local else "of your engine, such as: celery -A make_celery worker"
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
