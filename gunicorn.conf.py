"""How gunicorn runs an app with this package: ``gunicorn --config gunicorn.conf.py myapp:app``."""

import os
from typing import Any

# With threads, a slow call or an open stream does not hold up the other requests of its worker.
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)
threads = 8
# Seconds for running calls to finish when the server stops; longer than the longest call you expect.
graceful_timeout = 30
# Two servers of one user would share the default socket. New in gunicorn 25.1.
control_socket_disable = True


def post_worker_init(worker: Any) -> None:
    """End the streams of clients that listen for changes as soon as the worker is told to stop."""
    if hasattr(worker.wsgi, "config"):  # a middleware around the app has none; put it around app.wsgi_app
        worker.wsgi.config["JSONRPC_MCP_IS_ENDING"] = lambda: not worker.alive
