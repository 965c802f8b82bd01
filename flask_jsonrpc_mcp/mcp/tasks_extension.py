"""Tasks for MCP clients: the extension, and two tools for clients without it. No other module knows their JSON.

https://github.com/modelcontextprotocol/ext-tasks, SEP-2663

If ``JSONRPC_MCP_TASK_WAIT`` is set, a client without the extension can call a tool with ``task=`` too. A worker runs
the tool while the request waits. If it takes too long, the result says so, and the model, which can do what its client
cannot, calls ``tasks.get``. That waits as long, and its result is that of the tool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from ..ask import InputNeeded, Question
from ..call import METHOD, Call
from ..checks import name_of
from ..config import NO_DOTS, PREFIX
from ..envelope import RpcResponse
from ..errors import MalformedParams, MethodNotFound, RpcError, TasksUnavailable, UnknownTask, UnknownTool
from ..levels import Slot
from ..registry import Methods, alias_of
from ..task_options import TASKS_EXTENSION
from ..tasks import tasks_of
from ..tasks.calls import error_of, result_of
from ..tasks.database import tasks
from ..tasks.records import CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED, TaskRecord
from ..tasks.service import iso_time
from . import versions
from .extensions import Extension
from .protocol import Notifier, RequestContext

PROGRESS_META = "flask-jsonrpc-mcp/progress"
"""The key of ``_meta`` for progress as numbers; the extension itself has only a text for it."""

MAX_LISTENED = 100
"""Maximum tasks of one subscription."""

LOOK_EVERY = 1.0
"""Seconds between two queries for changes of the tasks that a client listens for."""

GET, CANCEL = "tasks.get", "tasks.cancel"

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two looks at a task, which grow. No connection to the database is held meanwhile."""

_ID = {"type": "string", "description": "The id from the text that said: still running"}
_INPUT = {"type": "object", "properties": {"id": _ID}, "required": ["id"], "additionalProperties": False}

DESCRIPTORS: tuple[dict[str, Any], ...] = (
    {
        "name": GET,
        "title": "Wait for a tool",
        "description": "Wait for a tool that is still running, and return its result.",
        "inputSchema": _INPUT,
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": CANCEL,
        "title": "Cancel a tool",
        "description": "End a tool that is still running.",
        "inputSchema": _INPUT,
        "annotations": {"readOnlyHint": False, "idempotentHint": True},
    },
)
"""The tools as 2026-07-28 lists them."""

Params = Mapping[str, Any]

# The extension


def create_task(context: RequestContext, call: Call) -> dict[str, Any]:
    """Store a call as a task, and return the handle of the task."""
    record = tasks_of(context.app).create(call, context.registry)
    return {"resultType": "task", **_describe_state(record, None)}


def get_task(context: RequestContext, params: Params) -> dict[str, Any]:
    return describe_task(_named(context, params), context)


def update_task(context: RequestContext, params: Params) -> dict[str, Any]:
    """Store answers to the questions of a task. Answers to questions that are not open are ignored."""
    responses = params.get("inputResponses")
    if not isinstance(responses, dict):
        raise MalformedParams("params.inputResponses must be an object")
    tasks_of(context.app).answer(_named(context, params), responses)
    return {}


def cancel_task(context: RequestContext, params: Params) -> dict[str, Any]:
    tasks_of(context.app).cancel(_named(context, params))
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


def _named(context: RequestContext, params: Params) -> TaskRecord:
    if not isinstance(params.get("taskId"), str):
        raise MalformedParams("params.taskId must be a string")
    return _find(context, params["taskId"])


def _find(context: RequestContext, task_id: Any) -> TaskRecord:
    if not isinstance(task_id, str):
        raise UnknownTask()
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
        _find(context, task_id)
    except UnknownTask:
        return False
    return True


TASKS = Extension(
    TASKS_EXTENSION,
    methods={
        "tasks/get": get_task,
        "tasks/update": update_task,
        "tasks/cancel": cancel_task,
    },
    name_param="taskId",
    listen=listen,
)


# Tools for clients without the extension


def check_names(methods: Methods) -> None:
    """Check that the app has no tools with these names.

    :raises ValueError: naming the tool and the fix.
    """
    for method in methods:
        if method.listed and find_tool(method.name) is not None:
            raise ValueError(
                f"{name_of(method.func)}: with {PREFIX}TASK_WAIT, {method.name!r} is a tool of this package;"
                " give yours another name"
            )


def find_tool(name: str) -> Callable[[RequestContext, Mapping[str, Any]], dict[str, Any]] | None:
    """Return one of the tools, by its name with or without dots."""
    return {GET: _get_tool, CANCEL: _cancel_tool, alias_of(GET): _get_tool, alias_of(CANCEL): _cancel_tool}.get(name)


def is_waiting(context: RequestContext, name: str) -> bool:
    """Whether a call of a tool waits for a worker."""
    if find_tool(name) is not None:
        return True
    try:
        tool = context.registry.finders[METHOD].find(context.tool_name(name), context.caller).tool
    except MethodNotFound:
        return False
    return tool is not None and tool.task is not None


def create_and_wait(context: RequestContext, call: Call) -> dict[str, Any]:
    """Create a task of a call, and return what the plain call would have, or that it is still running.

    :raises InputNeeded: if it asks. With the answers, the client's request begins anew, as that of a plain call does.
    :raises RpcError: if the plain call would be a JSON-RPC error.
    """
    service = tasks_of(context.app)
    record = _wait_in_slot(service.create(call, context.registry), context)
    if record.state == INPUT_REQUIRED:
        service.cancel(record)
        raise InputNeeded({each["key"]: _Asked(each) for each in (record.pending or {}).values()}, has_run=True)
    # With isError, because a result must match the output schema of the tool.
    return _outcome(record, context) if record.is_over else _still_running(record, context, is_error=True)


def _get_tool(context: RequestContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    service = tasks_of(context.app)
    try:
        record = _find(context, arguments.get("id"))
        answers = {key: response for key, (_, response) in context.answers.by_key.items()}
        if answers:
            service.answer(record, answers)
            record = _find(context, arguments.get("id"))
    except RpcError as error:
        return versions.tool_failure(error)
    record = _wait_in_slot(record, context)
    if record.state == INPUT_REQUIRED:
        raise InputNeeded({shown: _Asked(each) for shown, each in (record.pending or {}).items()}, has_run=True)
    return _outcome(record, context) if record.is_over else _still_running(record, context)


def _cancel_tool(context: RequestContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        tasks_of(context.app).cancel(_find(context, arguments.get("id")))
        record = _find(context, arguments.get("id"))
    except RpcError as error:
        return versions.tool_failure(error)
    return _text(f"It is {record.status}" if record.is_over else "It will end when it notices that it is cancelled")


def _wait_in_slot(record: TaskRecord, context: RequestContext) -> TaskRecord:
    """Wait for a task, unless too many requests wait already."""
    with Slot() as may_wait:
        return _wait(record, context, context.setting("TASK_WAIT") if may_wait else 0)


def _wait(record: TaskRecord, context: RequestContext, seconds: int) -> TaskRecord:
    """Return a task as soon as it is over or asks, or else after so many seconds."""
    service, deadline = tasks_of(context.app), time.monotonic() + seconds
    notifier = None if context.send is None else Notifier(context.send, context)
    pause = FIRST_PAUSE
    while True:
        if record.progress is not None and notifier is not None:
            notifier.progress(**record.progress)
        left = deadline - time.monotonic()
        if record.is_over or record.state == INPUT_REQUIRED or left <= 0 or context.server_is_ending:
            return record
        if context.cancellation.requested:
            service.cancel(record)
            raise RpcError("Cancelled by the client")
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)
        with suppress(TasksUnavailable):  # logged; the task goes on
            record = service.get(record.id, context.registry, context.caller)


def _outcome(record: TaskRecord, context: RequestContext) -> dict[str, Any]:
    """Return what the plain call would have."""
    error = RpcError("Cancelled") if record.state == CANCELLED else error_of(record)
    if error is None:
        method = context.registry.methods.get(record.method)
        schema = None if method is None or method.output is None else method.output.schema
        return versions.tool_result(replace(result_of(record), schema=schema), context.version)
    if record.state == FAILED:
        raise protocol_error(error, record, context)
    return versions.tool_failure(error)


def _still_running(record: TaskRecord, context: RequestContext, *, is_error: bool = False) -> dict[str, Any]:
    has_dots = context.setting("TOOL_NAME_STYLE") != NO_DOTS
    get, cancel = (name if has_dots else alias_of(name) for name in (GET, CANCEL))
    message = tasks_of(context.app).status_message(record)
    how_far = "" if message is None else f" ({message})"
    then = f"Call `{get}` with id {record.id} to wait for its result, or `{cancel}` to end it"
    return _text(f"Still running{how_far}. {then}", is_error=is_error)


def _text(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


class _Asked(Question):
    """A question that a tool has asked in a worker."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._stored = stored
        self.method = stored["method"]  # type: ignore[misc] # of the class in all others

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = deepcopy(self._stored["params"])
        return params

    @property
    def digest(self) -> str:
        return str(self._stored["digest"])
