"""Authentication methods: the base class, a function of the app, and Flask-HTTPAuth. `sign_in` has other extensions.

Browsers send cookies with every request, also with those that pages of other sites make. So a cookie is ignored unless
a page of this site sent the request; see `accepts_cookies`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from flask import Request, current_app
from flask.sansio.app import App
from flask_httpauth import HTTPAuth, HTTPBasicAuth, HTTPDigestAuth, HTTPTokenAuth
from werkzeug.datastructures import Authorization
from werkzeug.local import LocalProxy

from .config import MAX_BODY
from .errors import InsufficientScope, RpcError, Unauthorized
from .origins import same_origin

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BASIC = re.compile(r"\S+ +[A-Za-z0-9+/]+={0,2}")


def accepts_cookies(request: Request) -> bool:
    """Whether cookies may authenticate a request: a page of this site sent it, and its body, if any, is JSON.

    Scripts can set neither ``Sec-Fetch-Site``, where ``none`` means that the user typed the address, nor ``Origin``.
    Browsers send the first to HTTPS and localhost only, and the second not with a GET.
    """
    if request.method == "POST" and not request.is_json:
        return False
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    if not request.cookies:
        return True
    own = f"{request.scheme}://{request.host}"
    return request.method not in ("GET", "HEAD") and same_origin(request.headers.get("Origin", ""), own)


def has_authorization(request: Request) -> bool:
    return bool(request.headers.get("Authorization", "").strip())


class SignIn:
    """An authentication method. It finds the user of a request."""

    kind: str | None = None
    """What the explorer asks the user for: a ``password``, a ``token``, or nothing."""

    uses_cookies = True

    grants_scopes = False
    """Whether its callers have only the scopes of their access token."""

    known_scopes: frozenset[str] | None = None
    """The scopes that access tokens can have; ``None`` if only the authorization server knows."""

    @property
    def issuer(self) -> str:
        """Where users get an access token; empty without OAuth."""
        return ""

    @property
    def metadata_path(self) -> str:
        """The metadata of the issuer, if that is this app and the explorer can register there as a client."""
        return ""

    def mount(self, app: App) -> None:
        """Called when an app registers a blueprint with this authentication method."""

    def describe(self, blueprint: str) -> dict[str, Any]:
        """Return more members for the ``authentication`` of a blueprint in ``/.well-known/mcp.json``."""
        return {}

    def check_ready(self) -> float | None:
        """Check that what it needs can be reached, for ``/mcp/health?ready``.

        :returns: How many seconds ago it was; ``None`` if it needs nothing.
        :raises Exception: of any class, if not. The log has its text.
        """
        return None

    def problems(self, path: str | None) -> Iterable[tuple[str, str]]:
        """Find mistakes for ``flask mcp doctor``: the slug of each, and why it matters.

        :param path: The path of the blueprint's MCP endpoint; ``None`` if it has variables.
        """
        return ()

    @property
    def extensions(self) -> dict[str, Any]:
        """The MCP extensions that the server declares because of it."""
        return {}

    @property
    def scheme(self) -> str | None:
        """The auth scheme, as in the challenge."""
        challenge = self.challenge()
        return None if challenge is None else challenge.partition(" ")[0]

    @property
    def header(self) -> str:
        """The request header with the credentials."""
        return "Authorization"

    @property
    def selector(self) -> str:
        """Distinguishes it from others of the same scheme."""
        return str(self)

    def challenge(self) -> str | None:
        """Return the ``WWW-Authenticate`` header of a 401."""
        return None

    def challenge_to(self, error: RpcError) -> str | None:
        """Return the ``WWW-Authenticate`` header of the response to an error."""
        return None if isinstance(error, InsufficientScope) else self.challenge()

    def has_credentials(self, request: Request) -> bool:
        """Whether the request has credentials of this kind, which must then be valid."""
        return False

    def authenticate(self, request: Request) -> tuple[Any, Authorization] | None:
        """Return the user of a request, and the credentials, which must not be logged; ``None`` if there is no user.

        :raises Unauthorized: if the credentials are wrong.
        """
        # The app's code may read the body, before the view limits it.
        request.max_content_length = request.max_content_length or MAX_BODY
        user = self.find_user(request)
        if isinstance(user, LocalProxy):
            user = user._get_current_object()
        if inspect.isawaitable(user):
            raise TypeError(f"{self} returned a coroutine; declare it with async def")
        # Flask-Login has an object for anonymous users, too.
        if not user or getattr(user, "is_authenticated", True) is False:
            return None
        return user, request.authorization or Authorization("")

    def find_user(self, request: Request) -> Any:
        """Return the user of a request, or ``None``."""
        raise NotImplementedError

    def apply_token(self, principal: str) -> tuple[frozenset[str], str]:
        """Return the scopes of the caller's access token, and the principal that it makes of the user's.

        Called if ``grants_scopes``.
        """
        raise NotImplementedError

    def current_grant(self) -> str | None:
        """Return the id of what the user has allowed the client of this request; no secret. A task stores it."""
        return None

    def grant_holds(self, grant: str) -> bool:
        """Whether a grant still holds; a worker asks before it runs a task."""
        return True

    def set_user(self, user: Any) -> None:
        """Set the current user of the extension, however the caller signed in; ``None`` for an anonymous caller."""

    @property
    def knows_permissions(self) -> bool:
        """Whether it can return permissions."""
        return False

    def permissions_of(self, user: Any) -> Iterable[str] | None:
        """Return the permissions of a user, or of anonymous callers; ``None`` if they are not known here."""
        return None

    def __str__(self) -> str:
        return type(self).__name__


class FunctionSignIn(SignIn):
    """A function of the app that returns the user of the current request.

    :param func: It may have the attributes ``challenge``, ``uses_cookies`` and ``get_user_roles``.
    :raises TypeError: if it needs arguments.
    """

    def __init__(self, func: Callable[[], Any]) -> None:
        self._func = func
        self._challenge: str | None = getattr(func, "challenge", None)
        self._get_user_roles: Callable[[Any], Any] | None = getattr(func, "get_user_roles", None)
        self.uses_cookies = getattr(func, "uses_cookies", True)
        self.kind = {"basic": "password", "bearer": "token"}.get((self.scheme or "").lower())
        try:
            inspect.signature(func).bind()
        except TypeError as error:
            raise TypeError(f"{self} must take no arguments to be auth=; it reads flask.request") from error

    def challenge(self) -> str | None:
        return self._challenge

    def find_user(self, request: Request) -> Any:
        if self.uses_cookies and not accepts_cookies(request):
            # The function may read a cookie. Call it only for a client that is not a browser and sends Authorization.
            is_browser = request.cookies and "Sec-Fetch-Site" in request.headers
            if is_browser or not has_authorization(request):
                return None
        return current_app.ensure_sync(self._func)()

    @property
    def knows_permissions(self) -> bool:
        return self._get_user_roles is not None

    def permissions_of(self, user: Any) -> Iterable[str] | None:
        if user is None or self._get_user_roles is None:
            return None
        granted: Iterable[str] | None = current_app.ensure_sync(self._get_user_roles)(user)
        return granted

    def __str__(self) -> str:
        return getattr(self._func, "__qualname__", None) or type(self._func).__qualname__


class HTTPAuthSignIn(SignIn):
    """Signs in with a Flask-HTTPAuth object.

    Its own ``login_required`` treats a wrong password as anonymous where the login is optional, accepts a password
    under any scheme, and compares the scheme's case. Here the scheme is matched first, case-insensitively, and
    credentials that are sent must be right on every route.
    """

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
