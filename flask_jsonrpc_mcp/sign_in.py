"""Authentication methods of Flask extensions other than Flask-HTTPAuth.

Each extension is imported when its class is used, because the package does not require it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from flask import Request, current_app, g, request

from .authentication import SignIn, accepts_cookies, has_authorization
from .errors import Unauthorized


class FlaskLoginAuth(SignIn):
    """Sign in with Flask-Login: with its cookies, or with what the app's ``request_loader`` reads.

    In a method, ``flask_login.current_user`` is the caller, however the caller signed in.
    """

    def find_user(self, request: Request) -> Any:
        from flask_login import current_user

        if accepts_cookies(request) and not has_authorization(request):
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
        if found is None and takes_cookies and accepts_cookies(request) and not has_authorization(request):
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


def _login_manager() -> Any:
    return current_app.login_manager  # type: ignore[attr-defined]


def _security_manager() -> Any:
    return current_app.appbuilder.sm  # type: ignore[attr-defined]
