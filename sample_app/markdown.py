"""Articles as Markdown, one or all of them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from flask_jsonrpc_mcp import ToolGroup

from .articles import ArticleId, find_article
from .content_types import TypeFilter
from .db import current_session
from .models import Article, ContentType

group = ToolGroup("articles")


@group.tool("to_markdown", title="Article as Markdown", read_only=True)
def article_to_markdown(id: ArticleId) -> str:
    """Return one article as a Markdown document."""
    return as_markdown(find_article(current_session(), id))


@group.tool("export", title="Export articles", read_only=True)
def export_articles(type: TypeFilter = None) -> Iterator[str]:
    """Return all articles as one Markdown document, oldest first."""
    articles = select(Article).order_by(Article.created, Article.id)
    if type is not None:
        articles = articles.where(Article.content_type.has(ContentType.name == type))
    separator = ""
    # Load a few at a time, so that not all articles are in memory.
    for article in current_session().scalars(articles.execution_options(yield_per=50)):
        yield separator + as_markdown(article)
        separator = "\n---\n\n"


def as_markdown(article: Article) -> str:
    """Make a Markdown document of an article."""
    byline = f"*{article.content_type.label}, {article.created:%d %B %Y}, by {article.author.username}*"
    return f"# {article.title}\n\n{byline}\n\n{article.body.strip()}\n"
