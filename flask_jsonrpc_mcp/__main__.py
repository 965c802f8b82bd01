"""``python -m flask_jsonrpc_mcp``."""

from __future__ import annotations

from .program import main

main(prog_name="flask-jsonrpc-mcp")
