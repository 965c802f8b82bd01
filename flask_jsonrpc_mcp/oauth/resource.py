"""`OAuthResource`: the auth object of a blueprint that accepts access tokens, and how it signs in."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from flask import Request, current_app, request
from flask.sansio.app import App
from flask_httpauth import HTTPTokenAuth
from werkzeug.datastructures import Authorization
from werkzeug.routing import BuildError

from ..auth import HTTPAuthSignIn, is_refused
from ..checks import checked_scopes
from ..config import PREFIX, server_info
from ..errors import InsufficientScope, RpcError, Unauthorized
from ..origins import is_secure_url
from ..registry import EXTENSION, Registry
from .diagnosis import check_issuers, check_public_url
from .introspection import Introspection
from .keys import FetchedKeys, GivenKeys, KeySource
from .metadata import add_routes, place_of
from .tokens import ALGORITHMS, REMEMBER, AccessToken, InvalidToken, JwtReader, Reader, Verifier, scopes_in

VERIFIERS = "jsonrpc_mcp_oauth"
"""``app.extensions["jsonrpc_mcp_oauth"]`` has the `Verifier` of each `OAuthResource`."""

CLIENT_CREDENTIALS = "io.modelcontextprotocol/oauth-client-credentials"

_TOKEN = "flask_jsonrpc_mcp.access_token"  # noqa: S105 (a key of the WSGI environ)


class OAuthResource(HTTPTokenAuth):  # type: ignore[misc] # Flask-HTTPAuth has no types
    """Accept the access tokens of an OAuth 2.1 authorization server, as MCP demands.

    It is an auth object of Flask-HTTPAuth, to be passed as ``auth=`` or within a ``MultiAuth``::

        oauth = OAuthResource("https://login.example.com", scopes=["articles:read"])
        rpc = McpBlueprint(auth=oauth)

        @oauth.verify_token
        def user_of(token):
            return User.query.filter_by(subject=token.subject).first()

    ``verify_token`` is optional. It gets the :class:`AccessToken`, which is verified already, and returns the user, or
    ``None`` if there is none. Without it the user is the access token itself.

    :param issuer: The authorization server, or a list of several, exactly as in the ``iss`` of their tokens. By
        default the setting ``JSONRPC_MCP_OAUTH_ISSUER``.
    :param scopes: The scopes that every token needs. Clients ask for them when they sign in.
    :param audience: The ``aud`` of tokens, or a list, for an authorization server that does not use the URL of the MCP
        endpoint, which it is by default.
    :param implies: The scopes that a scope includes: ``{"articles:write": ["articles:read"]}``.
    :param algorithms: The signature algorithms to accept; by default all with a public key.
    :param jwks_uri: The URL of the keys, if it is not in the metadata of the authorization server.
    :param keys: The keys themselves, as a JWK set; then nothing is fetched.
    :param introspection: The client id and secret to ask the authorization server about every token with (RFC 7662),
        for tokens that are not JSON Web Tokens.
    :param introspection_endpoint: Where to ask, if it is not in the metadata of the authorization server.
    :param leeway: By how many seconds the clocks of the servers may differ.
    :param max_token: Maximum characters of a token.
    :param client_credentials: Tell MCP clients that the authorization server has the client credentials grant for
        clients without a user.
    :param documentation: The URL of a page for developers of clients.
    """

    def __init__(
        self,
        issuer: str | Iterable[str] | None = None,
        *,
        scopes: Iterable[str] = (),
        audience: str | Iterable[str] | None = None,
        implies: Mapping[str, Iterable[str]] | None = None,
        algorithms: Collection[str] = ALGORITHMS,
        jwks_uri: str | None = None,
        keys: Mapping[str, Any] | None = None,
        introspection: tuple[str, str] | None = None,
        introspection_endpoint: str | None = None,
        leeway: float = 30,
        max_token: int = 16384,
        client_credentials: bool = False,
        documentation: str | None = None,
    ) -> None:
        super().__init__("Bearer")
        self.issuers = None if issuer is None else _checked_issuers("issuer", issuer)
        self.scopes = checked_scopes("scopes", scopes)
        self.implies = {
            scope: checked_scopes(f"implies[{scope!r}]", others) for scope, others in (implies or {}).items()
        }
        self.client_credentials = client_credentials
        self.documentation = documentation
        self._audiences = frozenset([audience] if isinstance(audience, str) else audience or ())
        self._algorithms = _checked_algorithms(algorithms)
        for name, url in (("jwks_uri", jwks_uri), ("introspection_endpoint", introspection_endpoint)):
            if url is not None and not is_secure_url(url):
                raise ValueError(f"{name} must be an https URL, not {url!r}; http is only for localhost")
        if sum(source is not None for source in (jwks_uri, keys, introspection)) > 1:
            raise ValueError("jwks_uri, keys and introspection exclude each other; keep one of them")
        if introspection_endpoint is not None and introspection is None:
            raise ValueError("introspection_endpoint needs introspection=(client_id, client_secret)")
        self._jwks_uri = jwks_uri
        self._given_keys = None if keys is None else GivenKeys(keys)
        self._introspection = None if introspection is None else _checked_credentials(introspection)
        self._introspection_endpoint = introspection_endpoint
        self.fetches_keys = keys is None and jwks_uri is None and introspection is None
        self._leeway = leeway
        self._max_token = max_token

    def sign_in(self) -> OAuthSignIn:
        """Return what signs in with it. The blueprint calls this."""
        return OAuthSignIn(self)

    def current_token(self) -> AccessToken | None:
        """Return the access token of the current request; ``None`` if the caller signed in otherwise, or not at all."""
        token: AccessToken | None = request.environ.get(_TOKEN)
        return token

    def authenticate(self, auth: Authorization | None, stored_password: str | None) -> Any:
        """Refuse ``login_required``: the audience of a token is the MCP endpoint, and no other view."""
        raise RuntimeError("an OAuthResource signs in at a McpBlueprint; login_required of other views needs another")

    def make_verifier(self, app: App) -> Verifier:
        """Build what verifies the tokens in an app.

        :raises ValueError: if there is no issuer.
        """
        setting = PREFIX + "OAUTH_ISSUER"
        issuers = self.issuers
        if issuers is None:
            if not app.config[setting]:
                raise ValueError(
                    f"an OAuthResource needs its authorization server: OAuthResource('https://login.example.com'), or"
                    f" set {setting}"
                )
            issuers = _checked_issuers(setting, app.config[setting])
        if len(issuers) > 1 and (self._jwks_uri or self._given_keys or self._introspection):
            raise ValueError("jwks_uri, keys and introspection are of one issuer; pass a single one")
        return Verifier(
            self._make_reader(issuers),
            issuers,
            remember=0 if self._introspection else REMEMBER,
            audiences=self._audiences,
            implies=self.implies,
            leeway=self._leeway,
            max_token=self._max_token,
        )

    def _make_reader(self, issuers: tuple[str, ...]) -> Reader:
        if self._introspection is not None:
            return Introspection(issuers[0], self._introspection, self._introspection_endpoint)
        keys: dict[str, KeySource] = {
            issuer: self._given_keys or FetchedKeys(issuer, self._jwks_uri) for issuer in issuers
        }
        return JwtReader(keys, self._algorithms)


class OAuthSignIn(HTTPAuthSignIn):
    """Signs in with access tokens."""

    grants_scopes = True

    def __init__(self, auth: OAuthResource) -> None:
        super().__init__(auth)
        self.auth: OAuthResource = auth

    def mount(self, app: App) -> None:
        verifiers: dict[OAuthResource, Verifier] = app.extensions.setdefault(VERIFIERS, {})
        if self.auth not in verifiers:
            verifiers[self.auth] = self.auth.make_verifier(app)
        add_routes(app)

    @property
    def verifier(self) -> Verifier:
        verifier: Verifier = current_app.extensions[VERIFIERS][self.auth]
        return verifier

    @property
    def extensions(self) -> dict[str, Any]:
        return {CLIENT_CREDENTIALS: {}} if self.auth.client_credentials else {}

    def describe(self, blueprint: str) -> dict[str, Any]:
        try:
            url = place_of(blueprint, {}).metadata
        except BuildError:
            return {}
        return {"oauth": {"resourceMetadata": url, "issuers": list(self.verifier.issuers)}}

    def problems(self, path: str | None) -> Iterator[tuple[str, str]]:
        yield from check_issuers(self.verifier.issuers, fetches_keys=self.auth.fetches_keys)
        yield from check_public_url(current_app.config[PREFIX + "PUBLIC_URL"], path)

    def document(self, resource: str) -> dict[str, Any]:
        """Return the metadata of a protected resource (RFC 9728, section 2)."""
        members: dict[str, Any] = {"resource": resource, "authorization_servers": list(self.verifier.issuers)}
        if self.auth.scopes:
            members["scopes_supported"] = sorted(self.auth.scopes)
        members["bearer_methods_supported"] = ["header"]
        members["resource_name"] = server_info(current_app)["name"]
        if self.auth.documentation is not None:
            members["resource_documentation"] = self.auth.documentation
        return members

    def challenge(self) -> str:
        return self.challenge_to(Unauthorized())

    def challenge_to(self, error: RpcError) -> str:
        """Return the challenge, with ``scope`` before the texts, because some clients search it with a pattern."""
        metadata = ("resource_metadata", place_of(_blueprint()).metadata)
        if isinstance(error, InsufficientScope):
            scope = ("scope", self._scopes_to_ask_for(error.scopes))
            text = ("error_description", "The access token needs more scopes")
            return _challenge(("error", error.slug), scope, metadata, text)
        needed = error.scopes if isinstance(error, Unauthorized) else frozenset()
        parameters = [metadata, ("scope", " ".join(sorted(self.auth.scopes | needed)))]
        if isinstance(error, InvalidToken):
            parameters += [("error", "invalid_token"), ("error_description", error.message)]
        return _challenge(*parameters)

    def _scopes_to_ask_for(self, missing: frozenset[str]) -> str:
        """Join all scopes that the next token needs, because some clients ask for these only, and lose the others."""
        token = self.auth.current_token()
        named = frozenset() if token is None else scopes_in(token.claims)
        has_by_implication = frozenset() if token is None else token.scopes - named
        registry: Registry = current_app.extensions[EXTENSION][_blueprint()]
        known = registry.scopes.union(self.auth.scopes, self.auth.implies, *self.auth.implies.values())
        return " ".join(sorted((self.auth.scopes | missing) - has_by_implication | (named & known)))

    def claims(self, request: Request) -> bool:
        # Also with a tab behind the scheme, so that the client is told what is wrong.
        return re.match(r"\s*bearer(?!\S)", request.headers.get("Authorization", ""), re.IGNORECASE) is not None

    def find(self, request: Request) -> tuple[Any, Authorization]:
        token = self._verify(request)
        request.environ[_TOKEN] = token
        if not self.auth.scopes <= token.scopes:
            raise InsufficientScope(self.auth.scopes)
        callback = self.auth.verify_token_callback
        user = token if callback is None else self.auth.ensure_sync(callback)(token)
        if is_refused(user):
            raise InvalidToken("the app knows no such user")
        return token if user is True else user, Authorization("bearer", {})

    def _verify(self, request: Request) -> AccessToken:
        # The rest of the header as it is: werkzeug would take a part of it, or parameters, for the token.
        sent = request.headers["Authorization"].strip(" ").partition(" ")[2].strip(" ")
        try:
            return self.verifier.verify(sent, place_of(_blueprint()).resource)
        except InvalidToken as refused:
            facts = "".join(f" {name}={fact!r}" for name, fact in refused.facts.items())
            current_app.logger.warning("access token refused: %s%s", refused.reason, facts)
            raise

    def limit(self, caller: Any) -> Any:
        token: AccessToken = request.environ[_TOKEN]
        return replace(caller, scopes=token.scopes, principal=_principal(token.issuer, token.id))


def _challenge(*parameters: tuple[str, str]) -> str:
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters if value)


@functools.lru_cache(maxsize=1024)
def _principal(issuer: str, name: str) -> str:
    """Identify a caller by issuer and subject, so that it stays the same when the client gets its next token."""
    return hashlib.sha256(f"authorization:bearer:{issuer}|{name}".encode()).hexdigest()


def _blueprint() -> str:
    return request.blueprint or ""


def _checked_issuers(role: str, issuer: Any) -> tuple[str, ...]:
    issuers = (issuer,) if isinstance(issuer, str) else tuple(issuer)
    for each in issuers:
        if not isinstance(each, str) or not is_secure_url(each) or "?" in each:
            raise ValueError(
                f"{role} must be the https URL of an authorization server, such as 'https://login.example.com', not"
                f" {each!r}; http is only for localhost"
            )
    if not issuers:
        raise ValueError(f"{role} is an empty list; name the authorization server")
    return issuers


def _checked_credentials(credentials: Any) -> tuple[str, str]:
    pair = tuple(credentials) if isinstance(credentials, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(each, str) for each in pair):
        raise TypeError("introspection must be (client_id, client_secret)")
    return pair


def _checked_algorithms(algorithms: Collection[str]) -> tuple[str, ...]:
    chosen = tuple([algorithms] if isinstance(algorithms, str) else algorithms)
    for algorithm in chosen:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"algorithms: {algorithm!r} cannot be accepted; choose from {', '.join(ALGORITHMS)}")
    if not chosen:
        raise ValueError("algorithms is empty; name those of the authorization server")
    return chosen
