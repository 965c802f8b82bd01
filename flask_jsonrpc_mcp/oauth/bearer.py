"""Sign in with access tokens: verify the bearer token of a request, and answer with challenges (RFC 6750, RFC 9728)."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flask import Request, current_app, request
from flask.sansio.app import App
from werkzeug.datastructures import Authorization
from werkzeug.routing import BuildError

from ..auth import ACCESS_TOKEN
from ..authentication import HTTPAuthSignIn, is_refused
from ..config import PREFIX, server_name
from ..errors import InsufficientScope, RpcError, Unauthorized
from ..problems import MAX_QUOTED, one_line
from ..registry import EXTENSION, Registry
from .authorization_server import ServerFailure, discover, endpoint_in, fetch
from .metadata import add_routes, public_urls_of
from .tokens import AccessToken, InvalidToken, TokenVerifier, scopes_in

if TYPE_CHECKING:
    from .resource import OAuthResource

VERIFIERS = "jsonrpc_mcp_oauth"
"""``app.extensions["jsonrpc_mcp_oauth"]`` has the `TokenVerifier` of each `OAuthResource`."""

CLIENT_CREDENTIALS = "io.modelcontextprotocol/oauth-client-credentials"

# Has no token, so that no code can store one.
_CREDENTIALS = Authorization("bearer", {})
# Also matches a tab after the scheme, so that the response names the mistake.
_BEARER = re.compile(r"\s*bearer(?!\S)", re.IGNORECASE)


def current_token() -> AccessToken | None:
    """Return the access token of the current request, if it has one."""
    token: AccessToken | None = request.environ.get(ACCESS_TOKEN)
    return token


class OAuthSignIn(HTTPAuthSignIn):
    """Signs in with access tokens."""

    grants_scopes = True

    def __init__(self, auth: OAuthResource) -> None:
        super().__init__(auth)
        self.auth: OAuthResource = auth

    def mount(self, app: App) -> None:
        verifiers: dict[OAuthResource, TokenVerifier] = app.extensions.setdefault(VERIFIERS, {})
        if self.auth not in verifiers:
            verifiers[self.auth] = self.auth.make_verifier(app)
        add_routes(app)

    @property
    def verifier(self) -> TokenVerifier:
        verifier: TokenVerifier = current_app.extensions[VERIFIERS][self.auth]
        return verifier

    @property
    def issuer(self) -> str:
        return " or ".join(self.verifier.issuers)

    @property
    def extensions(self) -> dict[str, Any]:
        return {CLIENT_CREDENTIALS: {}} if self.auth.client_credentials else {}

    def describe(self, blueprint: str) -> dict[str, Any]:
        try:
            url = public_urls_of(blueprint, {}).metadata
        except BuildError:
            return {}
        return {"oauth": {"resourceMetadata": url, "issuers": list(self.verifier.issuers)}}

    def check_ready(self) -> float | None:
        return self.verifier.check_ready()

    def problems(self, path: str | None) -> Iterator[tuple[str, str]]:
        yield from check_issuers(self.verifier.issuers, fetches_keys=self.auth.fetches_keys)
        yield from check_public_url(current_app.config[PREFIX + "PUBLIC_URL"], path)

    def document(self, resource: str) -> dict[str, Any]:
        """Return the metadata of a protected resource (RFC 9728, section 2)."""
        members: dict[str, Any] = {"resource": resource, "authorization_servers": list(self.verifier.issuers)}
        if self.auth.scopes:
            members["scopes_supported"] = self._shown(self.auth.scopes)
        members["bearer_methods_supported"] = ["header"]
        members["resource_name"] = server_name(current_app)
        if self.auth.documentation is not None:
            members["resource_documentation"] = self.auth.documentation
        return members

    def challenge(self) -> str:
        return self.challenge_to(Unauthorized())

    def challenge_to(self, error: RpcError) -> str:
        """Return the challenge. ``scope`` comes before the texts, because some clients search it with a pattern."""
        metadata = ("resource_metadata", public_urls_of(_blueprint()).metadata)
        if isinstance(error, InsufficientScope):
            scope = ("scope", " ".join(self._shown(self._scopes_to_ask_for(error.scopes))))
            text = ("error_description", "The access token needs more scopes")
            return _challenge(("error", error.slug), scope, metadata, text)
        needed = error.scopes if isinstance(error, Unauthorized) else frozenset()
        parameters = [metadata, ("scope", " ".join(self._shown(self.auth.scopes | needed)))]
        if isinstance(error, InvalidToken):
            parameters += [("error", "invalid_token"), ("error_description", error.message)]
        return _challenge(*parameters)

    def _shown(self, scopes: frozenset[str]) -> list[str]:
        return [self.auth.scope_prefix + scope for scope in sorted(scopes)]

    def _scopes_to_ask_for(self, missing: frozenset[str]) -> frozenset[str]:
        """Return all scopes that the next token needs. Some clients request only these, and would lose the others."""
        token = current_token()
        named = frozenset() if token is None else scopes_in(token.claims)
        has_by_implication = frozenset() if token is None else token.scopes - named
        registry: Registry = current_app.extensions[EXTENSION][_blueprint()]
        known = registry.scopes.union(self.auth.scopes, self.auth.implies, *self.auth.implies.values())
        return (self.auth.scopes | missing) - has_by_implication | (named & known)

    def has_credentials(self, request: Request) -> bool:
        return _BEARER.match(request.headers.get("Authorization", "")) is not None

    def authenticate(self, request: Request) -> tuple[Any, Authorization]:
        # Not parsed by werkzeug, which would take only a part of a malformed header for the token.
        text = request.headers["Authorization"].strip(" ").partition(" ")[2].strip(" ")
        try:
            token = self.verifier.verify(text, public_urls_of(request.blueprint or "").resource)
            request.environ[ACCESS_TOKEN] = token
            if not self.auth.scopes <= token.scopes:
                raise InsufficientScope(self.auth.scopes)
            return self._find_user(token), _CREDENTIALS
        except InvalidToken as refused:
            facts = "".join(f" {name}={fact!r}" for name, fact in refused.facts.items())
            fields = {"reason": refused.reason, **refused.facts}
            current_app.logger.warning("access token refused: %s%s", refused.reason, facts, extra=fields)
            raise

    def _find_user(self, token: AccessToken) -> Any:
        callback = self.auth.verify_token_callback
        if callback is None:
            return token
        user = self.auth.ensure_sync(callback)(token)
        if is_refused(user):
            facts = {"iss": token.issuer, "sub": one_line(token.id, MAX_QUOTED)}
            raise InvalidToken("verify_token returned no user", "The user of the access token is not known here", facts)
        return token if user is True else user

    def apply_token(self, principal: str) -> tuple[frozenset[str], str]:
        token: AccessToken = request.environ[ACCESS_TOKEN]
        machine = token.client_id if token.subject is None else None
        return token.scopes, _principal(token.issuer, token.subject, machine, principal)


def _challenge(*parameters: tuple[str, str]) -> str:
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters if value)


@functools.lru_cache(maxsize=1024)
def _principal(*identity: str | None) -> str:
    """Identify a caller by issuer, subject and user, so that it stays the same when the client gets its next token."""
    return hashlib.sha256(repr(("authorization:bearer", *identity)).encode()).hexdigest()


def _blueprint() -> str:
    return request.blueprint or ""


# Checks of ``flask mcp doctor``: the slug of each problem, and why it matters.


def check_issuers(issuers: Iterable[str], *, fetches_keys: bool) -> Iterator[tuple[str, str]]:
    """Check that clients can sign in at the authorization servers, and that we can verify their tokens."""
    for issuer in issuers:
        try:
            metadata = discover(issuer)
            if fetches_keys and not _has_keys(fetch(endpoint_in(metadata, "jwks_uri")).members):
                yield "oauth-issuer", f"{issuer} publishes no key that can verify signatures, so every token is refused"
        except (ServerFailure, ValueError) as failure:
            yield "oauth-issuer", f"{issuer} cannot be used by clients: {failure}"
        else:
            yield from _check_clients(issuer, metadata)


def _has_keys(jwks: Mapping[str, Any]) -> bool:
    from .json_web_tokens import import_keys  # see `resource`

    return bool(import_keys(jwks))


def _check_clients(issuer: str, metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "S256" not in (metadata.get("code_challenge_methods_supported") or ()):
        why = "its code_challenge_methods_supported lacks 'S256'"
        yield "oauth-clients", f"MCP clients refuse {issuer}, because it does not announce PKCE with S256: {why}"
    reads_documents = metadata.get("client_id_metadata_document_supported") is True
    if not reads_documents and "registration_endpoint" not in metadata:
        why = "it has neither client id metadata documents nor dynamic registration"
        yield "oauth-clients", f"{issuer} accepts only clients that you register by hand: {why}"
    elif "none" not in (metadata.get("token_endpoint_auth_methods_supported") or ()):
        why = "its token_endpoint_auth_methods_supported lacks 'none'"
        yield "oauth-clients", f"{issuer} does not accept clients without a secret, which most MCP clients are: {why}"


def check_public_url(public_url: str | None, path: str | None) -> Iterator[tuple[str, str]]:
    """Check that clients find the metadata of a blueprint at the URL of RFC 9728, section 3.1.

    :param path: The path of its MCP endpoint; ``None`` if it has variables.
    """
    if public_url is None:
        yield "oauth-public-url", "the public URL of this app is not known, so access tokens work for localhost only"
    if public_url is None or path is None:
        return
    if public_url.endswith(path):
        yield (
            "oauth-public-url",
            f"the public URL must not end in {path}, which is added to it: clients would use {public_url}{path}",
        )
        return
    scheme, _, rest = public_url.partition("://")
    host, slash, mounted = rest.partition("/")
    url = f"{scheme}://{host}/.well-known/oauth-protected-resource{slash}{mounted}{path}"
    try:
        found = fetch(url).members.get("resource")
    except ServerFailure as failure:
        yield "oauth-metadata", f"clients do not find this app at the URL of RFC 9728: {failure}"
        return
    if found != public_url + path:
        yield "oauth-metadata", f"{url} describes the resource {found!r}, not {public_url + path!r}"
