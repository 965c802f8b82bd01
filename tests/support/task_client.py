"""A client of the tasks extension that talks to a real server, and deployments of the app in deployed_app.py."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask_jsonrpc_mcp.mcp.protocol import MODERN
from tests.support.conversations import Conversation
from tests.support.load import PATIENCE, wait_until
from tests.support.servers import Place, Server

CAN_TASKS: dict[str, Any] = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
OVER = ("completed", "failed", "cancelled")


class TaskClient:
    """Calls tools as tasks, and looks after them."""

    def __init__(self, server: Server | Place, headers: Mapping[str, str] | None = None) -> None:
        self._conversation = Conversation(server, MODERN, CAN_TASKS, dict(headers or {}))

    def reply(self, method: str, **params: Any) -> Any:
        """Send a request, and return the whole reply."""
        return self._conversation.open(method, params).json()

    def result(self, method: str, **params: Any) -> Any:
        reply = self.reply(method, **params)
        assert "result" in reply, reply
        return reply["result"]

    def start(self, name: str, **arguments: Any) -> str:
        """Call a tool, and return the id of its task."""
        created = self.result("tools/call", name=name, arguments=arguments)
        assert created["resultType"] == "task", created
        task_id: str = created["taskId"]
        return task_id

    def get(self, task_id: str) -> Any:
        return self.result("tasks/get", taskId=task_id)

    def cancel(self, task_id: str) -> Any:
        return self.result("tasks/cancel", taskId=task_id)

    def answer(self, task_id: str, content: Mapping[str, Any]) -> None:
        """Accept all that a task asks."""
        questions = self.get(task_id)["inputRequests"]
        responses = {key: {"action": "accept", "content": content} for key in questions}
        self.result("tasks/update", taskId=task_id, inputResponses=responses)

    def wait(self, task_id: str, *statuses: str, patience: float = PATIENCE) -> Any:
        """Wait until a task is in one of these states, or over."""
        seen: dict[str, Any] = {}

        def is_there() -> bool:
            seen.update(self.get(task_id))
            return seen["status"] in (statuses or OVER)

        wait_until(is_there, f"the task is {' or '.join(statuses or OVER)}", patience)
        return seen


def value_of(task: Mapping[str, Any]) -> Any:
    """The value that a completed task has returned."""
    assert task["status"] == "completed", task
    assert task["result"]["isError"] is False, task
    return json.loads(json.dumps(task["result"]["structuredContent"]))


def runs_in(notes: Path) -> Counter[str]:
    """How often each key was run."""
    file = notes / "runs"
    return Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else Counter()


def machines_in(notes: Path) -> Counter[str]:
    """How many runs each machine had."""
    return Counter(line.split()[2] for line in (notes / "runs").read_text().splitlines())


def wait_for_note(notes: Path, name: str) -> None:
    wait_until((notes / name).exists, f"there is {name}", patience=60)
