"""Content types: the kinds of articles there are."""

from __future__ import annotations

from typing import Annotated, TypedDict

from marshmallow import fields, validate
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from flask_jsonrpc_mcp import RpcError, ToolGroup

from .auth import WRITE
from .db import current_session, transaction
from .limits import LINE_PATTERN, NAME_PATTERN, TEXT_PATTERN
from .models import Article, ContentType

group = ToolGroup("content_types")

TypeFilter = Annotated[str | None, "Only articles of the content type with this name", {"pattern": NAME_PATTERN}]


class ContentTypeInfo(TypedDict):
    """A content type as it is shown."""

    name: Annotated[str, "What other methods call it"]
    label: str
    description: str
    articles: Annotated[int, "How many articles are of this type"]


# The list rarely changes and is the same for everyone, so a cache may keep it for a minute; see docs/caching.md.
@group.tool("list", title="List content types", read_only=True, max_age=60)
def list_content_types() -> list[ContentTypeInfo]:
    """List the kinds of articles there are, by name."""
    rows = current_session().execute(
        select(ContentType, func.count(Article.id))
        .outerjoin(Article, Article.content_type_id == ContentType.id)
        .group_by(ContentType.id)
        .order_by(ContentType.name)
    )
    return [_as_shown(content_type, articles) for content_type, articles in rows]


@group.tool(
    "create",
    title="Create a content type",
    destructive=False,
    params={
        "name": fields.String(
            required=True,
            validate=validate.Regexp(NAME_PATTERN),
            metadata={"description": "Lower case letters, digits and underscores", "examples": ["event"]},
        ),
        "label": fields.String(
            required=True,
            validate=[validate.Length(min=1, max=64), validate.Regexp(LINE_PATTERN)],
            metadata={"description": "What readers see"},
        ),
        "description": fields.String(
            load_default="", validate=[validate.Length(max=1000), validate.Regexp(TEXT_PATTERN)]
        ),
    },
    access=["administer content types"],
    scopes=WRITE,
)
def create_content_type(name: str, label: str, description: str) -> ContentTypeInfo:
    """Create a content type and return it."""
    try:
        with transaction() as session:
            content_type = ContentType(name=name, label=label, description=description)
            session.add(content_type)
    except IntegrityError as error:
        # Not checked before the insert: another worker could take the name in between.
        raise RpcError(f"Content type '{name}' already exists", status=409) from error
    return _as_shown(content_type, articles=0)


def find_content_type(session: Session, name: str) -> ContentType:
    """Find a content type by its name.

    :raises RpcError: if it does not exist.
    """
    content_type = session.scalar(select(ContentType).where(ContentType.name == name))
    if content_type is None:
        raise RpcError(f"Content type '{name}' does not exist; content_types.list names those that do", status=404)
    return content_type


def _as_shown(content_type: ContentType, articles: int) -> ContentTypeInfo:
    return {
        "name": content_type.name,
        "label": content_type.label,
        "description": content_type.description,
        "articles": articles,
    }
