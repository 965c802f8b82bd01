"""From the metadata to a call: what a client and a person see when nothing goes wrong."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.oauth_server.conftest import CALLBACK, PUBLIC_URL, VERIFIER, Site, answer_in, assert_page


def test_a_client_finds_the_server(plain_site: Site) -> None:
    document = plain_site.http.get("/.well-known/oauth-protected-resource/mcp").get_json()
    assert document["authorization_servers"] == [PUBLIC_URL]
    response = plain_site.http.get(
        "/.well-known/oauth-authorization-server", headers={"Origin": "https://page.example"}
    )
    assert response.get_json() == {
        "issuer": PUBLIC_URL,
        "authorization_endpoint": f"{PUBLIC_URL}/oauth/authorize",
        "token_endpoint": f"{PUBLIC_URL}/oauth/token",
        "revocation_endpoint": f"{PUBLIC_URL}/oauth/revoke",
        "registration_endpoint": f"{PUBLIC_URL}/oauth/register",
        "scopes_supported": ["articles:read", "articles:write"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert response.headers["Cache-Control"] == "public, max-age=300"
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    ("path", "verbs"),
    [("/.well-known/oauth-authorization-server", "GET, HEAD, OPTIONS")]
    + [(f"/oauth/{name}", "POST, OPTIONS") for name in ("register", "token", "revoke")],
)
def test_clients_in_pages_of_all_sites_may_call(plain_site: Site, path: str, verbs: str) -> None:
    asked = {"Origin": "https://page.example", "Access-Control-Request-Headers": "mcp-protocol-version"}
    response = plain_site.http.options(path, headers=asked)
    assert (response.status_code, response.headers["Access-Control-Allow-Methods"]) == (204, verbs)
    assert response.headers["Access-Control-Allow-Headers"] == "mcp-protocol-version"
    other = plain_site.http.put(path)
    assert (other.status_code, other.headers["Allow"], other.get_json()["error"]) == (405, verbs, "invalid_request")


def test_a_client_registers_itself(plain_site: Site) -> None:
    metadata = {
        "client_name": "Claude",
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "client_secret_post",
    }
    response = plain_site.http.post("/oauth/register", json=metadata)
    registered = response.get_json()
    assert (response.status_code, len(registered.pop("client_id")) < 200) == (201, True)
    assert registered == {
        "client_name": "Claude",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def test_a_person_signs_in_consents_and_is_the_caller(site: Site) -> None:
    """First on the login page of the app, which leads back to the consent page."""
    url = "/oauth/authorize?" + site.query(scope="articles:read articles:write")
    to_login = site.browser.get(url)
    location = urlsplit(to_login.headers["Location"])
    assert (to_login.status_code, location.path, parse_qs(location.query)) == (302, "/login", {"next": [url]})
    site.log_in("ada")
    page = site.browser.get(url)
    assert page.status_code == 200
    answer = answer_in(site.decide(page))
    assert (answer.pop("code") != "", answer) == (True, {"state": "a state", "iss": PUBLIC_URL})


def test_the_tokens_say_what_they_are_for(site: Site) -> None:
    tokens = site.sign_in(scope="articles:read articles:write")
    assert {name: value for name, value in tokens.items() if not name.endswith("_token")} == {
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "articles:read articles:write",
    }
    assert site.call(tokens["access_token"]).get_json() == {"result": "read by ada"}
    assert site.call(tokens["access_token"], "write").get_json() == {"result": "written"}


def test_a_token_without_a_scope_is_told_to_step_up(site: Site) -> None:
    tokens = site.sign_in()
    refused = site.call(tokens["access_token"], "write")
    assert refused.status_code == 403
    assert 'error="insufficient_scope", scope="articles:read articles:write"' in refused.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (None, "articles:read"),
        ("", "articles:read"),
        ("articles:write", "articles:read articles:write"),
        ("articles:write openid offline_access", "articles:read articles:write"),
    ],
)
def test_the_base_scopes_are_always_asked_for_and_unknown_ones_never(
    plain_site: Site, asked: str | None, granted: str
) -> None:
    assert plain_site.sign_in(scope=asked)["scope"] == granted


def test_a_person_can_decline(plain_site: Site) -> None:
    plain_site.log_in("ada")
    answer = answer_in(plain_site.decide(plain_site.authorize(), "deny"))
    del answer["error_description"]
    assert answer == {"error": "access_denied", "state": "a state", "iss": PUBLIC_URL}


def test_a_get_changes_nothing(plain_site: Site) -> None:
    """FastMCP opens the URL before the browser does, to see whether it works."""
    plain_site.log_in("ada")
    for _ in range(2):
        assert plain_site.authorize(decision="allow").status_code == 200
    with plain_site.app.app_context():
        assert plain_site.oauth.grants_of("ada") == []


def test_an_app_without_a_public_url_works_on_this_machine(tmp_path: Path) -> None:
    site = Site(tmp_path, config={"JSONRPC_MCP_PUBLIC_URL": None})
    tokens = site.sign_in(resource="http://localhost/mcp")
    assert site.runs(tokens)
    found = site.http.get("/.well-known/oauth-authorization-server")
    assert found.get_json()["issuer"] == "http://localhost"
    elsewhere = site.http.get("/.well-known/oauth-authorization-server", headers={"Host": "10.0.0.1"})
    assert (elsewhere.status_code, elsewhere.get_json()["error"]) == (500, "server_error")
    assert_page(site.browser.get("/oauth/authorize?" + site.query(), headers={"Host": "10.0.0.1"}), 500)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:8000", "http://10.0.0.1", "http://site.example"])
def test_http_between_a_proxy_and_the_app_is_no_concern_of_clients(plain_site: Site, base_url: str) -> None:
    """Authlib rejects requests over http unless a variable of the environment is set."""
    code, client_id = plain_site.code(), plain_site.client_id()
    form = {"grant_type": "authorization_code", "code": code, "client_id": client_id}
    form |= {"redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    assert plain_site.http.post("/oauth/token", data=form, base_url=base_url).status_code == 200
