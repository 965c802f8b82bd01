"""What ``celery -A tests.apps.make_celery worker`` runs: the Celery app of the app in tasks_app.py."""

from __future__ import annotations

from tests.apps.tasks_app import create_app

flask_app = create_app()
celery_app = flask_app.extensions["celery"]
