"""How gunicorn runs an app with this package: ``gunicorn --config gunicorn.conf.py myapp:app``."""

import os
import socket
from contextlib import suppress
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

# Run flask mcp worker beside the server, if the app has tools with task=.
from flask_jsonrpc_mcp.gunicorn import on_exit, on_reload, when_ready  # noqa: F401


class Worker(ThreadWorker):  # type: ignore[misc]
    """A worker with threads that does not wait until clients close their connections.

    gunicorn 27 does so for two seconds, one client after the other, and accepts no connections meanwhile.
    """

    def handle(self, conn: Any) -> Any:
        is_kept = super().handle(conn)
        if is_kept is False:
            with suppress(OSError):
                conn.sock.shutdown(socket.SHUT_RD)
        return is_kept


# With threads, a slow call or an open stream does not hold up the other requests of its worker.
worker_class = Worker
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)
# More than calls run at a time: a client that sends its request slowly, or does not read the response, holds one too.
threads = 32
# Seconds for running calls to finish when the server stops; longer than the longest call you expect.
graceful_timeout = 30
# Two servers of one user would share the default socket. New in gunicorn 25.1.
control_socket_disable = True


def child_exit(server: Any, worker: Any) -> None:
    """Take a worker that has ended out of the gauges of /mcp/metrics."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def post_worker_init(worker: Any) -> None:
    """Set what the app has to know of its server."""
    if hasattr(worker.wsgi, "config"):  # a middleware around the app has none; put it around app.wsgi_app
        # A quarter of the threads may wait for clients that were asked something, listen, or do not read events.
        worker.wsgi.config["JSONRPC_MCP_MAX_WAITING"] = worker.cfg.threads // 4
        # End the streams of clients that listen for changes as soon as the worker is told to stop.
        worker.wsgi.config["JSONRPC_MCP_IS_ENDING"] = lambda: not worker.alive
