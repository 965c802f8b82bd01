"""The spans of an app, in plain values to compare, with the names of the spans around them in place of ids."""

from __future__ import annotations

from typing import Any

from flask import Flask
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry


class Recorder:
    """An SDK that keeps what it gets, and the telemetry that sends it there."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.telemetry = OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def instrument(self, app: Flask) -> None:
        """Trace the HTTP requests of an app, as apps do."""
        FlaskInstrumentor().instrument_app(app, tracer_provider=self.tracers)  # type: ignore[no-untyped-call]

    def take(self) -> list[dict[str, Any]]:
        """Return the spans since the last time, in the order of their beginning."""
        spans = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        self.exporter.clear()
        names = {span.context.span_id: span.name for span in spans}
        return [_plain(span, names) for span in spans]

    def points(self, metric: str) -> list[Any]:
        """Return the data points of a metric."""
        read = self.reader.get_metrics_data()
        metrics = [m for r in read.resource_metrics for s in r.scope_metrics for m in s.metrics] if read else []
        return [point for each in metrics if each.name == metric for point in each.data.data_points]


def _plain(span: ReadableSpan, names: dict[int, str]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": span.name,
        "kind": span.kind.name,
        "parent": None if span.parent is None else names.get(span.parent.span_id, f"{span.parent.span_id:016x}"),
        "attributes": {key: value for key, value in (span.attributes or {}).items() if key != "jsonrpc_mcp.call.id"},
    }
    if span.links:
        plain["links"] = [names[link.context.span_id] for link in span.links]
    if not span.status.is_unset:
        plain["status"] = (span.status.status_code.name, span.status.description)
    if span.events:
        plain["events"] = [event.name for event in span.events]
    return plain
