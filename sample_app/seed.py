"""Create the tables, and fill them with the demo site if they are empty: ``python -m sample_app.seed``."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from . import create_app
from .config import is_development
from .db import current_engine, transaction
from .demo_articles import CONTENT_TYPES, DEMO_ARTICLES
from .demo_users import DEMO_USERS, ROLES
from .models import Article, Base, ContentType, Permission, Role, User, digest_of

FIRST_ARTICLE = datetime(2025, 3, 1, 9, 30, tzinfo=timezone.utc)
BETWEEN_ARTICLES = timedelta(days=19, hours=5)


def seed(app: Flask) -> bool:
    """Create missing tables, and the demo site if the database has no users. Existing rows are not changed.

    :returns: Whether the demo site was created.
    """
    with app.app_context():
        Base.metadata.create_all(current_engine())
        try:
            with transaction() as session:
                if session.scalar(select(User).limit(1)) is not None:
                    return False
                _add_site(session)
        except IntegrityError:
            # Another server has just done the same; user names are unique, so nothing is inserted twice.
            return False
    return True


def warn_about_demo_users(app: Flask) -> None:
    """Log a warning if anyone can sign in as a demo user to a site that others can reach."""
    if app.config["ALLOW_DEMO_USERS"] is True and not is_development(app):
        names = " and ".join(demo.username for demo in DEMO_USERS)
        app.logger.warning("SECURITY: ALLOW_DEMO_USERS is set, so anyone can sign in as %s", names)


def _add_site(session: Session) -> None:
    permissions = {name: Permission(name=name) for names in ROLES.values() for name in names}
    roles = {role: Role(name=role, permissions=[permissions[name] for name in names]) for role, names in ROLES.items()}
    users = {}
    for demo in DEMO_USERS:
        user = User(username=demo.username, token_digest=digest_of(demo.token), roles=[roles[demo.role]])
        user.set_password(demo.password)
        users[demo.username] = user
    content_types = {
        name: ContentType(name=name, label=label, description=description)
        for name, (label, description) in CONTENT_TYPES.items()
    }
    session.add_all([*permissions.values(), *roles.values(), *users.values(), *content_types.values()])
    for number, demo_article in enumerate(DEMO_ARTICLES):
        written = FIRST_ARTICLE + number * BETWEEN_ARTICLES
        session.add(
            Article(
                title=demo_article.title,
                body=demo_article.body,
                content_type=content_types[demo_article.type],
                author=users[demo_article.author],
                created=written,
                updated=written,
            )
        )


def main() -> None:
    app = create_app()
    if seed(app):
        app.logger.info("created the demo site with %d articles", len(DEMO_ARTICLES))
    warn_about_demo_users(app)


if __name__ == "__main__":
    main()
