"""Describe tasks for REST, JSON-RPC and the command line, and list those of a caller. MCP has its own shapes."""

from __future__ import annotations

import base64
import binascii
import struct
import time
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import ColumnElement, and_, or_

from ..auth import Caller
from ..errors import InvalidCursor, MalformedParams
from ..registry import Registry
from .callers import may_see
from .records import CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED, QUEUED, RUNNING, TaskRecord, tasks
from .service import Tasks

WORKING = "working"

STATES = {
    WORKING: (QUEUED, RUNNING),
    INPUT_REQUIRED: (INPUT_REQUIRED,),
    COMPLETED: (COMPLETED,),
    FAILED: (FAILED,),
    CANCELLED: (CANCELLED,),
}
"""The states of the record by the status that clients see."""

# Seconds since the creation, and how many seconds to wait between two polls until then.
_POLL_INTERVALS = ((10, 1), (60, 2), (600, 5))
_LAST_POLL_INTERVAL = 15
_ASKED_POLL_INTERVAL = 2


def status_of(record: TaskRecord) -> str:
    """Return the status that clients see. It does not show whether a worker has started."""
    return WORKING if record.state in STATES[WORKING] else record.state


def poll_interval(record: TaskRecord) -> int:
    """Return for how many seconds a client should wait before it asks again; longer for older tasks."""
    if record.state == INPUT_REQUIRED:
        return _ASKED_POLL_INTERVAL
    age = time.time() - record.created
    return next((interval for until, interval in _POLL_INTERVALS if age < until), _LAST_POLL_INTERVAL)


def iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe_plainly(record: TaskRecord, service: Tasks) -> dict[str, Any]:
    """Describe a task as REST and JSON-RPC have it, without its outcome."""
    return {
        "id": record.id,
        "tool": record.method,
        "status": status_of(record),
        "message": service.status_message(record),
        "progress": record.progress,
        "created": iso_time(record.created),
        "updated": iso_time(record.updated),
        "expires": iso_time(record.expires),
    }


def list_own(
    service: Tasks, registry: Registry, caller: Caller, size: int, *, status: Any = None, cursor: Any = None
) -> tuple[list[TaskRecord], str | None]:
    """Return a page of the tasks of a signed-in caller, the newest first, and the cursor of the next page.

    Tasks that need other scopes are left out, so a page may be shorter.

    :raises MalformedParams: if there is no such status.
    :raises InvalidCursor: if the cursor is not one of ours.
    """
    conditions: list[ColumnElement[bool]] = [
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
    visible = [record for record in page if may_see(caller, record)]
    return visible, _encode_cursor(page[-1]) if len(found) > size else None


def _encode_cursor(record: TaskRecord) -> str:
    """Encode the place after a task: unlike an offset, it stays the same when newer tasks are added."""
    return base64.urlsafe_b64encode(struct.pack(">d", record.created) + record.id.encode()).decode()


def _decode_cursor(cursor: Any) -> tuple[float, str]:
    try:
        place = base64.urlsafe_b64decode(cursor.encode("ascii"))
        (created,) = struct.unpack(">d", place[:8])
        task_id = place[8:].decode("ascii")
    except (AttributeError, ValueError, binascii.Error, struct.error) as error:
        raise InvalidCursor() from error
    if not task_id.isprintable():  # PostgreSQL refuses a text with NUL
        raise InvalidCursor()
    return created, task_id
