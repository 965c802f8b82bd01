"""The doctor's checks of tools with ``task=``, of their workers and of their database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from flask import Flask

from .config import PREFIX
from .doctor_findings import ERROR, INFO, WARNING, Problem
from .errors import RpcError
from .method import Method
from .registry import Registry
from .task_options import TASKS_EXTENSION

CHECKS = {
    "task-required": (
        INFO,
        f"use task=True, so that clients without tasks can call the tool in a plain request, or set {PREFIX}TASK_WAIT",
    ),
    "task-user-loader": (
        WARNING,
        "register a function with @rpc.user_loader that returns the same user as your sign-in does",
    ),
    "task-worker": (WARNING, "start flask mcp worker, or a worker of your engine, and keep it running"),
    "task-database": (
        ERROR,
        f"set {PREFIX}TASKS_DATABASE to a database that all machines can reach, such as PostgreSQL",
    ),
    "task-celery": (WARNING, "install another version: celery != 5.7.0"),
}
"""The severity and the fix of each check, by its slug."""

WAITS_LONG = 30
"""Seconds after which a worker should have started a queued task."""

BROKEN_CELERY = "5.7.0"

MOUNTS = Path("/proc/mounts")
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs", "afs")


def check_tool(method: Method, app: Flask) -> Iterator[Problem]:
    task = None if method.tool is None or app.config[PREFIX + "TASK_WAIT"] else method.tool.task
    if task is not None and task.required:
        yield "task-required", "most AI clients do not support tasks today, and cannot call it"


def check_blueprint(registry: Registry) -> Iterator[Problem]:
    if TASKS_EXTENSION in registry.extensions and registry.auth.sign_ins and registry.auth.user_loader is None:
        why = "without a user_loader, a worker knows only the name of a task's caller"
        yield "task-user-loader", f"{why}; if your users are not just names, calls of signed-in users fail"


def check_app(app: Flask, registries: list[Registry]) -> Iterator[Problem]:
    if not any(TASKS_EXTENSION in registry.extensions for registry in registries):
        return
    if _uses_celery(app, registries) and _installed("celery") == BROKEN_CELERY:
        yield "task-celery", f"a worker of celery {BROKEN_CELERY} ends when its Redis restarts while tasks run"
    from .tasks import tasks_of  # SQLAlchemy is an extra
    from .tasks.database import tasks
    from .tasks.records import QUEUED

    records = tasks_of(app).records
    file = Path(str(records.url.database)) if records.url.get_backend_name() == "sqlite" else None
    filesystem = None if file is None else network_filesystem(file)
    if filesystem is not None:
        yield "task-database", f"{file} is on a network disk ({filesystem}), where SQLite can lose or corrupt data"
    if file is not None and not file.exists():
        return  # no task was ever created, and the doctor must not create the file
    with suppress(RpcError):  # the database cannot be reached, and the log says so
        workers = records.seen_workers(WAITS_LONG)
        hosts = sorted({worker["host"] for worker in workers})
        if file is not None and len(hosts) > 1:
            yield "task-database", f"workers run on {', '.join(hosts)}, but SQLite is for one machine"
        now = time.time()
        waiting = (tasks.c.state == QUEUED, tasks.c.updated < now - WAITS_LONG, tasks.c.expires > now)
        if not workers and records.count(1, *waiting):
            yield "task-worker", "tasks wait, and no worker is running"


def network_filesystem(file: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the type of the network filesystem that a file is on; ``None`` if it is local or unknown."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return None  # not on Linux
    # A space in a path is written as \\040.
    found = [(Path(fields[1].replace("\\040", " ")), fields[2]) for fields in lines if len(fields) > 2]
    around = [(len(place.parts), kind) for place, kind in found if file.absolute().is_relative_to(place)]
    kind = max(around)[1] if around else ""
    return kind if kind in NETWORK_FILESYSTEMS else None


def _uses_celery(app: Flask, registries: list[Registry]) -> bool:
    engines = [app.config[PREFIX + "TASKS"], *(registry.task_engine for registry in registries)]
    return any(engine == "celery" or type(engine).__name__ == "CeleryTasks" for engine in engines)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
