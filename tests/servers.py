"""Real servers for tests: gunicorn around an app, on a loopback port of its own, ended by its process id."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def listen() -> socket.socket:
    """Open a listening socket on a free port, below those that outgoing connections use."""
    while True:
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", random.randint(20_000, 32_000)))
        except OSError:
            listener.close()
            continue
        listener.listen(256)
        return listener


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A running gunicorn."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, path: str, *, data: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        """GET a path, or POST JSON to it."""
        body = None if data is None else json.dumps(data).encode()
        label = {} if data is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=body, headers={**label, **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return Reply(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers), error.read())

    def invoke(self, name: str, arguments: object, headers: Mapping[str, str] | None = None) -> Reply:
        return self.request("/mcp/tools/invoke", data={"name": name, "arguments": arguments}, headers=headers)

    def stop(self) -> int:
        """Ask the server to end, as a deployment does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@contextmanager
def gunicorn(app: str, folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run an app under gunicorn with two workers of eight threads.

    The socket is open before gunicorn starts, so that the first request waits in it instead of failing.
    """
    log = folder / "gunicorn.log"
    with listen() as listener, log.open("wb") as output:
        command = [sys.executable, "-m", "gunicorn", "--bind", f"fd://{listener.fileno()}", *options, app]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            pass_fds=[listener.fileno()],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        server = Server(process, listener.getsockname()[1], log)
        try:
            yield server
        finally:
            server.stop()
