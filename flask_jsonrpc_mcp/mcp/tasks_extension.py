"""The MCP extension for tasks. No other module knows its method names and its JSON.

https://github.com/modelcontextprotocol/ext-tasks, SEP-2663
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..call import Call
from ..config import NO_DOTS
from ..envelope import RpcResponse
from ..errors import MalformedParams, MethodNotFound, RpcError, UnknownTask, UnknownTool
from ..registry import alias_of
from ..task_options import TASKS_EXTENSION
from ..tasks import tasks_of
from ..tasks.calls import error_of, result_of
from ..tasks.database import tasks
from ..tasks.records import COMPLETED, FAILED, INPUT_REQUIRED, TaskRecord
from ..tasks.service import iso_time
from . import versions
from .extensions import Extension, ExtensionMethod
from .protocol import RequestContext

PROGRESS_META = "flask-jsonrpc-mcp/progress"
"""The key of ``_meta`` for progress as numbers; the extension itself has only a text for it."""

MAX_LISTENED = 100
"""Maximum tasks of one subscription."""

LOOK_EVERY = 1.0
"""Seconds between two queries for changes of the tasks that a client listens for."""

Params = Mapping[str, Any]


def create_task(context: RequestContext, call: Call) -> dict[str, Any]:
    """Store a call as a task, and return the handle of the task."""
    record = tasks_of(context.app).create(call, context.registry)
    return {"resultType": "task", **_describe_state(record, None)}


def get_task(context: RequestContext, params: Params) -> dict[str, Any]:
    return describe_task(_find(context, params), context)


def update_task(context: RequestContext, params: Params) -> dict[str, Any]:
    """Store answers to the questions of a task. Answers to questions that are not open are ignored."""
    responses = params.get("inputResponses")
    if not isinstance(responses, dict):
        raise MalformedParams("params.inputResponses must be an object")
    tasks_of(context.app).answer(_find(context, params), responses)
    return {}


def cancel_task(context: RequestContext, params: Params) -> dict[str, Any]:
    tasks_of(context.app).cancel(_find(context, params))
    return {}


def describe_task(record: TaskRecord, context: RequestContext) -> dict[str, Any]:
    """Describe a task with its questions, result or error."""
    described = _describe_state(record, tasks_of(context.app).status_message(record))
    if record.progress is not None:
        described["_meta"] = {PROGRESS_META: record.progress}
    error = error_of(record)
    if record.state == INPUT_REQUIRED:
        described["inputRequests"] = {key: _question(each) for key, each in (record.pending or {}).items()}
    elif record.state == FAILED and error is not None:
        described["error"] = RpcResponse(None, error=protocol_error(error, record, context)).to_json()["error"]
    elif record.state == COMPLETED:
        result = versions.tool_result(result_of(record), context.version) if error is None else None
        described["result"] = versions.complete(result or versions.tool_failure(error), "tools/call", context)  # type: ignore[arg-type]
    return described


def _find(context: RequestContext, params: Params) -> TaskRecord:
    task_id = params.get("taskId")
    if not isinstance(task_id, str):
        raise MalformedParams("params.taskId must be a string")
    return tasks_of(context.app).get(task_id, context.registry, context.caller)


def _describe_state(record: TaskRecord, message: str | None) -> dict[str, Any]:
    described: dict[str, Any] = {"taskId": record.id, "status": record.status}
    if message is not None:
        described["statusMessage"] = message
    return {
        **described,
        "createdAt": iso_time(record.created),
        "lastUpdatedAt": iso_time(record.updated),
        "ttlMs": round((record.expires - record.created) * 1000),
        "pollIntervalMs": record.poll_interval * 1000,
    }


def _question(pending: Mapping[str, Any]) -> dict[str, Any]:
    method, params = pending["method"], pending["params"]
    return {"method": method, "params": params} if params else {"method": method}


def protocol_error(error: RpcError, record: TaskRecord, context: RequestContext) -> RpcError:
    """Return the JSON-RPC error that a call without a task would have got."""
    if not isinstance(error, MethodNotFound):
        return error
    name = alias_of(record.method) if context.setting("TOOL_NAME_STYLE") == NO_DOTS else record.method
    return UnknownTool(name, sign_in=False)


class _TaskWatcher:
    """Yields the current state of each task, then every change until the task is over."""

    def __init__(self, context: RequestContext, ids: list[str]) -> None:
        self._context = context
        self._updated: dict[str, float] = dict.fromkeys(ids, 0.0)
        self._looked = 0.0
        self.accepted: Mapping[str, Any] = {"taskIds": ids} if ids else {}

    def is_allowed(self, context: RequestContext) -> bool:
        now, then = context.caller, self._context.caller
        return (now.principal, now.scopes) == (then.principal, then.scopes)

    def changes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if not self._updated or time.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked = time.monotonic()
        for record in tasks_of(self._context.app).records.find(tasks.c.id.in_(list(self._updated))):
            if record.updated == self._updated[record.id]:
                continue
            self._updated[record.id] = record.updated
            if record.is_over:
                del self._updated[record.id]
            yield "tasks", describe_task(record, self._context)


def listen(context: RequestContext, wanted: Params) -> _TaskWatcher | None:
    """Read the ``taskIds`` of a subscription. Tasks of other callers are left out.

    :raises MissingCapability: if the client has not declared the extension.
    """
    ids = wanted.get("taskIds")
    if ids is None:
        return None
    TASKS.require(context)
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids) or len(ids) > MAX_LISTENED:
        raise MalformedParams(f"params.notifications.taskIds must be a list of at most {MAX_LISTENED} ids")
    return _TaskWatcher(context, [task_id for task_id in dict.fromkeys(ids) if _is_visible(context, task_id)])


def _is_visible(context: RequestContext, task_id: str) -> bool:
    try:
        _find(context, {"taskId": task_id})
    except UnknownTask:
        return False
    return True


TASKS = Extension(
    TASKS_EXTENSION,
    methods={
        "tasks/get": ExtensionMethod(get_task, "taskId"),
        "tasks/update": ExtensionMethod(update_task, "taskId"),
        "tasks/cancel": ExtensionMethod(cancel_task, "taskId"),
    },
    listen=listen,
)
