"""What an operator sees: traces (OpenTelemetry), metrics (Prometheus) and an audit trail.

An app imports the modules it uses: ``tracing`` needs the extra ``otel``, ``metrics`` the extra ``prometheus``,
``audit_table`` SQLAlchemy. The rest of the package imports none of them.

All of them add functions to the hooks and observers of a `Registry`, which cost nothing while they are empty.
"""
