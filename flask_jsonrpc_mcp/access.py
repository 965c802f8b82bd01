"""Who is calling, and what they may do.

Flask-HTTPAuth knows how to check credentials; this module decides when to ask it. Its own decorators would let a wrong
password through as anonymous where a login is optional, take a password under any scheme, compare schemes with their
case, and read a list of roles as "any of". Here a scheme is matched first, in any case; credentials that are given
must be right on every route; and every permission of a method is needed.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPDigestAuth, MultiAuth
from werkzeug.datastructures import Authorization

from .current import header, this_app, this_g, this_request
from .errors import Unauthorized

PermissionsLoader = Callable[[Any], Iterable[str] | None]
UserLoader = Callable[[str], Any]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

LOCAL = "local"
"""The scheme of those who need no credentials, because they run the app themselves."""


class Caller(NamedTuple):
    """Who is calling.

    :param user: What the auth object's verify callback returned; ``None`` for an anonymous caller.
    :param name: The name to log; empty for an anonymous caller.
    :param scheme: How they signed in, in lower case; ``None`` for an anonymous caller.
    :param may_sign_in: Anonymous, and there is an auth object to sign in with.
    :param principal: Who they are in one text, the same with every request; empty for an anonymous caller.
    :param address: Where the request came from, as far as the app knows (see werkzeug's ``ProxyFix``).
    """

    user: Any = None
    name: str = ""
    scheme: str | None = None
    permissions: frozenset[str] = frozenset()
    may_sign_in: bool = False
    principal: str = ""
    address: str = ""

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
        self.user_loader: UserLoader | None = None
        self.auths: tuple[HTTPAuth, ...]
        if auth is None:
            self.auths = ()
        elif isinstance(auth, MultiAuth):
            self.auths = (auth.main_auth, *auth.additional_auths)
        elif isinstance(auth, HTTPAuth):
            self.auths = (auth,)
        else:
            raise TypeError(f"auth must be a Flask-HTTPAuth object, not {type(auth).__name__}")

    @property
    def schemes(self) -> list[str]:
        """The schemes a caller can sign in with, as they are written in a challenge."""
        return [auth.scheme for auth in self.auths]

    @property
    def credential_headers(self) -> list[str]:
        """The request headers an answer depends on."""
        return list(dict.fromkeys(["Authorization", *(auth.header for auth in self.auths if auth.header)]))

    @property
    def tells_callers_apart(self) -> bool:
        """Tell whether one caller may see something else than another."""
        return bool(self.auths) or self.permissions_loader is not None

    def is_shareable(self, caller: Caller) -> bool:
        """Tell whether what this caller sees is what everyone without credentials sees."""
        return caller.anonymous and self.permissions_loader is None

    def challenges(self) -> list[str]:
        """The ``WWW-Authenticate`` headers of a 401."""
        return [auth.authenticate_header() for auth in self.auths]

    def identify(self) -> Caller:
        """Find out who sent the current request.

        :raises Unauthorized: when there are credentials and they are wrong, malformed or of a scheme nobody asked for.
        """
        addressed = [auth for auth in self.auths if _is_addressed(auth)] if self.auths else []
        if len(addressed) > 1:
            raise Unauthorized("Send credentials of one kind only")
        if not addressed:
            if self.auths and (header("Authorization") or "").strip():
                raise Unauthorized()
            permissions = frozenset() if self.permissions_loader is None else self._permissions(None, None, None)
            return _anonymous(permissions, bool(self.auths), this_request().remote_addr or "")
        [auth] = addressed
        credentials = auth.get_auth()
        if credentials is None or not _is_well_formed(auth, credentials):
            raise Unauthorized()
        user = auth.authenticate(credentials, _stored_password(auth, credentials))
        if user is None or user is False:
            raise Unauthorized()
        username = credentials.get("username")
        # Flask-HTTPAuth asks for the roles of the credentials when there is no user object.
        role_holder = credentials if user is True else user
        user = username if user is True else user
        permissions = self._permissions(auth, role_holder if user is None else user, role_holder)
        # Where Flask-HTTPAuth keeps it, so that auth.current_user() works in a method as in a view.
        this_g().flask_httpauth_user = user
        scheme = auth.scheme.lower()
        name, identity = (username, username) if username else _named_by(user, credentials.token)
        # The header too: two auth objects may use one scheme.
        principal = f"{(auth.header or 'authorization').lower()}:{scheme}:{identity}"
        return Caller(user, name, scheme, permissions, False, principal, this_request().remote_addr or "")

    def identify_by_name(self, name: str) -> Caller | None:
        """Be a user without their credentials, as whoever runs the app may; ``None`` when there is no such user."""
        user = None if self.user_loader is None else this_app().ensure_sync(self.user_loader)(name)
        if user is None or user is False:
            return None
        auth = next((auth for auth in self.auths if auth.get_user_roles_callback is not None), None)
        role_holder = Authorization(LOCAL, {"username": name}) if user is True else user
        user = name if user is True else user
        permissions = self._permissions(auth, user, role_holder)
        this_g().flask_httpauth_user = user
        return Caller(user, name, LOCAL, permissions, principal=f"{LOCAL}:{name}")

    def _permissions(self, auth: HTTPAuth | None, user: Any, role_holder: Any) -> frozenset[str]:
        if self.permissions_loader is not None:
            granted = this_app().ensure_sync(self.permissions_loader)(user)
        elif auth is not None and auth.get_user_roles_callback is not None:
            granted = auth.ensure_sync(auth.get_user_roles_callback)(role_holder)
        else:
            granted = None
        if granted is None:
            return frozenset()
        return frozenset([granted] if isinstance(granted, str) else granted)


# All that come from one address are one and the same caller.
@functools.lru_cache(maxsize=256)
def _anonymous(permissions: frozenset[str], may_sign_in: bool, address: str) -> Caller:
    return Caller(permissions=permissions, may_sign_in=may_sign_in, address=address)


def _is_addressed(auth: HTTPAuth) -> bool:
    """Tell whether the request has credentials of the kind this auth object checks."""
    if auth.header is not None and auth.header != "Authorization":
        return bool(header(auth.header))
    scheme = (header("Authorization") or "").strip().partition(" ")[0].lower()
    # A custom scheme on a Basic auth keeps browsers from asking; clients go on sending "Basic".
    return scheme == auth.scheme.lower() or (scheme == "basic" and isinstance(auth, HTTPBasicAuth))


def _stored_password(auth: HTTPAuth, credentials: Authorization) -> Any:
    """Find what the password is compared with, unless a callback of the app does all of that."""
    if isinstance(auth, HTTPBasicAuth) and auth.verify_password_callback is not None:
        return None
    return auth.get_auth_password(credentials)


def _is_well_formed(auth: HTTPAuth, credentials: Authorization) -> bool:
    """Tell whether these can be credentials at all, so that callbacks are only asked about real ones."""
    if isinstance(auth, HTTPBasicAuth):
        username, password = credentials.get("username"), credentials.get("password")
        return bool(username) and _is_text(username) and _is_text(password)
    if isinstance(auth, HTTPDigestAuth):
        needed = ["username", "realm", "nonce", "uri", "response", "opaque", *(["nc", "cnonce"] if auth.qop else [])]
        return all(_is_text(credentials.get(name), ascii_only=True) for name in needed)
    return bool(credentials.token) and _is_text(credentials.token)


def _is_text(value: str | None, *, ascii_only: bool = False) -> bool:
    """RFC 7617 allows no control characters; a NUL would break in databases."""
    if value is None or (ascii_only and not value.isascii()):
        return False
    return _CONTROL.search(value) is None


def _named_by(user: Any, token: str | None) -> tuple[str, str]:
    """How to log a user who came with a token, and what tells them from all others.

    Never the token itself, which an app may take for the user; where the user object says nothing, its digest.
    """
    name, identity = _attribute_of(user, "username", "name", "id"), _attribute_of(user, "id", "username")
    if not identity or identity == token:
        identity = "sha256:" + hashlib.sha256(str(token).encode()).hexdigest()
    return "token" if name is None or name == token else name, identity


def _attribute_of(user: Any, *names: str) -> str | None:
    if isinstance(user, str):
        return user
    values = (user.get(name) if isinstance(user, Mapping) else getattr(user, name, None) for name in names)
    return next((str(value) for value in values if isinstance(value, (str, int, UUID)) and value != ""), None)
