"""The settings of the site: defaults, then the environment, then what the caller of the factory gives."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import URL, make_url

from .demo_users import DEMO_USERS

VERSION = "1.0.0"

DEFAULTS: dict[str, Any] = {
    "DATABASE_URL": None,
    "SECRET_KEY": None,
    # Anything but "development" is taken for a site that others can reach, so forgetting to set it is safe.
    "SITE_ENV": "production",
    # Whether the demo users may sign in outside of development.
    "ALLOW_DEMO_USERS": False,
    # Clients may listen for changes; each that does holds a thread of gunicorn.
    "JSONRPC_MCP_SUBSCRIPTIONS": True,
    "JSONRPC_MCP_SERVER_NAME": "elm-street-garden",
    "JSONRPC_MCP_SERVER_VERSION": VERSION,
    "JSONRPC_MCP_INSTRUCTIONS": (
        "The site of a neighbourhood garden: news, guides and recipes."
        " Anyone may list, read and search articles; sign in to write them."
    ),
    # What `flask mcp doctor` would say, and why it is meant to be so here.
    "JSONRPC_MCP_DOCTOR_IGNORE": [
        "name-dots",  # the clients this site is shown with take dots; others set JSONRPC_MCP_TOOL_NAME_STYLE
        "public-read",  # a public site: reading needs no account, and writing for all is still found
        "demo-users",  # they are there to be tried; outside of development they cannot sign in
        "granian-streams",  # this site runs under gunicorn
    ],
    "JSONRPC_MCP_DEMO_USERS": [demo.username for demo in DEMO_USERS],
    # Cookies do not tell ports apart, and other apps on this machine may have a "session" too.
    "SESSION_COOKIE_NAME": "garden_session",
    "SESSION_COOKIE_SAMESITE": "Lax",
}
FROM_ENVIRONMENT = ("DATABASE_URL", "SECRET_KEY", "SITE_ENV")


def configure(app: Flask, settings: Mapping[str, Any]) -> None:
    """Fill in ``app.config``.

    Every other setting can be given in the environment as Flask does it, for example
    ``FLASK_JSONRPC_MCP_ALLOWED_HOSTS='["garden.example"]'``.
    """
    app.config.from_mapping(DEFAULTS)
    app.config.from_prefixed_env()
    app.config.from_mapping({name: os.environ[name] for name in FROM_ENVIRONMENT if os.environ.get(name)})
    app.config.from_mapping(settings)
    if app.config["DATABASE_URL"] is None:
        file = _instance_folder(app) / "site.sqlite3"
        app.config["DATABASE_URL"] = URL.create("sqlite", database=str(file))
    database = make_url(app.config["DATABASE_URL"])
    if database.get_backend_name() != "sqlite":
        app.config.setdefault("JSONRPC_MCP_TASKS_DATABASE", database)
    elif database.database not in (None, "", ":memory:"):
        # Not the same file: SQLite has one writer at a time, and an import writes for as long as it takes.
        tasks = Path(database.database).with_name("tasks.sqlite3")
        app.config.setdefault("JSONRPC_MCP_TASKS_DATABASE", URL.create("sqlite", database=str(tasks)))
    if app.config["SECRET_KEY"] is None:
        app.config["SECRET_KEY"] = _kept_secret(_instance_folder(app) / "secret_key")
    app.config["SESSION_COOKIE_SECURE"] = (app.config.get("JSONRPC_MCP_PUBLIC_URL") or "").startswith("https:")


def knows_its_url() -> bool:
    """Return whether the site knows the URL that clients use, which OAuth needs.

    In development that is the URL of the request, which comes from this machine.
    """
    return os.environ.get("SITE_ENV") == "development" or bool(os.environ.get("FLASK_JSONRPC_MCP_PUBLIC_URL"))


def is_development(app: Flask) -> bool:
    """Return whether only the developer can reach this site: debugging, testing, or ``SITE_ENV=development``."""
    return app.debug or app.testing or app.config["SITE_ENV"] == "development"


def allows_demo_users(app: Flask) -> bool:
    """Return whether the demo users may sign in, whose passwords everyone knows."""
    return is_development(app) or app.config["ALLOW_DEMO_USERS"] is True


def _instance_folder(app: Flask) -> Path:
    folder = Path(app.instance_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept_secret(file: Path) -> str:
    """Read the secret of this machine, made at the first start.

    Every worker, and the server after a restart, must sign with the same key, so it cannot be made per process.
    A site on several machines sets ``SECRET_KEY`` instead.
    """
    if not file.exists():
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_hex(32))
        try:
            # Unlike a rename, a link never replaces the key that another process has put there meanwhile.
            file.hardlink_to(draft)
        except FileExistsError:
            pass
        draft.unlink()
    return file.read_text()
