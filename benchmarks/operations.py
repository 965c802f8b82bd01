"""300 operations of an API as tools: start, memory, a page, a call: ``python -m benchmarks.operations``.

Each number is the median of several processes, beside that of the same app without tools, and of 300 tools that are
declared with JSON Schema.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from benchmarks.contenders import ROOT
from benchmarks.table import spell_table

SIZE, STARTS = 300, 5
OPERATIONS, TOOLS = "benchmarks.apps.many_operations", "benchmarks.apps.many_tools"
APPS = {
    "the API alone": (OPERATIONS, {"BENCH_OPERATIONS": str(SIZE)}),
    "its operations as tools": (OPERATIONS, {"BENCH_OPERATIONS": str(SIZE), "BENCH_TOOLS_FROM": "1"}),
    "as many tools with JSON Schema": (TOOLS, {"BENCH_TOOLS": str(SIZE), "BENCH_SCHEMAS": "1"}),
}

START = """
import time, {module}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(time.process_time(), int(status["VmRSS"].split()[0]) / 1024)
"""
PAGE = """
import time, {module}
client, times = {module}.app.test_client(), []
for _ in range(101):
    started = time.process_time()
    response = client.get("/mcp/tools/list")
    times.append(time.process_time() - started)
print(times[0] * 1e3, sorted(times)[50] * 1e6)
"""


def measure(script: str, module: str, settings: dict[str, str]) -> list[float]:
    """Run a script in new processes, and return the median of each number that it prints."""
    command, env = [sys.executable, "-c", script.format(module=module)], {**os.environ, **settings}
    printed = [subprocess.check_output(command, env=env, cwd=ROOT, text=True) for _ in range(STARTS)]
    return [statistics.median(numbers) for numbers in zip(*(map(float, text.split()) for text in printed), strict=True)]


def main() -> None:
    rows = []
    for title, (module, settings) in APPS.items():
        seconds, megabytes = measure(START, module, settings)
        row = [title, f"{seconds:.2f}", f"{megabytes:.0f}"]
        if title != "the API alone":
            first, later = measure(PAGE, module, settings)
            row += [f"{first:.1f}", f"{later:,.0f}"]
        rows.append([*row, "", ""][:5])
    print(spell_table([f"{SIZE} operations", "start, s of CPU", "MB", "first page, ms", "page, µs"], rows))


if __name__ == "__main__":
    main()
