"""What traces, metrics and the audit trail add to a call: ``make bench-telemetry``.

The CPU time of one call of a small tool in this process, without a network. All variants take turns, so that a slow
moment of the machine is not one of them, and the fastest of many rounds counts. No spans are exported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

from flask import Flask
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.telemetry.audit import AuditLog
from flask_jsonrpc_mcp.telemetry.metrics import Prometheus
from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry
from tests.support import faces

ROUNDS, CALLS = 100, 20
MOST = 30.0
"""Microseconds that one kind of telemetry may add to a call, for CONTRIBUTING: compare, and do not only read."""


def make_options() -> dict[str, dict[str, Any]]:
    logger = logging.getLogger("benchmarks.audit")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return {
        "off": {},
        "OpenTelemetry, API only": {"telemetry": [OpenTelemetry()]},
        "OpenTelemetry, SDK without an exporter": {"telemetry": [OpenTelemetry(tracer_provider=TracerProvider())]},
        "Prometheus": {"telemetry": [Prometheus(access=[], registry=CollectorRegistry())]},
        "audit trail": {"audit": AuditLog(logger)},
    }


def make_caller(options: dict[str, Any], asked: faces.Asked) -> Callable[[], None]:
    rpc = McpBlueprint(**options)

    @rpc.tool("add")
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    app = Flask("app")
    app.register_blueprint(rpc)
    environ = app.test_request_context(
        asked.path, method="POST", json=asked.payload, headers=dict(asked.headers)
    ).request.environ
    body = environ["wsgi.input"].read()

    def call() -> None:
        for _ in range(CALLS):
            sent = {**environ, "wsgi.input": BytesIO(body)}
            sent.pop("werkzeug.request", None)
            b"".join(app.wsgi_app(sent, lambda status, headers, exc_info=None: lambda data: None))

    return call


def measure(asked: faces.Asked) -> dict[str, float]:
    """Return the microseconds of one call, by variant."""
    callers = {name: make_caller(options, asked) for name, options in make_options().items()}
    best = dict.fromkeys(callers, float("inf"))
    for _ in range(ROUNDS):
        for name, call in callers.items():
            began = time.thread_time()
            call()
            best[name] = min(best[name], (time.thread_time() - began) / CALLS * 1e6)
    return best


def main() -> None:
    numbers = {"a": 1, "b": 2}
    for face, asked in (("MCP 2026-07-28", faces.mcp_modern("add", numbers)), ("REST", faces.rest("add", numbers))):
        found = measure(asked)
        print(f"{face}: {found['off']:.0f} µs a call")
        for name, microseconds in found.items():
            if name != "off":
                print(f"  {name:40} +{microseconds - found['off']:.1f} µs (at most {MOST:.0f})")


if __name__ == "__main__":
    main()
