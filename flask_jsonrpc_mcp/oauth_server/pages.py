"""The pages for users: consent to a client, and the list of connected apps.

The field ``proof`` of a form is a signature over the user and the query string, so no other page can send the form, and
the query string cannot change after the user has seen it. The pages therefore need no CSRF token of Flask-WTF.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from authlib.oauth2 import OAuth2Error
from flask import Response, current_app, render_template, request, url_for
from werkzeug.exceptions import MethodNotAllowed

from ..config import server_name
from ..errors import RpcError
from ..http.routes import check_host
from .app_clients import Client, is_document_url, is_local
from .grants import Grant
from .issuing import Issuing
from .protocol_endpoints import Parameters, ProtocolEndpoints
from .signed import CONSENT, digest, sign_for, unsign_in_time

CONSENT_AGE = 600
"""Seconds that a user has to decide."""
MAX_BODY = 64 * 1024

UNKNOWN_CLIENT = "This site does not know the app that sent you here, or cannot read its description."
UNKNOWN_REDIRECT = "The app that sent you here wants to send you to an address that it has not registered."
UNKNOWN_USER = "You are signed in, but this site does not find your account, or your account is closed."


@dataclass(frozen=True)
class ConnectedApp:
    """All grants of a user to one client.

    :param scopes: The texts of the scopes that they allow.
    :param since: The date of the oldest grant.
    """

    client_id: str
    name: str
    host: str
    scopes: list[str]
    since: str


class Pages:
    """The views of the pages."""

    def __init__(self, issuing: Issuing, endpoints: ProtocolEndpoints, template: str | None) -> None:
        self._issuing = issuing
        self._endpoints = endpoints
        self._template = template

    def authorize(self) -> Response:
        """Ask the user whether a client may have the scopes it asks for."""
        return self._show(self._authorize, "The app has not been connected")

    def apps(self) -> Response:
        """List the connected apps of the user, and disconnect one."""
        return self._show(self._apps, "Your connected apps cannot be shown")

    def _show(self, view: Any, title: str) -> Response:
        if request.method not in ("GET", "HEAD", "POST"):
            raise MethodNotAllowed(["GET", "HEAD", "POST"])
        request.max_content_length = MAX_BODY
        try:
            check_host(request)
            response: Response = view()
        except RpcError as error:
            response = self._problem(title, error.message, error.status)
        return response

    def _authorize(self) -> Response:
        parameters = Parameters("GET", request.args, request.headers)
        [client_id, *others] = parameters.payload.datalist["client_id"] or [""]
        user_id = self._issuing.accounts.current_id()
        if user_id is None and is_document_url(client_id):
            return self._issuing.accounts.go_to_login()  # documents are fetched only for users who are signed in
        client = None if others else self._issuing.find_client(client_id)
        if client is None:
            return self._problem("This app cannot be connected", UNKNOWN_CLIENT)
        [redirect_uri, *others] = parameters.payload.datalist["redirect_uri"] or [""]
        # The rules may have changed since the client was registered.
        is_allowed = self._issuing.options.redirects.allow(redirect_uri)
        if others or not is_allowed or not client.check_redirect_uri(redirect_uri):
            return self._problem("This app cannot be connected", UNKNOWN_REDIRECT)
        if user_id is None:
            # Before any redirect to the client, even of an error: anyone may have registered it (RFC 9700, 4.11.2).
            return self._issuing.accounts.go_to_login()
        if self._issuing.accounts.load_signed_in(user_id, logging.ERROR) is None:
            return self._problem("This app cannot be connected", UNKNOWN_USER, 403)
        try:
            grant = self._endpoints.check_authorization(parameters)
        except OAuth2Error as error:
            return self._endpoints.redirect_with(error, parameters, redirect_uri)
        query = digest(request.query_string.decode("ascii", "replace"))
        if request.method != "POST":
            return self._ask(client, parameters, redirect_uri, user_id, query)
        if unsign_in_time(CONSENT, request.form.get("proof")) != [user_id, query]:
            return self._ask(client, parameters, redirect_uri, user_id, query, is_late=True)
        grant_user = user_id if request.form.get("decision") == "allow" else None
        response: Response = self._endpoints.create_authorization_response(parameters, grant_user, grant)
        return response

    def _ask(
        self,
        client: Client,
        parameters: Parameters,
        redirect_uri: str,
        user_id: str,
        query: str,
        *,
        is_late: bool = False,
    ) -> Response:
        target = urlsplit(redirect_uri)
        words = self._issuing.options.scopes
        return self._render(
            self._template or "oauth_server/consent.html",
            400 if is_late else 200,
            is_late=is_late,
            client_name=client.name or "An app without a name",
            client_host=client.host if client.is_proven else None,
            redirect_host=target.netloc if target.scheme in ("http", "https") else f"{target.scheme}:",
            is_local=is_local(redirect_uri),
            is_private_scheme=target.scheme not in ("http", "https"),
            scopes=[words[scope] for scope in self._endpoints.scopes_for(parameters)],
            user=self._name_of(user_id),
            proof=sign_for(CONSENT_AGE, CONSENT, user_id, query),
            action=f"{request.script_root}{request.path}?{request.query_string.decode('ascii', 'replace')}",
        )

    def _name_of(self, user_id: str) -> str:
        user = self._issuing.accounts.load(user_id)
        names = (getattr(user, name, None) for name in ("username", "name", "email"))
        return next((name for name in names if isinstance(name, str) and name), user_id)

    def _apps(self) -> Response:
        user_id = self._issuing.accounts.current_id()
        if user_id is None:
            return self._issuing.accounts.go_to_login()
        grants, is_late, removed = self._issuing.grants.of_user(user_id), False, None
        if request.method == "POST":
            client_id = request.form.get("client_id", "")
            if unsign_in_time(CONSENT, request.form.get("proof")) == [user_id]:
                ended = [grant for grant in grants if grant.client_id == client_id]
                for grant in ended:
                    self._issuing.grants.revoke(grant.id)
                removed = ended[0].client_name if ended else None
                grants = [grant for grant in grants if grant not in ended]
            else:
                is_late = True
        return self._render(
            "oauth_server/apps.html",
            400 if is_late else 200,
            is_late=is_late,
            removed=removed,
            apps=self._connected(grants),
            user=self._name_of(user_id),
            proof=sign_for(CONSENT_AGE, CONSENT, user_id),
            action=url_for(request.endpoint or ""),
            home=_home(),
        )

    def _connected(self, grants: list[Grant]) -> list[ConnectedApp]:
        words, by_client = self._issuing.options.scopes, dict[str, list[Grant]]()
        for grant in grants:
            by_client.setdefault(grant.client_id, []).append(grant)
        return [
            ConnectedApp(
                client_id,
                own[-1].client_name or "An app without a name",
                urlsplit(client_id).hostname or "" if is_document_url(client_id) else "",
                [text for scope, text in words.items() if any(scope in grant.scopes for grant in own)],
                time.strftime("%Y-%m-%d", time.gmtime(own[0].created_at)),
            )
            for client_id, own in by_client.items()
        ]

    def _problem(self, title: str, text: str, status: int = 400) -> Response:
        return self._render("oauth_server/problem.html", status, title=title, text=text)

    def _render(self, template: str, status: int, **values: Any) -> Response:
        nonce = secrets.token_urlsafe(16)
        # Without form-action: in Chrome it also forbids the redirect to the client.
        policy = f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; "
        if template == self._template:
            policy = ""  # it has styles of its own
        page = render_template(template, nonce=nonce, site=server_name(current_app), **values)
        response = Response(page, status)
        response.headers["Content-Security-Policy"] = f"{policy}frame-ancestors 'none'"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["Cache-Control"] = "no-store"
        return response


def _home() -> str | None:
    """Return the path of the app's own home page, if it has one."""
    adapter = current_app.create_url_adapter(request)
    return f"{request.script_root}/" if adapter is not None and adapter.test("/", "GET") else None
