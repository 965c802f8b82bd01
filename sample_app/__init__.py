"""A small content site: every way of annotating a method, in the place where a real site would use it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from flask import Flask

# Importing a topic adds its methods to the blueprint.
from . import articles, config, content_types, db, importing, maintenance, markdown, reading, search  # noqa: F401
from .rpc import rpc


def create_app(settings: Mapping[str, Any] | None = None) -> Flask:
    """Make the site.

    :param settings: What goes into ``app.config`` instead of what the environment says.
    """
    app = Flask(__name__)
    config.configure(app, settings or {})
    # The blueprint logs one line per call at this level; Flask's own default is WARNING.
    app.logger.setLevel(logging.INFO)
    db.init_app(app)
    app.register_blueprint(rpc)
    return app
