"""Real servers for tests: an app on a loopback port of its own, in a process that is ended by its id."""

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
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
from flask import Flask
from werkzeug.serving import make_server

ROOT = Path(__file__).parents[2]
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
class Place:
    """Where a server listens."""

    port: int
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """A running HTTP server."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    host: ClassVar[str] = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, path: str, *, data: object = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> Reply:
        """GET a path, or POST JSON to it, or use another method."""
        body = None if data is None else json.dumps(data).encode()
        label = {} if data is None else {"Content-Type": "application/json"}
        labelled = {**label, **(headers or {})}
        request = urllib.request.Request(self.url + path, data=body, headers=labelled, method=method)
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


def need_installed(module: str) -> None:
    """Look for a package of the extra "test"; where CI misses it, that is a failure."""
    if find_spec(module) is None:
        assert "CI" not in os.environ, f"{module} is missing: make test"
        pytest.skip(f"{module} is not installed")


@contextmanager
def running(
    command: Sequence[str], port: int, folder: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a server until the block is left.

    :param folder: Where its log is written.
    :param cwd: Where it runs, and finds its app; in ``folder`` if not given.
    """
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=cwd or folder, env={**os.environ, **(env or {})}, stdout=output, stderr=output
        )
    server = Server(process, port, log)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


FLASK_RUN, GTHREAD, GEVENT, WAITRESS, GRANIAN = "flask run", "gthread", "gevent", "waitress", "granian"
"""The servers that :func:`serving` knows."""


@contextmanager
def serving(
    kind: str, app: str, folder: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run an app in one process of a WSGI server, and wait until it answers.

    :param app: The module and the name of the app in it, such as ``app:app``.
    """
    port = free_port()
    address = f"127.0.0.1:{port}"
    # Not the gunicorn.conf.py of the repository, which gunicorn would find by itself.
    config = folder / "gunicorn.conf.py"
    config.write_text("control_socket_disable = True")
    gunicorn = ["gunicorn", "--config", str(config), "--bind", address]
    commands = {
        FLASK_RUN: ["flask", "--app", app, "run", "--port", str(port)],
        GTHREAD: [*gunicorn, "--worker-class", "gthread", "--threads", "8", app],
        GEVENT: [*gunicorn, "--worker-class", "gevent", app],
        WAITRESS: ["waitress", "--listen", address, "--threads", "8", app],
        GRANIAN: ["granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), app],
    }
    with running([sys.executable, "-m", *commands[kind]], port, folder, cwd=cwd, env=env) as server:
        # A client that has to wait until the app is imported takes the server for an older one.
        assert server.request("/mcp/tools/list").status == 200, server.log.read_text()
        yield server


@contextmanager
def served_here(app: Flask) -> Iterator[Place]:
    """Serve an app in threads of this process, so that a test and a method can wait for each other."""
    server = make_server("127.0.0.1", free_port(), app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Place(server.port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
        # Not the gunicorn.conf.py of the repository, which gunicorn would find by itself.
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
    """Run nginx in front of a server, as docs/deployment.md shows it, with a cache."""
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
