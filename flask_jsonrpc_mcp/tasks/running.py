"""Run tasks in a worker: claim one, find its caller, call its method, and store the outcome."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from flask import Flask, current_app

from ..ask import InputNeeded
from ..auth import Caller
from ..call import log_unexpected, new_id
from ..errors import PROTOCOL_ERRORS, MethodNotFound, RpcError, ServerFault
from ..invoke import invoke
from ..problems import one_line
from ..registry import Registry
from ..strict_json import write
from .callers import restore_caller
from .calls import call_of, request_of
from .keeping import Keeper, Run
from .records import CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED, TaskRecord, TasksUnavailable
from .service import EXTENSION, Tasks, failure, success

KEEPER = "jsonrpc_mcp_task_keeper"
"""``app.extensions["jsonrpc_mcp_task_keeper"]`` has the `Keeper` of this process."""

ENGINE, THREADS, WORKER = "engine", "threads", "worker"
"""The kinds of workers: called by an engine, threads of a web server, and the process ``flask mcp worker``."""

RETRY_EVERY = 0.5
"""Seconds between two tries to store the end of a task."""

# MCP has more levels than Python.
_LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_making = threading.Lock()


def run(task_id: str) -> None:
    """Run a task, unless another worker does or it is over. Engines call this in an app context of their worker."""
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    claimed = keeper_of(app).claim(task_id)
    if claimed is not None:
        run_claimed(app, claimed)


def keeper_of(app: Flask, kind: str = ENGINE, places: int = 1, queues: list[str] | None = None) -> Keeper:
    """Return the keeper of this process; a forked process gets its own."""
    with _making:
        found: tuple[int, Keeper] | None = app.extensions.get(KEEPER)
        if found is None or found[0] != os.getpid():
            found = (os.getpid(), Keeper(app.extensions[EXTENSION], kind, places, queues))
            app.extensions[KEEPER] = found
        return found[1]


def run_claimed(app: Flask, run: Run) -> None:
    """Run a task that this process has claimed."""
    service: Tasks = app.extensions[EXTENSION]
    keeper = keeper_of(app)
    try:
        state, outcome, message = _run_method(app, service, run)
        while state != INPUT_REQUIRED:
            try:
                progress = run.progress or run.record.progress
                if not service.end(run.record, state, outcome=outcome, message=message, progress=progress):
                    _log_dropped(app, run.record, state)
                break
            except TasksUnavailable:
                if run.is_lost or time.monotonic() > run.lease_until:
                    _log_dropped(app, run.record, state)
                    break
                time.sleep(RETRY_EVERY)
    finally:
        keeper.release(run)


def _run_method(app: Flask, service: Tasks, run: Run) -> tuple[str, dict[str, Any] | None, str | None]:
    """Return the new state of the task, its outcome, and its message."""
    registry = service.registry_of(run.record)
    with request_of(app, registry, run.record):
        try:
            try:
                if registry is None:
                    raise MethodNotFound(run.record.method)
                caller = _restore(app, registry, run.record)
            except RpcError as error:
                return _ended_by(error, service, run, is_failed=True)
            call = call_of(run.record, caller, reporter=_Reporter(app, run), cancellation=run.cancellation)
            return COMPLETED, _checked_size(success(invoke(call, registry)), service, run.record), None
        except InputNeeded as needed:
            return _ask(service, run, needed)
        except RpcError as error:
            return _ended_by(error, service, run)
        # Of a callback of the app, such as user_loader. Also sys.exit(), which must not end the worker.
        except BaseException as error:
            fault = ServerFault(new_id())
            log_unexpected(error, fault.error_id)
            return FAILED, failure(fault), fault.message


def _restore(app: Flask, registry: Registry, record: TaskRecord) -> Caller:
    """Restore what the task carries, and its caller.

    :raises MethodNotFound: if the caller is gone.
    """
    if registry.restore is not None:
        carried = (record.call or {}).get("carried")
        app.ensure_sync(registry.restore)(carried)  # first, because the user may depend on it
    caller = restore_caller(record, registry.auth)
    if caller is None:
        raise MethodNotFound(record.method)
    return caller


def _checked_size(outcome: dict[str, Any], service: Tasks, record: TaskRecord) -> dict[str, Any]:
    """Return an outcome, or an error if it is too large to store."""
    size, limit = len(write(outcome)), service.setting("TASK_MAX_RESULT")
    if size <= limit:
        return outcome
    facts = {"tool": record.method, "size": size, "limit": limit}
    text = "the result of a task of %(tool)r has %(size)d bytes; %(limit)d are kept"
    service.app.logger.warning(text, facts, extra=facts)
    return failure(RpcError(f"The result has {size} bytes; a task can store at most {limit}"))


def _ask(service: Tasks, run: Run, needed: InputNeeded) -> tuple[str, dict[str, Any] | None, str | None]:
    try:
        if service.ask(run.record, needed):
            return INPUT_REQUIRED, None, None
    except RpcError as error:
        return _ended_by(error, service, run)
    return CANCELLED, None, None  # or it is not this run's any more, and nothing is stored


def _ended_by(
    error: RpcError, service: Tasks, run: Run, *, is_failed: bool = False
) -> tuple[str, dict[str, Any] | None, str | None]:
    if run.cancellation.by_client:
        return CANCELLED, None, None
    outcome = _checked_size(failure(error), service, run.record)
    if is_failed or isinstance(error, PROTOCOL_ERRORS):
        return FAILED, outcome, error.message
    return COMPLETED, outcome, None


def _log_dropped(app: Flask, record: TaskRecord, state: str) -> None:
    text = "a task of %r ended as %r after it was given up; this is not stored"
    app.logger.warning(text, record.method, state, extra={"tool": record.method, "outcome": state})


class _Reporter:
    """Keeps what a method reports in a task. Log messages go to the app's log: MCP has no place for them."""

    def __init__(self, app: Flask, run: Run) -> None:
        self._app = app
        self._run = run

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        text = None if message is None else one_line(message)
        self._run.progress = {"done": done, "total": total, "message": text}

    def log(self, level: str, data: Any, logger: str | None) -> None:
        # A part of the id: the whole of it is a key to the task.
        facts = self._run.record.id[:8], self._run.record.method, one_line(str(data))
        self._app.logger.log(_LOG_LEVELS.get(level, logging.CRITICAL), "task %s… of %r: %s", *facts)
