"""The settings of a deployment: ``app.config["JSONRPC_MCP_..."]``, with safe defaults set at registration."""

from __future__ import annotations

from typing import Any

from flask.sansio.app import App

from .current import this_app
from .envelope import MAX_BATCH
from .origins import read_origin
from .strict_json import MAX_DEPTH

PREFIX = "JSONRPC_MCP_"

GET_READ_ONLY, GET_ALL, GET_NONE = "read-only", "all", "none"
AS_DECLARED, NO_DOTS = "as-declared", "no-dots"

DEFAULTS: dict[str, Any] = {
    "SERVER_NAME": None,
    "SERVER_VERSION": "0.0.0",
    "INSTRUCTIONS": None,
    "PAGE_SIZE": 50,
    "ALLOWED_ORIGINS": (),
    "ALLOWED_HOSTS": None,
    "MAX_DEPTH": MAX_DEPTH,
    "MAX_BATCH": MAX_BATCH,
    "MAX_OVERDUE": 8,
    "LIST_MAX_AGE": 0,
    "GET_METHODS": GET_READ_ONLY,
    "TOOL_NAME_STYLE": AS_DECLARED,
    "SESSION_MAX_AGE": 24 * 60 * 60,
    "MAILBOX": None,
    "ANSWER_TIMEOUT": 300,
    "MAX_WAITING": 4,
    "SUBSCRIPTIONS": False,
    "MAX_LISTENERS": 4,
    "IS_ENDING": None,
    "DOCTOR_IGNORE": (),
}

MAX_BODY = 4 * 1024 * 1024
"""The most bytes a request body may have when the app sets no ``MAX_CONTENT_LENGTH``."""


def set_defaults(app: App) -> None:
    """Fill in what the app has not set, and refuse what cannot work.

    :raises ValueError: naming the setting.
    """
    for name, default in DEFAULTS.items():
        app.config.setdefault(PREFIX + name, default)
    app.config[PREFIX + "SERVER_NAME"] = app.config[PREFIX + "SERVER_NAME"] or app.name
    for name, least in (
        ("PAGE_SIZE", 1),
        ("MAX_DEPTH", 2),
        ("MAX_BATCH", 0),
        ("MAX_OVERDUE", 1),
        ("LIST_MAX_AGE", 0),
        ("SESSION_MAX_AGE", 1),
        ("ANSWER_TIMEOUT", 1),
        ("MAX_WAITING", 1),
        ("MAX_LISTENERS", 1),
    ):
        value = app.config[PREFIX + name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{PREFIX}{name} must be a whole number of at least {least}, not {value!r}")
    for name, choices in (
        ("GET_METHODS", (GET_READ_ONLY, GET_ALL, GET_NONE)),
        ("TOOL_NAME_STYLE", (AS_DECLARED, NO_DOTS)),
    ):
        if app.config[PREFIX + name] not in choices:
            raise ValueError(f"{PREFIX}{name} must be one of {', '.join(map(repr, choices))}")
    is_ending = app.config[PREFIX + "IS_ENDING"]
    if is_ending is not None and not callable(is_ending):
        raise ValueError(f"{PREFIX}IS_ENDING must be a function that tells whether the server stops, not {is_ending!r}")
    for name in ("ALLOWED_ORIGINS", "ALLOWED_HOSTS", "DOCTOR_IGNORE"):
        if isinstance(app.config[PREFIX + name], str):
            raise ValueError(f"{PREFIX}{name} must be a list; write [{app.config[PREFIX + name]!r}]")
    for origin in app.config[PREFIX + "ALLOWED_ORIGINS"]:
        if read_origin(origin) is None:
            raise ValueError(f"{PREFIX}ALLOWED_ORIGINS must be a list such as ['https://app.example'], not {origin!r}")


def setting(name: str) -> Any:
    """Read a setting of the current app."""
    return this_app().config[PREFIX + name]


def server_name() -> str:
    """Return the name by which this server goes."""
    return str(setting("SERVER_NAME") or this_app().name)


def server_info() -> dict[str, str]:
    """Tell MCP clients who answers them."""
    config = this_app().config
    return {"name": config[PREFIX + "SERVER_NAME"] or server_name(), "version": config[PREFIX + "SERVER_VERSION"]}
