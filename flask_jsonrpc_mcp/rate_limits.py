"""Rate limits of a blueprint, counted by the app's Flask-Limiter.

Flask-Limiter's decorators count requests to a view. This counts calls, because one request can have a batch of them.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from flask import current_app

from .auth import Caller
from .errors import RateLimited

if TYPE_CHECKING:
    from flask_limiter import Limiter
    from limits import RateLimitItem


class RateLimits:
    """Counts the calls of a blueprint.

    :param blueprint: The name of the blueprint, which is part of the counters' keys.
    :param limiter: The app's Flask-Limiter object, which decides where the counters are stored.
    :param per_caller: A limit for all calls of one caller, such as ``"100/minute"``.
    """

    def __init__(self, blueprint: str, limiter: Limiter | None, per_caller: str | None) -> None:
        self._blueprint = blueprint
        self._limiter = limiter
        self.per_caller = self.parse(per_caller)

    def parse(self, limits: str | None) -> tuple[RateLimitItem, ...]:
        """Parse limits such as ``"10/minute; 100/hour"``.

        :raises ValueError: if they are malformed, or there is no limiter.
        """
        if limits is None:
            return ()
        if self._limiter is None:
            raise ValueError("a rate limit needs a limiter; pass McpBlueprint(limiter=...) a Flask-Limiter object")
        from limits import parse_many  # installed with Flask-Limiter, which is an extra

        return tuple(parse_many(limits))

    def count(self, caller: Caller) -> None:
        """Count a call.

        :raises RateLimited: if it exceeds the limit of the caller.
        """
        self._hit(self.per_caller, caller, "caller")

    def count_method(self, caller: Caller, kind: str, name: str, limits: tuple[RateLimitItem, ...]) -> None:
        """Count a run of one method.

        :raises RateLimited: if it exceeds the limit of the method.
        """
        # With the kind, because a prompt may have the name of a tool.
        self._hit(limits, caller, f"{kind}:{name}")

    def _hit(self, limits: tuple[RateLimitItem, ...], caller: Caller, scope: str) -> None:
        if self._limiter is None or not self._limiter.enabled:
            return
        key = ("flask-jsonrpc-mcp", self._blueprint, scope, caller.principal or f"address:{caller.address}")
        for limit in limits:
            try:
                within = self._limiter.limiter.hit(limit, *key)
            except Exception:
                if not current_app.config.get("RATELIMIT_SWALLOW_ERRORS"):
                    raise
                current_app.logger.exception("the storage of the rate limits cannot be reached")
                return
            if not within:
                reset: Any = self._limiter.limiter.get_window_stats(limit, *key).reset_time
                raise RateLimited(max(1, math.ceil(reset - time.time())))
