"""What a team writes without this package: Celery behind two routes, with Celery's own result backend."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery
from flask import Flask

app = Flask(__name__)
celery_app = Celery("plain", broker=os.environ["BROKER"], backend=os.environ["BROKER"])


@celery_app.task  # type: ignore[untyped-decorator]
def clock() -> float:
    """Return when this runs."""
    return time.time()


@app.post("/start")
def start() -> dict[str, str]:
    return {"id": clock.delay().id}


@app.get("/result/<id>")
def result(id: str) -> dict[str, Any]:
    found = celery_app.AsyncResult(id)
    return {"value": found.get() if found.ready() else None}
