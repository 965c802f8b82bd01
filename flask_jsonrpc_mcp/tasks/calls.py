"""The call of a task outside of the request that created it: in the worker that runs it, or if that worker is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask

from ..ask import Answers
from ..auth import CLIENT_ID, Caller
from ..call import Call
from ..errors import RpcError
from ..invoke import report
from ..lookup import local_request_context, mcp_path
from ..registry import Registry
from .callers import stored_caller
from .records import TaskRecord


@contextmanager
def request_of(app: Flask, registry: Registry | None, record: TaskRecord) -> Iterator[None]:
    """Push a new app and request context, with the address and the client of the task's caller."""
    stored = record.call or {}
    environ = {
        "REMOTE_ADDR": record.address or "127.0.0.1",
        "HTTP_USER_AGENT": stored.get("agent", ""),
        CLIENT_ID: stored.get("client_id"),
    }
    path = None if registry is None else mcp_path(app, record.blueprint)
    with app.app_context(), local_request_context(app, path or "/", method="POST", environ_base=environ):
        yield


def call_of(record: TaskRecord, caller: Caller, **others: Any) -> Call:
    """Build the call of a task that is not over."""
    stored = record.call or {}
    answers = {key: _restore_answer(*answer) for key, answer in (record.answers or {}).items()}
    return Call(
        record.method,
        stored["arguments"],
        caller,
        record.face,
        capabilities=frozenset(stored["capabilities"]),
        answers=Answers(answers, stored["rounds"], has_run=True),
        meta=stored["meta"],
        listed_only=stored["listed_only"],
        detachable=True,
        in_task=True,
        **others,
    )


def store_answer(digest: str | None, response: Any) -> list[Any]:
    """Return an answer as JSON, with the text of the error if the client could not be asked."""
    return [digest, None, response.message] if isinstance(response, RpcError) else [digest, response]


def _restore_answer(digest: str | None, response: Any, failure: str | None = None) -> tuple[str | None, Any]:
    return digest, response if failure is None else RpcError(failure)


def report_lost(app: Flask, registry: Registry, record: TaskRecord, error: RpcError) -> None:
    """Report a run that its worker could not report: to the log, the observers of the blueprint and `method_called`.

    In a thread of its own, because an observer may be slow, and the thread that notices the loss renews leases, or
    answers a request, which has a trace of its own.

    :param record: The task before it was ended.
    """

    def report_in_thread() -> None:
        with request_of(app, registry, record):
            # When the run began is not known.
            seconds, method = time.time() - record.created, registry.methods.get(record.method)
            report(call_of(record, stored_caller(record)), method, registry, error.slug, error, seconds)

    threading.Thread(target=report_in_thread, name="mcp-task-report").start()
