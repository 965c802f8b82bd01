"""An app whose answers tell whose they are, for tests of processes under a real server."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

rpc = McpBlueprint()


@rpc.method("echo")
@mcp_tool
def echo(number: int) -> list[int]:
    """Return the number, and which worker answers."""
    return [number, os.getpid()]


@rpc.method("hold")
@mcp_tool
def hold(number: int, seconds: float) -> int:
    """Tell by a file that the call has begun, take some time, and return the number."""
    Path(os.environ["BEGUN"], str(number)).touch()
    time.sleep(seconds)
    return number


@rpc.method("fill")
@mcp_tool
def fill(megabytes: int) -> str:
    """Return more than fits into the buffers between us and a client that does not read."""
    return "x" * (megabytes << 20)


app = Flask(__name__)
app.register_blueprint(rpc)
