"""`TaskOptions`: how a tool with ``task=`` runs as a task."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

from .checks import checked_flag
from .config import MAX_TASK_TTL

REQUIRED = "required"

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
"""The id of MCP's extension for tasks; a blueprint has it if a tool has ``task=``."""

TASKS_FEATURE = f"extensions.{TASKS_EXTENSION}"
"""The client capability."""


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """How a tool runs as a task.

    :param required: Refuse clients that do not support tasks. By default the tool runs in their request.
    :param late: Start the tool in the request; it becomes a task when it calls ``current_call.detach()``.
    :param queue: The queue of the worker that runs it; by default any worker does.
    :param ttl: For how many seconds after its creation a task is kept; by default ``JSONRPC_MCP_TASK_TTL``.
    """

    required: bool = False
    late: bool = False
    queue: str | None = None
    ttl: int | None = None

    def __post_init__(self) -> None:
        checked_flag("required", self.required)
        checked_flag("late", self.late)
        if self.queue is not None and (not isinstance(self.queue, str) or not 0 < len(self.queue) <= 100):
            raise ValueError(f"queue must be a name of at most 100 characters, not {self.queue!r}")
        if self.ttl is not None and (
            not isinstance(self.ttl, int) or isinstance(self.ttl, bool) or not 1 <= self.ttl <= MAX_TASK_TTL
        ):
            raise ValueError(f"ttl must be a whole number of seconds from 1 to {MAX_TASK_TTL}, not {self.ttl!r}")


TaskOption = bool | Literal["required"] | TaskOptions


def checked_task(task: Any) -> TaskOptions | None:
    """Read the option ``task=`` of a tool.

    :raises TypeError: if it has another type, or SQLAlchemy is not installed.
    """
    if task is None or task is False:
        return None
    if task is not True and task != REQUIRED and not isinstance(task, TaskOptions):
        raise TypeError(f"task must be True, 'required' or TaskOptions(...), not {task!r}")
    if importlib.util.find_spec("sqlalchemy") is None:
        raise TypeError("task= needs SQLAlchemy; install flask-jsonrpc-mcp[tasks]")
    return task if isinstance(task, TaskOptions) else TaskOptions(required=task == REQUIRED)
