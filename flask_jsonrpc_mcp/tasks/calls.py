"""What the row of a task has of its call: the caller, the answers and the outcome. No credentials.

In the worker, the caller is found by name, and has only permissions that they had when they called, and still have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flask import Flask

from ..ask import Answers
from ..auth import CLIENT_ID, Authenticator, Caller, identity_of
from ..call import Call, Result
from ..errors import InvalidParams, MethodNotFound, RpcError
from ..invoke import record_call
from ..lookup import local_request_context, mcp_path
from ..problems import Problem
from ..registry import Registry
from .records import TaskRecord

# The caller


def store_caller(caller: Caller, auth: Authenticator) -> dict[str, Any]:
    """Return what is stored of a caller, to find them again.

    :raises RpcError: if the worker could not find this user.
    """
    stored = {
        "user": caller.name,
        "scheme": caller.scheme,
        "permissions": sorted(caller.permissions),
        "scopes": None if caller.scopes is None else sorted(caller.scopes),
    }
    if caller.user is None:  # anonymous, or the developer on the command line
        return stored
    loaded = auth.load_user(caller.name, str(caller.scheme))
    identity = identity_of(caller.user)
    if loaded is None or identity is None or identity_of(loaded[0]) != identity:
        raise RpcError(
            "This tool runs in a worker, which cannot load the user by name: register a function with @rpc.user_loader"
            " that returns the same user as the sign-in",
            code=-32603,
        )
    grants = [each.current_grant() for each in auth.sign_ins if each.grants_scopes and caller.scopes is not None]
    return {**stored, "identity": list(identity), "grant": next(iter(grants), None)}


def may_see(caller: Caller, record: TaskRecord) -> bool:
    """Whether a caller may see a task: their own, or an anonymous one, with all scopes of the token that created it.

    A task that was created before scopes applied is not for access tokens.
    """
    if record.owner not in ("", caller.principal):
        return False
    scopes = record.caller["scopes"]
    return caller.scopes is None or (scopes is not None and caller.scopes.issuperset(scopes))


def restore_caller(record: TaskRecord, auth: Authenticator) -> Caller | None:
    """Return the caller of a task, and set the current user.

    :returns: ``None`` if the user is gone, or is another one now, or has revoked the grant of the client.
    """
    stored, address = record.caller, record.address
    if stored["scheme"] is None:
        caller = auth.anonymous(address)
    elif "identity" not in stored:
        auth.set_user(None)
        caller = Caller(permissions=frozenset(stored["permissions"]), address=address)
    else:
        loaded = auth.load_user(stored["user"], stored["scheme"])
        if loaded is None or identity_of(loaded[0]) != tuple(stored["identity"]):
            return None
        grant = stored.get("grant")
        if grant is not None and not all(each.grant_holds(grant) for each in auth.sign_ins):
            return None
        user, permissions = loaded
        auth.set_user(user)
        caller = Caller(user, permissions=permissions, address=address)
    known = stored_caller(record)
    return replace(known, user=caller.user, permissions=caller.permissions & known.permissions)


def stored_caller(record: TaskRecord) -> Caller:
    """Return the caller of a task as stored, without the user."""
    stored = record.caller
    return Caller(
        name=stored["user"],
        scheme=stored["scheme"],
        permissions=frozenset(stored["permissions"]),
        principal=record.owner,
        address=record.address,
        scopes=None if stored["scopes"] is None else frozenset(stored["scopes"]),
    )


# The call


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
            record_call(call_of(record, stored_caller(record)), method, registry, error.slug, error, seconds)

    threading.Thread(target=report_in_thread, name="mcp-task-report").start()


def store_answer(digest: str | None, response: Any) -> list[Any]:
    """Return an answer as JSON, with the text of the error if the client could not be asked."""
    return [digest, None, response.message] if isinstance(response, RpcError) else [digest, response]


def _restore_answer(digest: str | None, response: Any, failure: str | None = None) -> tuple[str | None, Any]:
    return digest, response if failure is None else RpcError(failure)


# The outcome


def success(result: Result) -> dict[str, Any]:
    """Return the outcome of a method that has returned."""
    members = {"value": result.value, "content": result.content, "meta": result.meta}
    return {name: member for name, member in members.items() if member is not None}


def failure(error: RpcError) -> dict[str, Any]:
    """Return the outcome of a call that has failed."""
    facts: dict[str, Any] = {"code": error.code, "status": error.status, "slug": error.slug, "message": error.message}
    return {"error": {**facts, "data": error.data, "has_status": "status" in vars(error)}}


class StoredError(RpcError):
    """An error that a task ended with. Its class is not stored, but the status that its class has is."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        super().__init__(stored["message"], code=stored["code"], data=stored["data"], slug=stored["slug"])
        self.status = stored["status"]
        self._is_status_chosen = stored["has_status"]

    @property
    def rpc_data(self) -> Any:
        return super().rpc_data if self._is_status_chosen else self.data


def error_of(record: TaskRecord) -> RpcError | None:
    """Return the error that a task ended with, as the plain call would have raised it."""
    stored = (record.outcome or {}).get("error")
    if stored is None:
        return None
    if stored["slug"] == InvalidParams.slug and "errors" in (stored["data"] or {}):
        return InvalidParams([Problem(**problem) for problem in stored["data"]["errors"]])
    if stored["slug"] == MethodNotFound.slug:
        return MethodNotFound(record.method)
    return StoredError(stored)


def result_of(record: TaskRecord) -> Result:
    """Return the result of a completed task."""
    outcome = record.outcome or {}
    return Result(outcome.get("value"), outcome.get("content"), outcome.get("meta"))
