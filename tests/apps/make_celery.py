"""What ``celery -A tests.apps.make_celery worker`` runs: the Celery app of the app in deployed_app.py."""

from __future__ import annotations

from tests.apps.deployed_app import create_app

flask_app = create_app()
celery_app = flask_app.extensions["celery"]
