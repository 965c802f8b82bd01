"""What grows with the number of tools: start, memory, a page, its first sight, a call: ``make bench-scale``.

Every size is a process of its own, and they are asked in turn, so that whatever else the machine does hits all of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import in_process
from benchmarks.contenders import GTHREAD, NUMBERS, ROOT, Contender, Stand, bare
from benchmarks.servers import megabytes
from benchmarks.table import format_table, ratio
from tests.support import faces
from tests.support.faces import Asked
from tests.support.mcp_messages import modern_headers, modern_meta
from tests.support.servers import gunicorn

SIZES = (10, 1_000, 10_000)
STARTS, ROUNDS, CALLS = 21, 9, 100

LIST_MODERN = Asked(
    "/mcp",
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}},
    {**modern_headers("tools/list", {})},
)
LIST_REST = Asked("/mcp/tools/list", None)


@dataclass(frozen=True)
class Started:
    """A start, as the app tells it: seconds of CPU from the start of Python, and megabytes after it."""

    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Scale:
    """What the targets ask for; the ratios are those of the largest size over the smallest."""

    page_ratios: dict[str, float]
    first_sight: float
    call_ratio: float
    start_ratio: float
    start_many: float
    start_schemas: float
    stdio_ratio: float
    megabytes_many: float
    megabytes_sample: float
    table: str


def stand_with(tools: int, *, schemas: bool = False) -> Stand:
    settings = [("BENCH_TOOLS", str(tools)), *([("BENCH_SCHEMAS", "1")] if schemas else [])]
    return Stand("flask", "benchmarks.apps.many_tools:app", GTHREAD, tuple(settings))


def measure(*, starts: int = STARTS, rounds: int = ROUNDS) -> Scale:
    all_starts = measure_starts(starts)
    started = {size: median_start(found) for size, found in all_starts.items()}
    pages = {name: _by_size(asked, "tool-", rounds) for name, asked in (("MCP", LIST_MODERN), ("REST", LIST_REST))}
    calls = _by_size(faces.rest("tool-0", NUMBERS), "sum", rounds)
    first = {size: _first_sight(size) for size in SIZES}
    few, many = SIZES[0], SIZES[-1]
    header = ["tools", "start, s of CPU", "MB", "page by MCP, µs", "page by REST, µs", "first sight, ms", "a call, µs"]
    rows = [["bare Flask", f"{started[0].seconds:.2f}", f"{started[0].megabytes:.0f}", "", "", "", ""]]
    for size in SIZES:
        numbers = [f"{started[size].seconds:.2f}", f"{started[size].megabytes:.0f}"]
        numbers += [f"{statistics.median(pages[name][size]):,.0f}" for name in ("MCP", "REST")]
        rows.append([f"{size:,}", *numbers, f"{first[size]:.1f}", f"{statistics.median(calls[size]):,.0f}"])
    return Scale(
        page_ratios={f"the list by {name}": ratio(by_size[many], by_size[few]) for name, by_size in pages.items()},
        first_sight=first[many],
        call_ratio=ratio(calls[many], calls[few]),
        start_ratio=ratio([s.seconds for s in all_starts[1_000]], [s.seconds for s in all_starts[0]]),
        start_many=started[many].seconds,
        start_schemas=statistics.median(start(stand_with(many, schemas=True)).seconds for _ in range(3)),
        stdio_ratio=_stdio(many) / _stdio(few),
        megabytes_many=started[many].megabytes,
        megabytes_sample=_sample_site(),
        table=format_table(header, rows),
    )


def measure_starts(times: int) -> dict[int, list[Started]]:
    """Start bare Flask (as size 0) and each number of tools, in turn, after one start that compiles them."""
    start(stand_with(SIZES[0]))
    samples: dict[int, list[Started]] = {size: [] for size in (0, *SIZES)}
    for _ in range(times):
        for size, found in samples.items():
            found.append(start(bare(GTHREAD).stand if size == 0 else stand_with(size)))
    return samples


def median_start(found: Sequence[Started]) -> Started:
    return Started(statistics.median(s.seconds for s in found), statistics.median(s.megabytes for s in found))


def start(stand: Stand) -> Started:
    """Import an app in a new process."""
    script = (
        f"import time, {stand.app.partition(':')[0]}\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(time.process_time(), int(status['VmRSS'].split()[0]) / 1024)"
    )
    seconds, resident = _run(stand, script).split()
    return Started(float(seconds), float(resident))


def _run(stand: Stand, script: str) -> str:
    command = [stand.python, "-c", script]
    return subprocess.run(command, env=stand.environ, capture_output=True, text=True, check=True).stdout


def _by_size(asked: Asked, expected: str, rounds: int) -> dict[int, list[float]]:
    """The microseconds of one call with each number of tools, round by round."""
    sized = {size: Contender(f"{size:,} tools", "", stand_with(size), asked) for size in SIZES}
    measured = in_process.measure(list(sized.values()), starts=3, rounds=rounds, calls=CALLS, expected=expected)
    return {size: measured[contender.key] for size, contender in sized.items()}


def _first_sight(tools: int) -> float:
    """The milliseconds of CPU of the first page, before anything is remembered."""
    script = """
import json, sys, time
from benchmarks.apps.many_tools import app
client = app.test_client()
client.post("/mcp/tools/invoke", json={"name": "tool-0", "arguments": {"a": 1, "b": 2}})
started = time.process_time()
assert client.get("/mcp/tools/list").status_code == 200
print((time.process_time() - started) * 1000)
"""
    stand = stand_with(tools)
    return statistics.median(float(_run(stand, script)) for _ in range(3))


def _stdio(tools: int) -> float:
    """The microseconds of CPU of one call on stdio, without the pipe."""
    script = """
import time
from benchmarks.apps.many_tools import app
from flask_jsonrpc_mcp.cli.app_server import AppServer
from flask_jsonrpc_mcp.envelope import RpcRequest
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from flask_jsonrpc_mcp.mcp.sessions import Session
from flask_jsonrpc_mcp.stdio import Client, Exchange
from io import BytesIO

server, client = AppServer(app), Client(BytesIO(), lambda: None)
message = RpcRequest("tools/call", {"name": "tool-0", "arguments": {"a": 1, "b": 2}}, 1)
samples = []
for _ in range(20):
    started = time.process_time()
    for _ in range(50):
        server.answer(Exchange(message, Session(LEGACY[0], frozenset()), client))
    samples.append((time.process_time() - started) / 50)
print(min(samples) * 1e6)
"""
    return float(_run(stand_with(tools), script))


def _sample_site() -> float:
    """The memory of a worker of the sample site after a few calls."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {"DATABASE_URL": f"sqlite:///{folder}/site.db", "SITE_ENV": "development"}
        subprocess.run(
            [sys.executable, "-m", "sample_app.seed"],
            cwd=ROOT,
            env={**os.environ, **env},
            check=True,
            stderr=subprocess.DEVNULL,
        )
        config = folder / "gunicorn.conf.py"
        config.write_text('worker_class = "gthread"; workers = 1; threads = 8; control_socket_disable = True')
        with gunicorn("wsgi:app", folder, "--config", str(config), env=env) as server:
            for _ in range(50):
                assert server.invoke("articles.search", {"query": "compost"}).status == 200
            return megabytes(server.process.pid)


def main() -> None:
    scale = measure()
    print(scale.table)
    print(json.dumps({name: round(ratio, 2) for name, ratio in scale.page_ratios.items()}))
    print(f"a call with {SIZES[-1]:,} tools takes {scale.call_ratio:.2f} times one with {SIZES[0]}")
    print(f"a start with 1,000 tools takes {scale.start_ratio:.2f} times a bare Flask start")
    print(f"a call on stdio with {SIZES[-1]:,} tools takes {scale.stdio_ratio:.2f} times one with {SIZES[0]}")
    print(f"a start with {SIZES[-1]:,} JSON Schema dicts takes {scale.start_schemas:.2f} s")
    print(f"a worker of the sample site has {scale.megabytes_sample:.0f} MB")


if __name__ == "__main__":
    main()
