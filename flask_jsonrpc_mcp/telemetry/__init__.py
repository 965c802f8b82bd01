"""What an operator sees: traces (OpenTelemetry), metrics (Prometheus) and an audit trail.

Each module is on its own, and nothing here is imported unless an app does so: ``tracing`` needs the extra ``otel``,
``metrics`` the extra ``prometheus``, ``audit_table`` SQLAlchemy.

All of them use what the rest of the package offers: the hooks and observers of a `Registry`, which cost nothing while
they are empty.
"""
