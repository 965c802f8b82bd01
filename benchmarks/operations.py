"""300 operations of an API as tools: ``make bench-operations`` writes OPERATIONS.md.

Beside them are the same API without tools, and as many tools that are declared with JSON Schema. Each start is a
process of its own, and they take turns, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.contenders import ROOT
from benchmarks.table import format_table, ratio
from benchmarks.targets import Target, format_targets

SIZE, ROUNDS = 300, 15
API, OPERATIONS, TOOLS = "the API alone", "its operations as tools", "as many tools with JSON Schema"
APPS = {
    API: ("benchmarks.apps.many_operations", {"BENCH_OPERATIONS": str(SIZE)}),
    OPERATIONS: ("benchmarks.apps.many_operations", {"BENCH_OPERATIONS": str(SIZE), "BENCH_TOOLS_FROM": "1"}),
    TOOLS: ("benchmarks.apps.many_tools", {"BENCH_TOOLS": str(SIZE), "BENCH_SCHEMAS": "1"}),
}
MEASURES = ("start, s of CPU", "MB", "first page, ms", "page, µs")

# Without tools there is no list, and the path is answered with 404.
SCRIPT = """
import time, {module}
seconds = time.process_time()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
client, times = {module}.app.test_client(), []
for _ in range(101):
    started = time.process_time()
    client.get("/mcp/tools/list")
    times.append(time.process_time() - started)
print(seconds, int(status["VmRSS"].split()[0]) / 1024, times[0] * 1e3, sorted(times)[50] * 1e6)
"""

Numbers = dict[str, list[list[float]]]
"""By app, the numbers of `MEASURES`, each of them round by round."""


def start(name: str) -> list[float]:
    """Import an app in a new process, and return the numbers of `MEASURES`."""
    module, settings = APPS[name]
    env = {**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    return [float(word) for word in subprocess.check_output(command, env=env, cwd=ROOT, text=True).split()]


def measure(rounds: int) -> Numbers:
    """Start all apps in turn, after one start of each that compiles its modules."""
    for name in APPS:
        start(name)
    found = [{name: start(name) for name in APPS} for _ in range(rounds)]
    return {name: [list(values) for values in zip(*(each[name] for each in found), strict=True)] for name in APPS}


def targets_of(numbers: Numbers) -> list[Target]:
    """The targets for tools hold for operations, too."""
    (api, *_), (seconds, megabytes, first, page) = numbers[API], numbers[OPERATIONS]
    return [
        Target("start with its operations as tools over that of the API alone", ratio(seconds, api), 2),
        Target("memory, MB", statistics.median(megabytes), 45),
        Target("the first page, ms", statistics.median(first), 20),
        Target("a page over one of as many tools with JSON Schema", ratio(page, numbers[TOOLS][3]), 1.1),
    ]


def report(numbers: Numbers, rounds: int) -> str:
    rows = []
    for name, found in numbers.items():
        seconds, megabytes, first, page = map(statistics.median, found)
        pages = ["", ""] if name == API else [f"{first:.1f}", f"{page:,.0f}"]
        rows.append([name, f"{seconds:.2f}", f"{megabytes:.0f}", *pages])
    return f"""# Operations of an API as tools

Written by `make bench-operations`: medians of {rounds} processes of each app, which take turns. The OpenAPI document
has {SIZE} operations, and `add_openapi` gets it as a dict, so all of them become tools when the app starts.
The ratios are medians of those of each round.

{format_table([f"{SIZE} operations", *MEASURES], rows)}
{format_targets(targets_of(numbers))}"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--print", action="store_true", help="write no file")
    options = parser.parse_args()
    text = report(measure(options.rounds), options.rounds)
    sys.stdout.write(text)
    if not options.print:
        (Path(__file__).parent / "OPERATIONS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
