"""Who is calling, and with which permissions.

The objects of ``auth=`` check the credentials; this module decides which of them to ask. Credentials that are sent must
be right on every route, and a method's permissions are all required.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

from flask import Request, current_app, g
from flask_httpauth import HTTPAuth, HTTPDigestAuth, MultiAuth
from werkzeug.datastructures import Authorization

from .authentication import FunctionSignIn, HTTPAuthSignIn, SignIn, is_refused
from .errors import Forbidden, InsufficientScope, RpcError, Unauthorized

Auth: TypeAlias = HTTPAuth | MultiAuth | SignIn | Callable[[], Any]
PermissionsLoader = Callable[[Any], Iterable[str] | None]
UserLoader = Callable[[str], Any]

LOCAL = "local"
"""The scheme of callers on the command line, who need no credentials."""

ACCESS_TOKEN = "flask_jsonrpc_mcp.access_token"  # noqa: S105 (a key, not a secret)
"""Where the environ of a request has the `AccessToken` of a caller who has signed in with OAuth."""

CLIENT_ID = "flask_jsonrpc_mcp.client_id"
"""Where the environ of a task has the OAuth client that created it, because a worker has no access token."""

APP = "app"
"""The scheme of callers whom a function of the app has signed in without naming a scheme."""

SIGNED_IN = "signed-in"
"""The permission of every caller who has signed in. An anonymous caller never has it."""

NAMED_BY = ("username", "name", "id", "email")
IDENTIFIED_BY = ("id", "username", "email", "name")
"""The attributes or members of a user, best first, to log it by and to identify it by."""


@dataclass(frozen=True)
class Caller:
    """Who is calling.

    :param user: What the verify callback or function of ``auth`` returned; ``None`` for an anonymous caller.
    :param name: The name to log, from the user; never a secret. Empty for an anonymous caller.
    :param scheme: The auth scheme in lower case, ``"app"`` if it is not known; ``None`` for an anonymous caller.
    :param may_sign_in: Anonymous, and there is an auth object to sign in with.
    :param principal: A digest that identifies the caller across requests; empty for an anonymous caller.
    :param address: The remote address, as Flask sees it (see werkzeug's ``ProxyFix``).
    :param scopes: The OAuth scopes of the access token; ``None`` if scopes do not apply, which allows everything.
    """

    user: Any = None
    name: str = ""
    scheme: str | None = None
    permissions: frozenset[str] = frozenset()
    may_sign_in: bool = False
    principal: str = ""
    address: str = ""
    scopes: frozenset[str] | None = None

    @property
    def anonymous(self) -> bool:
        return self.scheme is None

    def has(self, permissions: frozenset[str]) -> bool:
        """Whether the caller has all of these permissions."""
        return permissions <= self.permissions

    def has_scopes(self, scopes: frozenset[str]) -> bool:
        """Whether the caller has all of these scopes, or scopes do not apply."""
        return self.scopes is None or scopes <= self.scopes


class Authenticator:
    """Identifies callers.

    :param auth: A Flask-HTTPAuth object, a function that returns the user of the current request, an object of
        `sign_in`, or a list of these; without one every caller is anonymous.
    :param required: Reject anonymous callers; with ``"mcp"`` only at the MCP endpoint.
    :param discover_access: The permissions needed to list and describe tools, prompts and resources.
    """

    def __init__(
        self,
        auth: Auth | Sequence[Auth] | None,
        *,
        required: bool | Literal["mcp"] = False,
        discover_access: frozenset[str] = frozenset(),
    ) -> None:
        self.required = required is True
        self.mcp_required = bool(required)
        self.discover_access = discover_access
        self.permissions_loader: PermissionsLoader | None = None
        self.user_loader: UserLoader | None = None
        # OAuth last: the app can check its own tokens without a request to an authorization server.
        sign_ins = () if auth is None else _make_sign_ins(auth)
        self.sign_ins: tuple[SignIn, ...] = tuple(sorted(sign_ins, key=lambda each: each.grants_scopes))
        self.grants_scopes = bool(self.sign_ins) and self.sign_ins[-1].grants_scopes
        if sum(each.grants_scopes for each in self.sign_ins) > 1:
            raise ValueError("auth has two OAuthResource objects; use one, with a list of issuers")
        self._extensions = [each for each in self.sign_ins if not isinstance(each, HTTPAuthSignIn)]
        self.uses_cookies = any(each.uses_cookies for each in self._extensions)
        others = (each for each in self.sign_ins if isinstance(each, HTTPAuthSignIn) and not each.grants_scopes)
        selectors = [each.selector for each in others]
        for selector in selectors:
            if selectors.count(selector) > 1:
                raise ValueError(f"auth has two objects for {selector}; use one, whose callback checks what both do")

    @property
    def schemes(self) -> list[str]:
        """The auth schemes, as in a challenge."""
        return list(dict.fromkeys(each.scheme for each in self.sign_ins if each.scheme))

    @property
    def credential_headers(self) -> list[str]:
        """The request headers that a response varies by."""
        cookies = ["Cookie", "Sec-Fetch-Site"] if self.uses_cookies else []
        return list(dict.fromkeys(["Authorization", *[each.header for each in self.sign_ins], *cookies]))

    @property
    def tells_callers_apart(self) -> bool:
        """Whether two callers may see different lists."""
        return bool(self.sign_ins) or self.permissions_loader is not None

    @property
    def grants_permissions(self) -> bool:
        """Whether any caller can have permissions."""
        return self.permissions_loader is not None or any(each.knows_permissions for each in self.sign_ins)

    def challenges(self, error: RpcError) -> list[str]:
        """The ``WWW-Authenticate`` headers of the response to an error that is a 401 or about scopes."""
        sign_ins = list(self.sign_ins)
        if self.grants_scopes:
            # First, because some clients read only the first challenge, and as the only one of its scheme.
            oauth = sign_ins.pop()
            sign_ins = [oauth, *(each for each in sign_ins if each.scheme != oauth.scheme)]
        return [challenge for each in sign_ins if (challenge := each.challenge_to(error)) is not None]

    def admit(self, request: Request, *, is_mcp: bool) -> Caller:
        """Identify the caller of a request.

        :param is_mcp: Whether the request is for the MCP endpoint.
        :raises Unauthorized: if the credentials are wrong, or missing where they are required.
        """
        caller = self.identify(request)
        if caller.anonymous and (self.mcp_required if is_mcp else self.required):
            raise Unauthorized()
        return caller

    def require_discovery(self, caller: Caller) -> None:
        """Check that a caller may list and describe.

        :raises Unauthorized: for an anonymous caller who could sign in.
        :raises Forbidden: for every other caller without the permissions.
        """
        if not caller.has(self.discover_access):
            raise Unauthorized() if caller.may_sign_in else Forbidden()

    def require_scopes(self, caller: Caller, scopes: frozenset[str]) -> None:
        """Check that a caller has the scopes of a method.

        :raises Unauthorized: for an anonymous caller who could sign in.
        :raises InsufficientScope: for an access token without them.
        """
        if not caller.has_scopes(scopes):
            raise Unauthorized(scopes=scopes) if caller.may_sign_in else InsufficientScope(scopes)

    def identify(self, request: Request) -> Caller:
        """Identify the caller of a request, who may be anonymous.

        :raises Unauthorized: if there are credentials that are wrong, malformed or of another scheme.
        """
        address = request.remote_addr or ""
        if not self.sign_ins:
            return self.anonymous(address)
        g.flask_httpauth_user = None  # a before_request function, or a context around the request, may have set it
        matching = [each for each in self.sign_ins if each.has_credentials(request)]
        if len(matching) > 1 and len({(each.header, each.scheme) for each in matching}) > 1:
            raise Unauthorized("Send credentials of one kind only")
        for sign_in in matching or self._extensions:
            try:
                found = sign_in.authenticate(request)
            except Unauthorized:
                if not matching or sign_in is matching[-1]:
                    raise
                continue  # the next one may accept the token
            if found is not None:
                return self._signed_in(*found, sign_in, (sign_in.scheme or APP).lower(), address)
        if matching or request.headers.get("Authorization", "").strip():
            raise Unauthorized()
        return self.anonymous(address)

    def anonymous(self, address: str = "") -> Caller:
        """Build a `Caller` who has not signed in."""
        if self.sign_ins:
            self.set_user(None)
        permissions = self._permissions(self._extensions, None, None) - {SIGNED_IN}
        scopes: frozenset[str] | None = frozenset() if self.grants_scopes else None
        return Caller(permissions=permissions, may_sign_in=bool(self.sign_ins), address=address, scopes=scopes)

    def identify_by_name(self, name: str) -> Caller | None:
        """Build a `Caller` for a user name without checking credentials (command line only).

        :returns: ``None`` if ``user_loader`` does not find the user.
        """
        user = None if self.user_loader is None else current_app.ensure_sync(self.user_loader)(name)
        if is_refused(user):
            return None
        return self._signed_in(user, Authorization(LOCAL, {"username": name}), None, LOCAL)

    def load_user(self, name: str, scheme: str) -> tuple[Any, frozenset[str]] | None:
        """Return a user, and the current permissions, without credentials; ``None`` if the account is gone or closed.

        :param name: The name of the `Caller`; the user itself if there is no ``user_loader``.
        :param scheme: How the caller had signed in.
        """
        user = name if self.user_loader is None else current_app.ensure_sync(self.user_loader)(name)
        if is_refused(user) or getattr(user, "is_active", True) is False:  # as in Flask-Login
            return None
        # On the command line, which has no scheme of its own, all of them count.
        same = [each for each in self.sign_ins if scheme in (LOCAL, (each.scheme or APP).lower())]
        return user, self._permissions([*same, *self._extensions], user, user) | {SIGNED_IN}

    def set_user(self, user: Any) -> None:
        """Set the current user of all extensions, which may have loaded another one from an ignored cookie."""
        g.flask_httpauth_user = user  # for auth.current_user(), as login_required does
        for sign_in in self._extensions:
            sign_in.set_user(user)

    def _signed_in(
        self, returned: Any, credentials: Authorization, sign_in: SignIn | None, scheme: str, address: str = ""
    ) -> Caller:
        """Build a `Caller` who has signed in.

        :param returned: The user, or ``True`` from a callback that only checks the credentials. Then the user is the
            user name, and roles are looked up by the credentials, as in Flask-HTTPAuth.
        :param sign_in: What checked the credentials; ``None`` on the command line.
        """
        known = None if returned is True else returned
        user = credentials.get("username") if returned is True else returned
        self.set_user(user)
        permissions = self._permissions(
            self.sign_ins if sign_in is None else [sign_in, *self._extensions],
            user=credentials if user is None else user,
            role_holder=credentials if returned is True else user,
        )
        scopes, principal = None, _principal(known, credentials, sign_in, scheme)
        if sign_in is not None and sign_in.grants_scopes:
            scopes, principal = sign_in.apply_token(principal)
        return Caller(
            user,
            _name_to_log(known, credentials, sign_in),
            scheme,
            permissions | {SIGNED_IN},
            principal=principal,
            address=address,
            scopes=scopes,
        )

    def _permissions(self, sources: Iterable[SignIn], user: Any, role_holder: Any) -> frozenset[str]:
        granted: Iterable[str] | None = None
        if self.permissions_loader is not None:
            granted, sources = current_app.ensure_sync(self.permissions_loader)(user), ()
        for sign_in in sources:
            granted = sign_in.permissions_of(role_holder)
            if granted is not None:
                break
        if granted is None:
            return frozenset()
        if isinstance(granted, Mapping):  # its values may say no
            raise TypeError(f"the permissions of a caller must be a list of names, not a {type(granted).__name__}")
        return frozenset([granted] if isinstance(granted, str) else granted)


def client_id(environ: Mapping[str, Any]) -> str | None:
    """Return the OAuth client of a request, or of the request that has created a task."""
    token: Any = environ.get(ACCESS_TOKEN)
    found: str | None = environ.get(CLIENT_ID) if token is None else token.client_id
    return found


def _make_sign_ins(auth: Any) -> Iterator[SignIn]:
    if isinstance(auth, SignIn):
        yield auth
    elif isinstance(auth, HTTPAuth):
        # An OAuthResource has its own, because its module needs packages that may not be installed.
        yield auth.mcp_sign_in() if hasattr(auth, "mcp_sign_in") else HTTPAuthSignIn(auth)
    elif isinstance(auth, MultiAuth):
        yield from _make_sign_ins([auth.main_auth, *auth.additional_auths])
    elif isinstance(auth, (list, tuple)) and auth:
        for each in auth:
            yield from _make_sign_ins(each)
    elif isinstance(auth, type):  # calling it would sign everyone in
        raise TypeError(f"auth must be an object; write {auth.__name__}()")
    elif callable(auth):
        yield FunctionSignIn(auth)
    else:
        kind = type(auth).__name__
        # An OAuthServer, whose module is not imported here, because it needs packages that may not be installed.
        fix = "; write auth=oauth.resource" if isinstance(getattr(auth, "resource", None), HTTPAuth) else ""
        raise TypeError(f"auth must be a Flask-HTTPAuth object, a function, or a list of these, not {kind}{fix}")


def _name_to_log(user: Any, credentials: Authorization, sign_in: SignIn | None) -> str:
    """Return a name for the log, from the user if there is one; never a token, a password or an API key."""
    username, secret = credentials.get("username"), _secret_in(credentials)
    for _, text in _attributes_of(user, NAMED_BY):
        if text != secret:
            return text
    if username is None:
        return "token"
    # A user name of Basic may be an API key. A digest proves a password, and the command line knows no secrets.
    is_digest = isinstance(sign_in, HTTPAuthSignIn) and isinstance(sign_in.auth, HTTPDigestAuth)
    return str(username) if is_digest or sign_in is None else "password"


def _principal(user: Any, credentials: Authorization, sign_in: SignIn | None, scheme: str) -> str:
    """Return a digest that identifies the caller across requests: of the user, or else of the credentials.

    :raises TypeError: if the user of a function or an extension has no id.
    """
    identity: tuple[Any, ...] | None = identity_of(user)
    if identity is None:
        if sign_in is not None and not isinstance(sign_in, HTTPAuthSignIn):
            missing = f"{', '.join(IDENTIFIED_BY)} or get_id()"
            raise TypeError(f"{sign_in} returned a {type(user).__name__} without {missing}")
        identity = "credentials", credentials.get("username") or credentials.token
    # With the selector, because two sign-ins may have the same scheme. As a digest, because it may be a token.
    content = repr((sign_in and sign_in.selector, scheme, *identity))
    return hashlib.sha256(content.encode()).hexdigest()


def _secret_in(credentials: Authorization) -> str | None:
    """Return what must not be logged: the token, the password, or a user name without password (an API key)."""
    username, password = credentials.get("username"), credentials.get("password")
    if password is None:
        return credentials.token
    return None if password == username else password or username


def _attributes_of(user: Any, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield type and text of each of these attributes, or members, that a user has."""
    if isinstance(user, (str, int, UUID)):
        yield type(user).__name__, str(user)
        return
    owner = user.__class__  # of the user behind a proxy, too
    members = dict(user) if isinstance(user, sqlite3.Row) else user
    is_mapping = isinstance(members, Mapping)
    for name in names:
        value = members.get(name) if is_mapping else getattr(members, name, None)
        if isinstance(value, (str, int, UUID)) and str(value):
            # With the types: the user 7 is not the user "7", nor the customer 7.
            yield f"{owner.__module__}.{owner.__qualname__}.{name}: {type(value).__name__}", str(value)
        elif name == names[0] == "id" and value is not None and not isinstance(value, str):
            # An identity of another type, such as bytes or an ObjectId. Two users that differ in it may share a name.
            if repr(value) != object.__repr__(value) and not callable(value):
                yield f"{owner.__module__}.{owner.__qualname__}.{name}: {type(value).__name__}", repr(value)
            return


def identity_of(user: Any) -> tuple[str, str] | None:
    """Return what identifies a user: its type, and an id or name."""
    return next(_attributes_of(user, IDENTIFIED_BY), None) or _flask_login_id(user)


def _flask_login_id(user: Any) -> tuple[str, str] | None:
    """Return the identity of a user of Flask-Login whose id has another name."""
    get_id = getattr(user, "get_id", None)
    return (f"{type(user).__module__}.{type(user).__qualname__}.get_id", str(get_id())) if callable(get_id) else None
