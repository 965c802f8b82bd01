"""Looking after the site: its health, its version, and the word counts it keeps beside its articles."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypedDict

from flask import current_app
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from flask_jsonrpc_mcp import mcp_tool

from .config import VERSION
from .db import current_engine, current_session, transaction
from .models import Article, ContentType, count_words
from .rpc import rpc

LEAST_FREE_SPACE = 50 * 1024 * 1024


@dataclass(frozen=True)
class Check:
    """What one check found."""

    name: str
    ok: bool
    milliseconds: float


@dataclass(frozen=True)
class Health:
    """What all checks found."""

    status: Literal["ok", "failing"]
    checks: list[Check]


class WordCount(TypedDict):
    """How much there is to read of one content type."""

    type: str
    articles: int
    words: int


@rpc.method("site.health")
@mcp_tool(title="Health of the site", annotations={"readOnlyHint": True})
async def site_health() -> Health:
    """Check the database and the disk, both at once."""
    checks = await asyncio.gather(
        asyncio.to_thread(_check, "database", _database_answers),
        asyncio.to_thread(_check, "disk", _disk_has_room),
    )
    return Health("ok" if all(check.ok for check in checks) else "failing", list(checks))


@rpc.method("articles.word_counts")
@mcp_tool(title="Word counts", annotations={"readOnlyHint": True})
def word_counts() -> Iterator[WordCount]:
    """Tell for each content type how many articles and words there are."""
    rows = current_session().execute(
        select(ContentType.name, func.count(), func.sum(Article.word_count))
        .join(Article, Article.content_type_id == ContentType.id)
        .group_by(ContentType.name)
        .order_by(ContentType.name)
    )
    for name, articles, words in rows:
        yield {"type": name, "articles": articles, "words": int(words)}


@rpc.method("cache.rebuild", access=["administer site configuration"])
@mcp_tool(title="Rebuild the caches", annotations={"destructiveHint": False, "idempotentHint": True})
def rebuild_cache() -> bool:
    """Count the words of all articles again, for example after an import. Returns true."""
    with transaction() as session:
        for article in session.scalars(select(Article)):
            article.word_count = count_words(article.body)
    return True


# Not marked with @mcp_tool: programs may ask for it on /jsonrpc, models need not see it.
@rpc.method("site.version")
def site_version() -> str:
    """Tell which version of the site this is."""
    return VERSION


def _check(name: str, passes: Callable[[], bool]) -> Check:
    started = time.perf_counter()
    ok = passes()
    return Check(name, ok, round((time.perf_counter() - started) * 1000, 1))


def _database_answers() -> bool:
    try:
        # A connection of its own: this runs in another thread than the request, whose session must stay where it is.
        with current_engine().connect() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        current_app.logger.exception("the database does not answer")
        return False
    return True


def _disk_has_room() -> bool:
    return shutil.disk_usage(current_app.root_path).free >= LEAST_FREE_SPACE
