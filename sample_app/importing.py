"""Import many articles: a long call that reports its progress while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from flask_jsonrpc_mcp import RpcError, ToolGroup, current_call

from .articles import MAX_BODY, MAX_TITLE
from .auth import WRITE, auth
from .content_types import find_content_type
from .db import transaction
from .limits import LINE_PATTERN, NAME_PATTERN, TEXT_PATTERN
from .models import Article

group = ToolGroup("articles")


@dataclass(frozen=True)
class Draft:
    """An article to import."""

    title: Annotated[
        str, "The headline, on one line", {"minLength": 1, "maxLength": MAX_TITLE, "pattern": LINE_PATTERN}
    ]
    body: Annotated[str, "The text, in Markdown", {"maxLength": MAX_BODY, "pattern": TEXT_PATTERN}] = ""
    type: Annotated[str, "The name of a content type", {"pattern": NAME_PATTERN}] = "news"


@group.tool(
    "import",
    title="Import articles",
    destructive=False,
    access=["create content"],
    scopes=WRITE,
    streams=True,
    task=True,
)
def import_articles(articles: Annotated[list[Draft], {"minItems": 1, "maxItems": 500}]) -> list[int]:
    """Create many articles in your name, all or none of them, and return their ids."""
    with transaction() as session:
        imported = []
        for number, draft in enumerate(articles, 1):
            if current_call.cancelled:
                raise RpcError("The import was cancelled; nothing was imported")
            content_type = find_content_type(session, draft.type)
            article = Article(title=draft.title, body=draft.body, content_type=content_type, author=auth.current_user())
            session.add(article)
            session.flush()
            imported.append(article.id)
            current_call.progress(number, len(articles), draft.title)
    return imported
