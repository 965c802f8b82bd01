"""Real servers for tests: gunicorn around an app, on a loopback port of its own, ended by its process id."""

from __future__ import annotations

import getpass
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PLAIN_CONFIG = 'worker_class = "gthread"; workers = 2; threads = 8; control_socket_disable = True'


def reserve() -> socket.socket:
    """Take a free port, below those that outgoing connections use. Until it listens, connections are refused."""
    while True:
        reserved = socket.socket()
        try:
            reserved.bind(("127.0.0.1", random.randint(20_000, 32_000)))
        except OSError:
            reserved.close()
            continue
        return reserved


def listen() -> socket.socket:
    """Open a listening socket on a free port."""
    listener = reserve()
    listener.listen(256)
    return listener


def free_port() -> int:
    """Find a port that is free now, for servers that open it themselves."""
    with listen() as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A running HTTP server."""

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

    def wait_until_ready(self) -> None:
        """Wait for a server that opens its port itself."""
        deadline = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, self.log.read_text()

    def stop(self) -> int:
        """Ask the server to end, as a deployment does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def need(program: str) -> str:
    """Find a program that is not ours to install; where CI misses one, that is a failure."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        assert "CI" not in os.environ, f"{program} is not installed"
        pytest.skip(f"{program} is not installed")
    return path


def need_made(file: Path, target: str) -> None:
    """Look for what a target of the Makefile makes; where CI misses it, that is a failure."""
    if not file.exists():
        assert "CI" not in os.environ, f"{file} is missing: make {target}"
        pytest.skip(f"make {target}")


@contextmanager
def gunicorn(
    app: str,
    folder: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    listener: socket.socket | None = None,
) -> Iterator[Server]:
    """Run an app under gunicorn.

    The socket is open before gunicorn starts, so that the first request waits in it instead of failing.

    :param options: Its command line; without a ``--config`` of its own, as plain as two workers of eight threads.
    :param listener: Where it listens; closed afterwards.
    """
    if "--config" not in options:
        # Not the gunicorn.conf.py of the sample site, which gunicorn would find by itself.
        (folder / "gunicorn.conf.py").write_text(PLAIN_CONFIG)
        options = ("--config", str(folder / "gunicorn.conf.py"), *options)
    log = folder / "gunicorn.log"
    with listener or listen() as listener, log.open("wb") as output:
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


@contextmanager
def nginx(server: Server, folder: Path) -> Iterator[Server]:
    """Run nginx in front of a server, as the README shows it, with a cache."""
    program, port = need("nginx"), free_port()
    (folder / "nginx.conf").write_text(
        f"""
        daemon off;
        user {getpass.getuser()};
        worker_processes 1;
        pid {folder}/nginx.pid;
        error_log {folder}/nginx.log;
        events {{}}
        http {{
            access_log off;
            client_body_temp_path {folder}/bodies;
            proxy_temp_path {folder}/proxied;
            fastcgi_temp_path {folder}/fastcgi;
            uwsgi_temp_path {folder}/uwsgi;
            scgi_temp_path {folder}/scgi;
            proxy_cache_path {folder}/cache keys_zone=replies:1m;
            server {{
                listen 127.0.0.1:{port};
                location / {{
                    proxy_pass {server.url};
                    proxy_set_header Host $host;
                    proxy_set_header X-Forwarded-For $remote_addr;
                    proxy_set_header X-Forwarded-Proto $scheme;
                    proxy_set_header X-Forwarded-Host $host;
                    proxy_cache replies;
                    add_header X-Cache $upstream_cache_status always;
                }}
            }}
        }}
        """
    )
    process = subprocess.Popen(
        [program, "-c", folder / "nginx.conf", "-e", folder / "nginx.log"], stderr=subprocess.DEVNULL
    )
    front = Server(process, port, folder / "nginx.log")
    try:
        front.wait_until_ready()
        yield front
    finally:
        front.stop()
