"""An MCP request in the words of OpenTelemetry's semantic conventions for MCP.

https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md

Names that callers choose are in the attributes of spans, but never in the name of a span or in a metric: there, one
that is not registered is `OTHER`. So callers cannot make the number of time series grow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import request

from ..envelope import RpcRequest
from ..errors import MAX_QUOTED, InternalError, RpcError, one_line
from ..mcp.http import SESSION_HEADER
from ..mcp.protocol import CANCELLED, INITIALIZE, MODERN, VERSIONS, RequestContext
from ..mcp.server import METHODS

OTHER = "_OTHER"
TOOL_ERROR = "tool_error"
EXECUTE_TOOL = "execute_tool"

DURATION_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds; those that the conventions recommend for the duration of operations and sessions."""

_NOTIFICATIONS = (
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
    CANCELLED,
)
_KNOWN = frozenset({*METHODS, *_NOTIFICATIONS, INITIALIZE})
_WITH_URI = ("resources/read", "resources/subscribe", "resources/unsubscribe")


@dataclass(frozen=True)
class Operation:
    """A request or notification.

    :param name: The name of its span.
    :param labels: The attributes of its metric, with a limited number of values.
    :param details: More attributes of its span.
    """

    name: str
    labels: dict[str, str]
    details: dict[str, str]


@dataclass(frozen=True)
class Failure:
    """How a request failed.

    :param type: The code of a JSON-RPC error, or ``tool_error`` for a result with ``isError``.
    :param message: The message of a JSON-RPC error, which the client gets too.
    """

    type: str
    message: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        status = {} if self.type == TOOL_ERROR else {"rpc.response.status_code": self.type}
        return {"error.type": self.type, **status}


def describe(message: RpcRequest, context: RequestContext) -> Operation:
    """Describe a request before it is handled."""
    method = message.method if message.method in _KNOWN else OTHER
    params = message.params if isinstance(message.params, Mapping) else {}
    labels, details = {"mcp.method.name": method}, {}
    target = params.get("name")
    if method == "tools/call" and isinstance(target, str):
        tool = context.registry.methods.get(context.tool_name(target))
        details["gen_ai.tool.name"] = one_line(target, MAX_QUOTED)
        labels |= {"gen_ai.operation.name": EXECUTE_TOOL, "gen_ai.tool.name": OTHER if tool is None else tool.name}
    elif method == "prompts/get" and isinstance(target, str):
        prompt = context.registry.prompts.get(target)
        details["gen_ai.prompt.name"] = one_line(target, MAX_QUOTED)
        labels["gen_ai.prompt.name"] = OTHER if prompt is None else prompt.name
    elif method in _WITH_URI and isinstance(params.get("uri"), str):
        details["mcp.resource.uri"] = one_line(params["uri"], MAX_QUOTED)
    known = labels.get("gen_ai.tool.name") or labels.get("gen_ai.prompt.name") or OTHER
    if method != INITIALIZE:  # whose result has the version
        labels["mcp.protocol.version"] = context.version if context.version in VERSIONS else OTHER
    if message.id is not None:
        details["jsonrpc.request.id"] = one_line(str(message.id), MAX_QUOTED)
    return Operation(
        method if known == OTHER else f"{method} {known}",
        {**labels, **_transport(context)},
        {**details, **_connection(context)},
    )


def _transport(context: RequestContext) -> dict[str, str]:
    if context.headers is None:
        return {"network.transport": "pipe"}
    return {"network.transport": "tcp", "network.protocol.name": "http"}


def _connection(context: RequestContext) -> dict[str, str]:
    if context.headers is None:
        return {}
    details = {}
    protocol, _, version = str(request.environ.get("SERVER_PROTOCOL", "")).partition("/")
    if protocol == "HTTP" and version:
        details["network.protocol.version"] = version
    session = context.headers.get(SESSION_HEADER)
    if session is not None and context.version != MODERN:
        # A digest, because the id itself is signed and long, and only its owner should have it.
        details["mcp.session.id"] = hashlib.sha256(session.encode()).hexdigest()[:32]
    return details


def failure_of(result: Any) -> Failure | None:
    """Describe a result with ``isError``; ``None`` for any other."""
    return Failure(TOOL_ERROR) if isinstance(result, dict) and result.get("isError") is True else None


def failure_from(error: BaseException) -> Failure:
    """Describe the JSON-RPC error that an exception becomes."""
    if isinstance(error, RpcError):
        return Failure(str(error.code), error.rpc_message or error.message)
    return Failure(str(InternalError.code))
