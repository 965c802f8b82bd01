"""This package around one small tool; below ``/signed`` the same tool behind a password that is remembered.

``BENCH_SPEED=off`` leaves the libraries of the ``speed`` extra out, as if they were not installed.
"""

from __future__ import annotations

import os
import sys
import time

if os.environ.get("BENCH_SPEED") == "off":
    sys.modules.update({"jsonschema_rs": None, "orjson": None})  # type: ignore[dict-item]

from flask import Flask
from flask_httpauth import HTTPBasicAuth
from werkzeug.security import check_password_hash, generate_password_hash

from benchmarks.apps.rows import Row, make_rows
from flask_jsonrpc_mcp import CachedPasswords, McpBlueprint, mcp_tool

ROWS = make_rows()
HASH = generate_password_hash("lovelace")  # scrypt, werkzeug's default
check_password = CachedPasswords(check_password_hash)

auth = HTTPBasicAuth()
rpc = McpBlueprint()
signed = McpBlueprint("signed", auth=auth, require_auth=True, url_prefix="/signed")
hashed = McpBlueprint("hashed", auth=(hashed_auth := HTTPBasicAuth()), require_auth=True, url_prefix="/hashed")


@auth.verify_password  # type: ignore[untyped-decorator]
def verify(username: str, password: str) -> str | None:
    return username if check_password(HASH, password) else None


@hashed_auth.verify_password  # type: ignore[untyped-decorator]
def verify_by_hashing(username: str, password: str) -> str | None:
    return username if check_password_hash(HASH, password) else None


@hashed.method(max_age=60)
@signed.method(max_age=60)
@rpc.method(max_age=60)
@mcp_tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@rpc.method
@mcp_tool
def wait(seconds: float) -> dict[str, int]:
    """Do what most long tools do: wait for something else."""
    time.sleep(seconds)
    return {"sum": 3}


@rpc.method
@mcp_tool
def rows() -> list[Row]:
    """Return a thousand rows."""
    return ROWS


app = Flask(__name__)
app.secret_key = "benchmark"  # noqa: S105 (nothing to hide)
for blueprint in (rpc, signed, hashed):
    app.register_blueprint(blueprint)
