"""The start page: what the site is, the demo users, and how to try the tools."""

from __future__ import annotations

import shlex

from flask import Flask, Response, current_app, make_response, render_template, url_for

from .auth import oauth, oauth_server, signed_in_user
from .config import allows_demo_users
from .demo_users import DEMO_USERS
from .login import form_token

POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

CURL = """curl %s \\
  -H 'Content-Type: application/json' \\
  -d '{"name": "articles.search", "arguments": {"query": "compost"}}'"""
CLAUDE = "claude mcp add --transport http garden %s"
HEADER = ' \\\n  --header "Authorization: Bearer %s"'


def init_app(app: Flask) -> None:
    app.add_url_rule("/", "start", start)


def start() -> Response:
    """Show the page, with the demo users if they can sign in."""
    users = DEMO_USERS if allows_demo_users(current_app) else ()
    # With OAuth the client signs in by itself.
    header = HEADER % users[-1].token if users and not oauth else ""
    user = signed_in_user() if oauth_server else None
    page = render_template(
        "start.html",
        users=users,
        has_oauth=oauth is not None,
        has_login=oauth_server is not None,
        user=user,
        form_token=form_token() if user else None,
        curl=CURL % shlex.quote(url_for("mcp.invoke_tool", _external=True)),
        claude=CLAUDE % shlex.quote(url_for("mcp.mcp", _external=True)) + header,
    )
    response = make_response(page)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
