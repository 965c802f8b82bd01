"""Who is calling: by password for people, by bearer token for programs.

A password costs a tenth of a second of hashing, which is what makes it hard to guess. A program that calls often should
use a token.
"""
# mypy: disable-error-code="untyped-decorator"
# Flask-HTTPAuth has no types.

from __future__ import annotations

import functools
import hmac
import secrets

from flask import current_app
from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth, MultiAuth
from sqlalchemy import ColumnElement, select
from werkzeug.security import check_password_hash, generate_password_hash

from flask_jsonrpc_mcp import CachedPasswords

from .config import is_development
from .db import current_session
from .demo_users import is_demo_password, is_demo_token
from .models import User, digest_of

REALM = "Elm Street Garden"

passwords = HTTPBasicAuth(realm=REALM)
tokens = HTTPTokenAuth("Bearer", realm=REALM)
auth = MultiAuth(passwords, tokens)

# A password that was right stays so for a minute; each worker has a memory of its own.
check_password = CachedPasswords(check_password_hash)


@passwords.verify_password
def verify_password(username: str, password: str) -> User | None:
    # Someone unknown costs the same work as a wrong password, so the time of an answer tells nobody who has an account.
    stranger = _hash_of_nobodys_password()
    user = _find_user(User.username == username)
    if not check_password(stranger if user is None else user.password_hash, password):
        return None
    if user is not None and is_demo_password(username, password):
        _warn_about_demo_user(username, "password")
    return user


@tokens.verify_token
def verify_token(token: str) -> User | None:
    digest = digest_of(token)
    user = _find_user(User.token_digest == digest)
    # Databases compare loosely (case, collation) and in no constant time; the last word is ours.
    if user is None or not hmac.compare_digest(user.token_digest or "", digest):
        return None
    if is_demo_token(token):
        _warn_about_demo_user(user.username, "token")
    return user


@passwords.get_user_roles
@tokens.get_user_roles
def permissions_of(user: User) -> set[str]:
    """Flask-HTTPAuth says roles; what ``access=`` of a method is compared with are permissions."""
    return user.permissions


def find_user(username: str) -> User | None:
    """Find a user without asking for a password: for the command line, which only the site's own people can use."""
    return _find_user(User.username == username)


def _find_user(condition: ColumnElement[bool]) -> User | None:
    return current_session().scalar(select(User).where(condition))


@functools.cache
def _hash_of_nobodys_password() -> str:
    return generate_password_hash(secrets.token_urlsafe())


def _warn_about_demo_user(username: str, secret: str) -> None:
    warned: set[tuple[str, str]] = current_app.extensions.setdefault("sample_app_warned", set())
    # Once in each worker; with every request it would bury the rest of the log.
    if is_development(current_app) or (username, secret) in warned:
        return
    warned.add((username, secret))
    current_app.logger.warning(
        "SECURITY: demo user %r signed in with the %s everyone knows; replace it, or set SITE_ENV=development",
        username,
        secret,
    )
