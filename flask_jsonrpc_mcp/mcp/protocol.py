"""The words and numbers of MCP that more than one module needs, each explained once."""

from __future__ import annotations

MODERN = "2026-07-28"
"""Stateless: every request says by itself which version it speaks and what its client can do."""

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""With a handshake: ``initialize`` settles the version for a session. Newest first."""

WITH_BATCHES = "2025-03-26"
"""The one version that had JSON-RPC batches."""

VERSIONS = (MODERN, *LEGACY)

DISCOVER = "server/discover"
"""What a modern client may ask first, and no other client asks."""

# The keys of `_meta` that a modern request carries, the one of a modern result, and that of a subscription's messages.
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

PROGRESS_TOKEN = "progressToken"  # noqa: S105 (a name, and no secret)
"""The key of `_meta`, in every version, by which a client asks to hear of progress."""


def has_structured_content(version: str) -> bool:
    """Titles, output schemas and structured results came with 2025-06-18, and so did ``_meta`` on tools."""
    return version >= "2025-06-18"


def has_elicitation(version: str) -> bool:
    """Asking a person to fill in a form came with 2025-06-18."""
    return version >= "2025-06-18"


def has_url_elicitation(version: str) -> bool:
    """Asking a person to open a page came with 2025-11-25; before 2026-07-28 such a question has an id."""
    return version >= "2025-11-25"


def has_annotations(version: str) -> bool:
    """Hints about a tool came with 2025-03-26; so did audio, messages of progress, and declaring completion."""
    return version >= "2025-03-26"
