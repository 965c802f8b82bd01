"""`CeleryTasks`: runs tasks on the workers of the Celery app that a team has already.

A message in the broker holds the id of a task and nothing else. It may be lost, repeated or late, because
the row of the task decides who runs it.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down
from flask import Flask, current_app
from kombu.connection import Connection

from ..config import PREFIX
from .running import ENGINE, keeper_of, run

RUN = "flask_jsonrpc_mcp.run"
"""The name of the Celery task."""

TIMEOUT = 2
"""Seconds that one step of sending a message may take, unless ``broker_transport_options`` says otherwise."""

PAUSE = 5.0
"""Seconds without another try after the broker could not be reached. Tasks are stored meanwhile, and offered later."""

_REDIS = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT, "retry_on_timeout": False}
_AMQP = {"read_timeout": TIMEOUT, "write_timeout": TIMEOUT}
_TIMEOUTS: dict[str, dict[str, Any]] = {"redis": _REDIS, "rediss": _REDIS, "amqp": _AMQP, "amqps": _AMQP}
"""Transport options by the scheme of the broker's URL."""


class CeleryTasks:
    """Runs tasks on the workers of a Celery app.

    :param celery: The Celery app; by default ``app.extensions["celery"]``.
    :param queue: The queue of tools that name none; by default the one that Celery chooses.
    """

    def __init__(self, celery: Celery | None = None, *, queue: str | None = None) -> None:
        self._celery = celery
        self._queue = queue
        self._lock = threading.Lock()
        self._connected: tuple[int, Connection] | None = None
        self._broken_until = 0.0

    def init_app(self, app: Flask) -> None:
        """Add the Celery task that runs tasks of this app.

        :raises RuntimeError: if the app has no Celery app.
        """
        celery = self._celery_of(app)

        @celery.task(name=RUN, ignore_result=True, acks_late=False, serializer="json")  # type: ignore[untyped-decorator]
        def run_task(task_id: str) -> None:
            with app.app_context():
                run(task_id)

        # Settles expired leases and offers late tasks again, even while no task runs.
        def keep(sender: Any, **ignored: object) -> None:
            if sender.app is celery:
                keeper_of(app, ENGINE, sender.pool.num_processes).start(stays=True)

        def let_keeper_end(**ignored: object) -> None:
            keeper_of(app).stop()

        worker_ready.connect(keep, weak=False)
        worker_shutting_down.connect(let_keeper_end, weak=False)

    def offer(self, task_id: str, queue: str | None) -> None:
        """Send the id of a task to the broker.

        :raises Exception: if the broker cannot be reached, or has not been a moment ago.
        """
        celery = self._celery_of(current_app)
        with self._lock:
            if time.monotonic() < self._broken_until:
                raise ConnectionError("the broker of Celery cannot be reached")
            try:
                # One try, and the id not in logs and monitors: it is all that an anonymous caller's task needs.
                celery.tasks[RUN].apply_async(
                    (task_id,),
                    queue=queue or self._queue,
                    connection=self._connection(celery),
                    retry=False,
                    argsrepr="(...)",
                )
            except Exception:
                self._broken_until = time.monotonic() + PAUSE
                self._disconnect()
                raise

    def _celery_of(self, app: Flask) -> Celery:
        celery = self._celery or app.extensions.get("celery")
        if not isinstance(celery, Celery):
            raise RuntimeError(
                f"{PREFIX}TASKS is 'celery', and app.extensions['celery'] has no Celery app:"
                " create it before you register the blueprint, or pass McpBlueprint(tasks=CeleryTasks(celery_app))"
            )
        return celery

    def _connection(self, celery: Celery) -> Connection:
        """Return a connection of this process, which gives up where those of Celery's pool would wait."""
        if self._connected is None or self._connected[0] != os.getpid():
            scheme = str(celery.conf.broker_write_url or celery.conf.broker_url or "amqp").partition(":")[0]
            options = {**_TIMEOUTS.get(scheme, {}), **celery.conf.broker_transport_options}
            made = celery.connection_for_write(connect_timeout=TIMEOUT, transport_options=options)
            self._connected = os.getpid(), made
        return self._connected[1]

    def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            with suppress(Exception):  # it is broken already
                connected[1].release()  # type: ignore[no-untyped-call]
