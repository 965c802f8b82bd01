"""Sign in: by password for people, by bearer token for programs, by OAuth for AI clients.

Hashing a password takes a tenth of a second, which makes it hard to guess. A program that calls often should use a
token.
"""
# mypy: disable-error-code="untyped-decorator"
# Flask-HTTPAuth has no types.

from __future__ import annotations

import functools
import hmac
import os
import secrets

from flask import current_app, session
from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth, MultiAuth
from sqlalchemy import ColumnElement, select
from werkzeug.security import check_password_hash, generate_password_hash

from flask_jsonrpc_mcp import CachedPasswords
from flask_jsonrpc_mcp.oauth import AccessToken, OAuthResource, OAuthServer, SqlGrants

from .config import allows_demo_users, knows_its_url
from .db import current_engine, current_session
from .demo_users import DEMO_USERS, is_demo_password, is_demo_token
from .models import User, digest_of

REALM = "Elm Street Garden"

passwords = HTTPBasicAuth(realm=REALM)
tokens = HTTPTokenAuth("Bearer", realm=REALM)
ISSUER = os.environ.get("OAUTH_ISSUER")
"""The authorization server; by default this site itself, if it knows its URL."""

SCOPES = {
    "articles:read": "Read and search articles",
    "articles:write": "Write, change and delete articles in your name",
}
oauth: OAuthResource | None = None
oauth_server: OAuthServer | None = None
if ISSUER:
    oauth = OAuthResource(ISSUER, scopes=["articles:read"], implies={"articles:write": ["articles:read"]})
elif knows_its_url():
    oauth_server = OAuthServer(scopes=SCOPES, grants=SqlGrants(current_engine))
    oauth = oauth_server.resource

auth = MultiAuth(passwords, tokens, *([oauth] if oauth else []))

WRITE = ["articles:write"] if oauth else []
"""The scopes of tools that write. Only access tokens have scopes."""

# Each worker caches for a minute that a password was right.
check_password = CachedPasswords(check_password_hash)


@passwords.verify_password
def verify_password(username: str, password: str) -> User | None:
    # An unknown user name takes as long as a wrong password, so response times do not reveal who has an account.
    unknown = _random_password_hash()
    user = _find_user(User.username == username)
    if not check_password(unknown if user is None else user.password_hash, password) or user is None:
        return None
    # user.username may differ from what was sent, because some databases compare without case.
    return _unless_demo(user, is_demo=is_demo_password(user.username, password))


@tokens.verify_token
def verify_token(token: str) -> User | None:
    digest = digest_of(token)
    user = _find_user(User.token_digest == digest)
    # Compare again: databases may ignore case, and do not compare in constant time.
    if user is None or not hmac.compare_digest(user.token_digest or "", digest):
        return None
    return _unless_demo(user, is_demo=is_demo_token(token))


@passwords.get_user_roles
@tokens.get_user_roles
def permissions_of(user: User) -> set[str]:
    """Return the permissions, which ``access=`` of a method names. Flask-HTTPAuth calls them roles."""
    return user.permissions


def find_user(username: str) -> User | None:
    """Find a user by name without a password, for the command line and for workers."""
    return _find_user(User.username == username)


def _find_user(condition: ColumnElement[bool]) -> User | None:
    return current_session().scalar(select(User).where(condition))


@functools.cache
def _random_password_hash() -> str:
    return generate_password_hash(secrets.token_urlsafe())


def _unless_demo(user: User, *, is_demo: bool) -> User | None:
    """Refuse the public password or token of a demo user, unless demo users are allowed here."""
    if not is_demo or allows_demo_users(current_app):
        return user
    warned: set[str] = current_app.extensions.setdefault("sample_app_warned", set())
    if user.username not in warned:  # once in each worker
        warned.add(user.username)
        current_app.logger.warning(
            "demo user %r was refused outside of development; give it a password and a token of its own,"
            " or set SITE_ENV=development or FLASK_ALLOW_DEMO_USERS=true",
            user.username,
        )
    return None


def find_owner(token: AccessToken) -> User | None:
    """Find the user of an access token of another authorization server, whose subject is the user's name."""
    return None if token.is_machine else find_user(token.id)


def signed_in_user() -> User | None:
    """Return the user who is signed in; the login page stores the id in the session."""
    user_id: int | None = session.get("user_id")
    return None if user_id is None else load_user(user_id)


def load_user(user_id: str | int) -> User | None:
    """Return the user with an id."""
    user = current_session().get(User, int(user_id))
    if user is None:
        return None
    # The session or grant may date from a start in development, in which demo users were allowed.
    return _unless_demo(user, is_demo=user.token_digest in {digest_of(demo.token) for demo in DEMO_USERS})


if oauth:
    oauth.get_user_roles(permissions_of)
if oauth_server:
    oauth_server.signed_in(lambda: getattr(signed_in_user(), "id", None))
    oauth_server.user_loader(load_user)
elif oauth:
    oauth.verify_token(find_owner)
