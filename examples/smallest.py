r"""The smallest app: one function, one tool.

    $ flask --app smallest run
    $ curl http://127.0.0.1:5000/mcp/tools/list
    $ curl http://127.0.0.1:5000/mcp/tools/invoke -H 'Content-Type: application/json' \
        -d '{"name": "greet", "arguments": {"name": "Ada"}}'
    {"result": "Hello, Ada!"}
    $ curl http://127.0.0.1:5000/jsonrpc -H 'Content-Type: application/json' \
        -d '{"jsonrpc": "2.0", "method": "greet", "params": ["Ada"], "id": 1}'
    {"jsonrpc": "2.0", "result": "Hello, Ada!", "id": 1}

An AI client gets the URL http://127.0.0.1:5000/mcp.
"""

from __future__ import annotations

from typing import Annotated

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint

rpc = McpBlueprint()


@rpc.tool(title="Greet", read_only=True)
def greet(name: Annotated[str, "Whom to greet"]) -> str:
    """Greet someone by name."""
    return f"Hello, {name}!"


app = Flask(__name__)
app.register_blueprint(rpc)
