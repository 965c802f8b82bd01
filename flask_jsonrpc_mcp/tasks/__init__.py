"""Tasks: tools that run in a worker while their client has a handle.

`database` has the tables and `records` their rows. `service` creates, reads and cancels tasks, and offers them to an
engine, of which `local` is the default. `running` runs them in a worker; `calls` is what both know of a task's call.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flask.sansio.app import App
from werkzeug.local import LocalProxy

from ..config import PREFIX
from .local import LocalTasks
from .running import run
from .service import EXTENSION, TaskEngine, Tasks

__all__ = ["LocalTasks", "TaskEngine", "run", "tasks_of"]


def tasks_of(app: App) -> Tasks:
    """Return the tasks of an app, and make them first if needed. It opens nothing before the first task.

    :raises ValueError, RuntimeError: if a setting is invalid, naming the fix.
    """
    if isinstance(app, LocalProxy):  # current_app, which has no meaning in the threads that keep the app
        app = app._get_current_object()
    if EXTENSION not in app.extensions:
        engine = make_engine(app.config[PREFIX + "TASKS"])
        connect(engine, app)
        app.extensions[EXTENSION] = Tasks(app, engine)  # type: ignore[arg-type]
    service: Tasks = app.extensions[EXTENSION]
    return service


def connect(engine: TaskEngine | None, app: App) -> None:
    """Call the ``init_app`` of an engine, if it has one.

    :raises RuntimeError: if something is missing that the engine needs.
    """
    init_app = getattr(engine, "init_app", None)
    if init_app is not None:
        init_app(app)


def make_engine(setting: Any) -> TaskEngine:
    """Return the engine that ``JSONRPC_MCP_TASKS`` names."""
    if setting == "local":
        return LocalTasks()
    if setting == "celery":
        try:
            engine: TaskEngine = import_module(".celery_tasks", __name__).CeleryTasks()
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{PREFIX}TASKS is 'celery'; install flask-jsonrpc-mcp[celery]") from error
        return engine
    if not callable(getattr(setting, "offer", None)):
        raise ValueError(f"{PREFIX}TASKS must be 'local', 'celery' or an object with offer(task_id, queue)")
    return setting  # type: ignore[no-any-return]
