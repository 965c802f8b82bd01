"""One annotated function: an MCP tool, a JSON-RPC 2.0 method and a REST endpoint of a Flask app."""

from .access import Caller
from .blueprint import McpBlueprint
from .content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, ToolResult
from .dispatcher import Call, method_called
from .errors import RpcError
from .marks import mcp_tool

__all__ = [
    "AudioContent",
    "Call",
    "Caller",
    "EmbeddedResource",
    "ImageContent",
    "McpBlueprint",
    "ResourceLink",
    "RpcError",
    "TextContent",
    "ToolResult",
    "mcp_tool",
    "method_called",
]
