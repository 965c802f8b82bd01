"""The doctor, the bridge and the configuration of clients for a site that takes access tokens."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from flask_jsonrpc_mcp.bridge.site import SiteFailure, SiteResponse
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.doctor import examine
from tests.oauth.conftest import PUBLIC_URL, make_oauth, make_site
from tests.support.issuer import JWKS, Issuer


def findings(issuer: Issuer, **config: Any) -> list[tuple[str, str]]:
    app = make_site(make_oauth(issuer.url), config={"JSONRPC_MCP_PUBLIC_URL": issuer.url, **config}).app
    return [(found.slug, found.why) for found in examine(app) if found.slug.startswith("oauth-")]


@pytest.fixture
def good_issuer(issuer: Issuer) -> Issuer:
    """One that accepts every client, and has the site behind it."""
    issuer.metadata["client_id_metadata_document_supported"] = True
    issuer.metadata["token_endpoint_auth_methods_supported"] = ["none"]
    issuer.answer("/.well-known/oauth-protected-resource/mcp", {"resource": f"{issuer.url}/mcp"})
    return issuer


def test_the_doctor_finds_nothing_where_clients_can_sign_in(good_issuer: Issuer) -> None:
    assert findings(good_issuer) == []


@pytest.mark.parametrize(
    ("change", "slug", "part"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, "oauth-clients", "PKCE with S256"),
        ({"client_id_metadata_document_supported": False}, "oauth-clients", "register by hand"),
        ({"token_endpoint_auth_methods_supported": None}, "oauth-clients", "without a secret"),
        ({"issuer": "https://other.example"}, "oauth-issuer", "'https://other.example'"),
        ({"jwks_uri": "http://login.example/jwks"}, "oauth-issuer", "not https"),
    ],
)
def test_the_doctor_reads_the_metadata_of_the_issuer(
    good_issuer: Issuer, change: dict[str, Any], slug: str, part: str
) -> None:
    good_issuer.metadata.update(change)
    [(found, why)] = findings(good_issuer)
    assert (found, part in why) == (slug, True), why


@pytest.mark.parametrize("body", [{"keys": []}, {"keys": "x"}])
def test_the_doctor_finds_an_issuer_without_keys(good_issuer: Issuer, body: Any) -> None:
    good_issuer.answer(JWKS, body)
    assert [slug for slug, _ in findings(good_issuer)] == ["oauth-issuer"]


def test_the_doctor_finds_a_site_that_is_not_at_its_public_url(good_issuer: Issuer) -> None:
    good_issuer.answer("/.well-known/oauth-protected-resource/mcp", {"resource": "https://other.example/mcp"})
    [(slug, why)] = findings(good_issuer)
    assert (slug, "https://other.example/mcp" in why) == ("oauth-metadata", True)
    assert [slug for slug, _ in findings(good_issuer, JSONRPC_MCP_PUBLIC_URL=None)] == ["oauth-public-url"]


def test_the_doctor_finds_the_url_of_the_endpoint_in_place_of_the_app(good_issuer: Issuer) -> None:
    [(slug, why)] = findings(good_issuer, JSONRPC_MCP_PUBLIC_URL=f"{good_issuer.url}/mcp")
    assert (slug, f"{good_issuer.url}/mcp/mcp" in why) == ("oauth-public-url", True)


@pytest.mark.parametrize("token", [(), ("--token-env", "TOKEN")])
def test_a_client_that_signs_in_by_itself_gets_no_header(issuer: Issuer, token: tuple[str, ...]) -> None:
    app = make_site(make_oauth(issuer.url)).app
    for client in ("claude-code", "claude-desktop", "cursor"):
        ran = app.test_cli_runner().invoke(mcp, ["config", client, "--url", PUBLIC_URL, *token])
        assert ("TOKEN" in ran.stdout, "opens a browser" in ran.stderr) == (bool(token), not token), ran.output


def test_clients_are_configured_for_the_public_url(issuer: Issuer) -> None:
    app = make_site(make_oauth(issuer.url)).app
    ran = app.test_cli_runner().invoke(mcp, ["config", "claude-code"])
    assert f"{PUBLIC_URL}/mcp" in ran.stdout


def test_the_list_says_which_scopes_a_tool_needs(issuer: Issuer) -> None:
    app = make_site(make_oauth(issuer.url)).app
    listed = {item["name"]: item for item in json.loads(app.test_cli_runner().invoke(mcp, ["list"]).stdout)}
    assert listed["guarded"]["scopes"] == ["articles:write"]
    assert "scopes" not in listed["public"]
    text = app.test_cli_runner().invoke(mcp, ["list", "--no-json-output"]).stdout
    assert "needs write, scope articles:write" in " ".join(text.split())


def test_the_bridge_says_which_token_it_needs() -> None:
    challenge = 'Bearer resource_metadata="https://site.example/.well-known/x", scope="articles:read"'
    response = SiteResponse(401, httpx.Headers([("WWW-Authenticate", challenge), ("WWW-Authenticate", "Basic")]), b"")
    with pytest.raises(SiteFailure) as failure:
        response.require_success()
    expected = "an access token with the scope articles:read of the authorization server in https://site.example/.well"
    assert expected in str(failure.value)


def test_the_explorer_says_whose_tokens_it_takes(issuer: Issuer) -> None:
    page = make_site(make_oauth(issuer.url)).client.get("/mcp/explorer").text
    assert f"&quot;issuer&quot;:&quot;{issuer.url}&quot;" in page
    assert "The client opens a browser to sign in." in page
