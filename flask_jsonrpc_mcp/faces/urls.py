"""Where the paths of a blueprint are, seen from a request to one of them."""

from __future__ import annotations

from flask import url_for

from ..current import this_request

ENDPOINTS = {
    "mcp": "mcp",
    "jsonrpc": "jsonrpc",
    "list": "list_tools",
    "describe": "describe_tool",
    "invoke": "invoke_tool",
}
"""What clients call, and the endpoint behind it."""


def own_url(endpoint: str, *, external: bool = False) -> str:
    """Tell the URL of another path of the same blueprint, with the variables of its prefix as they are here."""
    return url_for(f".{endpoint}", _external=external, **(this_request().view_args or {}))
