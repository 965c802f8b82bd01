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

# The keys of `_meta` that a modern request carries, and the one of a modern result.
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
# The one of everything that is said about a subscription.
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


def has_structured_content(version: str) -> bool:
    """Titles, output schemas and structured results came with 2025-06-18, and so did ``_meta`` on tools."""
    return version >= "2025-06-18"


def has_annotations(version: str) -> bool:
    """Hints about a tool came with 2025-03-26, and so did audio."""
    return version >= "2025-03-26"
