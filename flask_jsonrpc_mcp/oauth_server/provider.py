"""`OAuthServer`: the blueprint that makes an app an authorization server for its own MCP endpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from authlib.oauth2 import OAuth2Error
from flask import Blueprint, Response, request, url_for
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from werkzeug.exceptions import HTTPException

from ..checks import checked_scopes
from ..config import set_defaults
from ..errors import RpcError, SignInUnavailable, VerbNotAllowed
from ..http.io import error_response, json_response, no_content, read_json_body
from ..http.routes import add_to_host, check_host
from ..oauth.metadata import allow_all_origins, public_url
from .accounts import Accounts
from .app_clients import RedirectRules, checked_schemes, register
from .grants import FileGrants, Grant, Grants
from .issuing import EXTENSION, Issuing, Mounted, Options
from .own_resource import ENDPOINT, OwnResource
from .pages import MAX_BODY, Pages
from .protocol_endpoints import Parameters, ProtocolEndpoints

F = TypeVar("F", bound=Callable[..., Any])

DAY = 24 * 3600
MIN_KEY_BYTES = 32
METADATA_MAX_AGE = 300
WELL_KNOWN = "/.well-known/oauth-authorization-server"


class OAuthServer(Blueprint):
    """Let people sign in to AI clients on the login page of the app.

    ::

        oauth = OAuthServer(scopes={"articles:read": "Read articles", "articles:write": "Write articles in your name"})
        rpc = McpBlueprint(auth=oauth.resource)

        app.register_blueprint(oauth)
        app.register_blueprint(rpc)

    It asks Flask-Login who is signed in. If your app does not use Flask-Login, register a function with
    :meth:`signed_in`.

    :param name: The blueprint's name, and the first part of its paths, such as ``/oauth/token``.
    :param scopes: A dict of scopes, each with the text that the consent page shows for it.
    :param base: The scopes of every token; by default the first of ``scopes``.
    :param login_view: The endpoint of the login page. After the login, it must redirect to the path in the query
        parameter ``next``. By default Flask-Login's ``login_view``, or ``login``.
    :param grants: Where grants are stored: ``FileGrants(path)``, or ``SqlGrants(engine)`` for several machines. By
        default the file ``oauth.sqlite`` in the app's instance folder.
    :param access_age: Seconds for which an access token is valid.
    :param refresh_age: Seconds after which an unused grant ends.
    :param max_age: Seconds after which a grant ends even if it is used; then the user has to agree again.
    :param grace: Seconds for which a replaced refresh token still works and gets its successor again, because clients
        refresh in parallel and lose responses.
    :param registration: Let clients register themselves (RFC 7591).
    :param documents: Accept clients whose id is the URL of a document about them (client ID metadata documents).
    :param redirect_hosts: The hosts of redirect URIs; by default all. Include ``localhost`` and ``127.0.0.1`` for
        clients that run on the user's own machine.
    :param redirect_schemes: Private URI schemes that redirect URIs may have, for programs on the user's own machine.
    :param template: Your own template for the consent page.
    :param options: Other options of :class:`flask.Blueprint`, such as ``url_prefix``.
    """

    def __init__(
        self,
        name: str = "oauth",
        *,
        scopes: Mapping[str, str],
        base: Collection[str] | None = None,
        login_view: str | None = None,
        grants: Grants | None = None,
        access_age: int = 3600,
        refresh_age: int = 30 * DAY,
        max_age: int = 180 * DAY,
        grace: int = 120,
        registration: bool = True,
        documents: bool = True,
        redirect_hosts: Collection[str] | None = None,
        redirect_schemes: Collection[str] = ("cursor", "vscode", "vscode-insiders"),
        template: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, __name__, template_folder="templates", **{"url_prefix": f"/{name}", **options})
        checked = _checked_words(scopes)
        ages = {"access_age": access_age, "refresh_age": refresh_age, "max_age": max_age, "grace": grace}
        for option, age in ages.items():
            least = 0 if option == "grace" else 1
            if not isinstance(age, int) or isinstance(age, bool) or age < least:
                raise ValueError(f"{option} must be a whole number of seconds, at least {least}, not {age!r}")
        if isinstance(redirect_hosts, str):
            raise TypeError(f"redirect_hosts must be a list; write [{redirect_hosts!r}]")
        if grants is not None and not isinstance(grants, Grants):
            raise TypeError(f"grants must be FileGrants(path) or SqlGrants(engine), not a {type(grants).__name__}")
        self._grants = grants
        self._accounts = Accounts(login_view)
        self._issuing = Issuing(
            Options(
                scopes=checked,
                base=_checked_base(base, checked),
                registration=registration,
                documents=documents,
                redirects=RedirectRules(
                    None if redirect_hosts is None else frozenset(host.lower() for host in redirect_hosts),
                    checked_schemes(redirect_schemes),
                ),
                **ages,
            ),
            self._accounts,
        )
        self.resource = OwnResource(self._issuing)
        """The auth object for ``McpBlueprint(auth=...)``."""
        self._endpoints = ProtocolEndpoints(self._issuing, self.resource)
        self._add_views(Pages(self._issuing, self._endpoints, template), registration=registration)
        self.record(self._mount)

    def signed_in(self, func: F) -> F:
        """Register the function that returns the id of the user who is signed in, or ``None``."""
        self._accounts.signed_in = func
        return func

    def user_loader(self, func: F) -> F:
        """Register the function that gets an id, always as a string, and returns the user, or ``None``.

        It is called in every request with an access token, so a closed account is refused at once.
        """
        self._accounts.user_loader = func
        return func

    def grants_of(self, user_id: Any) -> list[Grant]:
        """Return the grants of a user in the current app."""
        return self._issuing.grants.of_user(str(user_id))

    def revoke(self, grant_id: str) -> None:
        """End a grant. Its tokens are invalid at once."""
        self._issuing.grants.revoke(grant_id)

    def revoke_user(self, user_id: Any) -> None:
        """End all grants of a user."""
        self._issuing.grants.revoke_user(str(user_id))

    def _add_views(self, pages: Pages, *, registration: bool) -> None:
        views: dict[str, Callable[[], Response]] = {
            "token": self._open(self._token, "POST, OPTIONS"),
            "revoke": self._open(self._revoke, "POST, OPTIONS"),
            "authorize": pages.authorize,
            "apps": pages.apps,
        }
        if registration:
            views["register"] = self._open(self._register, "POST, OPTIONS")
        for endpoint, view in views.items():
            is_page = endpoint in ("authorize", "apps")
            self.add_url_rule(
                f"/{endpoint}",
                endpoint,
                view,
                methods=["GET", "POST"] if is_page else ["POST", "OPTIONS"],
                provide_automatic_options=False,
            )

    def _mount(self, state: BlueprintSetupState) -> None:
        """On registration: check the settings, add the well-known route, and open the storage for this app."""
        app, name = state.app, f"{state.name_prefix}.{state.name}".lstrip(".")
        set_defaults(app)
        _check_key(app)
        if EXTENSION in app.extensions:
            raise ValueError("an app can have only one OAuthServer: list all scopes in it")
        grants = self._grants or FileGrants(Path(app.instance_path) / "oauth.sqlite")
        app.extensions[EXTENSION] = Mounted(self._issuing, grants)
        app.add_url_rule(
            WELL_KNOWN,
            ENDPOINT,
            self._open(lambda: self._metadata(name), "GET, HEAD, OPTIONS"),
            methods=["GET", "OPTIONS"],
            provide_automatic_options=False,
        )
        endpoints = {rule.endpoint for rule in app.url_map.iter_rules() if rule.endpoint.rpartition(".")[0] == name}
        add_to_host(app, endpoints | {ENDPOINT}, csrf_exempt=True)

    def _open(self, answer: Callable[[], Response], verbs: str) -> Callable[[], Response]:
        """Return the view of an endpoint for clients: pages of any origin may call it, and errors are JSON."""

        def view() -> Response:
            try:
                check_host(request)
                if request.method not in verbs.split(", "):
                    raise VerbNotAllowed(verbs.split(", "))
                response = no_content() if request.method == "OPTIONS" else answer()
            except OAuth2Error as error:
                response = self._endpoints.handle_error_response(None, error)
            except (RpcError, HTTPException) as error:
                response = _failure(error)
            return allow_all_origins(response, verbs)

        return view

    def _metadata(self, name: str) -> Response:
        public = public_url()

        def url(endpoint: str) -> str:
            return public + url_for(f"{name}.{endpoint}").removeprefix(request.script_root)

        members: dict[str, Any] = {
            "issuer": public,
            "authorization_endpoint": url("authorize"),
            "token_endpoint": url("token"),
            "revocation_endpoint": url("revoke"),
            "scopes_supported": list(self._issuing.options.scopes),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._issuing.options.documents,
        }
        if self._issuing.options.registration:
            members["registration_endpoint"] = url("register")
        response = json_response(members)
        response.headers["Cache-Control"] = f"public, max-age={METADATA_MAX_AGE}"
        return response

    def _register(self) -> Response:
        request.max_content_length = MAX_BODY
        return json_response(register(read_json_body(request), self._issuing.options.redirects), 201)

    def _token(self) -> Response:
        return self._endpoints.token(_read_form())

    def _revoke(self) -> Response:
        return self._endpoints.revoke(_read_form())


def _read_form() -> Parameters:
    request.max_content_length = MAX_BODY
    return Parameters(request.method, request.form, request.headers)


def _failure(error: RpcError | HTTPException) -> Response:
    """Return the response to a request that cannot be read (RFC 6749, section 5.2)."""
    if isinstance(error, HTTPException):
        return json_response({"error": "invalid_request"}, error.code or 400)
    slug = "server_error" if error.status >= 500 else "invalid_request"
    slug = "temporarily_unavailable" if isinstance(error, SignInUnavailable) else slug
    return error_response({"error": slug, "error_description": error.message}, error, error.status)


def _checked_words(scopes: Any) -> dict[str, str]:
    if not isinstance(scopes, Mapping) or not scopes:
        raise ValueError(
            "scopes must be a dict of scopes and their texts for the consent page: {'articles:read': 'Read articles'}"
        )
    checked_scopes("scopes", scopes)
    for scope, words in scopes.items():
        if not isinstance(words, str) or not words.strip():
            raise ValueError(f"scopes: {scope!r} needs a text for the consent page that says what it allows")
    return dict(scopes)


def _checked_base(base: Collection[str] | None, scopes: Mapping[str, str]) -> frozenset[str]:
    if base is None:
        return frozenset(list(scopes)[:1])
    checked = checked_scopes("base", base)
    if not checked <= set(scopes):
        raise ValueError(f"base: {', '.join(sorted(checked - set(scopes)))} is missing in scopes; add it there")
    return checked


def _check_key(app: App) -> None:
    key = app.config.get("SECRET_KEY") or b""
    if len(key.encode() if isinstance(key, str) else key) < MIN_KEY_BYTES:
        raise ValueError(
            f"OAuthServer signs tokens with SECRET_KEY: set a key of at least {MIN_KEY_BYTES} bytes before you register"
            " the blueprint. To make one: python -c 'import secrets; print(secrets.token_hex())'"
        )
