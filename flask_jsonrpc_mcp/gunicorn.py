"""Hooks for ``gunicorn.conf.py``, which run ``flask mcp worker`` beside the server::

    from flask_jsonrpc_mcp.gunicorn import on_exit, on_reload, when_ready

The worker starts and ends with the server, and is replaced when the server reloads. It exits at once if the app has no
tools with ``task=``, or an engine other than ``LocalTasks``.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_SUPERVISOR = Path(__file__).parent / "tasks" / "supervisor.py"


def when_ready(server: Any) -> None:
    """Start the worker."""
    if importlib.util.find_spec("sqlalchemy") is None:
        return  # without SQLAlchemy, no tool can have task=
    worker = [sys.executable, "-m", "flask", "--app", server.app.app_uri, "mcp", "worker", "--with-parent"]
    command = [sys.executable, str(_SUPERVISOR), str(server.cfg.graceful_timeout), *worker]
    # A session of its own, so that Ctrl-C reaches it only through this pipe.
    server.mcp_worker = subprocess.Popen(  # noqa: S603 (the name of the app is gunicorn's own argument)
        command, stdin=subprocess.PIPE, start_new_session=True, cwd=server.cfg.chdir
    )


def on_reload(server: Any) -> None:
    """Start a worker with the new code. The old one finishes the tasks it runs, and exits."""
    _send(server, b"r")


def on_exit(server: Any) -> None:
    """Stop the worker. It may finish the tasks it runs, for at most gunicorn's ``graceful_timeout``."""
    _send(server, b"q")
    if hasattr(server, "mcp_worker"):
        server.mcp_worker.wait()


def _send(server: Any, command: bytes) -> None:
    if hasattr(server, "mcp_worker"):
        with suppress(OSError):  # it has ended
            server.mcp_worker.stdin.write(command)
            server.mcp_worker.stdin.flush()
