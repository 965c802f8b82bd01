"""An app that prints wherever it can, for the test of what standard output is for."""

from __future__ import annotations

import os
import subprocess

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

print("imported")  # noqa: T201

rpc = McpBlueprint()


@rpc.method("shout")
@mcp_tool
def shout() -> str:
    """Print in every way there is."""
    print("printed")  # noqa: T201
    os.write(1, b"written\n")
    subprocess.run(["echo", "echoed"], check=True)
    return "said"


app = Flask(__name__)
app.secret_key = "key"
app.register_blueprint(rpc)
