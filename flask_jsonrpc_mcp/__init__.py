"""One annotated function: an MCP tool, a JSON-RPC 2.0 method and a REST endpoint of a Flask app.

CONTRIBUTING.md, in the repository, follows one request through these modules.
"""

from .ask import Elicit, Elicited, ElicitUrl, ListRoots, Root, Sample, Sampled
from .auth import SIGNED_IN, Caller
from .blueprint import McpBlueprint
from .call import Call, current_call
from .content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    ToolResult,
)
from .decorators import ToolGroup
from .errors import RpcError
from .invoke import method_called
from .method import mcp_tool
from .passwords import CachedPasswords
from .schema import Secret
from .task_options import TaskOptions

__all__ = [
    "SIGNED_IN",
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
    "Secret",
    "TaskOptions",
    "TextContent",
    "ToolGroup",
    "ToolResult",
    "current_call",
    "mcp_tool",
    "method_called",
]
