"""Tasks on REST and JSON-RPC: start one, get its status and result, cancel it, and list those of a caller."""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flask import Request, Response, current_app, url_for
from sqlalchemy import and_, or_

from ..auth import Caller
from ..call import Call
from ..config import PREFIX
from ..envelope import RpcResponse
from ..errors import (
    InvalidCursor,
    MalformedParams,
    MethodNotFound,
    NoSuchPath,
    NoSuchTask,
    RpcError,
    SignInRequired,
    TasksUnavailable,
    Unauthorized,
    UnknownTask,
)
from ..levels import Slot
from ..registry import Registry
from ..tasks import tasks_of
from ..tasks.calls import error_of, may_see, result_of
from ..tasks.database import tasks
from ..tasks.records import (
    CANCELLED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    QUEUED,
    RUNNING,
    WORKING,
    TaskRecord,
)
from ..tasks.service import Tasks
from .io import call_error, call_error_message, first_values, json_response, rest_error_body
from .preferences import Preferences

LOOK_EVERY = 0.1
"""Seconds between two queries for a task that a request waits for."""

STATES = {
    WORKING: (QUEUED, RUNNING),
    INPUT_REQUIRED: (INPUT_REQUIRED,),
    COMPLETED: (COMPLETED,),
    FAILED: (FAILED,),
    CANCELLED: (CANCELLED,),
}
"""The states of the record by the status that clients see."""

_OWN_VARIABLES = ("name", "task_id")


# The handle


class Handle:
    """Starts a call as a task, and waits for it as long as its caller prefers, unless too many requests wait already.

    :param record: The task, which may be over already.
    """

    def __init__(self, request: Request, registry: Registry, call: Call, preferences: Preferences) -> None:
        self._request = request
        self._preferences = preferences
        self.record = _service().create(call, registry)
        if preferences.wait:
            with Slot() as may_wait:
                if may_wait:
                    self._wait(preferences.wait, registry, call.caller)
                else:
                    self._preferences = preferences._replace(wait=None)

    def _wait(self, seconds: int, registry: Registry, caller: Caller) -> None:
        deadline = time.monotonic() + seconds
        while not self.record.is_over and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
            with suppress(TasksUnavailable):  # logged; the task goes on
                self.record = _service().get(self.record.id, registry, caller)

    @property
    def outcome(self) -> Any:
        """The result of the method.

        :raises RpcError: if the method failed.
        """
        error = error_of(self.record)
        if error is not None:
            raise error
        return result_of(self.record).plain

    @property
    def has_outcome(self) -> bool:
        return self.record.outcome is not None

    def describe(self) -> dict[str, Any]:
        return {"task": _describe(self.record, self._request)}

    def add_headers(self, response: Response) -> Response:
        """Add ``Preference-Applied``, and ``Location`` and ``Retry-After`` if the response is a handle."""
        if self._preferences.applied:
            response.headers["Preference-Applied"] = self._preferences.applied
        if not self.has_outcome:
            response.headers["Location"] = task_url(self._request, self.record)
            _add_retry_after(response, self.record)
        return response


def start_task(request: Request, registry: Registry, call: Call, preferences: Preferences) -> Response:
    """Start a REST call as a task. Respond with the result if it is there in time, else with the handle."""
    handle = Handle(request, registry, call, preferences)
    if not handle.has_outcome:
        return handle.add_headers(json_response(handle.describe(), 202))
    try:
        return handle.add_headers(json_response({"result": handle.outcome}))
    except RpcError as error:
        return handle.add_headers(call_error(error))


# REST


def get_task(request: Request, registry: Registry, caller: Caller, task_id: str) -> Response:
    return _task_response(request, _find(registry, caller, task_id))


def cancel_task(request: Request, registry: Registry, caller: Caller, task_id: str) -> Response:
    record = _find(registry, caller, task_id)
    _service().cancel(record)
    record = _find(registry, caller, task_id)
    return _task_response(request, record, status=200 if record.is_over else 202)


def list_tasks(request: Request, registry: Registry, caller: Caller) -> Response:
    if not caller.principal:
        raise Unauthorized() if caller.may_sign_in else NoSuchPath("Anonymous callers have no list of tasks")
    query = first_values(request)
    return json_response(_list(request, registry, caller, query.get("status"), query.get("cursor")))


def _find(registry: Registry, caller: Caller, task_id: str) -> TaskRecord:
    try:
        return _service().get(task_id, registry, caller)
    except UnknownTask as error:
        raise NoSuchTask() from error


def _task_response(request: Request, record: TaskRecord, status: int = 200) -> Response:
    body = _describe_all(record, request, lambda error: rest_error_body(error, call_error_message(error)))
    response = json_response(body, status)
    _add_retry_after(response, record)
    return response


# JSON-RPC


def call_built_in(name: str, params: Any, request: Request, registry: Registry, caller: Caller) -> Any:
    """Call a method of `BUILT_IN`. These calls do not count toward rate limits, because clients poll.

    :raises MethodNotFound: if there is no such method.
    """
    if name not in BUILT_IN:
        raise MethodNotFound(name)
    names, answer = BUILT_IN[name]
    given = dict(zip(names, params, strict=False)) if isinstance(params, list) else params
    if len(params) > len(given) or not given.keys() <= set(names):
        raise MalformedParams(f"params of {name} can only have {', '.join(names)}")
    return answer(request, registry, caller, **given)


def _rpc_get(request: Request, registry: Registry, caller: Caller, id: Any = None) -> Any:
    def describe_error(error: RpcError) -> Any:
        return RpcResponse(None, error=error).to_json()["error"]

    return _describe_all(_service().get(_checked_id(id), registry, caller), request, describe_error)


def _rpc_cancel(request: Request, registry: Registry, caller: Caller, id: Any = None) -> Any:
    _service().cancel(_service().get(_checked_id(id), registry, caller))
    return _rpc_get(request, registry, caller, id)


def _rpc_list(request: Request, registry: Registry, caller: Caller, status: Any = None, cursor: Any = None) -> Any:
    if not caller.principal:
        raise SignInRequired("rpc.tasks.list") if caller.may_sign_in else MethodNotFound("rpc.tasks.list")
    return _list(request, registry, caller, status, cursor)


def _checked_id(id: Any) -> str:
    if not isinstance(id, str):
        raise MalformedParams("params.id must be a string")
    return id


BUILT_IN: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "rpc.tasks.get": (("id",), _rpc_get),
    "rpc.tasks.cancel": (("id",), _rpc_cancel),
    "rpc.tasks.list": (("status", "cursor"), _rpc_list),
}
"""The parameters and the function of each method."""


# Both


def task_url(request: Request, record: TaskRecord) -> str:
    """Return the URL of a task on the blueprint of this request, with the variables of its ``url_prefix``."""
    of_prefix = {name: value for name, value in (request.view_args or {}).items() if name not in _OWN_VARIABLES}
    return url_for(".task", task_id=record.id, **of_prefix)


def _service() -> Tasks:
    return tasks_of(current_app)


def _describe(record: TaskRecord, request: Request) -> dict[str, Any]:
    return {**_service().describe(record), "url": task_url(request, record)}


def _describe_all(record: TaskRecord, request: Request, describe_error: Callable[[RpcError], Any]) -> dict[str, Any]:
    """Describe a task with its result or error. REST and JSON-RPC have different formats for errors."""
    described: dict[str, Any] = {"task": _describe(record, request)}
    error = error_of(record)
    if error is not None:
        described["error"] = describe_error(error)
    elif record.state == COMPLETED:
        described["result"] = result_of(record).plain
    return described


def _list(request: Request, registry: Registry, caller: Caller, status: Any, cursor: Any) -> dict[str, Any]:
    """List a page of the tasks of a signed-in caller, the newest first.

    Tasks that need other scopes are left out, so a page may be shorter.

    :raises MalformedParams: if there is no such status.
    :raises InvalidCursor: if the cursor is not one of ours.
    """
    service, size = _service(), current_app.config[PREFIX + "PAGE_SIZE"]
    conditions = [
        tasks.c.owner == caller.principal,
        tasks.c.blueprint == service.name_of(registry),
        tasks.c.expires > time.time(),
    ]
    if status is not None:
        if not isinstance(status, str) or status not in STATES:
            raise MalformedParams(f"status must be one of {', '.join(STATES)}")
        conditions.append(tasks.c.state.in_(STATES[status]))
    if cursor is not None:
        created, task_id = _decode_cursor(cursor)
        conditions.append(or_(tasks.c.created < created, and_(tasks.c.created == created, tasks.c.id > task_id)))
    found = service.records.find(*conditions, limit=size + 1, newest_first=True)
    page = found[:size]
    return {
        "tasks": [_describe(record, request) for record in page if may_see(caller, record)],
        "nextCursor": _encode_cursor(page[-1]) if len(found) > size else None,
    }


def _encode_cursor(record: TaskRecord) -> str:
    """Encode the place after a task: unlike an offset, it stays the same when newer tasks are added."""
    return base64.urlsafe_b64encode(struct.pack(">d", record.created) + record.id.encode()).decode()


def _decode_cursor(cursor: Any) -> tuple[float, str]:
    try:
        place = base64.urlsafe_b64decode(cursor.encode("ascii"))
        (created,) = struct.unpack(">d", place[:8])
        task_id = place[8:].decode("ascii")
    except (AttributeError, ValueError, struct.error) as error:
        raise InvalidCursor() from error
    if not task_id.isprintable():  # PostgreSQL refuses a text with NUL
        raise InvalidCursor()
    return created, task_id


def _add_retry_after(response: Response, record: TaskRecord) -> None:
    if not record.is_over:
        response.headers["Retry-After"] = str(record.poll_interval)
