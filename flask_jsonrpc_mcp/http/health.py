"""``GET /mcp/health``: whether the app answers, and with ``?ready`` whether it can reach its dependencies.

The route is public, so the response has no addresses and no error texts; these are in the log. Each dependency is
checked at most every `CHECK_EVERY` seconds, however often the route is requested.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import Request, Response, current_app

from ..auth import Caller
from ..registry import Registry
from .io import json_response, rest_error
from .routes import Route

CHECK_EVERY = 5.0
EXTENSION = "jsonrpc_mcp_health"


@dataclass
class _Checks:
    """The last results for one blueprint of one app.

    :param reached: When each dependency was last reached, by a monotonic clock.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    checked: float | None = None
    ok: dict[str, bool] = field(default_factory=dict)
    reached: dict[str, float] = field(default_factory=dict)

    def update(self, registry: Registry) -> None:
        """Check all dependencies, unless another thread is doing so, or did so within `CHECK_EVERY` seconds."""
        if not self.lock.acquire(blocking=self.checked is None):
            return
        try:
            if self.checked is None or time.monotonic() - self.checked >= CHECK_EVERY:
                for name, check in registry.readiness.items():
                    self.ok[name] = self._is_reached(name, check)
                self.checked = time.monotonic()
        finally:
            self.lock.release()

    def _is_reached(self, name: str, check: Callable[[], float | None]) -> bool:
        try:
            age = check() or 0.0
        except Exception as error:
            facts = {"check": name, "reason": f"{type(error).__name__}: {error}"}
            current_app.logger.warning("not ready: %(check)s: %(reason)s", facts, extra=facts)
            return False
        self.reached[name] = time.monotonic() - age
        return True

    def describe(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            name: {"ok": ok, "age": round(now - self.reached[name], 1) if name in self.reached else None}
            for name, ok in self.ok.items()
        }


def health(request: Request, registry: Registry, caller: Caller) -> Response:
    if "ready" not in request.args:
        return json_response({"status": "ok"})
    states: dict[Registry, _Checks] = current_app.extensions.setdefault(EXTENSION, {})
    checks = states.setdefault(registry, _Checks())
    checks.update(registry)
    is_ready = all(checks.ok.values())
    response = json_response({"status": "ok" if is_ready else "unavailable", "checks": checks.describe()})
    response.status_code = 200 if is_ready else 503
    return response


ROUTES = (Route("/mcp/health", "health", {"GET": health}, rest_error, open=True, any_host=True),)
