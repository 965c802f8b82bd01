"""The endpoints that clients call, on Authlib: tokens, revocation, and the checks of an authorization request.

MCP and OAuth 2.1 are stricter than Authlib's defaults: PKCE is required, with S256 only; a parameter may occur only
once; every redirect has ``iss`` (RFC 9207); a code or refresh token is used up before a token is sent; and a token is
for one resource (RFC 8707).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any

from authlib.common.urls import add_params_to_uri
from authlib.oauth2 import AuthorizationServer, OAuth2Error, OAuth2Request
from authlib.oauth2.rfc6749 import (
    InvalidClientError,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Payload,
    UnsupportedResponseTypeError,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from flask import Response
from werkzeug.datastructures import MultiDict

from ..http.io import json_response
from ..oauth.metadata import find_resource, public_url
from .app_clients import Client
from .issuing import Code, HeldToken, InvalidTargetError, Issuing

MAX_PARAMETER = 4000


class _Payload(OAuth2Payload):  # type: ignore[misc] # Authlib has no types
    def __init__(self, values: MultiDict[str, str]) -> None:
        self._values = values

    @property
    def data(self) -> MultiDict[str, str]:
        return self._values

    @property
    def datalist(self) -> defaultdict[str, list[str]]:
        return defaultdict(list, self._values.lists())


class Parameters(OAuth2Request):  # type: ignore[misc]
    """The parameters of a request: the query string of an authorization request, or the form of any other."""

    def __init__(self, method: str, values: MultiDict[str, str], headers: Any) -> None:
        # Not the URL of the request: Authlib rejects http, which a proxy may use to reach us.
        super().__init__(method, "https://localhost", headers=headers)
        self.payload = _Payload(values)

    @property
    def form(self) -> MultiDict[str, str]:
        return self.payload.data

    def check(self) -> None:
        """Check what Authlib does not: that no parameter is repeated, too long, or more than printable ASCII.

        :raises InvalidRequestError: naming the parameter.
        """
        for name, values in self.payload.datalist.items():
            if len(values) > 1:
                raise InvalidRequestError(f"Multiple '{_known(name)}' in request.")
            if len(values[0]) > MAX_PARAMETER or not (values[0].isascii() and values[0].isprintable()):
                raise InvalidRequestError(f"Invalid '{_known(name)}' in request.")


def _known(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "parameter"


class ProtocolEndpoints(AuthorizationServer):  # type: ignore[misc]
    """Authlib's server, with clients that are not stored and tokens that are signed."""

    def __init__(self, issuing: Issuing, resource: Any) -> None:
        super().__init__()
        self.issuing = issuing
        self.resource = resource
        self.register_grant(_CodeGrant, [_RequiredS256()])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_Revocation)

    def check_authorization(self, request: Parameters) -> AuthorizationCodeGrant:
        """Check an authorization request whose client and redirect URI were checked before.

        :raises OAuth2Error: for `redirect_with`.
        """
        request.check()
        if request.payload.response_type != "code":
            raise UnsupportedResponseTypeError("code", "The response type must be code.")
        grant = self.get_authorization_grant(request)
        grant.validate_consent_request()
        self.find_resource(request)
        return grant

    def token(self, request: Parameters) -> Response:
        return self._answer(request, lambda: self.create_token_response(request))

    def revoke(self, request: Parameters) -> Response:
        return self._answer(request, lambda: self.create_endpoint_response("revocation", request))

    def _answer(self, request: Parameters, respond: Any) -> Response:
        try:
            request.check()
            response: Response = respond()
        except OAuth2Error as error:
            response = self.handle_error_response(request, error)
        return response

    def redirect_with(self, error: OAuth2Error, request: Parameters, redirect_uri: str) -> Response:
        """Redirect to the client with an error."""
        error.redirect_uri = redirect_uri
        states = request.payload.datalist["state"]
        error.state = states[0] if len(states) == 1 else None
        response: Response = self.handle_error_response(request, error)
        return response

    # What Authlib calls.

    def query_client(self, client_id: str) -> Client | None:
        return self.issuing.find_client(client_id)

    def authenticate_client(self, request: Parameters, methods: list[str], endpoint: str = "token") -> Client:
        client = self.issuing.identify_client(request.payload.client_id or "")
        if client is None:
            raise InvalidClientError("The client does not exist on this server.")
        request.auth_method = "none"
        return client

    def create_oauth2_request(self, request: Parameters) -> Parameters:
        return request

    def validate_requested_scope(self, scope: str | None) -> None:
        asked = set((scope or "").split())
        if asked and asked.isdisjoint(self.issuing.options.scopes):
            raise InvalidScopeError()

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        location = dict(headers).get("Location")
        if location is None:
            response = json_response(body or {}, status)
            response.headers["Pragma"] = "no-cache"
            return response
        response = Response(status=status)
        response.headers["Location"] = add_params_to_uri(location, [("iss", public_url())])
        response.headers["Cache-Control"] = "no-store"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        pass

    def scopes_for(self, request: Parameters) -> list[str]:
        """Return the scopes that a user is asked to grant: the base scopes, and those the client asks for."""
        asked = {*self.issuing.options.base, *(request.payload.scope or "").split()}
        return [scope for scope in self.issuing.options.scopes if scope in asked]

    def find_resource(self, request: Parameters) -> str:
        """Return the resource that an authorization request is for.

        :raises InvalidTargetError: if it is not one of this app.
        """
        resource = find_resource(request.payload.data.get("resource"), self.resource)
        if resource is None:
            raise InvalidTargetError()
        return resource


class _RequiredS256(CodeChallenge):  # type: ignore[misc]
    """Require PKCE, as OAuth 2.1 does, and refuse the method ``plain``, which is Authlib's default."""

    DEFAULT_CODE_CHALLENGE_METHOD = "S256"
    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]  # noqa: RUF012 - Authlib's attribute

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        data = grant.request.payload.data
        if not data.get("code_challenge"):
            raise InvalidRequestError("Missing 'code_challenge'.")
        if data.get("code_challenge_method") != "S256":
            raise InvalidRequestError("The 'code_challenge_method' must be S256.")
        super().validate_code_challenge(grant, redirect_uri)


class _CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012

    def generate_authorization_code(self) -> str:
        request, server = self.request, self.server
        code: str = server.issuing.new_code(
            request.client,
            request.user,
            request.payload.redirect_uri,
            scope=" ".join(server.scopes_for(request)),
            resource=server.find_resource(request),
            challenge=request.payload.data["code_challenge"],
        )
        return code

    def save_authorization_code(self, code: str, request: Parameters) -> None:
        pass

    def validate_token_request(self) -> None:
        super().validate_token_request()
        _check_resource(self.request, self.request.authorization_code.resource)

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return self.server.issuing.read_code(code, client)  # type: ignore[no-any-return]

    def authenticate_user(self, authorization_code: Code) -> Any:
        return _load_user(self.server.issuing, authorization_code.user_id)

    def generate_token(self, **options: Any) -> dict[str, Any]:
        # Use up the code now. Authlib does so after the token is made, and two parallel requests would both get one.
        return self.server.issuing.redeem(self.request.authorization_code, self.request.client)  # type: ignore[no-any-return]

    def save_token(self, token: dict[str, Any]) -> None:
        pass

    def delete_authorization_code(self, authorization_code: Code) -> None:
        pass


class _RefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]  # noqa: RUF012
    INCLUDE_NEW_REFRESH_TOKEN = True

    def validate_token_request(self) -> None:
        super().validate_token_request()
        _check_resource(self.request, self.request.refresh_token.grant.resource)

    def authenticate_refresh_token(self, refresh_token: str) -> HeldToken:
        token: HeldToken | None = self.server.issuing.read_refresh_token(refresh_token)
        if token is None:
            raise InvalidGrantError("The refresh token is not valid any more.")
        return token

    def authenticate_user(self, refresh_token: HeldToken) -> Any:
        return _load_user(self.server.issuing, refresh_token.grant.user_id)

    def issue_token(self, user: Any, refresh_token: HeldToken) -> dict[str, Any]:
        # Replace the refresh token in one step. Authlib would revoke the old one after the new one is made.
        granted = refresh_token.grant.scopes
        asked = {*self.server.issuing.options.base, *((self.request.payload.scope or "").split() or granted)}
        scope = " ".join(each for each in granted if each in asked)
        return self.server.issuing.refresh(refresh_token, scope)  # type: ignore[no-any-return]

    def save_token(self, token: dict[str, Any]) -> None:
        pass

    def revoke_old_credential(self, refresh_token: HeldToken) -> None:
        pass


class _Revocation(RevocationEndpoint):  # type: ignore[misc]
    CLIENT_AUTH_METHODS = ["none"]  # noqa: RUF012

    def query_token(self, token_string: str, token_type_hint: str | None) -> HeldToken | None:
        issuing: Issuing = self.server.issuing
        return issuing.read_refresh_token(token_string) or issuing.read_access_token(token_string)

    def revoke_token(self, token: HeldToken, request: Parameters) -> None:
        self.server.issuing.grants.revoke(token.grant.id)


def _load_user(issuing: Issuing, user_id: str) -> Any:
    user = issuing.accounts.load_signed_in(user_id, logging.WARNING)
    if user is None:
        raise InvalidGrantError("The user is not known here any more.")
    return user


def _check_resource(request: Parameters, granted: str) -> None:
    """Check that a token request is for the resource that the user has consented to (RFC 8707, section 2.2)."""
    asked = request.payload.data.get("resource")
    if asked is not None and asked.removesuffix("/") != granted:
        raise InvalidTargetError()
