"""The settings of the site: defaults, then the environment, then the argument of `create_app`."""

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
    # Any value but "development" means that others can reach the site, so it is safe to forget this setting.
    "SITE_ENV": "production",
    # Whether the demo users may sign in outside of development.
    "ALLOW_DEMO_USERS": False,
    # Clients may listen for changes; each listening client holds a thread of gunicorn.
    "JSONRPC_MCP_SUBSCRIPTIONS": True,
    "JSONRPC_MCP_SERVER_NAME": "elm-street-garden",
    "JSONRPC_MCP_SERVER_VERSION": VERSION,
    "JSONRPC_MCP_INSTRUCTIONS": (
        "The site of a neighbourhood garden: news, guides and recipes."
        " Anyone may list, read and search articles; sign in to write them."
    ),
    # Findings of `flask mcp doctor` that are intended here, and why.
    "JSONRPC_MCP_DOCTOR_IGNORE": [
        "name-dots",  # most clients accept dots; for others, set JSONRPC_MCP_TOOL_NAME_STYLE
        "public-read",  # reading needs no account; the doctor still finds public tools that write
        "demo-users",  # outside of development they cannot sign in
        "granian-streams",  # this site runs under gunicorn
    ],
    "JSONRPC_MCP_DEMO_USERS": [demo.username for demo in DEMO_USERS],
    # Browsers send a cookie to all ports of a host, and other apps on this machine may have a "session" too.
    "SESSION_COOKIE_NAME": "garden_session",
    "SESSION_COOKIE_SAMESITE": "Lax",
}
FROM_ENVIRONMENT = ("DATABASE_URL", "SECRET_KEY", "SITE_ENV")


def configure(app: Flask, settings: Mapping[str, Any]) -> None:
    """Set ``app.config``.

    All settings can come from the environment with Flask's prefix, such as
    ``FLASK_JSONRPC_MCP_ALLOWED_HOSTS='["garden.example"]'``; those of `FROM_ENVIRONMENT` also without it.
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
        # Not the same file: SQLite has one writer at a time, and an import is one long transaction.
        tasks = Path(database.database).with_name("tasks.sqlite3")
        app.config.setdefault("JSONRPC_MCP_TASKS_DATABASE", URL.create("sqlite", database=str(tasks)))
    if app.config["SECRET_KEY"] is None:
        app.config["SECRET_KEY"] = _kept_secret(_instance_folder(app) / "secret_key")
    app.config["SESSION_COOKIE_SECURE"] = (app.config.get("JSONRPC_MCP_PUBLIC_URL") or "").startswith("https:")


def knows_its_url() -> bool:
    """Return whether the site knows the URL that clients use, which OAuth needs.

    In development it is the URL of the request, which comes from this machine.
    """
    return os.environ.get("SITE_ENV") == "development" or bool(os.environ.get("FLASK_JSONRPC_MCP_PUBLIC_URL"))


def is_development(app: Flask) -> bool:
    """Return whether only the developer can reach this site: in debug mode, in tests, or ``SITE_ENV=development``."""
    return app.debug or app.testing or app.config["SITE_ENV"] == "development"


def allows_demo_users(app: Flask) -> bool:
    """Return whether the demo users, whose passwords are public, may sign in."""
    return is_development(app) or app.config["ALLOW_DEMO_USERS"] is True


def _instance_folder(app: Flask) -> Path:
    folder = Path(app.instance_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept_secret(file: Path) -> str:
    """Read the secret key of this machine, and create it if it is missing.

    All workers must sign with the same key, also after a restart, so a process cannot have its own. A site on several
    machines sets ``SECRET_KEY`` instead.
    """
    if not file.exists():
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_hex(32))
        try:
            # Unlike a rename, a link does not replace the key that another process has created meanwhile.
            file.hardlink_to(draft)
        except FileExistsError:
            pass
        draft.unlink()
    return file.read_text()
