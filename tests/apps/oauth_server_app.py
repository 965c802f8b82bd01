"""An app that is its own authorization server, for real clients; what differs is in the environment."""

from __future__ import annotations

import os

from flask import Flask, redirect, request, session
from flask_httpauth import MultiAuth
from werkzeug.wrappers import Response

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import FileGrants, OAuthServer
from tests.conftest import make_auth
from tests.support.internet import install_from_environment

LOGIN = """<!doctype html><title>Log in</title>
<form method="post" action="{action}">
<input name="login"><input type="password" name="password" autocomplete="current-password"><button>Log in</button>
</form>"""


def create_app() -> Flask:
    install_from_environment()
    oauth = OAuthServer(
        scopes={"articles:read": "Read articles", "articles:write": "Write articles in your name"},
        grants=FileGrants(os.environ["GRANTS"]),
    )
    rpc = McpBlueprint(auth=MultiAuth(make_auth(), oauth.resource), require_auth=True)

    @oauth.signed_in
    def signed_in() -> str | None:
        return session.get("user")

    @rpc.tool("read")
    def read() -> str:
        """Read an article, and say who does."""
        token = oauth.resource.current_token()
        return "read" if token is None else f"read by {token.id}"

    @rpc.tool("write", scopes=["articles:write"])
    def write() -> str:
        """Write an article."""
        return "written"

    app = Flask(__name__)
    app.secret_key = "a key for tests, of more than 32 bytes"
    app.config["JSONRPC_MCP_PUBLIC_URL"] = os.environ.get("PUBLIC_URL")
    app.register_blueprint(oauth)
    app.register_blueprint(rpc)

    @app.route("/login", methods=["GET", "POST"])
    def login() -> str | Response:
        if request.method == "GET":
            return LOGIN.format(action=request.full_path.replace("&", "&amp;"))
        session["user"] = request.form["login"]
        return redirect(request.args["next"])

    app.add_url_rule("/", "home", lambda: "home")
    return app
