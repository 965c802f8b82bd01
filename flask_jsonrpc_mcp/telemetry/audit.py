"""An audit trail: one record for each call of a method that may change something.

`AuditLog` writes the records to a logger, as JSON; ``audit_table`` has the table for a database.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from typing import Any

from flask import current_app, request

from ..ask import CONFIRM_KEY
from ..auth import client_id
from ..call import CLIENT_INFO, METHOD, Call
from ..errors import RpcError
from ..invoke import INPUT_REQUIRED, TASK
from ..method import McpTool, Method
from ..problems import MAX_QUOTED, one_line
from ..registry import Registry
from ..strict_json import write
from .redaction import hide_arguments, show_arguments

__all__ = ["Audit", "AuditLog"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Audit:
    """Makes a record of each call. Subclasses store it.

    :param arguments: Record the values of arguments, without those marked with ``Secret``; by default only names.
    :param reads: Record the calls of methods with ``read_only=True`` too.
    """

    def __init__(self, *, arguments: bool = False, reads: bool = False) -> None:
        self._arguments = arguments
        self._reads = reads

    def write(self, record: Mapping[str, Any]) -> None:
        """Store a record. Its values are plain JSON."""
        raise NotImplementedError

    def observe(self, registry: Registry) -> None:
        """Add this to a blueprint; ``McpBlueprint(audit=...)`` calls it."""
        registry.call_observers.append(partial(self._observe, registry))

    def _observe(
        self,
        registry: Registry,
        call: Call,
        method: Method | None,
        outcome: str,
        duration: float,
        error: RpcError | None,
    ) -> None:
        # A call that asks first runs again with the answers, and one that goes on as a task runs in a worker.
        if method is None or call.kind != METHOD or outcome in (INPUT_REQUIRED, TASK):
            return
        if not self._reads and method.read_only:
            return
        caller = call.caller
        record = {
            "time": datetime.now(timezone.utc).isoformat("T", "milliseconds"),
            "id": call.id,
            "trace_id": _trace_id(call),
            "blueprint": registry.name,
            "face": call.face,
            "tool": method.name,
            "caller": one_line(caller.name, MAX_QUOTED),
            "credential": caller.scheme,
            "address": caller.address,
            "client": _client(call),
            # Without scopes there is no access token, and so no OAuth client.
            "client_id": None if caller.scopes is None else client_id(request.environ),
            "scopes": None if caller.scopes is None else sorted(caller.scopes),
            "access": sorted(method.access),
            "confirmation": _confirmation(call, method.tool),
            "outcome": outcome,
            "ms": round(duration * 1000, 1),
            "arguments": (show_arguments if self._arguments else hide_arguments)(call.arguments, method.params.schema),
        }
        try:
            self.write(record)
        except Exception:
            # The call is over. Its record must not be lost.
            text = "the audit record could not be stored: %s"
            current_app.logger.exception(text, json.dumps(record), extra={**call.log_facts(), "audit": record})


class AuditLog(Audit):
    """Write the audit trail to a logger: each record as JSON on one line, and as ``record.audit`` for formatters.

    ::

        rpc = McpBlueprint(auth=auth, audit=AuditLog())

    :param logger: A logger, or its name. Without a level it gets INFO, and without a handler it writes to stderr, so
        that no record is dropped.
    :param options: ``arguments=True`` to record the values of arguments, ``reads=True`` to record read-only methods.
    """

    def __init__(self, logger: logging.Logger | str = "flask_jsonrpc_mcp.audit", **options: bool) -> None:
        super().__init__(**options)
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger

    def observe(self, registry: Registry) -> None:
        if self._logger.level == logging.NOTSET:
            self._logger.setLevel(logging.INFO)
        if not self._logger.hasHandlers():
            self._logger.addHandler(logging.StreamHandler())
        super().observe(registry)

    def write(self, record: Mapping[str, Any]) -> None:
        logger = self._logger
        if logger.isEnabledFor(logging.INFO):
            # What logger.info() does, without a search of the stack for the caller, which is always this function.
            text, extra = write(record).decode(), {"audit": record}
            logger.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, (), None, "write", extra))


def _client(call: Call) -> str | None:
    """Return what the client calls itself. It can call itself anything."""
    info = call.meta.get(CLIENT_INFO)
    if isinstance(info, dict):
        return one_line(f"{info.get('name', '')} {info.get('version', '')}".strip(), MAX_QUOTED)
    agent = request.environ.get("HTTP_USER_AGENT")
    return one_line(agent, MAX_QUOTED) if agent else None


def _confirmation(call: Call, tool: McpTool | None) -> str | None:
    """Return the person's answer to ``confirm=``; ``None`` if the tool has no such question."""
    if tool is None or tool.confirm is None:
        return None
    _, response = call.answers.by_key.get(CONFIRM_KEY, (None, None))
    action = response.get("action") if isinstance(response, Mapping) else None
    return action if isinstance(action, str) else "not asked"


def _trace_id(call: Call) -> str | None:
    """Return the id of the trace that the method ran in, or else of the request, or else what the client has sent."""
    noted = call.notes.get("trace_id")
    if noted is not None:
        return noted
    trace: Any = sys.modules.get("opentelemetry.trace")  # the app has imported it, or there is no span
    current = None if trace is None else trace.get_current_span().get_span_context()
    if current is not None and current.is_valid:
        return f"{current.trace_id:032x}"
    sent = call.meta.get("traceparent")
    match = _TRACEPARENT.fullmatch(sent) if isinstance(sent, str) else None
    return None if match is None else match[1]
