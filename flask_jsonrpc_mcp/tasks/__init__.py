"""Tasks: tools that run in a worker while their client has a handle.

`records` is the table, `service` creates, reads and cancels tasks, `running` runs them with `keeping` beside it,
`offering` brings them to an engine, of which `local` is the default.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flask import current_app
from flask.sansio.app import App

from ..config import PREFIX
from .local import LocalTasks
from .offering import TaskEngine
from .running import run
from .service import EXTENSION, Tasks

__all__ = ["LocalTasks", "TaskEngine", "run", "tasks_of"]


def tasks_of(app: App) -> Tasks:
    """Return the tasks of an app, and make them first if needed. It opens nothing before the first task.

    :raises ValueError, RuntimeError: if a setting is invalid, naming the fix.
    """
    if EXTENSION not in app.extensions:
        app.extensions[EXTENSION] = Tasks(app, make_engine(app.config[PREFIX + "TASKS"]))  # type: ignore[arg-type]
    service: Tasks = app.extensions[EXTENSION]
    return service


def count_waiting() -> int:
    """Count the tasks of the current app that wait for a worker, for the metrics."""
    return tasks_of(current_app).count_waiting()


def check_ready() -> None:
    """Check that the tasks of the current app can be read, for ``/mcp/health?ready``."""
    count_waiting()


def make_engine(setting: Any) -> TaskEngine:
    """Return the engine that ``JSONRPC_MCP_TASKS`` names."""
    if setting == "local":
        return LocalTasks()
    if setting == "celery":
        engine: TaskEngine = import_module(".celery", __name__).CeleryTasks()  # its package is an extra
        return engine
    if not callable(getattr(setting, "offer", None)):
        raise ValueError(f"{PREFIX}TASKS must be 'local', 'celery' or an object with offer(task_id, queue)")
    return setting  # type: ignore[no-any-return]
