"""An app whose calls are counted, for tests that run it in several processes."""

from __future__ import annotations

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from flask_jsonrpc_mcp import McpBlueprint, RpcError
from flask_jsonrpc_mcp.telemetry.metrics import Prometheus

limiter = Limiter(get_remote_address, storage_uri="memory://")
rpc = McpBlueprint(limiter=limiter, telemetry=[Prometheus(access=[])])
rpc._registry.queue_depths["reports"] = lambda: 3


@rpc.tool("add", read_only=True)
def add(a: int, b: int) -> int:
    return a + b


@rpc.tool("fail")
def fail() -> None:
    raise RpcError("no")


@rpc.tool("once", rate_limit="1/day")
def once() -> str:
    return "done"


app = Flask(__name__)
limiter.init_app(app)
app.register_blueprint(rpc)
