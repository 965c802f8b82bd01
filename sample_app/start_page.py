"""The start page of the site, for people: what it is, who can sign in, and how to try it."""

from __future__ import annotations

import shlex

from flask import Flask, Response, current_app, make_response, render_template, url_for

from .auth import ISSUER
from .config import allows_demo_users
from .demo_users import DEMO_USERS

POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

CURL = """curl %s \\
  -H 'Content-Type: application/json' \\
  -d '{"name": "articles.search", "arguments": {"query": "compost"}}'"""
CLAUDE = "claude mcp add --transport http garden %s"
HEADER = ' \\\n  --header "Authorization: Bearer %s"'


def init_app(app: Flask) -> None:
    app.add_url_rule("/", "start", start)


def start() -> Response:
    """Show the page. The demo users are on it where they can sign in."""
    users = DEMO_USERS if allows_demo_users(current_app) else ()
    # With an authorization server the client signs in by itself.
    header = HEADER % users[-1].token if users and not ISSUER else ""
    page = render_template(
        "start.html",
        users=users,
        curl=CURL % shlex.quote(url_for("mcp.invoke_tool", _external=True)),
        claude=CLAUDE % shlex.quote(url_for("mcp.mcp", _external=True)) + header,
    )
    response = make_response(page)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
