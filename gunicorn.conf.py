"""How gunicorn runs the sample site. Names that this gunicorn does not know are ignored."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

host = os.environ.get("HOST") or "127.0.0.1"
port = os.environ.get("PORT") or "8000"
bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

# Threads, because a slow call then leaves the others of its worker alone, and because gunicorn's own way to abort a
# worker reaches its main thread and not a method in the middle of its work.
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)
threads = int(os.environ.get("THREADS") or 8)

# What runs when the server is told to stop gets this many seconds; longer than the longest call that is expected.
graceful_timeout = 30
# Nothing leaks, so no worker has to be replaced now and then.
max_requests = 0
# Every worker imports the site by itself, so that HUP loads changed code. Preloading is safe too: no connection is
# opened and no thread is started by the import.
preload_app = False
# Two servers of one user would share the default socket. Known since gunicorn 25.1.
control_socket_disable = True


def on_starting(server: Any) -> None:
    """Create the demo site where there is none, once, before there are workers.

    In a process of its own: the master keeps no connection that its workers would inherit, and no imported code.
    """
    seeding = subprocess.run([sys.executable, "-m", "sample_app.seed"], check=False)
    if seeding.returncode != 0:
        raise RuntimeError("the database could not be prepared; the reason is above")


def post_worker_init(worker: Any) -> None:
    """Let clients that listen for changes go as soon as their worker is told to stop, and not when its time is over."""
    worker.wsgi.config["JSONRPC_MCP_IS_ENDING"] = lambda: not worker.alive


def when_ready(server: Any) -> None:
    """Tell where the site is, and what to try first."""
    address = server.LISTENERS[0].getsockname()
    if isinstance(address, tuple):
        # In one piece, so that no log line comes in between.
        print(_welcome(*address[:2]), file=sys.stderr, flush=True)  # noqa: T201 (for people, not for the log)


def _welcome(host: str, port: int) -> str:
    # Listening everywhere, we are at home on localhost too; "0.0.0.0" is no name to call a host by.
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104
    url = f"http://{name}:{port}"
    # Elsewhere the demo users cannot sign in.
    sign_in = "-u admin:admin " if os.environ.get("SITE_ENV") == "development" else ""
    method, arguments = ("create", '"title": "Hello"') if sign_in else ("get", '"id": 1')
    return f"""
    The sample site is at {url}
    AI clients connect to {url}/mcp
    You can try everything at {url}/mcp/explorer

    Try, in another terminal:

      curl '{url}/mcp/tools/list'

      curl '{url}/mcp/tools/describe?name=articles.get'

      curl {sign_in}-H 'Content-Type: application/json' '{url}/mcp/tools/invoke' \\
        -d '{{"name": "articles.{method}", "arguments": {{{arguments}}}}}'
"""
