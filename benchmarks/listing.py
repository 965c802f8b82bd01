"""What a page of the list costs with few and with many tools, as a ratio within one run.

Run it with ``make bench-list``. Every round measures both sizes, one after the other, so that whatever else the machine
does hits both; the ratio of the medians is what counts, not the microseconds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool

FEW, MANY = 100, 10_000
ROUNDS, CALLS = 15, 200


def make_app(count: int) -> tuple[Flask, float]:
    """Build an app with so many tools, half of them behind a permission, and time it."""

    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    mcp_tool(add)
    started = time.perf_counter()
    rpc = McpBlueprint()
    for number in range(count):
        rpc.add_method(f"tool-{number}", add, access=["write"] if number % 2 else [])
    app = Flask(__name__)
    app.register_blueprint(rpc)
    return app, time.perf_counter() - started


def page_of(app: Flask) -> Callable[[], None]:
    client = app.test_client()

    def page() -> None:
        assert client.get("/mcp/tools/list").status_code == 200

    return page


def invocation_of(app: Flask) -> Callable[[], None]:
    client = app.test_client()

    def invoke() -> None:
        body = {"name": "tool-0", "arguments": {"a": 1, "b": 2}}
        assert client.post("/mcp/tools/invoke", json=body).status_code == 200

    return invoke


def measure(few: Callable[[], None], many: Callable[[], None]) -> tuple[float, float]:
    """Return the median microseconds of one call of each."""
    samples: dict[Callable[[], None], list[float]] = {few: [], many: []}
    for _ in range(ROUNDS):
        for call in (few, many):
            started = time.process_time()
            for _ in range(CALLS):
                call()
            samples[call].append((time.process_time() - started) / CALLS * 1e6)
    return statistics.median(samples[few]), statistics.median(samples[many])


def main() -> None:
    few_app, few_start = make_app(FEW)
    many_app, many_start = make_app(MANY)
    few_page, many_page = page_of(few_app), page_of(many_app)
    started = time.perf_counter()
    many_page()
    first_sight = time.perf_counter() - started
    few_page()
    print(f"registering {FEW} tools {few_start * 1e3:.0f} ms, {MANY} tools {many_start * 1e3:.0f} ms")
    print(f"first page of {MANY} tools, before anything is remembered: {first_sight * 1e3:.1f} ms")
    for what, few, many in (
        ("a page of list", few_page, many_page),
        ("an invocation", invocation_of(few_app), invocation_of(many_app)),
    ):
        few_us, many_us = measure(few, many)
        print(f"{what}: {few_us:.0f} µs with {FEW} tools, {many_us:.0f} µs with {MANY}: ratio {many_us / few_us:.2f}")


if __name__ == "__main__":
    main()
