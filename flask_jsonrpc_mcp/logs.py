"""Where the log lines of calls are seen."""

from __future__ import annotations

import logging

import click
from flask.sansio.app import App


def show_calls(app: App) -> None:
    """Show the line of each call under ``flask run``, which would hide it: Flask's logger has the level WARNING.

    An app that sets a level for its logger, or for the root logger, keeps it.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.info_name != "run":
        return
    if app.logger.level == logging.NOTSET and logging.root.level == logging.WARNING:
        app.logger.setLevel(logging.INFO)
