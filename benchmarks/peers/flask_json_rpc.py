"""Flask-JSONRPC, the JSON-RPC extension of Flask."""

from flask import Flask
from flask_jsonrpc import JSONRPC

app = Flask(__name__)
app.secret_key = "benchmark"  # noqa: S105 (nothing to hide)
jsonrpc = JSONRPC(app, "/jsonrpc")


@jsonrpc.method("add")
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}
