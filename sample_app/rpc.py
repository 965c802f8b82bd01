"""The blueprint, to which the package adds the tools of each module."""

from __future__ import annotations

from flask_jsonrpc_mcp import McpBlueprint

from .auth import auth, find_user

rpc = McpBlueprint(auth=auth)
rpc.user_loader(find_user)
