"""The blueprint, to which the package adds the tools of each module."""

from __future__ import annotations

from flask_jsonrpc_mcp import McpBlueprint

from . import traces
from .auth import auth, find_user, oauth

# A client opens the sign-in page when it gets a 401, so AI clients have to sign in, and everyone else may read.
rpc = McpBlueprint(auth=auth, require_auth="mcp" if oauth else False, telemetry=traces.make_telemetry())
rpc.user_loader(find_user)
