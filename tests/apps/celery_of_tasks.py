"""The worker of the app in tasks_app.py: ``celery -A tests.apps.celery_of_tasks worker``."""

from __future__ import annotations

from tests.apps.tasks_app import create_app

celery_app = create_app().extensions["celery"]
