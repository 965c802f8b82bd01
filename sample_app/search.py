"""Full-text search, described by JSON Schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import or_, select

from flask_jsonrpc_mcp import ToolGroup

from .db import current_session
from .limits import TEXT_PATTERN
from .models import Article

group = ToolGroup("articles")

EXCERPT_MARGIN = 60

PARAMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "The words to look for, as they stand in the text; case does not matter",
            "minLength": 2,
            "maxLength": 100,
            "pattern": TEXT_PATTERN,
            "examples": ["compost"],
        },
        "within": {
            "type": "array",
            "description": "Where to look",
            "items": {"enum": ["title", "body"]},
            "minItems": 1,
            "maxItems": 2,
            "default": ["title", "body"],
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
    },
    "required": ["query"],
    "additionalProperties": False,
}

OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "matches": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "title": {"type": "string"},
                    "excerpt": {"type": "string", "description": "The text around the first match"},
                },
                "required": ["id", "title", "excerpt"],
            },
        },
    },
    "required": ["matches"],
}


@group.tool("search", title="Search articles", read_only=True, params=PARAMS, output=OUTPUT)
def search_articles(query: str, within: Sequence[str] = ("title", "body"), limit: int = 10) -> dict[str, Any]:
    """Find articles by words in their title or text, newest first."""
    columns = {"title": Article.title, "body": Article.body}
    found = current_session().scalars(
        select(Article)
        .where(or_(*(columns[name].icontains(query, autoescape=True) for name in within)))
        .order_by(Article.created.desc(), Article.id.desc())
        .limit(limit)
    )
    return {
        "matches": [
            {"id": article.id, "title": article.title, "excerpt": _excerpt(article.body, query)} for article in found
        ]
    }


def _excerpt(body: str, query: str) -> str:
    text = " ".join(body.split())
    position = max(text.lower().find(query.lower()), 0)
    start, end = max(position - EXCERPT_MARGIN, 0), position + len(query) + EXCERPT_MARGIN
    return ("…" if start > 0 else "") + text[start:end] + ("…" if end < len(text) else "")
