"""One small tool behind a bearer token: below ``/own`` one that the app knows, below ``/oauth`` an access token.

The keys of the authorization server are in ``BENCH_KEYS``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from flask import Flask
from flask_httpauth import HTTPTokenAuth

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import OAuthResource

auth = HTTPTokenAuth()
oauth = OAuthResource("https://login.example", keys=json.loads(os.environ["BENCH_KEYS"]))


@dataclass(frozen=True)
class User:
    """An object, as an access token is one, too."""

    id: str


USERS = {"lovelace": User("ada")}


@auth.verify_token  # type: ignore[untyped-decorator]
def verify(token: str) -> User | None:
    return USERS.get(token)


app = Flask(__name__)
app.config["JSONRPC_MCP_PUBLIC_URL"] = "https://site.example"
for name, way in (("own", auth), ("oauth", oauth)):
    rpc = McpBlueprint(name, auth=way, require_auth=True, url_prefix=f"/{name}")

    @rpc.tool(read_only=True)
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    app.register_blueprint(rpc)
