"""Show the log lines of calls under ``flask run``."""

from __future__ import annotations

import logging

import click
from flask.sansio.app import App


def show_calls(app: App) -> None:
    """Set the level of ``app.logger`` to INFO under ``flask run``, because Flask's default WARNING hides these lines.

    An app that sets a level for its logger, or for the root logger, keeps it.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.info_name != "run":
        return
    if app.logger.level == logging.NOTSET and logging.root.level == logging.WARNING:
        app.logger.setLevel(logging.INFO)
