"""Articles as resources, and a prompt that asks for a summary of one."""

from __future__ import annotations

from typing import Annotated, Literal

from sqlalchemy import String, cast, select

from flask_jsonrpc_mcp import EmbeddedResource, PromptMessage, ToolGroup

from .articles import ArticleId, find_article
from .db import current_session
from .markdown import as_markdown
from .models import Article

group = ToolGroup("articles")

MARKDOWN = "text/markdown"
MAX_SUGGESTIONS = 20


@group.resource("articles://latest", title="The newest article", mime_type=MARKDOWN)
def latest_article() -> str | None:
    """The article that was written last, as Markdown."""
    article = current_session().scalar(select(Article).order_by(Article.created.desc(), Article.id.desc()).limit(1))
    return None if article is None else as_markdown(article)


@group.resource("articles://{id}", title="An article", mime_type=MARKDOWN)
def article(id: ArticleId) -> str | None:
    """One article as Markdown, by its id."""
    found = current_session().get(Article, id)
    return None if found is None else as_markdown(found)


@group.prompt("summarise", title="Summarise an article")
def summarise_article(
    id: ArticleId,
    length: Annotated[Literal["one sentence", "one paragraph", "bullet points"], "How long"] = "one paragraph",
) -> list[PromptMessage]:
    """Ask for a summary of one article, with the article at hand."""
    found = find_article(current_session(), id)
    return [
        PromptMessage(EmbeddedResource(f"articles://{id}", as_markdown(found), MARKDOWN)),
        PromptMessage(f"Summarise the article above in {length}, for someone who has not read it."),
    ]


@group.completer("summarise", "id")
@group.completer("articles://{id}", "id")
def complete_article_id(value: str) -> list[str]:
    """The ids that begin with what was typed, newest article first."""
    begins = cast(Article.id, String).startswith(value, autoescape=True)
    newest = select(Article.id).where(begins).order_by(Article.created.desc(), Article.id.desc())
    return [str(found) for found in current_session().scalars(newest.limit(MAX_SUGGESTIONS))]
