"""An app that takes access tokens, for real authorization servers and clients; what differs is in the environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flask import Flask
from flask_httpauth import MultiAuth

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import OAuthResource
from tests.conftest import make_auth


def create_app() -> Flask:
    if "LATER" in os.environ:
        let_time_pass(Path(os.environ["LATER"]))
    introspection = ("resource-server", "secret") if "INTROSPECTION" in os.environ else None
    oauth = OAuthResource(
        os.environ["ISSUER"], scopes=["articles:read"], introspection=introspection, client_credentials=True
    )
    rpc = McpBlueprint(auth=MultiAuth(make_auth(), oauth), require_auth=True)

    @rpc.tool("read")
    def read() -> str:
        """Read an article, and say who does."""
        token = oauth.current_token()
        return "read" if token is None else f"read by {token.id}"

    @rpc.tool("write", scopes=["articles:write"])
    def write() -> str:
        """Write an article."""
        return "written"

    app = Flask(__name__)
    app.secret_key = "key"
    app.config["JSONRPC_MCP_PUBLIC_URL"] = os.environ.get("PUBLIC_URL")
    app.register_blueprint(rpc)
    return app


def let_time_pass(file: Path) -> None:
    """Once there is this file, it is half a minute later."""
    monotonic = time.monotonic
    time.monotonic = lambda: monotonic() + 31 * file.exists()
