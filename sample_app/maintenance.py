"""Maintain the site: check its health, and rebuild the word counts that are stored with articles."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from flask import current_app
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from flask_jsonrpc_mcp import ToolGroup

from .auth import WRITE
from .config import VERSION
from .db import current_engine, transaction
from .models import Article, count_words

site = ToolGroup("site")
cache = ToolGroup("cache")

LEAST_FREE_SPACE = 50 * 1024 * 1024


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    milliseconds: float


@dataclass(frozen=True)
class Health:
    """The results of all checks."""

    status: Literal["ok", "failing"]
    checks: list[Check]


@site.tool("health", title="Health of the site", read_only=True)
async def site_health() -> Health:
    """Check the database and the disk, both at once."""
    checks = await asyncio.gather(
        asyncio.to_thread(_check, "database", _database_answers),
        asyncio.to_thread(_check, "disk", _disk_has_room),
    )
    return Health("ok" if all(check.ok for check in checks) else "failing", list(checks))


@cache.tool(
    "rebuild",
    title="Rebuild the caches",
    destructive=False,
    idempotent=True,
    access=["administer site configuration"],
    scopes=WRITE,
)
def rebuild_cache() -> bool:
    """Count the words of all articles again, for example after an import. Returns true."""
    with transaction() as session:
        for article in session.scalars(select(Article)):
            article.word_count = count_words(article.body)
    return True


# Not a tool: programs call it on /jsonrpc, and models do not need it.
@site.method("version")
def site_version() -> str:
    """Return the version of the site."""
    return VERSION


def _check(name: str, passes: Callable[[], bool]) -> Check:
    started = time.perf_counter()
    ok = passes()
    return Check(name, ok, round((time.perf_counter() - started) * 1000, 1))


def _database_answers() -> bool:
    try:
        # Not the session of the request: this runs in another thread, and a session belongs to one.
        with current_engine().connect() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        current_app.logger.exception("the database does not answer")
        return False
    return True


def _disk_has_room() -> bool:
    return shutil.disk_usage(current_app.root_path).free >= LEAST_FREE_SPACE
