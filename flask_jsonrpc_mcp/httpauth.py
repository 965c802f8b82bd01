"""Sign in with Flask-HTTPAuth.

Its own ``login_required`` treats a wrong password as anonymous where the login is optional, accepts a password under
any scheme, and compares the scheme's case. Here the scheme is matched first, case-insensitively, and credentials that
are sent must be right on every route.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from flask import Request
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPDigestAuth, HTTPTokenAuth
from werkzeug.datastructures import Authorization

from .errors import Unauthorized
from .sign_in import SignIn

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BASIC = re.compile(r"\S+ +[A-Za-z0-9+/]+={0,2}")


class HTTPAuthSignIn(SignIn):
    """Signs in with a Flask-HTTPAuth object."""

    uses_cookies = False

    def __init__(self, auth: HTTPAuth) -> None:
        self.auth = auth
        self._header: str | None = None if auth.header == "Authorization" else auth.header
        self.kind = (
            "password" if isinstance(auth, HTTPBasicAuth) else "token" if isinstance(auth, HTTPTokenAuth) else "other"
        )
        # HTTPBasicAuth with a custom scheme (which keeps browsers from showing their dialog) still accepts "Basic".
        self._schemes = [*(["basic"] if isinstance(auth, HTTPBasicAuth) else []), auth.scheme.lower()]

    @property
    def selector(self) -> str:
        return self._header or str(self._schemes[0])

    @property
    def scheme(self) -> str:
        return str(self.auth.scheme)

    @property
    def header(self) -> str:
        return self._header or "Authorization"

    def challenge(self) -> str:
        return str(self.auth.authenticate_header())

    def has_credentials(self, request: Request) -> bool:
        if self._header is not None:
            return bool(request.headers.get(self._header))
        return request.headers.get("Authorization", "").strip().partition(" ")[0].lower() in self._schemes

    def authenticate(self, request: Request) -> tuple[Any, Authorization]:
        credentials = self.auth.get_auth()
        if credentials is None or not _is_well_formed(self.auth, credentials, request):
            raise Unauthorized()
        # Flask-HTTPAuth needs no stored password if there is a function that verifies the one sent.
        verifies = getattr(self.auth, "verify_password_callback", None) is not None
        user = self.auth.authenticate(credentials, None if verifies else self.auth.get_auth_password(credentials))
        if is_refused(user):
            raise Unauthorized()
        return user, credentials

    @property
    def knows_permissions(self) -> bool:
        return self.auth.get_user_roles_callback is not None

    def permissions_of(self, user: Any) -> Iterable[str] | None:
        get_user_roles = self.auth.get_user_roles_callback
        return None if get_user_roles is None else self.auth.ensure_sync(get_user_roles)(user) or ()


def _is_well_formed(auth: HTTPAuth, credentials: Authorization, request: Request) -> bool:
    """Whether the credentials are complete. Flask-HTTPAuth would pass others to the callbacks, or raise."""
    if isinstance(auth, HTTPBasicAuth):
        # Flask-HTTPAuth ignores characters that are not base64, and so the second of two headers joined by the server.
        if _BASIC.fullmatch(request.headers["Authorization"].strip()) is None:
            return False
        username, password = credentials.get("username"), credentials.get("password")
        # Without these callbacks hmac.compare_digest compares the password, which must be ASCII then.
        any_text = auth.verify_password_callback or auth.hash_password_callback
        return bool(username) and _is_text(username) and _is_text(password, ascii_only=not any_text)
    if isinstance(auth, HTTPDigestAuth):
        more = ["nc", "cnonce"] if auth.qop or auth.algorithm == "MD5-Sess" else []
        needed = ["username", "realm", "nonce", "uri", "response", "opaque", *more]
        is_complete = all(_is_text(credentials.get(name), ascii_only=True) for name in needed)
        return is_complete and bool(auth.qop or not credentials.get("qop"))
    return bool(credentials.token) and _is_text(credentials.token)


def _is_text(value: str | None, *, ascii_only: bool = False) -> bool:
    """Whether a value has no control characters, which RFC 7617 forbids and databases reject."""
    if value is None or (ascii_only and not value.isascii()):
        return False
    return _CONTROL.search(value) is None


def is_refused(user: Any) -> bool:
    """Whether a callback has refused the credentials by returning something falsy; ``login_required`` accepts 0 and "".

    The user is not compared with anything, because its ``__eq__`` may raise.

    :raises TypeError: for a coroutine, which is truthy before it has checked anything.
    """
    if inspect.isawaitable(user):
        raise TypeError("the callback that checks credentials returned a coroutine; declare it with async def")
    return not user
