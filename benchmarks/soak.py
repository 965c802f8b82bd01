"""Calls of every kind, among them errors and clients that go away, and what stays behind of them: ``make soak``.

Over HTTP it prints memory, file descriptors and threads of a gunicorn worker as the calls go by. With ``--in-process``
it counts Python's memory blocks, which is what the tests look at: whatever is kept for each call is a block.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import itertools
import json
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.contenders import mcp_legacy
from benchmarks.servers import INITIALIZE, body_of, megabytes, processes_of
from benchmarks.table import format_table
from tests.conftest import asking, basic
from tests.support import faces
from tests.support.faces import Asked
from tests.support.mcp_messages import modern_headers, modern_meta
from tests.support.servers import ROOT, Server, gunicorn

APP = "benchmarks.apps.soaked:app"
CLIENTS = 8
CHECKPOINTS = 10
EVERY_FACE = (
    faces.rest,
    faces.jsonrpc,
    faces.jsonrpc_get,
    faces.batch,
    faces.notification,
    faces.own_url,
    faces.own_url_get,
    faces.mcp_modern,
)


def requests() -> Iterator[Asked]:
    """Every kind of request, once; right ones and wrong ones."""
    calls = [
        ("echo", {"text": "hello", "times": 3}),
        ("echo", {"text": "é" * 500}),
        ("echo", {"text": 5, "other": []}),
        *((name, {}) for name in ("counted", "shown", "refuse", "crash", "lie", "unknown")),
    ]
    for face in EVERY_FACE:
        for name, arguments in calls:
            yield face(name, arguments)
    for username, password in (("ada", "ada"), ("ada", "wrong"), ("", "")):
        asked = faces.rest("echo", {"text": "x"})
        yield Asked(asked.path, asked.payload, basic(username, password))
    yield modern("tools/call", {"name": "asked", "arguments": {}})
    yield modern("tools/call", {"name": "asked", "arguments": {}}, elicitation={})
    for name in ("reported", "asked", "crash"):
        yield modern("tools/call", {"name": name, "arguments": {}, "_meta": {"progressToken": "token"}})
    yield modern("prompts/get", {"name": "written", "arguments": {"topic": "bees"}})
    yield modern("prompts/get", {"name": "written", "arguments": {}})
    for uri in ("texts://one", "texts://none", "nowhere://"):
        yield modern("resources/read", {"uri": uri})
    for method in ("tools/list", "prompts/list", "resources/templates/list", "server/discover", "unknown"):
        yield modern(method, {})
    yield Asked("/mcp/tools/list")
    yield Asked("/mcp/tools/list?cursor=broken")
    yield Asked("/mcp/tools/describe?name=echo")
    yield Asked("/.well-known/mcp.json")
    yield Asked("/nowhere")
    yield Asked("/jsonrpc", {"jsonrpc": "1.0"})
    yield Asked("/jsonrpc", asking("rpc.discover"))
    yield Asked("/mcp", INITIALIZE)
    yield mcp_legacy("echo")  # without its session


def modern(method: str, params: dict[str, Any], **capabilities: Any) -> Asked:
    meta = {**modern_meta(**capabilities), **params.get("_meta", {})}
    return Asked("/mcp", asking(method, {**params, "_meta": meta}), modern_headers(method, params))


def blocks_kept(windows: int, calls: int, *, leak: bool = False) -> list[int]:
    """Count the memory blocks that stay behind in each window of calls, after a first one that warms everything up."""
    from benchmarks.apps.soaked import app  # not before: over HTTP the app is not ours

    everything = [faces.rest("leak", {})] if leak else list(requests())
    client = app.test_client(use_cookies=False)
    counts = []
    for _ in range(windows + 1):
        for number, asked in enumerate(itertools.islice(itertools.cycle(everything), calls)):
            response = asked.send(client)
            if number % 3:
                response.get_data()  # and otherwise the client goes away before it has read a stream
            response.close()
        gc.collect()
        counts.append(sys.getallocatedblocks())
    return [after - before for before, after in itertools.pairwise(counts)]


class Soaking:
    """Clients that go through all kinds of requests, and now and then go away in the middle of one."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.answered = self.left = 0
        self._everything = itertools.cycle(list(requests()))
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def run(self, calls: int) -> None:
        """Make so many calls."""
        last = self.answered + self.left + calls
        clients = [threading.Thread(target=self._be_client, args=(last,)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def _be_client(self, last: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        while True:
            with self._lock:
                if self.answered + self.left >= last:
                    break
                number, asked = next(self._numbers), next(self._everything)
                leaves = number % 50 == 0
                self.left += leaves
                self.answered += not leaves
            if leaves:
                self._leave(asked, halfway=number % 100 == 0)
            else:
                self._ask(connection, asked)
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, asked: Asked) -> None:
        headers = {**_label(asked), **asked.headers}
        connection.request("GET" if asked.payload is None else "POST", asked.path, body_of(asked) or None, headers)
        connection.getresponse().read()

    def _leave(self, asked: Asked, *, halfway: bool) -> None:
        body = body_of(asked)
        head = [f"{'POST' if body else 'GET'} {asked.path} HTTP/1.1", f"Host: 127.0.0.1:{self.server.port}"]
        headers = {**_label(asked), **asked.headers, "Content-Length": str(len(body))}
        message = "\r\n".join([*head, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode() + body
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
            connection.sendall(message[: len(message) // 2] if halfway else message)


def _label(asked: Asked) -> dict[str, str]:
    return {} if asked.payload is None else {"Content-Type": "application/json"}


def worker_of(server: Server) -> int:
    """The process that answers; there is only one worker."""
    [worker] = [pid for pid in processes_of(server.process.pid) if pid != server.process.pid]
    return worker


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


ONE_WORKER = 'worker_class = "gthread"; workers = 1; threads = 8; loglevel = "critical"; control_socket_disable = True'


def serve_one_worker(folder: Path) -> AbstractContextManager[Server]:
    config = folder / "one_worker.py"
    config.write_text(ONE_WORKER)
    return gunicorn(APP, folder, "--config", str(config), env={"PYTHONPATH": str(ROOT)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--in-process", action="store_true", help="count memory blocks, in windows of so many calls")
    parser.add_argument("--leak", action="store_true", help="keep one object for each call, to show that it is seen")
    options = parser.parse_args()
    if options.in_process:
        print(json.dumps(blocks_kept(4, options.calls, leak=options.leak)))
        return
    with tempfile.TemporaryDirectory() as name, serve_one_worker(Path(name)) as server:
        soaking = Soaking(server)
        server.request("/mcp/tools/list")
        worker = worker_of(server)
        rows = []
        for number in range(CHECKPOINTS + 1):
            if number:
                soaking.run(options.calls // CHECKPOINTS)
            counted = [soaking.answered, soaking.left, descriptors(worker), threads(worker)]
            rows.append([*(f"{count:,}" for count in counted), f"{megabytes(worker):.1f}"])
            print(rows[-1], flush=True)
        print(format_table(["answered", "left alone", "descriptors", "threads", "MB"], rows))


if __name__ == "__main__":
    main()
