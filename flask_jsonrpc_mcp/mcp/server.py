"""Answer MCP requests of both eras. HTTP and stdio call `handle` for every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..ask import InputNeeded
from ..envelope import RpcRequest
from ..errors import MethodNotFound
from ..mailbox import announces_changes
from ..registry import Registry
from . import elicitation, extensions, methods, protocol, subscriptions, versions
from .extensions import MethodHandler
from .protocol import LEGACY, MODERN, VERSIONS, RequestContext
from .sessions import negotiate


class McpMethod(NamedTuple):
    """A row of the table of methods.

    :param handler: Takes the context and the params, and returns the result.
    :param capability: Without this capability the method does not exist.
    :param versions: The protocol versions that have the method.
    """

    handler: MethodHandler
    capability: str | None = None
    versions: tuple[str, ...] = VERSIONS


def discover(context: RequestContext, params: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "supportedVersions": [MODERN],
        "capabilities": capabilities_of(context.registry, MODERN, announces_changes=announces_changes()),
    }
    if context.setting("INSTRUCTIONS"):
        result["instructions"] = context.setting("INSTRUCTIONS")
    return result


METHODS = {
    "server/discover": McpMethod(discover, versions=(MODERN,)),
    "tools/list": McpMethod(methods.list_tools),
    "tools/call": McpMethod(methods.call_tool),
    "prompts/list": McpMethod(methods.list_prompts, "prompts"),
    "prompts/get": McpMethod(methods.get_prompt, "prompts"),
    "resources/list": McpMethod(methods.list_resources, "resources"),
    "resources/templates/list": McpMethod(methods.list_templates, "resources"),
    "resources/read": McpMethod(methods.read_resource, "resources"),
    "resources/subscribe": McpMethod(methods.subscribe, "resources", versions=LEGACY),
    "resources/unsubscribe": McpMethod(methods.subscribe, "resources", versions=LEGACY),
    "completion/complete": McpMethod(methods.complete, "completions"),
    "subscriptions/listen": McpMethod(subscriptions.listen, versions=(MODERN,)),
    "logging/setLevel": McpMethod(methods.set_log_level, versions=LEGACY),
    "ping": McpMethod(methods.ping, versions=LEGACY),
}
"""All methods but ``initialize``, which the transports answer with `initialize` because it opens a session."""


def handle(message: RpcRequest, context: RequestContext) -> Any:
    """Answer one request, and return its result.

    :raises RpcError: for a JSON-RPC error.
    :raises InputNeeded: if a client from before 2026-07-28 must be asked something; see `elicitation.run_asking`.
    """
    protocol.require_id(message)
    if context.version == MODERN:
        context = protocol.with_meta(message, context)
        protocol.check_headers(message, context)
    else:
        context = protocol.with_optional_meta(message, context)
    params: Any = message.params
    handler = _find_handler(message.method, context)
    if message.method in protocol.TARGETS and ("inputResponses" in params or "requestState" in params):
        context = elicitation.with_answers(message, context)
    try:
        result = handler(context, params)
    except InputNeeded as needed:
        if context.version != MODERN:
            raise
        return elicitation.input_required(needed, message, context)
    return versions.complete(result, message.method, context)


def initialize(message: RpcRequest, context: RequestContext) -> dict[str, Any]:
    """Answer ``initialize`` of a client from before 2026-07-28, and return the result."""
    version = negotiate(message).version
    result: dict[str, Any] = {
        "protocolVersion": version,
        # Without listChanged: over HTTP these versions have no request to send such notifications on.
        "capabilities": capabilities_of(context.registry, version),
        "serverInfo": context.server_info,
    }
    if context.setting("INSTRUCTIONS"):
        result["instructions"] = context.setting("INSTRUCTIONS")
    return result


def capabilities_of(registry: Registry, version: str, *, announces_changes: bool = False) -> dict[str, Any]:
    """Return the server's capabilities: only those that the blueprint has something registered for."""
    changes = {"listChanged": True} if announces_changes else {}
    capabilities: dict[str, Any] = {"tools": dict(changes), "logging": {}}
    if len(registry.prompts):
        capabilities["prompts"] = dict(changes)
    if len(registry.resources):
        capabilities["resources"] = {**changes, "subscribe": True} if announces_changes else {}
    completes = "prompts" in capabilities or len(registry.resources.templates)
    if completes and versions.has_annotations(version):
        capabilities["completions"] = {}
    announced = extensions.announced(registry) if version == MODERN else {}
    for sign_in in registry.auth.sign_ins:
        announced |= sign_in.extensions
    if announced:
        capabilities["extensions"] = announced
    return capabilities


def is_streamed(payload: Any, context: RequestContext) -> bool:
    """Whether to run a method while its response is sent: it streams, and the client wants progress or log messages."""
    params = payload.get("params") if isinstance(payload, dict) else None
    meta = params.get("_meta", {}) if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        return False
    method = payload.get("method")
    target = protocol.TARGETS.get(method) if isinstance(method, str) else None
    wants_reports = protocol.LOG_LEVEL in meta or protocol.is_progress_token(meta.get(protocol.PROGRESS_TOKEN))
    if target is None or (context.version == MODERN and not wants_reports):
        return False
    kind, param = target
    name = params.get(param)
    if not isinstance(name, str) or not methods.is_streaming(context, kind, name):
        return False
    return wants_reports or context.log_level.get() is not None


def _find_handler(method: str, context: RequestContext) -> MethodHandler:
    row = METHODS.get(method)
    if row is None and context.version == MODERN and context.registry.extensions:
        return extensions.find_handler(method, context)
    if row is None or context.version not in row.versions:
        raise MethodNotFound(method)
    # By the newest version: 2024-11-05 has completion/complete, but no capability for it.
    if row.capability is not None and row.capability not in capabilities_of(context.registry, MODERN):
        raise MethodNotFound(method)
    return row.handler
