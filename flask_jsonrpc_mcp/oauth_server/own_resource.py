"""`OwnResource`: the auth object for blueprints that accept the access tokens of their own app."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from flask import current_app, url_for
from flask.sansio.app import App

from ..config import PREFIX
from ..oauth.bearer import OAuthSignIn, check_issuers, check_public_url, current_token
from ..oauth.metadata import public_url
from ..oauth.resource import OAuthResource
from ..oauth.tokens import AccessToken, InvalidToken, TokenVerifier
from ..problems import MAX_QUOTED, one_line
from .issuing import Issuing

ENDPOINT = "jsonrpc_mcp_authorization_server"
"""The endpoint of the server's metadata."""


class OwnResource(OAuthResource):
    """Accepts the access tokens that the `OAuthServer` of the same app has issued. It fetches nothing."""

    def __init__(self, issuing: Issuing) -> None:
        super().__init__(scopes=issuing.options.base)
        self.fetches_keys = False
        self._issuing = issuing
        self.verify_token(self._find_user)

    def mcp_sign_in(self) -> OAuthSignIn:
        return OwnSignIn(self, self._issuing)

    def make_verifier(self, app: App) -> TokenVerifier:
        return GrantVerifier(self._issuing)

    def _find_user(self, token: AccessToken) -> Any:
        return self._issuing.accounts.load(token.id)


class OwnSignIn(OAuthSignIn):
    """Signs in with the access tokens of the same app."""

    def __init__(self, auth: OwnResource, issuing: Issuing) -> None:
        super().__init__(auth)
        self._issuing = issuing
        self.known_scopes = frozenset(issuing.options.scopes)

    @property
    def metadata_path(self) -> str:
        return url_for(ENDPOINT) if self._issuing.is_mounted and self._issuing.options.registration else ""

    def current_grant(self) -> str | None:
        token = current_token()
        return None if token is None else str(token.claims["grant_id"])

    def grant_holds(self, grant: str) -> bool:
        found = self._issuing.grants.get(grant)
        return found is not None and self._issuing.accounts.load(found.user_id) is not None

    def problems(self, path: str | None) -> Iterator[tuple[str, str]]:
        if not self._issuing.is_mounted:
            yield "oauth-server", "the OAuthServer that issues tokens for this blueprint is not registered on the app"
            return
        yield from self._issuing.problems()
        public = current_app.config[PREFIX + "PUBLIC_URL"]
        if public is not None:
            yield from check_issuers([public], fetches_keys=False)
        yield from check_public_url(public, path)


class GrantVerifier:
    """Verifies access tokens. It reads the grant each time, so a revoked one stops at once."""

    def __init__(self, issuing: Issuing) -> None:
        self._issuing = issuing

    @property
    def issuers(self) -> tuple[str, ...]:
        return (public_url(),)

    def verify(self, token: str, resource: str) -> AccessToken:
        held = self._issuing.read_access_token(token)
        if held is None:
            raise InvalidToken("it has expired, was revoked, or is not one of this server")
        grant = held.grant
        facts = {"sub": one_line(grant.user_id, MAX_QUOTED), "aud": one_line(grant.resource, MAX_QUOTED)}
        if grant.resource != resource:
            raise InvalidToken(f"its audience is not {resource}", "The access token is for another audience", facts)
        issuer, expires_at = self.issuers[0], int(held.expires_at)
        claims = {
            "iss": issuer,
            "sub": grant.user_id,
            "aud": grant.resource,
            "client_id": grant.client_id,
            "scope": held.scope,
            "exp": expires_at,
            "grant_id": grant.id,
        }
        scopes = frozenset(held.scope.split())
        return AccessToken(grant.user_id, issuer, grant.client_id, scopes, MappingProxyType(claims), expires_at)

    def check_ready(self) -> float:
        self._issuing.grants.get("")  # raises if the storage fails
        return 0.0
