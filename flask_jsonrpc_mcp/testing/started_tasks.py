"""Tasks in tests: `StartedTask`, the handle that a test gets, and `run_queued`, which runs them in its own thread."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import make_url

from ..config import PREFIX
from ..errors import RpcError
from ..invoke import method_called
from ..tasks import tasks_of
from ..tasks.calls import error_of
from ..tasks.database import tasks
from ..tasks.records import CANCELLED, COMPLETED, QUEUED, Records, TaskRecord
from ..tasks.running import Run, run_claimed
from .conversation import Conversation, Exchange, answer_result
from .results import Failure, Message, Read, Reply, Result, cause_of

CAUSES = "jsonrpc_mcp_test_causes"
"""``app.extensions["jsonrpc_mcp_test_causes"]`` has the errors of the runs in this process, by task id."""


class StartedTask:
    """A call that goes on as a task, made by :meth:`McpTestClient.start`. Every attribute is read anew.

    :param id: Identifies the task.
    """

    def __init__(self, id: str, name: str, arguments: Any, face: str, conversation: Conversation, read: Read) -> None:
        self.id = id
        self._name = name
        self._arguments = arguments
        self._face = face
        self._conversation = conversation
        self._read = read

    def __repr__(self) -> str:
        return f"<task of {self._name} on {self._face}: {self.status}>"

    @property
    def status(self) -> str:
        """``working``, ``input_required``, ``completed``, ``failed`` or ``cancelled``."""
        return str(self._get()[1]["status"])

    @property
    def message(self) -> str | None:
        """How far it is, as a client sees it."""
        state = self._get()[1]
        message: str | None = state.get("statusMessage", state.get("message"))
        return message

    @property
    def questions(self) -> Mapping[str, Any]:
        """What it asks, by key, as the server sends it; on MCP only."""
        asked: Mapping[str, Any] = self._get()[1].get("inputRequests", {})
        return asked

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Answer what it asks, like ``answers`` of :meth:`McpTestClient.call`. Then ``run_tasks()`` lets it go on."""
        questions = self.questions
        unknown = [key for key in answers if key not in questions]
        if unknown:
            raise AssertionError(
                f"it does not ask {unknown[0]!r}; it asks {', '.join(map(repr, questions)) or 'nothing'}"
            )
        responses = {key: answer_result(questions[key]["method"], answer) for key, answer in answers.items()}
        self._send("update", inputResponses=responses)

    def cancel(self) -> None:
        """Cancel it."""
        self._send("cancel")

    @property
    def result(self) -> Result:
        """The result of the task, like that of a call.

        :raises AssertionError: if it is not over.
        """
        __tracebackhide__ = True
        reply, state = self._get()
        app = self._conversation.app
        record = tasks_of(app).records.get(self.id)
        if record is None or not record.is_over:
            asked = ", ".join(map(repr, state.get("inputRequests", ())))
            todo = f"answer {asked} with answer(), then call run_tasks()" if asked else "call run_tasks()"
            raise AssertionError(f"the task of {self._name} is not over, but {state['status']}; {todo}")
        failure = _failure(app, record)
        value, content = (failure, []) if failure is not None else self._read(reply.body["result"]["result"])
        response = (reply.status, reply.headers, reply.body)
        return Result(self._name, self._arguments, self._face, *response, value, content)

    def _get(self) -> tuple[Reply, Message]:
        return self._send("get")

    def _send(self, action: str, **params: Any) -> tuple[Reply, Message]:
        """Send a request about the task, and return the response with the state of the task in it."""
        if self._face.startswith("mcp"):
            reply = self._conversation.request(Exchange(f"tasks/{action}", {"taskId": self.id, **params}))
            return reply, reply.body["result"]
        message = {"jsonrpc": "2.0", "method": f"rpc.tasks.{action}", "params": {"id": self.id}, "id": 1}
        reply = self._conversation.send("jsonrpc", json=message)
        return reply, reply.body["result"]["task"]


def prepare(app: Flask) -> None:
    """Let no thread of this process run tasks and no request wait for one.

    Tasks are kept in a database of the test, unless a setting names one.

    :raises RuntimeError: if a task was started before, which is in another database and may run in a thread.
    """
    if CAUSES in app.extensions:
        return
    if tasks_of(app).offering.has_begun:
        raise RuntimeError(
            f"a task of {app.name!r} was started before its first McpTestClient, so a thread may run it at any time;"
            " create the client first, right after the app"
        )
    app.config[PREFIX + "TASK_THREADS"] = app.config[PREFIX + "TASK_WAIT"] = 0
    app.extensions[CAUSES] = {}
    if app.config[PREFIX + "TASKS_DATABASE"] is None:
        folder = Path(tempfile.mkdtemp(prefix="mcp-tasks-"))
        records = Records(make_url(f"sqlite:///{folder / 'tasks.db'}"), app.logger)
        tasks_of(app).records = records
        weakref.finalize(app, _remove, records, folder)


def _remove(records: Records, folder: Path) -> None:
    records.close()
    shutil.rmtree(folder, ignore_errors=True)


def run_queued(app: Flask) -> int:
    """Run all queued tasks of an app in this thread, and those that they queue; return how many runs that took."""
    service, causes, runs = tasks_of(app), app.extensions[CAUSES], 0
    running: list[str] = []

    def observe(sender: Flask, *, call: Any, error: RpcError | None, **signal: Any) -> None:
        if call.in_task:
            causes[running[0]] = error

    with method_called.connected_to(observe, sender=app):
        while found := service.records.find(tasks.c.state == QUEUED, tasks.c.expires > time.time(), limit=1):
            record = service.records.claim(found[0].id, "test", service.setting("TASK_LEASE"))
            if record is not None:
                running[:] = [record.id]
                run_claimed(app, Run(record))
                runs += 1
    return runs


def _failure(app: Flask, record: TaskRecord) -> Failure | None:
    if record.state == CANCELLED:
        return Failure(RpcError.code, CANCELLED, "The task was cancelled")
    error = error_of(record)
    if error is None:
        return None
    cause = app.extensions[CAUSES].get(record.id) if record.state == COMPLETED else None
    problems = getattr(error, "problems", ())
    return Failure(
        error.code, error.slug, error.message, problems, error.data, None if cause is None else cause_of(cause)
    )
