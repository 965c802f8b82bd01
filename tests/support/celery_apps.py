"""The Celery app of a Flask app, as the documentation of Flask has it."""

from __future__ import annotations

from celery import Celery, Task
from flask import Flask


def add_celery(app: Flask) -> Celery:
    """Make the Celery app of a Flask app, whose tasks run in its context."""

    class FlaskTask(Task):  # type: ignore[misc]
        def __call__(self, *args: object, **kwargs: object) -> object:
            with app.app_context():
                return self.run(*args, **kwargs)

    made = Celery(app.name, task_cls=FlaskTask)
    made.config_from_object(app.config["CELERY"])
    made.set_default()
    app.extensions["celery"] = made
    return made
