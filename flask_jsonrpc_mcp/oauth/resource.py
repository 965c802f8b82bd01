"""`OAuthResource`: the auth object for a blueprint that accepts access tokens.

`json_web_tokens` imports joserfc and with it cryptography, which take 9 MB. So it is imported inside functions, for the
first `OAuthResource` that reads JSON Web Tokens. An app that is its own authorization server does not need it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flask.sansio.app import App
from flask_httpauth import HTTPTokenAuth
from werkzeug.datastructures import Authorization

from ..checks import checked_scopes
from ..config import PREFIX
from ..origins import is_secure_url
from .authorization_server import Introspection
from .bearer import OAuthSignIn, current_token
from .tokens import REMEMBER, AccessToken, Reader, TokenVerifier, Verifier

if TYPE_CHECKING:
    from .json_web_tokens import StaticKeys

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""The algorithms that can be accepted: those with a public key."""


class OAuthResource(HTTPTokenAuth):  # type: ignore[misc] # Flask-HTTPAuth has no types
    """Accept the access tokens of an OAuth 2.1 authorization server, as MCP specifies it.

    It is an auth object of Flask-HTTPAuth. Pass it as ``auth=``, or in a ``MultiAuth``::

        oauth = OAuthResource("https://login.example.com", scopes=["articles:read"])
        rpc = McpBlueprint(auth=oauth)

        @oauth.verify_token
        def user_of(token):
            return User.query.filter_by(subject=token.subject).first()

    ``verify_token`` is optional. Its function gets the verified :class:`AccessToken`, and returns the user, or ``None``
    to refuse the token. Without it, the user is the access token itself.

    :param issuer: The authorization server, or a list of several, exactly as in the ``iss`` of their tokens. By
        default the setting ``JSONRPC_MCP_OAUTH_ISSUER``.
    :param scopes: The scopes that every token needs. Clients ask for them when they sign in.
    :param audience: The ``aud`` of tokens, or a list of them; by default the URL of the MCP endpoint. For authorization
        servers that put something else into their tokens.
    :param implies: The scopes that a scope includes: ``{"articles:write": ["articles:read"]}``.
    :param scope_prefix: A prefix of scopes that clients must add when they ask for them, and that tokens do not have.
        Microsoft Entra calls a scope ``api://.../articles.read`` in requests and ``articles.read`` in tokens.
    :param algorithms: The signature algorithms to accept; by default all with a public key.
    :param jwks_uri: The URL of the keys, if it is not in the metadata of the authorization server.
    :param keys: The keys themselves, as a JWK set; then nothing is fetched.
    :param introspection: A client id and its secret. For tokens that are not JSON Web Tokens: the authorization server
        is asked about every token (RFC 7662), with these credentials.
    :param introspection_endpoint: The URL for that, if it is not in the metadata of the authorization server.
    :param leeway: Seconds by which the clocks of the servers may differ.
    :param max_token: Maximum characters of a token.
    :param client_credentials: Announce to MCP clients that the authorization server supports the client credentials
        grant, for clients without a user.
    :param documentation: The URL of a page for developers of clients.
    """

    def __init__(
        self,
        issuer: str | Iterable[str] | None = None,
        *,
        scopes: Iterable[str] = (),
        audience: str | Iterable[str] | None = None,
        implies: Mapping[str, Iterable[str]] | None = None,
        scope_prefix: str = "",
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
        checked_scopes("implies", implies or ())
        self.implies = {scope: checked_scopes(f"implies {scope}", others) for scope, others in (implies or {}).items()}
        checked_scopes("scope_prefix", [scope_prefix] if scope_prefix else ())
        self.scope_prefix = scope_prefix
        self.client_credentials = client_credentials
        self.documentation = documentation
        self._audiences = frozenset([audience] if isinstance(audience, str) else audience or ())
        if audience is not None and not all(isinstance(each, str) and each for each in self._audiences or [None]):
            raise ValueError(f"audience must be the aud of the authorization server's tokens, not {audience!r}")
        self._algorithms = _checked_algorithms(algorithms)
        for name, url in (("jwks_uri", jwks_uri), ("introspection_endpoint", introspection_endpoint)):
            if url is not None and not is_secure_url(url):
                raise ValueError(f"{name} must be an https URL, not {url!r}; http is only for localhost")
        if sum(source is not None for source in (jwks_uri, keys, introspection)) > 1:
            raise ValueError("pass only one of jwks_uri, keys and introspection")
        if introspection_endpoint is not None and introspection is None:
            raise ValueError("introspection_endpoint needs introspection=(client_id, client_secret)")
        self._jwks_uri = jwks_uri
        self._static_keys = None if keys is None else _import_keys(keys)
        self._introspection = None if introspection is None else _checked_credentials(introspection)
        self._introspection_endpoint = introspection_endpoint
        self.fetches_keys = keys is None and jwks_uri is None and introspection is None
        self._leeway = leeway
        self._max_token = max_token

    def mcp_sign_in(self) -> OAuthSignIn:
        """Return the authentication method for a blueprint. The blueprint calls this."""
        return OAuthSignIn(self)

    def current_token(self) -> AccessToken | None:
        """Return the access token of the current request; ``None`` if the caller has not signed in with one."""
        return current_token()

    def authenticate(self, auth: Authorization | None, stored_password: str | None) -> Any:
        """Refuse ``login_required``: tokens are for the MCP endpoint, and for no other view."""
        raise RuntimeError(
            "an OAuthResource works only as auth= of a McpBlueprint; use another auth object for login_required"
        )

    def make_verifier(self, app: App) -> TokenVerifier:
        """Build the verifier for an app.

        :raises ValueError: if the issuer is missing.
        """
        setting = PREFIX + "OAUTH_ISSUER"
        issuers = self.issuers
        if issuers is None:
            if not app.config[setting]:
                raise ValueError(
                    "an OAuthResource needs the URL of its authorization server: pass"
                    f" OAuthResource('https://login.example.com'), or set {setting}"
                )
            issuers = _checked_issuers(setting, app.config[setting])
        if len(issuers) > 1 and (self._jwks_uri or self._static_keys or self._introspection):
            raise ValueError("jwks_uri, keys and introspection belong to one issuer; pass a single issuer with them")
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
        from .json_web_tokens import FetchedKeys, JwtReader

        keys = {issuer: self._static_keys or FetchedKeys(issuer, self._jwks_uri) for issuer in issuers}
        return JwtReader(keys, self._algorithms)


def _checked_issuers(role: str, issuer: Any) -> tuple[str, ...]:
    issuers = tuple(issuer) if isinstance(issuer, (list, tuple, set, frozenset)) else (issuer,)
    for each in issuers:
        if not isinstance(each, str) or not is_secure_url(each) or "?" in each or "/.well-known/" in each:
            raise ValueError(
                f"{role} must be the https URL of an authorization server, such as 'https://login.example.com', not"
                f" {each!r}; http is only for localhost"
            )
    if not issuers:
        raise ValueError(f"{role} is an empty list; name the authorization server")
    return issuers


def _import_keys(jwks: Mapping[str, Any]) -> StaticKeys:
    from .json_web_tokens import StaticKeys

    return StaticKeys(jwks)


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
