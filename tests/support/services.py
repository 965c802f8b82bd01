"""Services that tasks need on several machines: PostgreSQL, Redis and a Celery worker, ended by their process ids."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support.load import wait_until
from tests.support.servers import ROOT, free_port, need

POSTGRES_USER = "postgres"
"""Whom PostgreSQL runs as where the tests run as root, which it refuses. Debian's package has created the user."""


@dataclass
class Service:
    """A process that can be killed, frozen and started again in its place.

    :param user: Whom it runs as, if not the user of the tests.
    :param cwd: Where it runs.
    """

    command: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    cwd: Path = ROOT
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.cwd,
                env={**os.environ, **self.env},
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def children(self) -> list[int]:
        """The processes that it started."""
        return [int(child) for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def kill(self) -> None:
        """Kill it with all its processes, as if its machine had lost its power."""
        os.killpg(self.pid, signal.SIGKILL)
        assert self.process is not None
        self.process.wait(timeout=60)

    def freeze(self) -> None:
        """Let it keep its connections, and do nothing."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end, and kill what is left of it after that."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.thaw()
            self.process.send_signal(number)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(timeout=30)


@dataclass
class Postgres:
    """A PostgreSQL server with as many databases as are wanted."""

    service: Service
    host: str
    port: int
    _numbers: Iterator[int] = field(default_factory=count)

    def new_database(self) -> str:
        """Create a database, and return its URL for SQLAlchemy."""
        name = f"tasks_{next(self._numbers)}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"postgresql+psycopg://tasks@{self.host}:{self.port}/{name}"

    def dsn(self, database: str) -> str:
        return f"postgresql://tasks@{self.host}:{self.port}/{database}"

    def start(self) -> None:
        self.service.start()
        wait_until(self._answers, f"PostgreSQL answers: {self.service.log.read_text()}", patience=60)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            assert self.service.process is not None
            assert self.service.process.poll() is None, self.service.log.read_text()
            return False
        return True


def postgres_program(name: str) -> str:
    """Find a program of PostgreSQL, which Debian keeps in a folder of its version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else need(name)


@contextmanager
def running_postgres(host: str = "127.0.0.1") -> Iterator[Postgres]:
    """Run a PostgreSQL server without passwords and without fsync, in a folder that is removed afterwards."""
    user = POSTGRES_USER if os.geteuid() == 0 else None
    # Not in a folder of pytest's, which only the user of the tests may enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if user is not None:
            shutil.chown(folder, user, user)
        options = ["--username=tasks", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [postgres_program("initdb"), *options, "--pgdata", str(folder / "data")],
            check=True,
            capture_output=True,
            cwd=folder,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        with (folder / "data/pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        port = free_port()
        settings = {
            "listen_addresses": host,
            "port": port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 200,
            "dynamic_shared_memory_type": "mmap",
        }
        given = [f"--{name}={value}" for name, value in settings.items()]
        command = [postgres_program("postgres"), "-D", str(folder / "data"), *given]
        server = Postgres(Service(command, folder / "postgres.log", user=user), host, port)
        try:
            server.start()
            yield server
        finally:
            server.service.stop(signal.SIGQUIT)  # at once, without waiting for its clients
    finally:
        shutil.rmtree(folder)


@dataclass
class Redis:
    """A Redis server.

    :param folder: Where it keeps its data, if it does.
    """

    service: Service
    host: str
    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    def start(self) -> None:
        """Start it, with the data that it had before."""
        self.service.start()
        self.wait_until_ready()

    def wipe(self) -> None:
        """Remove its data, while it does not run."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)

    def wait_until_ready(self) -> None:
        client = [need("redis-cli"), "-h", self.host, "-p", str(self.port), "ping"]
        wait_until(lambda: subprocess.run(client, capture_output=True).stdout == b"PONG\n", "Redis answers")


@contextmanager
def running_broker(folder: Path, host: str = "127.0.0.1", *, keeps_data: bool = True) -> Iterator[Redis]:
    """Run a Redis server, which keeps its data over a restart."""
    port = free_port()
    options = ["--port", str(port), "--bind", host, "--save", "", "--dir", str(folder), "--protected-mode", "no"]
    options += ["--appendonly", "yes", "--appendfsync", "always"] if keeps_data else []
    server = Redis(Service([need("redis-server"), *options], folder / "redis.log"), host, port, folder)
    try:
        server.start()
        yield server
    finally:
        server.service.stop()


CELERY_OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")


@contextmanager
def celery_worker(
    app: str,
    folder: Path,
    *options: str,
    env: Mapping[str, str],
    name: str = "worker",
    inside: Sequence[str] = (),
) -> Iterator[Service]:
    """Run a worker of a Celery app, and wait until it is ready.

    :param app: The module and the name of the Celery app in it.
    :param inside: A command that runs another one, such as ``ip netns exec``.
    """
    log = folder / f"celery-{name}.log"
    command = [*inside, sys.executable, "-m", "celery", "-A", app, "worker", "-n", f"{name}@%h", *CELERY_OPTIONS]
    worker = Service([*command, *options], log, env={"PYTHONUNBUFFERED": "1", **env})
    worker.start()
    try:
        wait_until_ready(worker)
        yield worker
    finally:
        worker.stop()


@contextmanager
def local_worker(
    app: str, folder: Path, *options: str, env: Mapping[str, str], name: str = "worker"
) -> Iterator[Service]:
    """Run ``flask mcp worker`` of an app."""
    command = [sys.executable, "-m", "flask", "--app", app, "mcp", "worker", *options]
    worker = Service(command, folder / f"{name}.log", env=env)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def wait_until_ready(worker: Service, times: int = 1) -> None:
    """Wait until a Celery worker takes tasks, for the first time or after another start."""

    def is_ready() -> bool:
        assert worker.process is not None
        assert worker.process.poll() is None, worker.log.read_text()
        return worker.log.read_text().count(" ready.") >= times

    wait_until(is_ready, "the Celery worker is ready", patience=60)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for all tests; each takes a database of its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Redis]:
    with running_broker(tmp_path) as server:
        yield server
