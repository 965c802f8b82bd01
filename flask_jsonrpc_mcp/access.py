"""Who is calling, and what they may do.

Flask-HTTPAuth knows how to check credentials; this module decides when to ask it. Its own decorators would let a wrong
password through as anonymous where a login is optional, take a password under any scheme, compare schemes with their
case, and read a list of roles as "any of". Here a scheme is matched first, in any case; credentials that are given
must be right on every route; and every permission of a method is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flask import current_app, g, request
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPDigestAuth, MultiAuth
from werkzeug.datastructures import Authorization

from .errors import Unauthorized

PermissionsLoader = Callable[[Any], Iterable[str] | None]


@dataclass(frozen=True)
class Caller:
    """Who is calling.

    :param user: What the auth object's verify callback returned; ``None`` for an anonymous caller.
    :param name: The name to log; empty for an anonymous caller.
    :param scheme: How they signed in, in lower case; ``None`` for an anonymous caller.
    :param may_sign_in: Anonymous, and there is an auth object to sign in with.
    """

    user: Any = None
    name: str = ""
    scheme: str | None = None
    permissions: frozenset[str] = field(default_factory=frozenset)
    may_sign_in: bool = False

    @property
    def anonymous(self) -> bool:
        return self.scheme is None

    def has(self, permissions: frozenset[str]) -> bool:
        """Tell whether the caller has every one of these permissions."""
        return permissions <= self.permissions


class Authenticator:
    """Finds out who is calling by the app's own Flask-HTTPAuth object.

    :param auth: Any Flask-HTTPAuth object, or ``None`` when everyone is anonymous.
    """

    def __init__(self, auth: HTTPAuth | MultiAuth | None) -> None:
        self.permissions_loader: PermissionsLoader | None = None
        self._auths: tuple[HTTPAuth, ...]
        if auth is None:
            self._auths = ()
        elif isinstance(auth, MultiAuth):
            self._auths = (auth.main_auth, *auth.additional_auths)
        elif isinstance(auth, HTTPAuth):
            self._auths = (auth,)
        else:
            raise TypeError(f"auth must be a Flask-HTTPAuth object, not {type(auth).__name__}")

    @property
    def schemes(self) -> list[str]:
        """The schemes a caller can sign in with, as they are written in a challenge."""
        return [auth.scheme for auth in self._auths]

    @property
    def credential_headers(self) -> list[str]:
        """The request headers an answer depends on."""
        return list(dict.fromkeys(["Authorization", *(auth.header for auth in self._auths if auth.header)]))

    def is_shareable(self, caller: Caller) -> bool:
        """Tell whether what this caller sees is what everyone without credentials sees."""
        return caller.anonymous and self.permissions_loader is None

    def challenges(self) -> list[str]:
        """The ``WWW-Authenticate`` headers of a 401."""
        return [auth.authenticate_header() for auth in self._auths]

    def identify(self) -> Caller:
        """Find out who sent the current request.

        :raises Unauthorized: when there are credentials and they are wrong, malformed or of a scheme nobody asked for.
        """
        auth = next((auth for auth in self._auths if _is_addressed(auth)), None)
        if auth is None:
            if self._auths and request.headers.get("Authorization", "").strip():
                raise Unauthorized()
            return Caller(permissions=self._permissions(None, None, None), may_sign_in=bool(self._auths))
        credentials = auth.get_auth()
        if not _is_well_formed(auth, credentials):
            raise Unauthorized()
        user = auth.authenticate(credentials, auth.get_auth_password(credentials))
        if user is None or user is False:
            raise Unauthorized()
        permissions = self._permissions(auth, user, credentials)
        if user is True:
            user = credentials.username
        # Where Flask-HTTPAuth keeps it, so that auth.current_user() works in a method as in a view.
        g.flask_httpauth_user = user
        return Caller(user, _name_of(user, credentials), auth.scheme.lower(), permissions)

    def _permissions(self, auth: HTTPAuth | None, user: Any, credentials: Authorization | None) -> frozenset[str]:
        if self.permissions_loader is not None:
            granted = current_app.ensure_sync(self.permissions_loader)(user)
        elif auth is not None and auth.get_user_roles_callback is not None:
            granted = auth.ensure_sync(auth.get_user_roles_callback)(credentials if user is True else user)
        else:
            granted = None
        if granted is None:
            return frozenset()
        return frozenset([granted] if isinstance(granted, str) else granted)


def _is_addressed(auth: HTTPAuth) -> bool:
    """Tell whether the request has credentials of the kind this auth object checks."""
    if auth.header is not None and auth.header != "Authorization":
        return bool(request.headers.get(auth.header))
    scheme = request.headers.get("Authorization", "").strip().partition(" ")[0].lower()
    # A custom scheme on a Basic auth keeps browsers from asking; clients go on sending "Basic".
    return scheme == auth.scheme.lower() or (scheme == "basic" and isinstance(auth, HTTPBasicAuth))


def _is_well_formed(auth: HTTPAuth, credentials: Authorization | None) -> bool:
    """Tell whether these can be credentials at all, so that callbacks are only asked about real ones."""
    if credentials is None:
        return False
    if isinstance(auth, HTTPBasicAuth):
        return bool(credentials.username) and all(_is_text(credentials.get(name)) for name in ("username", "password"))
    if isinstance(auth, HTTPDigestAuth):
        needed = ["username", "realm", "nonce", "uri", "response", "opaque", *(["nc", "cnonce"] if auth.qop else [])]
        return all(_is_text(credentials.get(name), ascii_only=True) for name in needed)
    return bool(credentials.token) and _is_text(credentials.token)


def _is_text(value: str | None, *, ascii_only: bool = False) -> bool:
    """RFC 7617 allows no control characters; a NUL would break in databases."""
    if value is None or (ascii_only and not value.isascii()):
        return False
    return not any(ord(character) < 32 or ord(character) == 127 for character in value)


def _name_of(user: Any, credentials: Authorization) -> str:
    if credentials.username:
        return str(credentials.username)
    if isinstance(user, str):
        return user
    for attribute in ("username", "name", "id"):
        value = getattr(user, attribute, None)
        if isinstance(value, (str, int)):
            return str(value)
    return "token"
