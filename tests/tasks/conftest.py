"""Services for all tests of tasks."""

from __future__ import annotations

from tests.support.services import broker, postgres, postgres_url

__all__ = ["broker", "postgres", "postgres_url"]
