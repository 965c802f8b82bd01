"""One annotated function: an MCP tool, a JSON-RPC 2.0 method and a REST endpoint of a Flask app."""

from .access import Caller
from .blueprint import McpBlueprint
from .calls import Call, current_call
from .content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    ToolResult,
)
from .dispatcher import method_called
from .errors import RpcError
from .marks import mcp_tool
from .passwords import CachedPasswords
from .questions import Elicit, Elicited, ElicitUrl, ListRoots, Root, Sample, Sampled

__all__ = [
    "AudioContent",
    "CachedPasswords",
    "Call",
    "Caller",
    "Elicit",
    "ElicitUrl",
    "Elicited",
    "EmbeddedResource",
    "ImageContent",
    "ListRoots",
    "McpBlueprint",
    "PromptMessage",
    "ResourceLink",
    "Root",
    "RpcError",
    "Sample",
    "Sampled",
    "TextContent",
    "ToolResult",
    "current_call",
    "mcp_tool",
    "method_called",
]
