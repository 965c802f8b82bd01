"""An app whose replies may be kept, for tests behind a real cache."""

from __future__ import annotations

import itertools

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from tests.conftest import make_auth

auth = make_auth()
rpc = McpBlueprint(auth=auth)
numbers = itertools.count()


@rpc.method("whoami", max_age=60)
@mcp_tool(annotations={"readOnlyHint": True})
def whoami() -> list[str | int | None]:
    """Tell who is calling, and a number that no other answer has."""
    return [auth.current_user(), next(numbers)]


@rpc.method("unsaid")
@mcp_tool(annotations={"readOnlyHint": True})
def unsaid() -> int:
    """Return a number that no other answer has."""
    return next(numbers)


app = Flask(__name__)
app.register_blueprint(rpc)
