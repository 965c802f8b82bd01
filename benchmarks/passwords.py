"""What a password costs with every call, and what remembering it saves, as ratios within one run.

Run it with ``make bench-passwords``. The baseline is the same call without any sign-in.
"""

from __future__ import annotations

import statistics
import time
from base64 import b64encode
from collections.abc import Callable

from flask import Flask
from flask_httpauth import HTTPBasicAuth
from werkzeug.security import check_password_hash, generate_password_hash

from flask_jsonrpc_mcp import CachedPasswords, McpBlueprint, mcp_tool

ROUNDS = 7
HASH = generate_password_hash("secret")  # scrypt, werkzeug's default
HEADERS = {"Authorization": "Basic " + b64encode(b"ada:secret").decode()}


def caller_of(check: Callable[[str, str], bool] | None) -> Callable[[], None]:
    """Make an app whose sign-in checks passwords so, or that has none, and return what calls it once."""
    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: username if check is None or check(HASH, password) else None)
    rpc = McpBlueprint(auth=None if check is None else auth)

    @rpc.method("add")
    @mcp_tool
    def add(a: int, b: int) -> int:
        return a + b

    app = Flask(__name__)
    app.register_blueprint(rpc)
    client = app.test_client()

    def call() -> None:
        body = {"name": "add", "arguments": {"a": 1, "b": 2}}
        assert client.post("/mcp/tools/invoke", json=body, headers=HEADERS).status_code == 200

    return call


def microseconds(call: Callable[[], None], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - started) / times * 1e6


def main() -> None:
    callers = {
        "without sign-in": (caller_of(None), 300),
        "password remembered": (caller_of(CachedPasswords(check_password_hash)), 300),
        "password hashed each time": (caller_of(check_password_hash), 3),
    }
    for call, _ in callers.values():
        call()
    rounds = [{name: microseconds(call, times) for name, (call, times) in callers.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(each[name] for each in rounds) for name in callers}
    baseline = medians["without sign-in"]
    for name, median in medians.items():
        print(f"{name}: {median:,.0f} µs of CPU per call, {median / baseline:.2f} times the call without sign-in")


if __name__ == "__main__":
    main()
