"""Who is calling, and with which permissions.

Flask-HTTPAuth checks the credentials; this module decides when to call it. Its own ``login_required`` treats a wrong
password as anonymous where the login is optional, accepts a password under any scheme, compares the scheme's case,
and treats a list of roles as "any of". Here the scheme is matched first, case-insensitively; credentials that are sent
must be right on every route; and a method's permissions are all required.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from flask import Request, current_app, g
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPDigestAuth, HTTPTokenAuth, MultiAuth
from werkzeug.datastructures import Authorization

from .errors import Forbidden, InsufficientScope, RpcError, Unauthorized
from .sign_in import FunctionSignIn, SignIn

Auth: TypeAlias = HTTPAuth | MultiAuth | SignIn | Callable[[], Any]
PermissionsLoader = Callable[[Any], Iterable[str] | None]
UserLoader = Callable[[str], Any]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BASIC = re.compile(r"\S+ +[A-Za-z0-9+/]+={0,2}")

LOCAL = "local"
"""The scheme of callers on the command line, who need no credentials."""

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
        user = self.auth.authenticate(credentials, self.auth.get_auth_password(credentials))
        if is_refused(user):
            raise Unauthorized()
        return user, credentials

    @property
    def knows_permissions(self) -> bool:
        return self.auth.get_user_roles_callback is not None

    def permissions_of(self, user: Any) -> Iterable[str] | None:
        get_user_roles = self.auth.get_user_roles_callback
        return None if get_user_roles is None else self.auth.ensure_sync(get_user_roles)(user) or ()


class Authenticator:
    """Identifies callers.

    :param auth: A Flask-HTTPAuth object, a function that returns the user of the current request, an object of
        `sign_in`, or a list of these; without one every caller is anonymous.
    :param required: Reject anonymous callers.
    :param discover_access: The permissions needed to list and describe tools, prompts and resources.
    """

    def __init__(
        self,
        auth: Auth | Sequence[Auth] | None,
        *,
        required: bool = False,
        discover_access: frozenset[str] = frozenset(),
    ) -> None:
        self.required = required
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

    def is_shareable(self, caller: Caller) -> bool:
        """Whether shared caches may store what this caller sees."""
        return caller.anonymous and self.permissions_loader is None

    def challenges(self, error: RpcError) -> list[str]:
        """The ``WWW-Authenticate`` headers of the response to an error that is a 401 or about scopes."""
        sign_ins = list(self.sign_ins)
        if self.grants_scopes:
            # First, because some clients read only the first challenge, and as the only one of its scheme.
            oauth = sign_ins.pop()
            sign_ins = [oauth, *(each for each in sign_ins if each.scheme != oauth.scheme)]
        return [challenge for each in sign_ins if (challenge := each.challenge_to(error)) is not None]

    def admit(self, request: Request) -> Caller:
        """Identify the caller of a request.

        :raises Unauthorized: if the credentials are wrong, or missing where they are required.
        """
        caller = self.identify(request)
        if self.required and caller.anonymous:
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
                caller = self._signed_in(*found, sign_in, (sign_in.scheme or APP).lower(), address)
                return sign_in.apply_token(caller)
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
        """Return a user, and the current permissions, without credentials; ``None`` if there is no such user.

        :param name: The name of the `Caller`; the user itself if there is no ``user_loader``.
        :param scheme: How the caller had signed in.
        """
        user = name if self.user_loader is None else current_app.ensure_sync(self.user_loader)(name)
        if is_refused(user):
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
        self, user: Any, credentials: Authorization, sign_in: SignIn | None, scheme: str, address: str = ""
    ) -> Caller:
        username, known = credentials.get("username"), None if user is True else user
        # Like Flask-HTTPAuth: get_user_roles is called with the credentials if the callback returned True.
        role_holder, user = (credentials, username) if user is True else (user, user)
        self.set_user(user)
        sources = self.sign_ins if sign_in is None else [sign_in, *self._extensions]
        permissions = self._permissions(sources, role_holder if user is None else user, role_holder) | {SIGNED_IN}
        # A user name of Basic may be an API key. A digest proves a password, and the command line knows no secrets.
        is_digest = isinstance(sign_in, HTTPAuthSignIn) and isinstance(sign_in.auth, HTTPDigestAuth)
        kind = "token" if username is None else username if is_digest or scheme == LOCAL else "password"
        secret = _secret_in(credentials)
        name = next((text for _, text in _attributes_of(known, NAMED_BY) if text != secret), kind)
        identity = identity_of(known)
        if identity is None and sign_in in self._extensions:
            missing = f"{', '.join(IDENTIFIED_BY)} or get_id()"
            raise TypeError(f"{sign_in} returned a {type(user).__name__} without {missing}")
        facts: tuple[Any, ...] = identity or ("credentials", username or credentials.token)
        # With the selector, because two sign-ins may have the same scheme. As a digest, because it may be a token.
        content = repr((sign_in and sign_in.selector, scheme, *facts))
        principal = hashlib.sha256(content.encode()).hexdigest()
        return Caller(user, name, scheme, permissions, principal=principal, address=address)

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
        raise TypeError(f"auth must be a Flask-HTTPAuth object, a function, or a list of these, not {kind}")


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
    for name in names:
        value = members.get(name) if isinstance(members, Mapping) else getattr(members, name, None)
        if isinstance(value, (str, int, UUID)) and str(value):
            # With the types: the user 7 is not the user "7", nor the customer 7.
            yield f"{owner.__module__}.{owner.__qualname__}.{name}: {type(value).__name__}", str(value)
        elif name == names[0] == "id" and value is not None and not isinstance(value, str):
            # An identity of another type, such as bytes or an ObjectId. Two users that differ in it may share a name.
            if repr(value) != object.__repr__(value) and not callable(value):
                yield f"{owner.__module__}.{owner.__qualname__}.{name}: {type(value).__name__}", repr(value)
            return


def identity_of(user: Any) -> tuple[str, str] | None:
    """Return what tells a user from all others: its type, and an id or name."""
    return next(_attributes_of(user, IDENTIFIED_BY), None) or _flask_login_id(user)


def _flask_login_id(user: Any) -> tuple[str, str] | None:
    """Return the identity of a user of Flask-Login whose id has another name."""
    get_id = getattr(user, "get_id", None)
    return (f"{type(user).__module__}.{type(user).__qualname__}.get_id", str(get_id())) if callable(get_id) else None
