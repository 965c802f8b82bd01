"""The blueprint. ``__init__.py`` adds the tools of each module to it."""

from __future__ import annotations

from flask_jsonrpc_mcp import McpBlueprint

from . import traces
from .auth import auth, find_user, oauth

# AI clients open the sign-in page when they get a 401, so /mcp requires a sign-in. REST and JSON-RPC do not.
rpc = McpBlueprint(auth=auth, require_auth="mcp" if oauth else False, telemetry=traces.make_telemetry())
rpc.user_loader(find_user)
