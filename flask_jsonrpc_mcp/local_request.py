"""Request contexts without an HTTP request: for the command line, the doctor, and tasks in a worker."""

from __future__ import annotations

from typing import Any

from flask import Flask


def local_request_context(app: Flask, path: str, **options: Any) -> Any:
    """Return the context of a request that no client has sent, with a host that the app trusts.

    :param options: More arguments of ``app.test_request_context``.
    """
    trusted = app.config["TRUSTED_HOSTS"]
    if trusted and not app.config["SERVER_NAME"]:
        path = f"{app.config['PREFERRED_URL_SCHEME']}://{trusted[0].lstrip('.')}{path}"
    return app.test_request_context(path, **options)


def mcp_path(app: Flask, blueprint: str) -> str | None:
    """Return the path of a blueprint's MCP endpoint; ``None`` if its prefix has variables."""
    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    return None if rule.arguments else rule.rule
