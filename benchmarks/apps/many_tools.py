"""This package around ``BENCH_TOOLS`` tools, each a function of its own, half of them behind a permission."""

from __future__ import annotations

import os
from collections.abc import Callable

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

rpc = McpBlueprint()


def make_tool() -> Callable[..., dict[str, int]]:
    @mcp_tool
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    return add


for number in range(int(os.environ["BENCH_TOOLS"])):
    rpc.add_method(f"tool-{number}", make_tool(), access=["write"] if number % 2 else [])

app = Flask(__name__)
app.secret_key = "benchmark"  # noqa: S105 (nothing to hide)
app.register_blueprint(rpc)
