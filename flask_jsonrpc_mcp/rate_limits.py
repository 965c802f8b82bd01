"""Rate limits, by the app's own Flask-Limiter: so many calls per caller, and so many of one method per caller.

Flask-Limiter's decorators count requests to a view; we count calls, because one request can carry a batch of them.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from .access import Caller
from .current import this_app
from .errors import RateLimited

if TYPE_CHECKING:
    from flask_limiter import Limiter
    from limits import RateLimitItem


class RateLimits:
    """Counts the calls of a blueprint.

    :param blueprint: Its name, which tells its counts from those of another one.
    :param limiter: The app's Flask-Limiter, which says where the counts are kept: in each process, or in Redis.
    :param per_caller: How many calls one caller may make, such as ``"100/minute"``.
    """

    def __init__(self, blueprint: str, limiter: Limiter | None, per_caller: str | None) -> None:
        self._blueprint = blueprint
        self._limiter = limiter
        self.per_caller = self.parse(per_caller)

    def parse(self, limits: str | None) -> tuple[RateLimitItem, ...]:
        """Read limits such as ``"10/minute; 100/hour"``.

        :raises ValueError: when they cannot be read, or there is nothing to count them with.
        """
        if limits is None:
            return ()
        if self._limiter is None:
            raise ValueError("a rate limit needs a limiter; pass McpBlueprint(limiter=...) a Flask-Limiter object")
        from limits import parse_many  # the extra is installed, or there would be no limiter

        return tuple(parse_many(limits))

    def count(self, caller: Caller) -> None:
        """Count a call of a caller.

        :raises RateLimited: when it is one too many.
        """
        self._hit(self.per_caller, caller, "caller")

    def count_method(self, caller: Caller, kind: str, name: str, limits: tuple[RateLimitItem, ...]) -> None:
        """Count a run of one method by a caller; a prompt may have the name of a tool."""
        self._hit(limits, caller, f"{kind}:{name}")

    def _hit(self, limits: tuple[RateLimitItem, ...], caller: Caller, scope: str) -> None:
        if self._limiter is None or not self._limiter.enabled:
            return
        identity = ("flask-jsonrpc-mcp", self._blueprint, scope, caller.principal or f"address:{caller.address}")
        for limit in limits:
            try:
                within = self._limiter.limiter.hit(limit, *identity)
            except Exception:
                if not this_app().config.get("RATELIMIT_SWALLOW_ERRORS"):
                    raise
                this_app().logger.exception("the counts of rate limits cannot be reached")
                return
            if not within:
                reset: Any = self._limiter.limiter.get_window_stats(limit, *identity).reset_time
                raise RateLimited(max(1, math.ceil(reset - time.time())))
