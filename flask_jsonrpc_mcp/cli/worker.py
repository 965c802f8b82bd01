"""``flask mcp worker``: run tasks in a process of their own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

from ..config import PREFIX
from ..lookup import registries_of

JOIN_EVERY = 0.2


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
    reason = _nothing_to_do(app)
    if reason is not None:
        if with_parent:
            sys.exit(0)  # gunicorn's hooks start a worker for apps without tasks too
        raise click.UsageError(reason)
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


def _nothing_to_do(app: Flask) -> str | None:
    """Return why this app needs no ``flask mcp worker``, or ``None`` if it does."""
    registries = registries_of(app).values()
    tools = [method.tool for registry in registries for method in registry.methods if method.tool is not None]
    if not any(tool.task is not None for tool in tools):
        return "This app has no tool with task=, so there is nothing for a worker to run"
    if app.config[PREFIX + "TASKS"] != "local" and all(registry.task_engine is None for registry in registries):
        return f"{PREFIX}TASKS is not 'local'; start a worker of its engine, such as: celery -A make_celery worker"
    return None
