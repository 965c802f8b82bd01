"""``WWW-Authenticate``: which challenges a refusal has, in which order, and what clients read in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask_httpauth import HTTPTokenAuth, MultiAuth

from flask_jsonrpc_mcp import McpBlueprint, current_call
from flask_jsonrpc_mcp.sign_in import JWTExtendedAuth
from tests.conftest import Site, basic, make_auth, make_token_auth
from tests.oauth.conftest import (
    EXPIRED,
    FACES,
    METADATA_URL,
    NOT_VALID,
    PUBLIC_URL,
    assert_refused,
    assert_runs,
    challenges,
    declare,
    legacy,
    make_oauth,
    make_site,
    modern,
)
from tests.support.faces import Asked, Face, rest
from tests.support.issuer import Issuer
from tests.support.servers import need_installed
from tests.support.tokens import bearer

BASE = {"resource_metadata": METADATA_URL, "scope": "articles:read"}

ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "basic-first": lambda other, oauth: MultiAuth(other, oauth),
    "oauth-first": lambda other, oauth: MultiAuth(oauth, other),
    "list": lambda other, oauth: [other, oauth],
}

ROUTES = {
    "list": Asked("/mcp/tools/list"),
    "describe": Asked("/mcp/tools/describe?name=public"),
    "invoke": Asked("/mcp/tools/invoke", {"name": "public", "arguments": {}}),
    "server-card": Asked("/mcp/server-card"),
    "rpc.discover": Asked("/jsonrpc", {"jsonrpc": "2.0", "method": "rpc.discover", "id": 1}),
    "batch": Asked("/jsonrpc", [{"jsonrpc": "2.0", "method": "public", "id": 1}]),
    "discover": modern("server/discover"),
    "tools/list": modern("tools/list"),
    "prompts/list": modern("prompts/list"),
    "initialize": legacy(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    ),
    "legacy tools/list": legacy("tools/list"),
}
"""Requests that need nothing but the base scopes."""


def site_of(auth: Any, **options: Any) -> Site:
    rpc = McpBlueprint(auth=auth, **options)
    declare(rpc)
    return Site(rpc, JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_the_oauth_challenge_comes_first(issuer: Issuer, order: Callable[[Any, Any], Any], route: Asked) -> None:
    """Both TypeScript SDKs read the first scheme only."""
    site = site_of(order(make_auth(), make_oauth(issuer.url)), require_auth=True)
    response = route.send(site.client)
    assert response.status_code == 401
    (first, parameters), (second, _) = challenges(response)
    assert (first, parameters, second) == ("Bearer", BASE, "Basic")
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_bad_token_is_named_as_the_error(issuer: Issuer, route: Asked) -> None:
    site = make_site(make_oauth(issuer.url))
    response = route.send(site.client, bearer("a.b.c"))
    assert response.status_code == 401
    assert challenges(response)[0] == (
        "Bearer",
        {**BASE, "error": "invalid_token", "error_description": NOT_VALID},
    )
    line = response.headers.getlist("WWW-Authenticate")[0]
    assert line.index("scope=") < line.index("error_description=")
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_wrong_password_is_answered_as_no_credentials(issuer: Issuer, route: Asked) -> None:
    """RFC 6750: an error only for a request that had a token."""
    site = make_site(make_oauth(issuer.url))
    response = route.send(site.client, basic("reader", "wrong"))
    assert response.status_code == 401
    assert challenges(response)[0] == ("Bearer", BASE)


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_case_67_a_token_without_the_base_scopes_is_told_them(issuer: Issuer, route: Asked) -> None:
    site = make_site(make_oauth(issuer.url))
    response = route.send(site.client, bearer(issuer.token(scope="other")))
    assert response.status_code == 403
    [(scheme, parameters)] = challenges(response)
    assert (scheme, list(parameters)) == ("Bearer", ["error", "scope", "resource_metadata", "error_description"])
    assert parameters["error"] == "insufficient_scope"
    assert (parameters["scope"], parameters["resource_metadata"]) == ("articles:read", METADATA_URL)
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(("claims", "status"), [({"scope": "other"}, 403), ({"aud": "other"}, 401)])
def test_case_67_no_route_of_a_blueprint_is_left_out(issuer: Issuer, claims: Any, status: int) -> None:
    """But for the explorer's page and for probes, which have not signed in."""
    site, answered = make_site(make_oauth(issuer.url)), {}
    for rule in site.app.url_map.iter_rules():
        path = re.sub("<.*>", "public", rule.rule)
        for verb in sorted((rule.methods or set()) - {"OPTIONS"}) if rule.endpoint.startswith("mcp.") else []:
            response = site.client.open(path, method=verb, headers=bearer(issuer.token(**claims)))
            answered[verb, rule.rule] = response.status_code
    assert len(answered) > 20
    assert {asked for asked, found in answered.items() if found != status} == {
        ("GET", "/mcp/explorer"),
        ("HEAD", "/mcp/explorer"),
        ("GET", "/mcp/health"),
        ("HEAD", "/mcp/health"),
    }


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["guarded", "absent"])
def test_an_anonymous_caller_is_told_the_base_scopes_of_what_they_cannot_see(
    issuer: Issuer, face: Face, name: str
) -> None:
    """The same for a hidden name as for none, or its scopes would tell them apart."""
    response = face(name, {}).send(make_site(make_oauth(issuer.url)).client)
    assert response.status_code == 401
    assert challenges(response)[0] == ("Bearer", BASE)


@pytest.mark.parametrize("face", FACES)
def test_an_anonymous_caller_is_told_the_scopes_of_what_they_see(issuer: Issuer, face: Face) -> None:
    """So that a client asks for consent once."""
    response = face("scoped", {}).send(make_site(make_oauth(issuer.url)).client)
    assert response.status_code == 401
    assert challenges(response)[0] == ("Bearer", {**BASE, "scope": "articles:read articles:write"})


@pytest.mark.parametrize("face", FACES)
def test_without_any_scopes_none_are_in_a_challenge(issuer: Issuer, face: Face) -> None:
    site = site_of(make_oauth(issuer.url, scopes=()), require_auth=True)
    response = face("public", {}).send(site.client)
    assert challenges(response) == [("Bearer", {"resource_metadata": METADATA_URL})]
    assert_runs(face("public", {}).send(site.client, bearer(issuer.token(scope=None))))


@pytest.mark.parametrize("face", FACES)
def test_a_403_asks_for_all_scopes_in_one_go(issuer: Issuer, face: Face) -> None:
    """Those of the site, of the method, and what was granted before of those that are known here.

    The Python SDK before version 2 asks for the challenged scopes only, and would lose the others.
    """
    site = make_site(make_oauth(issuer.url))
    site.rpc.tool("drafts", scopes=["drafts:read"])(lambda: "ran drafts")
    response = face("scoped", {}).send(site.client, bearer(issuer.token(scope="unknown drafts:read articles:read")))
    assert response.status_code == 403
    [(scheme, parameters)] = challenges(response)
    assert scheme == "Bearer"
    assert parameters["error"] == "insufficient_scope"
    assert parameters["scope"] == "articles:read articles:write drafts:read"
    assert parameters["resource_metadata"] == METADATA_URL
    line = response.headers["WWW-Authenticate"]
    assert line.index("scope=") < line.index("error_description=")


def test_scopes_that_others_imply_are_not_asked_for_again(issuer: Issuer) -> None:
    """A token that has the broader one needs the narrower one not by name."""
    site = make_site(make_oauth(issuer.url, implies={"articles:all": ["articles:read"]}))
    response = site.invoke("scoped", {}, headers=bearer(issuer.token(scope="articles:all")))
    assert challenges(response)[0][1]["scope"] == "articles:all articles:write"


@pytest.mark.parametrize("first", [True, False])
def test_two_ways_with_one_scheme_have_one_challenge(issuer: Issuer, first: bool) -> None:
    ways = [make_token_auth(), make_oauth(issuer.url)]
    site = site_of(MultiAuth(*(ways if first else reversed(ways))), require_auth=True)
    assert challenges(site.list_tools()) == [("Bearer", BASE)]


def test_another_header_has_its_own_challenge(issuer: Issuer) -> None:
    auth = MultiAuth(make_token_auth(scheme="ApiKey", header="X-API-Key"), make_oauth(issuer.url))
    response = site_of(auth, require_auth=True).list_tools()
    assert [scheme for scheme, _ in challenges(response)] == ["Bearer", "ApiKey"]


@pytest.mark.parametrize("face", FACES)
def test_case_64_credentials_of_two_kinds_are_refused(issuer: Issuer, face: Face) -> None:
    site = make_site(make_oauth(issuer.url), make_auth(), make_token_auth(scheme="ApiKey", header="X-API-Key"))
    assert_runs(face("public", {}).send(site.client, {"X-API-Key": "writer-token"}))
    for other in (basic("reader"), bearer(issuer.token())):
        response = face("public", {}).send(site.client, {**other, "X-API-Key": "writer-token"})
        assert response.status_code == 401
        assert "one kind only" in response.text


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("first", [True, False])
def test_own_tokens_and_access_tokens_share_a_scheme(issuer: Issuer, face: Face, first: bool) -> None:
    ways: list[HTTPTokenAuth] = [make_token_auth(), make_oauth(issuer.url)]
    site = site_of(MultiAuth(*(ways if first else reversed(ways))))
    for token in ("writer-token", issuer.token(scope="articles:read articles:write")):
        assert_runs(face("guarded", {}).send(site.client, bearer(token)), "guarded")
    asked = len(issuer.asked)
    for token in ("other-token", "a.b.c"):
        response = face("guarded", {}).send(site.client, bearer(token))
        assert response.status_code == 401
        assert challenges(response)[0][1]["error"] == "invalid_token"
    assert len(issuer.asked) == asked


def jwt_extended_site(issuer: Issuer) -> tuple[Site, dict[str, str]]:
    """A site with tokens of Flask-JWT-Extended and access tokens, and one of the former."""
    need_installed("flask_jwt_extended")
    from flask_jwt_extended import JWTManager, create_access_token, get_jwt_identity

    rpc = McpBlueprint(auth=[JWTExtendedAuth(), make_oauth(issuer.url)])
    site = Site(
        rpc,
        JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL,
        JWT_SECRET_KEY="a-secret-key-of-at-least-32-bytes",
        JWT_TOKEN_LOCATION=["headers", "query_string"],
    )
    JWTManager(site.app)
    site.tool(lambda: [current_call.caller.name, get_jwt_identity()], name="who")
    with site.app.app_context():
        return site, bearer(create_access_token("own"))


def test_tokens_of_flask_jwt_extended_and_access_tokens_share_a_scheme(issuer: Issuer) -> None:
    site, own = jwt_extended_site(issuer)
    assert site.invoke("who", {}, headers=own).get_json() == {"result": ["own", "own"]}
    assert site.invoke("who", {}, headers=bearer(issuer.token())).get_json() == {"result": ["ada", None]}
    assert_refused(site.invoke("who", {}, headers=bearer(issuer.token(exp=1))), EXPIRED)
    assert_refused(site.invoke("who", {}, headers=bearer("neither")))


@pytest.mark.parametrize("in_query", ["x", "own"])
def test_a_token_in_the_query_is_not_ignored_beside_an_access_token(issuer: Issuer, in_query: str) -> None:
    site, own = jwt_extended_site(issuer)
    token = own["Authorization"].removeprefix("Bearer ") if in_query == "own" else in_query
    asked = rest("who", {})
    response = site.client.post(f"{asked.path}?jwt={token}", json=asked.payload, headers=bearer(issuer.token()))
    assert response.status_code == 401


def test_an_own_token_is_known_while_the_authorization_server_is_down(issuer: Issuer) -> None:
    issuer.stop()
    site = site_of(MultiAuth(make_oauth(issuer.url), make_token_auth()))
    assert_runs(site.invoke("guarded", {}, headers=bearer("writer-token")), "guarded")


def test_responses_vary_by_authorization(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url), config={"JSONRPC_MCP_LIST_MAX_AGE": 60})
    anonymous, signed = site.list_tools(), site.list_tools(headers=bearer(issuer.token()))
    assert "Authorization" in anonymous.headers["Vary"]
    assert "Authorization" in signed.headers["Vary"]
    assert "public" in anonymous.headers["Cache-Control"]
    assert "public" not in signed.headers["Cache-Control"]


def test_clients_are_told_scopes_with_the_prefix_that_tokens_do_not_have(issuer: Issuer) -> None:
    """As Microsoft Entra has it: ``api://garden/articles:read`` in requests, ``articles:read`` in tokens."""
    site = make_site(make_oauth(issuer.url, scope_prefix="api://garden/"))
    anonymous = site.invoke("scoped", {})
    assert challenges(anonymous)[0][1]["scope"] == "api://garden/articles:read api://garden/articles:write"
    refused = site.invoke("scoped", {}, headers=bearer(issuer.token(scope="articles:read")))
    assert refused.status_code == 403
    assert challenges(refused)[0][1]["scope"] == "api://garden/articles:read api://garden/articles:write"
    document = site.client.get("/.well-known/oauth-protected-resource/mcp").get_json()
    assert document["scopes_supported"] == ["api://garden/articles:read"]
    granted = bearer(issuer.token(scope="articles:read articles:write"))
    assert_runs(site.invoke("scoped", {}, headers=granted), "scoped")
