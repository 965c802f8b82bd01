"""How gunicorn runs the sample site: ``gunicorn --config sample_app/gunicorn_conf.py wsgi:app``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from flask_jsonrpc_mcp import gunicorn as tasks

# gunicorn reads only one file, so this one executes the configuration for any app, and adds to it.
exec((Path(__file__).parents[1] / "gunicorn.conf.py").read_text())  # noqa: S102 (a file of this repository)

host = os.environ.get("HOST") or "127.0.0.1"
port = os.environ.get("PORT") or "8000"
bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
if os.environ.get("THREADS"):
    threads = int(os.environ["THREADS"])


def on_starting(server: Any) -> None:
    """Create the database of the demo site if it is missing, before any worker starts.

    This happens in a process of its own, so that workers inherit neither connections nor imported code of the master.
    """
    seeding = subprocess.run([sys.executable, "-m", "sample_app.seed"], check=False)
    if seeding.returncode != 0:
        raise RuntimeError("the database could not be created; the error is printed above")


def when_ready(server: Any) -> None:
    """Start the worker for tasks. Print where the site is, and what to try first."""
    tasks.when_ready(server)
    address = server.LISTENERS[0].getsockname()
    if isinstance(address, tuple):
        # In one call, so that no log line comes in between.
        print(_welcome(*address[:2]), file=sys.stderr, flush=True)  # noqa: T201 (for people, not for the log)


def _welcome(host: str, port: int) -> str:
    # Browsers cannot open 0.0.0.0; a server on all addresses is at localhost too.
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104
    url = f"http://{name}:{port}"
    # Outside of development the demo users cannot sign in.
    sign_in = "-u admin:admin " if os.environ.get("SITE_ENV") == "development" else ""
    method, arguments = ("create", '"title": "Hello"') if sign_in else ("get", '"id": 1')
    issuer = os.environ.get("OAUTH_ISSUER")
    oauth = f", and people sign in at {issuer} as editor or admin, with any password" if issuer else ""
    if sign_in and not issuer:
        oauth = ", and open a page to sign in on: as editor, with the password editor"
    return f"""
    The sample site is at {url}
    AI clients connect to {url}/mcp{oauth}
    You can try everything at {url}/mcp/explorer

    Try, in another terminal:

      curl '{url}/mcp/tools/list'

      curl '{url}/mcp/tools/describe?name=articles.get'

      curl {sign_in}-H 'Content-Type: application/json' '{url}/mcp/tools/invoke' \\
        -d '{{"name": "articles.{method}", "arguments": {{{arguments}}}}}'
"""
