"""An app with rate limits, whose counts are kept where RATELIMIT_STORAGE_URI says."""

from __future__ import annotations

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from tests.conftest import make_auth

limiter = Limiter(get_remote_address)
rpc = McpBlueprint(auth=make_auth(), limiter=limiter, rate_limit="20/hour")


@rpc.method("rare", rate_limit="6/hour")
@mcp_tool
def rare() -> str:
    """Something to be had only now and then."""
    return "here you are"


@rpc.method("common")
@mcp_tool(annotations={"readOnlyHint": True})
def common() -> str:
    """Something to be had more often."""
    return "here you are"


def create_app(**config: object) -> Flask:
    app = Flask(__name__)
    app.secret_key = "key"
    app.config.from_prefixed_env("LIMITED")
    app.config.update(config)
    limiter.init_app(app)
    app.register_blueprint(rpc)
    return app
