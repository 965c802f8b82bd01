"""An MCP request in the words of OpenTelemetry's semantic conventions for MCP.

https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md

A name that a caller has sent is an attribute of a span. In the name of a span and in metrics, a name that is not
registered is `OTHER`, so that callers cannot make the number of time series grow.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, NamedTuple

from flask import request

from ..ask import InputNeeded
from ..envelope import RpcRequest
from ..errors import InternalError, RpcError
from ..mcp import extensions
from ..mcp.http import SESSION_HEADER
from ..mcp.protocol import CANCELLED, INITIALIZE, MODERN, RequestContext
from ..mcp.server import METHODS
from ..problems import MAX_QUOTED, one_line

OTHER = "_OTHER"
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
_NAMED = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_WITH_URI = ("resources/read", "resources/subscribe", "resources/unsubscribe")


class Operation(NamedTuple):
    """What kind of request it is. The number of kinds is limited.

    :param name: The name of its span.
    :param labels: The attributes of its metric, and of its span.
    """

    name: str
    labels: dict[str, str]

    def outcome(self, result: Any, failure: dict[str, str] | None) -> dict[str, str]:
        """Return the attributes that are known only when it has ended.

        :param failure: Those of `failure_of` or `failure_from`.
        """
        if failure is not None:
            return failure
        if self.labels["mcp.method.name"] == INITIALIZE:
            return {"mcp.protocol.version": result["protocolVersion"]}
        return {}


def operation_of(message: RpcRequest, context: RequestContext) -> Operation:
    """Return what kind of request it is."""
    method, params, target = message.method, message.params, ""
    if method in _NAMED and isinstance(params, dict):
        name = params.get("name")
        if isinstance(name, str):
            registry = context.registry
            known = (
                registry.prompts.get(name) if method == "prompts/get" else registry.methods.get(context.tool_name(name))
            )
            target = OTHER if known is None else known.name
    return _operation(
        method if method in _KNOWN or extensions.find(method, context.registry) else OTHER,
        target,
        context.version,
        context.headers is not None,
    )


@functools.lru_cache(maxsize=4096)
def _operation(method: str, target: str, version: str, is_http: bool) -> Operation:
    labels = {"mcp.method.name": method}
    if target and method == "tools/call":
        labels |= {"gen_ai.operation.name": EXECUTE_TOOL, "gen_ai.tool.name": target}
    elif target:
        labels["gen_ai.prompt.name"] = target
    if method != INITIALIZE:  # whose result has the version
        labels["mcp.protocol.version"] = version
    labels["network.transport"] = "tcp" if is_http else "pipe"
    if is_http:
        labels["network.protocol.name"] = "http"
    return Operation(f"{method} {target}" if target not in ("", OTHER) else method, labels)


def resumed(hook: object, more: tuple[Any, ...]) -> Any:
    """Return what a hook has kept of a request that asked its client, and that goes on with the answers.

    :param more: What the handler takes besides the message and its context.
    """
    for each in more:
        if isinstance(each, InputNeeded):
            return each.suspended.get(hook)
    return None


def details_of(message: RpcRequest, context: RequestContext, operation: Operation) -> dict[str, str]:
    """Return the attributes of the span of a request that are not among the labels of its operation."""
    method, params, details = message.method, message.params, {}
    if isinstance(params, dict):
        if method in _NAMED and isinstance(params.get("name"), str):
            if params["name"] != operation.labels[_NAMED[method]]:
                details[_NAMED[method]] = one_line(params["name"], MAX_QUOTED)
        elif method in _WITH_URI and isinstance(params.get("uri"), str):
            details["mcp.resource.uri"] = one_line(params["uri"], MAX_QUOTED)
    if message.id is not None:
        details["jsonrpc.request.id"] = one_line(str(message.id), MAX_QUOTED)
    if context.headers is None:
        return details
    protocol, _, version = str(request.environ.get("SERVER_PROTOCOL", "")).partition("/")
    if protocol == "HTTP" and version:
        details["network.protocol.version"] = version
    session = None if context.version == MODERN else context.headers.get(SESSION_HEADER)
    if session is not None:
        # A digest, because only its owner should have the id.
        details["mcp.session.id"] = hashlib.sha256(session.encode()).hexdigest()[:32]
    return details


def failure_of(result: Any) -> dict[str, str] | None:
    """Return the attributes of a result with ``isError``; ``None`` for any other."""
    return {"error.type": "tool_error"} if isinstance(result, dict) and result.get("isError") is True else None


def failure_from(error: BaseException) -> dict[str, str]:
    """Return the attributes of the JSON-RPC error that an exception becomes."""
    code = str(error.code if isinstance(error, RpcError) else InternalError.code)
    return {"error.type": code, "rpc.response.status_code": code}
