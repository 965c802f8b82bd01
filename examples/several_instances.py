r"""Several servers behind one address: any of them can answer any request, because they share a key and a Redis.

    $ redis-server --port 6379 --bind 127.0.0.1 --save ''
    $ SECRET_KEY=shared REDIS_URL=redis://127.0.0.1:6379 \
        gunicorn --threads 8 --no-control-socket --bind 127.0.0.1:8001 several_instances:app
    $ SECRET_KEY=shared REDIS_URL=redis://127.0.0.1:6379 \
        gunicorn --threads 8 --no-control-socket --bind 127.0.0.1:8002 several_instances:app

A client from before 2026-07-28 gets a session id from one of them. It is a signed token that every server with the
same key can check, so the next request may go to the other one:

    $ JSON='Content-Type: application/json'
    $ curl http://127.0.0.1:8001/mcp -H "$JSON" --dump-header headers.txt \
        -d '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
             "capabilities": {}, "clientInfo": {"name": "curl", "version": "8"}}}'
    $ SESSION=$(grep -i '^mcp-session-id' headers.txt | tr -d '\r')
    $ curl http://127.0.0.1:8002/mcp -H "$JSON" -H "$SESSION" \
        -d '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "draw", "arguments": {}}}'
    {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "drawn"}],
                                           "structuredContent": {"result": "drawn"}, "isError": false}}

Rate limits are counted in Redis, so three calls an hour are three for both servers together:

    $ curl http://127.0.0.1:8001/mcp/tools/invoke -H "$JSON" -d '{"name": "draw", "arguments": {}}'
    {"result": "drawn"}
    $ curl http://127.0.0.1:8002/mcp/tools/invoke -H "$JSON" -d '{"name": "draw", "arguments": {}}'
    {"result": "drawn"}
    $ curl http://127.0.0.1:8001/mcp/tools/invoke -H "$JSON" -d '{"name": "draw", "arguments": {}}' \
        --output /dev/null --write-out '%{http_code}'
    429

Before 2026-07-28 a question to the person at the client (try ``put_back``, which asks before it runs) is sent on the
event stream of the call, and the answer comes with another request, perhaps to another server. Redis passes it on: that
is what ``JSONRPC_MCP_MAILBOX`` is for. On one machine, the processes use an SQLite file, without any setting.
"""

from __future__ import annotations

import os

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from flask_jsonrpc_mcp import McpBlueprint

limiter = Limiter(get_remote_address)
rpc = McpBlueprint(limiter=limiter)


@rpc.tool("draw", title="Draw a lot", rate_limit="3/hour")
def draw() -> str:
    """Draw a lot, of which there are few."""
    return "drawn"


@rpc.tool("put_back", title="Put all lots back", confirm="Put all lots back?")
def put_back() -> str:
    """Start again with all lots."""
    limiter.reset()
    return "put back"


app = Flask(__name__)
app.config.update(
    SECRET_KEY=os.environ["SECRET_KEY"],
    RATELIMIT_STORAGE_URI=os.environ["REDIS_URL"],
    JSONRPC_MCP_MAILBOX=os.environ["REDIS_URL"],
)
limiter.init_app(app)
app.register_blueprint(rpc)
