"""A small content site that uses the package as a real site would."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from flask import Flask

from . import (
    articles,
    auth,
    config,
    content_types,
    db,
    importing,
    login,
    maintenance,
    markdown,
    reading,
    reporting,
    search,
    start_page,
    traces,
)
from .rpc import rpc

for group in (
    articles.group,
    content_types.group,
    importing.group,
    maintenance.site,
    maintenance.cache,
    markdown.group,
    reading.group,
    reporting.group,
    search.group,
):
    rpc.add_group(group)


def create_app(settings: Mapping[str, Any] | None = None) -> Flask:
    """Create the app.

    :param settings: Values for ``app.config``, which replace those of the environment.
    """
    app = Flask(__name__)
    config.configure(app, settings or {})
    # The blueprint logs one line per call at this level; Flask's own default is WARNING.
    app.logger.setLevel(logging.INFO)
    db.init_app(app)
    if auth.oauth_server:
        app.register_blueprint(auth.oauth_server)
        login.init_app(app)
    traces.init_app(app)
    if "CELERY" in app.config:  # set by several_machines.py
        from . import background  # Celery is an extra

        background.init_app(app)
    app.register_blueprint(rpc)
    start_page.init_app(app)
    return app
