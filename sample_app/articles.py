"""Articles: list, read, count, write, delete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypedDict

from marshmallow import Schema, fields, validate
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from flask_jsonrpc_mcp import RpcError, ToolGroup

from .auth import WRITE, auth
from .content_types import TypeFilter, find_content_type
from .db import current_session, transaction
from .limits import LINE_PATTERN, MAX_INTEGER, NAME_PATTERN, TEXT_PATTERN
from .models import Article, ContentType, utc_now
from .rpc import rpc

group = ToolGroup("articles")

MAX_TITLE = 200
MAX_BODY = 100_000

ArticleId = Annotated[int, "The id of the article", {"minimum": 1, "maximum": MAX_INTEGER}]


@dataclass(frozen=True)
class ArticleSummary:
    """An article as it appears in a list."""

    id: int
    title: str
    type: Annotated[str, "The name of its content type"]
    author: str
    created: datetime
    word_count: int


@dataclass(frozen=True)
class ArticlePage:
    """Some of the articles, newest first."""

    items: list[ArticleSummary]
    total: Annotated[int, "How many articles there are on all pages"]
    next_offset: Annotated[int | None, "The offset of the next page; null on the last one"]


@dataclass(frozen=True)
class FullArticle(ArticleSummary):
    """An article with its text."""

    updated: datetime
    body: str


class WordCount(TypedDict):
    """How much there is to read of one content type."""

    type: str
    articles: int
    words: int


class NewArticle(Schema):
    """The arguments to create an article."""

    title = fields.String(
        required=True,
        validate=[validate.Length(min=1, max=MAX_TITLE), validate.Regexp(LINE_PATTERN)],
        metadata={"description": "The headline, on one line"},
    )
    body = fields.String(
        load_default="",
        validate=[validate.Length(max=MAX_BODY), validate.Regexp(TEXT_PATTERN)],
        metadata={"description": "The text, in Markdown"},
    )
    type = fields.String(
        load_default="news",
        validate=validate.Regexp(NAME_PATTERN),
        metadata={"description": "The name of a content type, from content_types.list"},
    )


class CreatedArticle(Schema):
    """A new article, dumped from the database model."""

    id = fields.Integer(required=True)
    title = fields.String(required=True)
    type = fields.String(required=True, attribute="content_type.name")
    author = fields.String(required=True, attribute="author.username")
    created = fields.DateTime(required=True)
    word_count = fields.Integer(required=True)
    body = fields.String(required=True)


@group.tool("list", title="List articles", read_only=True)
def list_articles(
    limit: Annotated[int, "How many articles to return at most", {"minimum": 1, "maximum": 100}] = 10,
    offset: Annotated[int, "How many articles to skip", {"minimum": 0, "maximum": MAX_INTEGER}] = 0,
    type: TypeFilter = None,
) -> ArticlePage:
    """List articles, newest first, one page at a time."""
    session = current_session()
    wanted = [] if type is None else [Article.content_type.has(ContentType.name == type)]
    total = session.scalar(select(func.count()).select_from(Article).where(*wanted)) or 0
    newest_first = select(Article).where(*wanted).order_by(Article.created.desc(), Article.id.desc())
    articles = session.scalars(newest_first.limit(limit).offset(offset))
    end = offset + limit
    return ArticlePage(
        items=[_summary_of(article) for article in articles],
        total=total,
        next_offset=end if end < total else None,
    )


@group.tool("get", title="Read an article", read_only=True)
def get_article(id: ArticleId) -> FullArticle:
    """Return one article with its text."""
    return _full_article(find_article(current_session(), id))


@group.tool(title="Word counts", read_only=True)
def word_counts() -> Iterator[WordCount]:
    """Count articles and words by content type."""
    rows = current_session().execute(
        select(ContentType.name, func.count(), func.sum(Article.word_count))
        .join(Article, Article.content_type_id == ContentType.id)
        .group_by(ContentType.name)
        .order_by(ContentType.name)
    )
    for name, articles, words in rows:
        yield {"type": name, "articles": articles, "words": int(words)}


@group.tool(
    "create",
    title="Create an article",
    destructive=False,
    params=NewArticle,
    output=CreatedArticle,
    access=["create content"],
    scopes=WRITE,
)
def create_article(title: str, body: str, type: str) -> Article:
    """Create an article in your name and return it."""
    with transaction() as session:
        article = Article(
            title=title, body=body, content_type=find_content_type(session, type), author=auth.current_user()
        )
        session.add(article)
    return article


@group.tool(
    "update", title="Change an article", destructive=True, idempotent=True, access=["edit content"], scopes=WRITE
)
def update_article(
    id: ArticleId,
    title: Annotated[
        str | None, "The new headline", {"minLength": 1, "maxLength": MAX_TITLE, "pattern": LINE_PATTERN}
    ] = None,
    body: Annotated[str | None, "The new text, in Markdown", {"maxLength": MAX_BODY, "pattern": TEXT_PATTERN}] = None,
    type: Annotated[str | None, "The name of the new content type", {"pattern": NAME_PATTERN}] = None,
) -> FullArticle:
    """Change an article and return it. What is left out stays as it is."""
    with transaction() as session:
        article = find_article(session, id)
        if title is not None:
            article.title = title
        if body is not None:
            article.body = body
        if type is not None:
            article.content_type = find_content_type(session, type)
        if session.is_modified(article):
            article.updated = utc_now()
    rpc.notify_changed(f"articles://{id}")
    return _full_article(article)


@group.tool(
    "delete",
    title="Delete an article",
    destructive=True,
    confirm="Delete article {id} for good?",
    access=["delete content"],
    scopes=WRITE,
)
def delete_article(id: ArticleId) -> bool:
    """Delete an article for good. Returns true."""
    with transaction() as session:
        session.delete(find_article(session, id))
    rpc.notify_changed(f"articles://{id}")
    return True


def find_article(session: Session, id: int) -> Article:
    """Find an article.

    :raises RpcError: if it does not exist.
    """
    article = session.get(Article, id)
    if article is None:
        raise RpcError(f"Article {id} does not exist", status=404)
    return article


def _summary_of(article: Article) -> ArticleSummary:
    return ArticleSummary(
        id=article.id,
        title=article.title,
        type=article.content_type.name,
        author=article.author.username,
        created=article.created,
        word_count=article.word_count,
    )


def _full_article(article: Article) -> FullArticle:
    return FullArticle(**vars(_summary_of(article)), updated=article.updated, body=article.body)
