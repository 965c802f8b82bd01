"""Authentication methods besides Flask-HTTPAuth: a function of the app, and those of other extensions.

Browsers send cookies with every request, also with those that pages of other sites make. So a cookie is ignored unless
a page of this site sent the request; see `accepts_cookies`.

Each extension is imported when its class is used, because the package does not require it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Request, current_app, g, request
from flask.sansio.app import App
from werkzeug.datastructures import Authorization
from werkzeug.local import LocalProxy

from .config import MAX_BODY
from .errors import InsufficientScope, RpcError, Unauthorized
from .origins import same_origin


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
            if is_browser or not _has_authorization(request):
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


class FlaskLoginAuth(SignIn):
    """Sign in with Flask-Login: with its cookies, or with what the app's ``request_loader`` reads.

    In a method, ``flask_login.current_user`` is the caller, however the caller signed in.
    """

    def find_user(self, request: Request) -> Any:
        from flask_login import current_user

        if accepts_cookies(request) and not _has_authorization(request):
            return current_user
        load = _login_manager().request_callback
        return load and load(request)

    def problems(self, path: str | None) -> Iterator[tuple[str, str]]:
        if not hasattr(current_app, "login_manager"):
            yield "no-login-manager", f"{self} needs Flask-Login's LoginManager, and without it every request is a 500"

    def set_user(self, user: Any) -> None:
        # Flask-Login's login_user would write into the session and send a signal. Flask-Security uses this method, too.
        _login_manager()._update_request_context_with_user(user if hasattr(user, "is_authenticated") else None)


class JWTExtendedAuth(SignIn):
    """Sign in with Flask-JWT-Extended: with a token at one of the app's ``JWT_TOKEN_LOCATION``, but not in a JSON body.

    If that has only cookies, MCP clients use the header. The user is what ``user_lookup_loader`` finds, or else the
    identity in the token.
    """

    kind = "token"

    @property
    def header(self) -> str:
        return str(current_app.config["JWT_HEADER_NAME"])

    def challenge(self) -> str:
        return current_app.config["JWT_HEADER_TYPE"] or "Bearer"

    def has_credentials(self, request: Request) -> bool:
        config = current_app.config
        header = request.headers.get(self.header, "").strip()
        in_query = "query_string" in self._locations() and config["JWT_QUERY_STRING_NAME"] in request.args
        return in_query or bool(header and header.split()[0] == (config["JWT_HEADER_TYPE"] or header))

    def find_user(self, request: Request) -> Any:
        from flask_jwt_extended import verify_jwt_in_request

        failures = _jwt_errors()
        if "," in request.headers.get(self.header, ""):  # two headers that the server has joined
            raise Unauthorized()
        try:
            found = verify_jwt_in_request(optional=True, locations=self._locations())
        except failures as error:
            raise Unauthorized() from error
        takes_cookies = "cookies" in current_app.config["JWT_TOKEN_LOCATION"]
        if found is None and takes_cookies and accepts_cookies(request) and not _has_authorization(request):
            try:
                verify_jwt_in_request(optional=True, locations=["cookies"])
            except failures:
                return None  # as for a session cookie that has expired
        return self._current_user()

    def set_user(self, user: Any) -> None:
        from flask_jwt_extended import verify_jwt_in_request

        if user is not None and user is self._current_user():
            return
        try:
            verify_jwt_in_request(optional=True, locations=self._locations())  # finds no token, and resets the user
        except _jwt_errors() as error:  # it finds a token of another authentication method
            if current_app.config["JWT_QUERY_STRING_NAME"] in request.args:
                raise Unauthorized("Send credentials of one kind only") from error
            verify_jwt_in_request(optional=True, locations=["query_string"])

    def _locations(self) -> list[str]:
        configured = current_app.config["JWT_TOKEN_LOCATION"]
        return [place for place in ("headers", "query_string") if place in configured] or ["headers"]

    def _current_user(self) -> Any:
        from flask_jwt_extended import get_current_user, get_jwt_identity

        try:
            return get_current_user()
        except RuntimeError:  # without a user_lookup_loader, or before a token was verified
            pass
        try:
            return get_jwt_identity()
        except RuntimeError:
            return None


class FlaskSecurityAuth(FlaskLoginAuth):
    """Sign in with Flask-Security: with its session cookie, or with its token in the header or query string.

    The names of a user's roles, and the permissions of these, are the permissions. In a method, ``current_user`` and
    decorators such as ``permissions_required`` see the caller, however the caller signed in.
    """

    kind = "token"
    knows_permissions = True

    @property
    def header(self) -> str:
        return str(current_app.config["SECURITY_TOKEN_AUTHENTICATION_HEADER"])

    def has_credentials(self, request: Request) -> bool:
        in_query = current_app.config["SECURITY_TOKEN_AUTHENTICATION_KEY"] in request.args
        return in_query or bool(request.headers.get(self.header))

    def find_user(self, request: Request) -> Any:
        if self.has_credentials(request):
            return _login_manager().request_callback(request)
        return super().find_user(request)

    def set_user(self, user: Any) -> None:
        from flask_principal import AnonymousIdentity, Identity, identity_changed

        super().set_user(user)
        name = getattr(user, "fs_uniquifier", None)
        app = current_app._get_current_object()  # type: ignore[attr-defined]
        identity_changed.send(app, identity=AnonymousIdentity() if name is None else Identity(name))

    def permissions_of(self, user: Any) -> Iterable[str] | None:
        roles = getattr(user, "roles", None)
        if roles is None:
            return None
        return {name for role in roles for name in (role.name, *role.get_permissions())}


class AppBuilderAuth(FlaskLoginAuth):
    """Sign in with Flask-AppBuilder: with its session cookie, its JSON Web Tokens, or its API keys if they are enabled.

    The names of a user's roles are permissions, and so is ``"can_read on Articles"`` for the permission ``can_read`` on
    the view ``Articles``. Anonymous callers have those of the public role. In a method, ``g.user`` and
    ``sm.has_access()`` see the caller, however the caller signed in.
    """

    kind = "token"
    knows_permissions = True

    def __init__(self) -> None:
        self._tokens = JWTExtendedAuth()

    def challenge(self) -> str:
        return "Bearer"

    def has_credentials(self, request: Request) -> bool:
        return request.headers.get("Authorization", "").strip().lower().startswith("bearer ")

    def find_user(self, request: Request) -> Any:
        if not self.has_credentials(request):
            return super().find_user(request)
        key = (
            _security_manager().extract_api_key_from_request()
            if current_app.config.get("FAB_API_KEY_ENABLED")
            else None
        )
        return self._tokens.find_user(request) if key is None else _security_manager().validate_api_key(key)

    def set_user(self, user: Any) -> None:
        from flask_login import current_user

        super().set_user(user)
        g.user = current_user._get_current_object()

    def permissions_of(self, user: Any) -> Iterable[str] | None:
        manager = _security_manager()
        if user is not None and not hasattr(user, "roles"):
            return None
        roles = [manager.get_public_role()] if user is None else manager.get_user_roles(user)
        return {
            name for role in roles if role is not None for name in (role.name, *_permissions_of_role(manager, role))
        }


def _permissions_of_role(manager: Any, role: Any) -> Iterator[str]:
    granted = manager.get_role_permissions(role)
    if role.name in manager.builtin_roles:  # these are patterns
        known = [
            (each.permission.name, each.view_menu.name) for each in manager.session.query(manager.permissionview_model)
        ]
        granted = [pair for pair in known if any(all(map(re.match, patterns, pair)) for patterns in granted)]
    for permission, view in granted:
        yield f"{permission} on {view}"


def _jwt_errors() -> tuple[type[Exception], ...]:
    from flask_jwt_extended.exceptions import JWTExtendedException
    from jwt import PyJWTError

    return JWTExtendedException, PyJWTError


def _has_authorization(request: Request) -> bool:
    return bool(request.headers.get("Authorization", "").strip())


def _login_manager() -> Any:
    return current_app.login_manager  # type: ignore[attr-defined]


def _security_manager() -> Any:
    return current_app.appbuilder.sm  # type: ignore[attr-defined]
