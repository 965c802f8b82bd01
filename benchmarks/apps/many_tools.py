"""This package around ``BENCH_TOOLS`` tools, each a function of its own, half of them behind a permission.

With ``BENCH_SCHEMAS`` each has a JSON Schema dict of its own in place of type hints.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

rpc = McpBlueprint()


def make_tool() -> Callable[..., dict[str, int]]:
    @mcp_tool
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    return add


def make_schema(number: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": f"The first number of tool {number}"},
            "b": {"type": "integer", "minimum": 0},
        },
        "required": ["a", "b"],
    }


for number in range(int(os.environ["BENCH_TOOLS"])):
    params = make_schema(number) if "BENCH_SCHEMAS" in os.environ else None
    rpc.add_method(f"tool-{number}", make_tool(), params=params, access=["write"] if number % 2 else [])

app = Flask(__name__)
app.secret_key = "benchmark"  # noqa: S105 (nothing to hide)
app.register_blueprint(rpc)
