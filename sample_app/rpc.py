"""The blueprint, to which the package adds the tools of each module."""

from __future__ import annotations

from flask_jsonrpc_mcp import McpBlueprint

from . import traces
from .auth import ISSUER, auth, find_user

# A client opens the sign-in page of an authorization server when it gets a 401, so everyone has to sign in then.
rpc = McpBlueprint(auth=auth, require_auth=bool(ISSUER), telemetry=traces.make_telemetry())
rpc.user_loader(find_user)
