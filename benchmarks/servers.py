"""Starts what is measured, on a loopback port, by the Python of its own environment; ends it by its process id."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.contenders import GEVENT, GRANIAN, GTHREAD, GTHREAD_8, LEGACY, ROOT, UVICORN, Contender, Stand
from tests.support.faces import Asked
from tests.support.servers import Reply, Server, free_port

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}},
}
_GUNICORN = {GTHREAD: "gthread", GTHREAD_8: "gthread", GEVENT: "gevent"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Size:
    """How many processes a server has, and how many calls each can run at once.

    One thread answers the most calls that do not wait: those of one process take turns.
    """

    workers: int = 1
    threads: int = 1


@contextmanager
def serve(stand: Stand, folder: Path, size: Size = Size()) -> Iterator[Server]:
    """Run an app on its server until it answers no more questions."""
    port = free_port()
    folder.mkdir()
    log = folder / "log"
    command = [stand.python, "-m", *_command(stand, folder, port, size)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=stand.environ, stdout=output, stderr=subprocess.STDOUT)
    server = Server(process, port, log)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def _command(stand: Stand, folder: Path, port: int, size: Size) -> list[str]:
    address = f"127.0.0.1:{port}"
    if stand.server in _GUNICORN:
        config = folder / "gunicorn.conf.py"
        kind, threads = _GUNICORN[stand.server], 8 if stand.server == GTHREAD_8 else size.threads
        config.write_text(
            f'worker_class = "{kind}"; workers = {size.workers}; threads = {threads}; bind = "{address}"\n'
            'loglevel = "error"; keepalive = 30; control_socket_disable = True\n'
        )
        return ["gunicorn", "--config", str(config), stand.app]
    if stand.server == GRANIAN:
        sizes = ["--workers", str(size.workers), "--blocking-threads", str(size.threads)]
        where = ["--host", "127.0.0.1", "--port", str(port)]
        return [
            "granian",
            "--interface",
            "wsgi",
            *where,
            *sizes,
            "--no-access-log",
            "--log-level",
            "error",
            stand.app,
        ]
    assert stand.server == UVICORN
    where = ["--host", "127.0.0.1", "--port", str(port)]
    quick = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error"]
    return ["uvicorn", *where, *quick, stand.app]


def prepared(contender: Contender, server: Server) -> Asked:
    """Open a session where the protocol has them, and see that the call is answered rightly: failing is quick too."""
    asked = contender.asked
    if contender.has_sessions:
        asked = replace(asked, headers={**asked.headers, **_session(server, asked)})
    check(server.request(asked.path, data=asked.payload, headers=asked.headers), contender.key)
    return asked


def check(reply: Reply, what: object) -> None:
    assert reply.status == 200, (what, reply.status, reply.body)
    assert _has_sum(reply.json()), (what, reply.body)


def _has_sum(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return value.get("sum") == 3 or any(map(_has_sum, value.values()))


def _session(server: Server, asked: Asked) -> Mapping[str, str]:
    headers = {name: value for name, value in asked.headers.items() if name != "MCP-Protocol-Version"}
    reply = server.request(asked.path, data=INITIALIZE, headers=headers)
    assert reply.status == 200, reply
    found = {name: value for name, value in reply.headers.items() if name.lower() == "mcp-session-id"}
    return {"Mcp-Session-Id": next(iter(found.values()))} if found else {}


def body_of(asked: Asked) -> bytes:
    return b"" if asked.payload is None else json.dumps(asked.payload, separators=(",", ":")).encode()


def processes_of(pid: int) -> list[int]:
    """List a process and all that it started."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(int(_fields(folder)[1]), []).append(int(folder.name))
        except OSError:  # it has just ended
            continue
    found, pending = [], [pid]
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += parents.get(pid, [])
    return found


def cpu_seconds(pid: int) -> float:
    """The CPU time that a server has used so far, with all its processes."""
    total = 0
    for process in processes_of(pid):
        fields = _fields(Path(f"/proc/{process}"))
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def megabytes(pid: int) -> float:
    """The memory of a server's largest process, which is the one that answers."""
    return max(_resident(process) for process in processes_of(pid))


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0


def _fields(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat after the program's name, which may have spaces: state, parent, ..."""
    return (folder / "stat").read_text().rpartition(")")[2].split()
