"""The settings ``app.config["JSONRPC_MCP_..."]`` and their defaults, set when the blueprint is registered."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask.sansio.app import App

from .envelope import MAX_BATCH
from .origins import is_secure_url, read_origin
from .strict_json import MAX_DEPTH

PREFIX = "JSONRPC_MCP_"

MAX_TASK_TTL = 100 * 365 * 24 * 60 * 60
"""Maximum seconds for which a task is kept: its end must be a date."""

GET_READ_ONLY, GET_ALL, GET_NONE = "read-only", "all", "none"
AS_DECLARED, NO_DOTS = "as-declared", "no-dots"

DEFAULTS: dict[str, Any] = {
    "SERVER_NAME": None,
    "SERVER_VERSION": "0.0.0",
    "INSTRUCTIONS": None,
    "PAGE_SIZE": 50,
    "ALLOWED_ORIGINS": (),
    "ALLOWED_HOSTS": None,
    "PUBLIC_URL": None,
    "OAUTH_ISSUER": None,
    "MAX_DEPTH": MAX_DEPTH,
    "MAX_BATCH": MAX_BATCH,
    "MAX_BATCH_BYTES": 4 * 1024 * 1024,
    "BATCH_TIMEOUT": 20,
    "MAX_OVERDUE": 8,
    "LIST_MAX_AGE": 0,
    "GET_METHODS": GET_READ_ONLY,
    "TOOL_NAME_STYLE": AS_DECLARED,
    "SESSION_MAX_AGE": 24 * 60 * 60,
    "MAILBOX": None,
    "ANSWER_TIMEOUT": 300,
    "MAX_WAITING": 4,
    "SUBSCRIPTIONS": False,
    "TASKS": "local",
    "TASKS_DATABASE": None,
    "TASK_THREADS": 2,
    "TASK_TTL": 24 * 60 * 60,
    "TASK_LEASE": 30,
    "TASK_WAIT": 0,
    "TASK_MAX_RESULT": 1024 * 1024,
    "MAX_TASKS": 100,
    "MAX_QUEUED": 10_000,
    "IS_ENDING": None,
    "DOCTOR_IGNORE": (),
    "DEMO_USERS": (),
}

MAX_BODY = 4 * 1024 * 1024
"""Maximum bytes of a request body if the app does not set ``MAX_CONTENT_LENGTH``."""


def set_defaults(app: App) -> None:
    """Set the defaults of missing settings, and check all of them.

    :raises ValueError: naming the setting.
    """
    for name, default in DEFAULTS.items():
        app.config.setdefault(PREFIX + name, default)
    for name, least in (
        ("PAGE_SIZE", 1),
        ("MAX_DEPTH", 2),
        ("MAX_BATCH", 0),
        ("MAX_BATCH_BYTES", 1),
        ("BATCH_TIMEOUT", 1),
        ("MAX_OVERDUE", 1),
        ("LIST_MAX_AGE", 0),
        ("SESSION_MAX_AGE", 1),
        ("ANSWER_TIMEOUT", 1),
        ("MAX_WAITING", 0),
        ("TASK_THREADS", 0),
        ("TASK_TTL", 1),
        ("TASK_LEASE", 1),
        ("TASK_WAIT", 0),
        ("TASK_MAX_RESULT", 1),
        ("MAX_TASKS", 1),
        ("MAX_QUEUED", 1),
    ):
        value = app.config[PREFIX + name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{PREFIX}{name} must be a whole number of at least {least}, not {value!r}")
    if app.config[PREFIX + "TASK_TTL"] > MAX_TASK_TTL:
        raise ValueError(f"{PREFIX}TASK_TTL must be at most {MAX_TASK_TTL}, not {app.config[PREFIX + 'TASK_TTL']!r}")
    for name, choices in (
        ("GET_METHODS", (GET_READ_ONLY, GET_ALL, GET_NONE)),
        ("TOOL_NAME_STYLE", (AS_DECLARED, NO_DOTS)),
    ):
        if app.config[PREFIX + name] not in choices:
            raise ValueError(f"{PREFIX}{name} must be one of {', '.join(map(repr, choices))}")
    is_ending = app.config[PREFIX + "IS_ENDING"]
    if is_ending is not None and not callable(is_ending):
        raise ValueError(f"{PREFIX}IS_ENDING must be a function that returns a bool, not {is_ending!r}")
    for name in ("ALLOWED_ORIGINS", "ALLOWED_HOSTS", "DOCTOR_IGNORE", "DEMO_USERS"):
        if isinstance(app.config[PREFIX + name], str):
            raise ValueError(f"{PREFIX}{name} must be a list; write [{app.config[PREFIX + name]!r}]")
    for origin in app.config[PREFIX + "ALLOWED_ORIGINS"]:
        if read_origin(origin) is None:
            raise ValueError(f"{PREFIX}ALLOWED_ORIGINS must be a list such as ['https://app.example'], not {origin!r}")
    public = app.config[PREFIX + "PUBLIC_URL"]
    if public is not None:
        if not isinstance(public, str) or not is_secure_url(public) or "?" in public:
            raise ValueError(
                f"{PREFIX}PUBLIC_URL must be the https URL of this app, such as 'https://site.example', not {public!r};"
                " http is only for localhost"
            )
        app.config[PREFIX + "PUBLIC_URL"] = public.rstrip("/")


def server_name(app: Flask) -> str:
    """Return the name of this server."""
    return app.config[PREFIX + "SERVER_NAME"] or app.name
