"""What a blueprint offers to MCP clients of both eras: its capabilities, and the methods that go with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..core import Core
from . import protocol
from .completion import complete
from .prompts import get_prompt, list_prompts
from .resources import list_resources, list_templates, read_resource
from .session import Session
from .tools import call_tool, list_tools

Handler = Callable[[Session, Mapping[str, Any]], Any]
"""Answers one request with a result: a dict, or JSON that is spelled already."""

METHODS: dict[str, Handler] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "completion/complete": complete,
}

# By the part of a method's name before the slash: what must be declared for it to be there.
_CAPABILITIES = {"prompts": "prompts", "resources": "resources", "completion": "completions"}


def capabilities_of(core: Core, version: str, *, announces_changes: bool = False) -> dict[str, Any]:
    """Tell what works: nothing is declared that a blueprint has nothing of."""
    changes = {"listChanged": True} if announces_changes else {}
    capabilities: dict[str, Any] = {"tools": dict(changes), "logging": {}}
    if len(core.prompt_registry):
        capabilities["prompts"] = dict(changes)
    if len(core.resources):
        capabilities["resources"] = {**changes, "subscribe": True} if announces_changes else {}
    completes = "prompts" in capabilities or len(core.resources.template_registry)
    if completes and protocol.has_annotations(version):
        capabilities["completions"] = {}
    return capabilities


def handler_of(core: Core, method: str, methods: Mapping[str, Handler]) -> Handler | None:
    """Find what answers a method; ``None`` when it belongs to a capability that is not declared."""
    handle = methods.get(method)
    if handle is None:
        return None
    capability = _capability_of(method)
    return handle if capability is None or capability in capabilities_of(core, protocol.MODERN) else None


@functools.cache
def _capability_of(method: str) -> str | None:
    return _CAPABILITIES.get(method.partition("/")[0])
