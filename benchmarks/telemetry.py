"""What traces, metrics and the audit trail add to a call: ``make bench-telemetry`` writes TELEMETRY.md.

The CPU time of one call of a small tool in this process, without a network. All variants take turns, so that a slow
moment of the machine is not one of them, and the fastest of many rounds counts. Nothing is exported.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

from flask import Flask
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import CollectorRegistry

from benchmarks.run import FOLDER
from benchmarks.table import format_table
from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.telemetry.audit import AuditLog
from flask_jsonrpc_mcp.telemetry.conventions import DURATION_BUCKETS
from flask_jsonrpc_mcp.telemetry.metrics import Prometheus
from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry
from tests.support import faces
from tests.telemetry.spans import Recorder

WARM_UP, CALLS = 5, 20
"""Calls of a round that do not count, because the caches of the CPU still have the variant before; and that do."""

MOST = 30.0
"""Microseconds that one kind of telemetry may add to a call, besides those of the OpenTelemetry SDK itself."""

NUMBERS = {"a": 1, "b": 2}
FACES = {"MCP 2026-07-28": faces.mcp_modern("add", NUMBERS), "REST": faces.rest("add", NUMBERS)}

OFF, API, PROMETHEUS, AUDIT = "off", "OpenTelemetry, API only", "Prometheus", "audit trail"
SDK, DROPPED = "OpenTelemetry, SDK", "OpenTelemetry, SDK, the sampler drops the trace"
BARE, BARE_DROPPED = f"{SDK}: its own part", f"{DROPPED}: its own part"
OWN_PARTS = {SDK: BARE, DROPPED: BARE_DROPPED}


def make_sdk(kind: str) -> dict[str, Any]:
    """Make the providers of an SDK that exports nothing; the histograms are aggregated, as they are in production."""
    sampler = ParentBased(TraceIdRatioBased(0)) if kind in (DROPPED, BARE_DROPPED) else None
    return {
        "tracer_provider": TracerProvider(sampler=sampler),
        "meter_provider": MeterProvider([InMemoryMetricReader()]),
    }


def make_options() -> dict[str, dict[str, Any]]:
    logger = logging.getLogger("benchmarks.audit")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return {
        OFF: {},
        API: {"telemetry": [OpenTelemetry()]},
        SDK: {"telemetry": [OpenTelemetry(**make_sdk(SDK))]},
        DROPPED: {"telemetry": [OpenTelemetry(**make_sdk(DROPPED))]},
        PROMETHEUS: {"telemetry": [Prometheus(access=[], registry=CollectorRegistry())]},
        AUDIT: {"audit": AuditLog(logger)},
    }


def make_call(options: dict[str, Any], asked: faces.Asked) -> Callable[[], None]:
    """Return a function that sends a request to an app of its own."""
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
        sent = {**environ, "wsgi.input": BytesIO(body)}
        sent.pop("werkzeug.request", None)
        b"".join(app.wsgi_app(sent, lambda status, headers, exc_info=None: lambda data: None))

    return call


def make_bare(kind: str, asked: faces.Asked) -> Callable[[], None]:
    """Return a function that makes the spans and the measurement of a call with the SDK alone, after such a call.

    They have the names, kinds and attributes of ours. After a call, because in a loop of its own the SDK would take
    half of the time: its code would stay in the caches of the CPU.
    """
    recorder = Recorder()
    make_call({"telemetry": [recorder.telemetry]}, asked)()
    spans = sorted(recorder.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    facts = [(span.name, span.kind, dict(span.attributes or {})) for span in spans]
    measured = [dict(point.attributes) for point in recorder.points("mcp.server.operation.duration")]
    sdk = make_sdk(kind)
    tracer = trace.get_tracer("bare", tracer_provider=sdk["tracer_provider"])
    histogram = (
        sdk["meter_provider"]
        .get_meter("bare")
        .create_histogram("duration", "s", explicit_bucket_boundaries_advisory=DURATION_BUCKETS)
    )
    call = make_call({}, asked)

    def call_and_trace() -> None:
        call()
        nest(0, otel_context.get_current())

    def nest(level: int, context: otel_context.Context) -> None:
        if level < len(facts):
            name, kind, attributes = facts[level]
            span = tracer.start_span(name, context, kind, attributes)
            context = trace.set_span_in_context(span, context)
            token = otel_context.attach(context)
            nest(level + 1, context)
            span.end()
            otel_context.detach(token)
        if level == 0:
            for labels in measured:
                histogram.record(0.001, labels, context)

    return call_and_trace


def measure(asked: faces.Asked, rounds: int) -> dict[str, float]:
    """Return the microseconds of one call, by variant."""
    calls = {name: make_call(options, asked) for name, options in make_options().items()}
    calls |= {name: make_bare(name, asked) for name in OWN_PARTS.values()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(WARM_UP):
                call()
            began = time.thread_time()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.thread_time() - began) / CALLS * 1e6)
    return best


def report(found: dict[str, dict[str, float]], rounds: int) -> str:
    tables = []
    for face, times in found.items():
        rows = []
        for name in (API, SDK, DROPPED, PROMETHEUS, AUDIT):
            added = times[name] - times[OFF]
            sdk = times[OWN_PARTS[name]] - times[OFF] if name in OWN_PARTS else 0.0
            verdict = "met" if added - sdk <= MOST else "not met"
            rows.append([name, f"{added:.0f}", f"{sdk:.0f}" if sdk else "", f"{added - sdk:.0f}", verdict])
        header = ["", "added µs", "by the SDK itself", "by this package", f"at most {MOST:.0f}"]
        tables.append(f"## {face}: {times[OFF]:.0f} µs a call\n\n{format_table(header, rows)}")
    return f"""# Telemetry

Written by `make bench-telemetry`: the CPU time that each kind of telemetry adds to a call of a small tool, in
process, without an exporter. All variants take turns, and the fastest of {rounds} rounds of {CALLS} calls counts.

An MCP call has two spans and a measurement of its duration, a REST call one span. What the OpenTelemetry SDK takes
for these, with the same names, kinds and attributes, is measured with the SDK alone: it is no part of the limit. The
audit trail goes to a logger that writes nothing.

{chr(10).join(tables)}"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--print", action="store_true", help="write no file")
    options = parser.parse_args()
    text = report({face: measure(asked, options.rounds) for face, asked in FACES.items()}, options.rounds)
    sys.stdout.write(text)
    if not options.print:
        (FOLDER / "TELEMETRY.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
