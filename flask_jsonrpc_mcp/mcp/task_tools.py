"""Tools with ``task=`` for MCP clients without tasks, if ``JSONRPC_MCP_TASK_WAIT`` is set.

A worker runs the tool while the request waits. If it takes too long, the result says so, and the model, which can do
what its client cannot, calls ``tasks.get``. That waits as long, and its result is that of the tool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from ..ask import InputNeeded, Question
from ..call import METHOD, Call
from ..checks import name_of
from ..config import NO_DOTS, PREFIX
from ..errors import MethodNotFound, RpcError, UnknownTask
from ..levels import Slot
from ..registry import Methods, alias_of
from ..tasks import tasks_of
from ..tasks.calls import error_of, result_of
from ..tasks.records import CANCELLED, FAILED, INPUT_REQUIRED, TaskRecord, TasksUnavailable
from . import versions
from .protocol import Notifier, RequestContext
from .tasks_extension import protocol_error

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


def check_names(methods: Methods) -> None:
    """Check that the app has no tools with these names.

    :raises ValueError: naming the tool and the fix.
    """
    for method in methods:
        if method.listed and find(method.name) is not None:
            raise ValueError(
                f"{name_of(method.func)}: with {PREFIX}TASK_WAIT, {method.name!r} is a tool of this package;"
                " give yours another name"
            )


def find(name: str) -> Callable[[RequestContext, Mapping[str, Any]], dict[str, Any]] | None:
    """Return one of the tools, by its name with or without dots."""
    return {GET: _get, CANCEL: _cancel, alias_of(GET): _get, alias_of(CANCEL): _cancel}.get(name)


def is_waiting(context: RequestContext, name: str) -> bool:
    """Whether a call of a tool waits for a worker."""
    if find(name) is not None:
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


def _get(context: RequestContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    service = tasks_of(context.app)
    try:
        record = _find(context, arguments)
        answers = {key: response for key, (_, response) in context.answers.by_key.items()}
        if answers:
            service.answer(record, answers)
            record = _find(context, arguments)
    except RpcError as error:
        return versions.tool_failure(error)
    record = _wait_in_slot(record, context)
    if record.state == INPUT_REQUIRED:
        raise InputNeeded({shown: _Asked(each) for shown, each in (record.pending or {}).items()}, has_run=True)
    return _outcome(record, context) if record.is_over else _still_running(record, context)


def _cancel(context: RequestContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        tasks_of(context.app).cancel(_find(context, arguments))
        record = _find(context, arguments)
    except RpcError as error:
        return versions.tool_failure(error)
    return _text(f"It is {record.status}" if record.is_over else "It will end when it notices that it is cancelled")


def _find(context: RequestContext, arguments: Mapping[str, Any]) -> TaskRecord:
    task_id = arguments.get("id")
    if not isinstance(task_id, str):
        raise UnknownTask()
    return tasks_of(context.app).get(task_id, context.registry, context.caller)


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
