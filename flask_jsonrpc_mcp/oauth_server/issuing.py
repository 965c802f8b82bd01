"""Issue codes and tokens for grants, replace refresh tokens, and verify access tokens.

A code contains the id of its grant. Its first use inserts the grant's row. A second use cannot insert it, and ends the
grant. A refresh token contains its generation. Of parallel requests with the same token, one starts the next
generation, and all get the token of that generation. A token that is older still may be stolen, so it ends the grant.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidGrantError
from flask import current_app

from ..errors import SignInUnavailable
from ..problems import MAX_QUOTED, one_line
from .accounts import Accounts
from .app_clients import Client, ClientDocuments, RedirectRules, is_document_url, read_client_id, shown_name
from .grants import Grant, Grants
from .signed import ACCESS, CODE, REFRESH, digest, sign, sign_for, unsign, unsign_in_time

EXTENSION = "jsonrpc_mcp_oauth_server"
"""``app.extensions["jsonrpc_mcp_oauth_server"]`` has the `Mounted` of an app."""

CODE_AGE = 60


class InvalidTargetError(OAuth2Error):  # type: ignore[misc] # Authlib has no types
    """The resource is not one of this app (RFC 8707, section 2)."""

    error = "invalid_target"
    description = "The resource must be the URL of an MCP endpoint of this server."


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of an `OAuthServer`, which documents them."""

    scopes: Mapping[str, str]
    base: frozenset[str]
    access_age: int
    refresh_age: int
    max_age: int
    grace: int
    registration: bool
    documents: bool
    redirects: RedirectRules


@dataclass(frozen=True)
class Mounted:
    """The state of an `OAuthServer` in one app."""

    issuing: Issuing
    grants: Grants
    documents: ClientDocuments = field(default_factory=ClientDocuments)


@dataclass(frozen=True)
class Code:
    """The contents of an authorization code, with the names that Authlib reads."""

    grant_id: str
    user_id: str
    client_digest: str
    client_name: str
    redirect_uri: str
    scope: str
    resource: str
    code_challenge: str
    code_challenge_method: str = "S256"

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass(frozen=True)
class HeldToken:
    """A refresh or access token with its grant, with the methods that Authlib calls."""

    grant: Grant
    generation: int
    scope: str
    expires_at: float

    def check_client(self, client: Client) -> bool:
        return self.grant.client_id == client.client_id

    def get_scope(self) -> str:
        return self.grant.scope


class TokenResponse(dict[str, Any]):
    """The members of a token response. Its ``repr`` has no tokens, because Authlib logs it at level DEBUG."""

    def __repr__(self) -> str:
        return "<the tokens>"


class Issuing:
    """Issues codes and tokens, for the current app."""

    def __init__(self, options: Options, accounts: Accounts) -> None:
        self.options = options
        self.accounts = accounts

    @property
    def is_mounted(self) -> bool:
        mounted: Mounted | None = current_app.extensions.get(EXTENSION)
        return mounted is not None and mounted.issuing is self

    @property
    def mounted(self) -> Mounted:
        """The state of this server in the current app.

        :raises RuntimeError: if the server is not registered on the app.
        """
        if not self.is_mounted:
            raise RuntimeError("the OAuthServer is not registered on this app: app.register_blueprint(oauth)")
        mounted: Mounted = current_app.extensions[EXTENSION]
        return mounted

    def problems(self) -> Iterator[tuple[str, str]]:
        """Find mistakes for ``flask mcp doctor``."""
        problem = self.accounts.find_problem()
        if problem is not None:
            yield "oauth-login", problem
        if str(current_app.config["SESSION_COOKIE_SAMESITE"]).lower() == "strict":
            why = "a browser that an AI client sends to this site does not send the session cookie"
            yield "oauth-cookie", f"SESSION_COOKIE_SAMESITE is 'Strict': {why}, so people have to log in each time"
        try:
            self.grants.of_user("")
        except SignInUnavailable as error:
            reason = one_line(str(error.__cause__), MAX_QUOTED)
            yield "oauth-grants", f"the storage of grants failed, so no user can sign in: {reason}"

    @property
    def grants(self) -> Grants:
        return self.mounted.grants

    def find_client(self, client_id: str) -> Client | None:
        """Return a client by its id. This may fetch its document."""
        if is_document_url(client_id):
            found = self.mounted.documents.find(client_id, self.options.redirects) if self.options.documents else None
        else:
            found = read_client_id(client_id) if self.options.registration else None
        return found

    def identify_client(self, client_id: str) -> Client | None:
        """Return a client without fetching its document, for requests whose code or token says what it may do."""
        if is_document_url(client_id):
            return Client(client_id, "", is_proven=True) if self.options.documents else None
        return self.find_client(client_id)

    def new_code(
        self, client: Client, user_id: str, redirect_uri: str, *, scope: str, resource: str, challenge: str
    ) -> str:
        grant_id, name = secrets.token_urlsafe(16), shown_name(client.name)
        values = (grant_id, user_id, digest(client.client_id), name, redirect_uri, scope, resource, challenge)
        return sign_for(CODE_AGE, CODE, *values)

    def read_code(self, text: str, client: Client) -> Code | None:
        values = unsign_in_time(CODE, text)
        code = None if values is None else Code(*values)
        return code if code is not None and code.client_digest == digest(client.client_id) else None

    def redeem(self, code: Code, client: Client) -> dict[str, Any]:
        """Exchange a code for a grant and its first tokens.

        :raises InvalidGrantError: if the code was used before. The grant ends, because the code may be stolen.
        """
        now, options = time.time(), self.options
        grant = Grant(
            id=code.grant_id,
            user_id=code.user_id,
            client_id=client.client_id,
            client_name=code.client_name,
            scope=code.scope,
            resource=code.resource,
            generation=0,
            created_at=now,
            refreshed_at=now,
            expires_at=now + min(options.refresh_age, options.max_age),
        )
        if not self.grants.insert(grant):
            self.grants.revoke(grant.id)
            raise InvalidGrantError("The code was used before.")
        return self._tokens(grant, 0, grant.scope)

    def refresh(self, token: HeldToken, scope: str) -> dict[str, Any]:
        """Replace a refresh token.

        :raises InvalidGrantError: if it was replaced longer ago than ``grace``. The grant ends, because the token may
            be stolen.
        """
        grant: Grant | None = token.grant
        while grant is not None:
            now = time.time()
            if token.generation == grant.generation:
                expires_at = min(now + self.options.refresh_age, grant.created_at + self.options.max_age)
                if self.grants.rotate(grant.id, grant.generation, expires_at):
                    return self._tokens(grant, grant.generation + 1, scope)
                grant = self.grants.get(grant.id)  # another request was first
            elif token.generation == grant.generation - 1 and now <= grant.refreshed_at + self.options.grace:
                return self._tokens(grant, grant.generation, scope)
            else:
                self.grants.revoke(grant.id)
                break
        raise InvalidGrantError("The refresh token is not valid any more.")

    def _tokens(self, grant: Grant, generation: int, scope: str) -> dict[str, Any]:
        age = self.options.access_age
        members = {
            "token_type": "Bearer",
            "access_token": sign_for(age, ACCESS, grant.id, generation, scope),
            "expires_in": age,
            "refresh_token": sign(REFRESH, grant.id, generation),
            "scope": scope,
        }
        return TokenResponse(members)

    def read_refresh_token(self, text: str) -> HeldToken | None:
        values = unsign(REFRESH, text)
        grant = None if values is None else self.grants.get(values[0])
        return None if grant is None or values is None else HeldToken(grant, values[1], grant.scope, grant.expires_at)

    def read_access_token(self, text: str) -> HeldToken | None:
        """Read an access token; ``None`` if it is not of this server, has expired, or its grant has ended."""
        grants, values = self.grants, unsign(ACCESS, text)
        if values is None or values[-1] <= time.time():
            return None
        grant = grants.get(values[0])
        return None if grant is None else HeldToken(grant, *values[1:])
