"""Apps of methods that misbehave, for tests under a real server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from tests.support.misbehaviour import MISBEHAVING

rpc = McpBlueprint()


@rpc.method("exit")
@mcp_tool
def leave(code: int) -> None:
    """End the process, as a command-line helper in a library would."""
    sys.exit(code)


@rpc.method("interrupt")
@mcp_tool
def interrupt() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


@rpc.method("worker")
@mcp_tool
def worker() -> int:
    """Tell which worker answers."""
    return os.getpid()


app = Flask(__name__)
app.secret_key = "the same for all workers"
app.register_blueprint(rpc)


def apart(method: Callable[[], Any]) -> Callable[[], Any]:
    """Make a function of its own: a mark belongs to a function, and other tests mark these too."""
    return lambda: method()


misbehaving = McpBlueprint()
for name, method in {**MISBEHAVING, "fine": lambda: "fine"}.items():
    misbehaving.add_method(name, mcp_tool(annotations={"readOnlyHint": True})(apart(method)))

# Every way to misbehave, on every face: all may be called by GET, and without a key there are no sessions to begin.
every = Flask("site")
every.register_blueprint(misbehaving)
