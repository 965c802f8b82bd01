"""A slow report that can run as a task: clients that support tasks get a handle and do not wait."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from sqlalchemy import select

from flask_jsonrpc_mcp import RpcError, ToolGroup, current_call

from .db import current_session
from .models import Article, count_words

group = ToolGroup("articles")


@dataclass(frozen=True)
class Report:
    """The totals of all articles."""

    articles: int
    words: int
    longest: str | None


@group.tool("report", title="Report on all articles", read_only=True, task=True)
def report(
    pause: Annotated[
        float, "Seconds to pause after each article, to make the report slow", {"minimum": 0, "maximum": 5}
    ] = 0,
) -> Report:
    """Read all articles, and report how many words they have and which is the longest."""
    articles = list(current_session().scalars(select(Article).order_by(Article.id)))
    words: dict[str, int] = {}
    for number, article in enumerate(articles, 1):
        if current_call.cancelled:
            raise RpcError(f"The report was cancelled after {number - 1} of {len(articles)} articles")
        words[article.title] = count_words(article.body)
        current_call.progress(number, len(articles), article.title)
        time.sleep(pause)
    return Report(len(articles), sum(words.values()), max(words, key=lambda title: words[title], default=None))
