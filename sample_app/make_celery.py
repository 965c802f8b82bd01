"""The Celery app for workers: ``celery -A sample_app.make_celery worker``."""

from __future__ import annotations

from sample_app import create_app

flask_app = create_app()
celery_app = flask_app.extensions["celery"]
