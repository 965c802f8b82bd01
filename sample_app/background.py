"""The Celery app of the site, if ``CELERY`` is configured, as by ``make serve-celery``."""

from __future__ import annotations

from celery import Celery, Task
from flask import Flask


def init_app(app: Flask) -> None:
    """Create the Celery app, as in Flask's documentation: its tasks run in the app context of the site."""

    class SiteTask(Task):  # type: ignore[misc]
        def __call__(self, *args: object, **kwargs: object) -> object:
            with app.app_context():
                return self.run(*args, **kwargs)

    celery = Celery(app.name, task_cls=SiteTask)
    celery.config_from_object(app.config["CELERY"])
    celery.set_default()
    app.extensions["celery"] = celery
