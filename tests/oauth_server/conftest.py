"""A site that is its own authorization server, and what a client and a person at a browser do with it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from flask import Flask, session
from flask_httpauth import MultiAuth
from sqlalchemy import create_engine
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import FileGrants, OAuthServer, SqlGrants
from tests.conftest import make_auth
from tests.oauth.conftest import Clock, clock
from tests.support.tokens import bearer

__all__ = ["Clock", "clock"]

PUBLIC_URL = "https://site.example"
SCOPES = {"articles:read": "Read articles", "articles:write": "Write articles in your name"}
KEY = "a key for tests, of more than 32 bytes"
CALLBACK = "http://127.0.0.1:3030/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")

MakeGrants = Callable[[Path], Any]


def file_grants(folder: Path) -> FileGrants:
    return FileGrants(folder / "instance" / "grants.sqlite")


def sql_grants(folder: Path) -> SqlGrants:
    return SqlGrants(create_engine(f"sqlite:///{folder / 'site.sqlite'}"))


class Site:
    """The site, one browser, and the client that it signs in to.

    :param users: The accounts by id; one that is missing is unknown, and ``False`` is closed.
    """

    def __init__(self, folder: Path, make_grants: MakeGrants = file_grants, config: Any = None, **options: Any) -> None:
        self.users: dict[str, Any] = {"ada": {"id": "ada"}, "eve": {"id": "eve"}}
        self.oauth = OAuthServer(**{"scopes": SCOPES, "grants": make_grants(folder), **options})
        self.oauth.signed_in(lambda: session.get("user"))
        self.oauth.user_loader(lambda user_id: self.users.get(user_id))
        rpc = McpBlueprint(auth=MultiAuth(make_auth(), self.oauth.resource))
        rpc.tool("read", access=["signed-in"])(lambda: "read by " + self.oauth.resource.current_token().id)  # type: ignore[union-attr]
        rpc.tool("write", scopes=["articles:write"])(lambda: "written")
        self.app = Flask("site")
        self.app.config.update({"SECRET_KEY": KEY, "JSONRPC_MCP_PUBLIC_URL": PUBLIC_URL, **(config or {})})
        self.app.register_blueprint(self.oauth)
        self.app.register_blueprint(rpc)
        self.app.add_url_rule("/login", "login", lambda: "log in here")
        self.browser = self.app.test_client()
        self.http = self.app.test_client(use_cookies=False)

    def log_in(self, user: str | None) -> None:
        with self.browser.session_transaction() as changed:
            changed["user"] = user

    def register(self, **metadata: Any) -> TestResponse:
        return self.http.post("/oauth/register", json={"client_name": "Test", "redirect_uris": [CALLBACK], **metadata})

    def client_id(self, **metadata: Any) -> str:
        client_id: str = self.register(**metadata).get_json()["client_id"]
        return client_id

    def query(self, **parameters: Any) -> str:
        """The query string of an authorization request; a parameter that is ``None`` is left out."""
        query = {
            "response_type": "code",
            "client_id": parameters.get("client_id") or self.client_id(),
            "redirect_uri": CALLBACK,
            "scope": "articles:read",
            "state": "a state",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": f"{PUBLIC_URL}/mcp",
            **parameters,
        }
        return urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)

    def authorize(self, **parameters: Any) -> TestResponse:
        return self.browser.get("/oauth/authorize?" + self.query(**parameters))

    def decide(self, page: TestResponse, decision: str = "allow", **form: Any) -> TestResponse:
        """Press a button of the consent page."""
        action, proof = re.findall(r'(?:action|name="proof" value)="([^"]+)"', page.text)
        return self.browser.post(unescape(action), data={"proof": proof, "decision": decision, **form})

    def code(self, user: str = "ada", **parameters: Any) -> str:
        """Sign in, allow what is asked for, and return the code."""
        self.log_in(user)
        return answer_in(self.decide(self.authorize(**parameters)))["code"]

    def token(self, **form: Any) -> TestResponse:
        """A token request; a parameter that is ``None`` is left out."""
        return self.http.post("/oauth/token", data={name: value for name, value in form.items() if value is not None})

    def redeem(self, code: str, **form: Any) -> TestResponse:
        sent = {"client_id": self.client_id(), "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        return self.token(**{"grant_type": "authorization_code", "code": code, **sent, **form})

    def refresh(self, refresh_token: str, **form: Any) -> TestResponse:
        sent = {"client_id": self.client_id(), "refresh_token": refresh_token}
        return self.token(**{"grant_type": "refresh_token", **sent, **form})

    def sign_in(self, user: str = "ada", **parameters: Any) -> dict[str, Any]:
        """Go all the way, and return the token response."""
        code, client = self.code(user, **parameters), parameters.get("client_id") or self.client_id()
        response = self.redeem(code, client_id=client, redirect_uri=parameters.get("redirect_uri", CALLBACK))
        assert response.status_code == 200, response.text
        tokens: dict[str, Any] = response.get_json()
        return tokens

    def call(self, token: str, name: str = "read") -> TestResponse:
        return self.http.post("/mcp/tools/invoke", json={"name": name, "arguments": {}}, headers=bearer(token))

    def runs(self, tokens: dict[str, Any], name: str = "read") -> bool:
        return self.call(tokens["access_token"], name).status_code == 200


def answer_in(response: TestResponse) -> dict[str, str]:
    """The parameters that a browser comes back to the client with."""
    assert response.status_code == 302, response.text
    location = urlsplit(response.headers["Location"])
    query = parse_qs(location.query, strict_parsing=True)
    assert location._replace(query="").geturl() == CALLBACK
    assert {len(values) for values in query.values()} == {1}
    return {name: values[0] for name, values in query.items()}


def assert_error(response: TestResponse, error: str, status: int = 400) -> None:
    """An error of the token endpoint (RFC 6749, section 5.2)."""
    assert (response.status_code, response.get_json()["error"]) == (status, error), response.text
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Access-Control-Allow-Origin"] == "*"


def assert_page(response: TestResponse, status: int = 400) -> None:
    """A page for the person, and no way on."""
    assert (response.status_code, response.mimetype, response.headers.get("Location")) == (status, "text/html", None)
    assert "Traceback" not in response.text


@pytest.fixture(params=[file_grants, sql_grants], ids=["file", "sql"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """The site, with each kind of storage."""
    return Site(tmp_path, request.param)


@pytest.fixture
def plain_site(tmp_path: Path) -> Site:
    """The site, where the storage makes no difference."""
    return Site(tmp_path)


def repeated(query: str, name: str, value: str) -> MultiDict[str, str]:
    return MultiDict([*((key, each) for key, values in parse_qs(query).items() for each in values), (name, value)])
