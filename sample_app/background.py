"""The Celery app of the site, where one is configured: ``make serve-celery`` runs it."""

from __future__ import annotations

from celery import Celery, Task
from flask import Flask


def init_app(app: Flask) -> None:
    """Make the Celery app whose tasks run in the context of the site, as the documentation of Flask describes it."""

    class SiteTask(Task):  # type: ignore[misc]
        def __call__(self, *args: object, **kwargs: object) -> object:
            with app.app_context():
                return self.run(*args, **kwargs)

    celery = Celery(app.name, task_cls=SiteTask)
    celery.config_from_object(app.config["CELERY"])
    celery.set_default()
    app.extensions["celery"] = celery
