"""Trace the site with OpenTelemetry if ``OTEL_EXPORTER`` is set: ``console`` prints spans, ``otlp`` sends them.

The packages for it are in the extra ``sample-telemetry``, so this imports them only if they are needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flask import Flask

from .db import EXTENSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

    from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry

EXPORTER = os.environ.get("OTEL_EXPORTER")


def make_telemetry() -> list[OpenTelemetry]:
    """Return the value of ``telemetry=`` for the blueprint."""
    if not EXPORTER:
        return []
    from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry

    return [OpenTelemetry()]


def init_app(app: Flask) -> None:
    """Start the SDK, and trace the requests and the database of the app."""
    if not EXPORTER:
        return
    from opentelemetry import trace
    from opentelemetry.instrumentation.flask import FlaskInstrumentor
    from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(resource=Resource.create({"service.name": app.config["JSONRPC_MCP_SERVER_NAME"]}))
    provider.add_span_processor(_make_processor())
    trace.set_tracer_provider(provider)
    FlaskInstrumentor().instrument_app(app)  # type: ignore[no-untyped-call]
    # It works with SQLAlchemy 2.1, but does not declare that yet, so its own check would skip the instrumentation.
    SQLAlchemyInstrumentor().instrument(engine=app.extensions[EXTENSION], skip_dep_check=True)


def _make_processor() -> SpanProcessor:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    if EXPORTER == "console":
        return SimpleSpanProcessor(ConsoleSpanExporter())
    if EXPORTER == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return BatchSpanProcessor(OTLPSpanExporter())  # to OTEL_EXPORTER_OTLP_ENDPOINT
    raise ValueError(f"OTEL_EXPORTER must be console or otlp, not {EXPORTER!r}")
