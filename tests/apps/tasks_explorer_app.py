"""The app of the explorer's tests of tasks: a print shop whose work waits until a test lets it go on."""

from __future__ import annotations

import collections
import os
import threading

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from tests.conftest import PERMISSIONS, make_auth

PATIENCE = 60
go_on: dict[str, threading.Event] = collections.defaultdict(threading.Event)


def create_app() -> Flask:
    rpc = McpBlueprint(auth=make_auth())
    rpc.user_loader(lambda name: name if name in PERMISSIONS else None)

    @rpc.method("prints.book")
    @mcp_tool(title="Print a book", task=True, annotations={"readOnlyHint": True})
    def print_book(title: str) -> dict[str, object]:
        """Print a book, which takes hours."""
        current_call.progress(3, 12, "April")
        for _ in range(10 * PATIENCE):
            if go_on[title].wait(0.1):
                return {"title": title, "pages": 12}
            if current_call.cancelled:
                break
        raise RpcError("Given up")

    @rpc.method("prints.cover")
    @mcp_tool(title="Print a cover", task=True, annotations={"readOnlyHint": True})
    def print_cover(title: str) -> str:
        """Ask for a colour, and print a cover."""
        answer = current_call.elicit("Which colour?", {"colour": str})
        if not answer.accepted:
            raise RpcError("No cover without a colour")
        return f"{title} in {answer.content['colour']}"

    @rpc.method("prints.broken")
    @mcp_tool(title="Print nothing", task=True, annotations={"readOnlyHint": True})
    def print_nothing() -> None:
        """Fail."""
        raise RpcError("There is no paper")

    @rpc.method("prints.go_on")
    def let_go_on(title: str) -> None:
        go_on[title].set()

    app = Flask("printer")
    app.config["JSONRPC_MCP_SERVER_NAME"] = "print shop"
    app.config["JSONRPC_MCP_TASKS_DATABASE"] = os.environ["TASKS_DATABASE"]
    app.config["JSONRPC_MCP_TASK_THREADS"] = 4
    app.secret_key = "key"
    app.register_blueprint(rpc)
    return app
