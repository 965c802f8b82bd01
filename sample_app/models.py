"""The tables: users with roles and permissions, and articles with content types."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Column, DateTime, Dialect, ForeignKey, String, Table, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, validates
from werkzeug.security import generate_password_hash


class Base(DeclarativeBase):
    """The base class of all models."""


class UtcDateTime(TypeDecorator[datetime]):
    """A time with a timezone, stored in UTC, because SQLite does not store offsets."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(timezone.utc).replace(tzinfo=None)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=timezone.utc)


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def digest_of(token: str) -> str:
    """Hash a bearer token. Tokens are long and random, so a fast hash does; a password needs a slow one."""
    return hashlib.sha256(token.encode()).hexdigest()


def count_words(text: str) -> int:
    return len(text.split())


user_roles = Table(
    "user_roles",
    Base.metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("role_id", ForeignKey("roles.id"), primary_key=True),
)

role_permissions = Table(
    "role_permissions",
    Base.metadata,
    Column("role_id", ForeignKey("roles.id"), primary_key=True),
    Column("permission_id", ForeignKey("permissions.id"), primary_key=True),
)


class Permission(Base):
    """A permission, such as "create content"."""

    __tablename__ = "permissions"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)


class Role(Base):
    """A set of permissions under one name."""

    __tablename__ = "roles"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    permissions: Mapped[list[Permission]] = relationship(secondary=role_permissions, lazy="selectin")


class User(Base):
    """A user who can sign in by password or by bearer token. Only hashes of both are stored."""

    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    username: Mapped[str] = mapped_column(String(64), unique=True)
    password_hash: Mapped[str] = mapped_column(String(255))
    token_digest: Mapped[str | None] = mapped_column(String(64), unique=True)
    roles: Mapped[list[Role]] = relationship(secondary=user_roles)

    @property
    def permissions(self) -> set[str]:
        return {permission.name for role in self.roles for permission in role.permissions}

    def set_password(self, password: str) -> None:
        self.password_hash = generate_password_hash(password)


class ContentType(Base):
    """A kind of article."""

    __tablename__ = "content_types"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(32), unique=True)
    label: Mapped[str] = mapped_column(String(64))
    description: Mapped[str] = mapped_column(Text, default="")


class Article(Base):
    """An article."""

    __tablename__ = "articles"
    # Without this, SQLite reuses the id of a deleted article, and old links lead to another article.
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 (SQLAlchemy's own way)

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(String(200))
    body: Mapped[str] = mapped_column(Text, default="")
    word_count: Mapped[int] = mapped_column(default=0)
    created: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now, index=True)
    updated: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    content_type_id: Mapped[int] = mapped_column(ForeignKey("content_types.id"), index=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    content_type: Mapped[ContentType] = relationship(lazy="joined", innerjoin=True)
    author: Mapped[User] = relationship(lazy="joined", innerjoin=True)

    @validates("body")
    def _count_words(self, key: str, body: str) -> str:
        self.word_count = count_words(body)
        return body
