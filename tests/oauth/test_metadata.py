"""The metadata of a protected resource (RFC 9728), which lead a client to its authorization server."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client, TestResponse

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import OAuthResource
from tests.conftest import Site, make_app, make_auth
from tests.oauth.conftest import (
    FACES,
    METADATA_URL,
    OTHER_AUDIENCE,
    PUBLIC_URL,
    assert_runs,
    challenges,
    declare,
    make_oauth,
    make_site,
    modern,
)
from tests.support.faces import Face, rest
from tests.support.issuer import Issuer
from tests.support.tokens import bearer

PLACE = "/.well-known/oauth-protected-resource"
ISSUER = "https://login.example.com"

FAR = "93.184.216.34"
"""An address that is not of a private network."""


def blueprint(name: str = "mcp", issuer: str = ISSUER, **options: Any) -> McpBlueprint:
    rpc = McpBlueprint(name, auth=make_oauth(issuer), require_auth=True, **options)
    declare(rpc)
    return rpc


def resources(client: Client, *paths: str) -> list[str | None]:
    """What the documents at these paths say they are about; ``None`` where there is none."""
    found = [client.get(PLACE + path) for path in paths]
    assert {response.status_code for response in found} <= {200, 404}
    return [response.get_json()["resource"] if response.status_code == 200 else None for response in found]


def metadata_url(response: TestResponse) -> str:
    return challenges(response)[0][1]["resource_metadata"]


def test_the_document() -> None:
    oauth = OAuthResource(ISSUER, scopes=["articles:write", "articles:read"], documentation="https://site.example/docs")
    site = make_site(oauth, config={"JSONRPC_MCP_SERVER_NAME": "shop"})
    for path in ("/mcp", ""):
        response = site.client.get(PLACE + path)
        assert (response.status_code, response.mimetype) == (200, "application/json")
        assert response.get_json() == {
            "resource": "https://site.example/mcp",
            "authorization_servers": [ISSUER],
            "scopes_supported": ["articles:read", "articles:write"],
            "bearer_methods_supported": ["header"],
            "resource_name": "shop",
            "resource_documentation": "https://site.example/docs",
        }
        assert response.headers["Cache-Control"] == "public, max-age=300"
        assert "Set-Cookie" not in response.headers


def test_what_is_not_set_is_left_out() -> None:
    site = make_site(OAuthResource([ISSUER, "https://other.example"]))
    document = site.client.get(f"{PLACE}/mcp").get_json()
    assert document["authorization_servers"] == [ISSUER, "https://other.example"]
    assert "scopes_supported" not in document
    assert "resource_documentation" not in document


def test_no_tool_is_named() -> None:
    text = make_site(make_oauth(ISSUER)).client.get(f"{PLACE}/mcp").text
    assert not [name for name in ("guarded", "hidden", "articles:write") if name in text]


def test_the_document_is_open_to_all(site: Site) -> None:
    """Also with credentials that are wrong: who reads it has none yet."""
    for headers in ({}, bearer("a.b.c"), {"Authorization": "Basic !"}):
        assert site.client.get(f"{PLACE}/mcp", headers=headers).status_code == 200


def test_the_issuer_can_be_a_setting(issuer: Issuer) -> None:
    site = make_site(make_oauth(), config={"JSONRPC_MCP_OAUTH_ISSUER": issuer.url})
    assert site.client.get(f"{PLACE}/mcp").get_json()["authorization_servers"] == [issuer.url]
    assert_runs(site.invoke("public", {}, headers=bearer(issuer.token())))


def test_without_an_issuer_the_app_does_not_start() -> None:
    with pytest.raises(ValueError, match="JSONRPC_MCP_OAUTH_ISSUER"):
        make_site(make_oauth())


def test_without_oauth_there_is_no_document() -> None:
    site = Site(McpBlueprint(auth=make_auth()), JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL)
    assert [site.client.get(PLACE + path).status_code for path in ("", "/mcp")] == [404, 404]


def test_two_blueprints_have_a_document_each(issuer: Issuer) -> None:
    one, two = blueprint("one", issuer.url, url_prefix="/one"), blueprint("two", issuer.url, url_prefix="/two")
    plain = McpBlueprint("plain", url_prefix="/plain", auth=make_auth())
    client = make_app(one, two, plain, JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL).test_client()
    assert resources(client, "/one/mcp", "/two/mcp", "/plain/mcp", "", "/mcp") == [
        "https://site.example/one/mcp",
        "https://site.example/two/mcp",
        None,
        None,
        None,
    ]
    for name in ("one", "two"):
        assert metadata_url(client.get(f"/{name}/mcp/tools/list")) == f"{PUBLIC_URL}{PLACE}/{name}/mcp"


@pytest.mark.parametrize("face", FACES)
def test_case_29_a_token_for_the_sibling_is_refused(issuer: Issuer, face: Face) -> None:
    one, two = blueprint("one", issuer.url, url_prefix="/one"), blueprint("two", issuer.url, url_prefix="/two")
    client = make_app(one, two, JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL).test_client()
    asked = face("public", {})
    for name, other in (("one", "two"), ("two", "one")):
        ours, theirs = (issuer.token(aud=f"{PUBLIC_URL}/{each}/mcp") for each in (name, other))
        path = f"/{name}{asked.path}"
        assert_runs(client.post(path, json=asked.payload, headers={**asked.headers, **bearer(ours)}))
        refused = client.post(path, json=asked.payload, headers={**asked.headers, **bearer(theirs)})
        assert refused.status_code == 401
        assert challenges(refused)[0][1]["error_description"] == OTHER_AUDIENCE


def test_one_app_may_have_other_settings_than_the_next(issuer: Issuer) -> None:
    """The state is that of the app: a blueprint may be registered on several."""
    rpc = blueprint(issuer=issuer.url)
    first, second = (
        make_app(rpc, JSONRPC_MCP_PUBLIC_URL=url).test_client() for url in ("https://a.example", "https://b.example")
    )
    assert resources(first, "/mcp") == ["https://a.example/mcp"]
    assert resources(second, "/mcp") == ["https://b.example/mcp"]
    token = bearer(issuer.token(aud="https://a.example/mcp"))
    statuses = [client.get("/mcp/tools/list", headers=token).status_code for client in (first, second, first, second)]
    assert statuses == [200, 401, 200, 401]


def test_a_prefix_with_a_variable_is_filled_in(issuer: Issuer) -> None:
    rpc = blueprint(issuer=issuer.url, url_prefix="/<tenant>")
    client = make_app(rpc, JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL).test_client()
    assert resources(client, "/acme/mcp", "/acme/jsonrpc", "") == ["https://site.example/acme/mcp", None, None]
    assert metadata_url(client.get("/acme/mcp/tools/list")) == f"{PUBLIC_URL}{PLACE}/acme/mcp"
    token = bearer(issuer.token(aud=f"{PUBLIC_URL}/acme/mcp"))
    assert client.get("/acme/mcp/tools/list", headers=token).status_code == 200
    assert client.get("/other/mcp/tools/list", headers=token).status_code == 401


def test_what_the_app_makes_of_a_variable_does_not_change_the_audience(issuer: Issuer) -> None:
    """Two tenants may look alike as objects, and their tokens must not be taken for each other's."""
    rpc = blueprint(issuer=issuer.url, url_prefix="/<tenant>")
    app = make_app(rpc, JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL)

    @app.url_value_preprocessor
    def load_tenant(endpoint: str | None, values: dict[str, Any] | None) -> None:
        if values and "tenant" in values:
            values["tenant"] = "some tenant"

    client = app.test_client()
    assert metadata_url(client.get("/acme/mcp/tools/list")) == f"{PUBLIC_URL}{PLACE}/acme/mcp"
    token = bearer(issuer.token(aud=f"{PUBLIC_URL}/acme/mcp"))
    assert client.get("/acme/mcp/tools/list", headers=token).status_code == 200
    assert client.get("/other/mcp/tools/list", headers=token).status_code == 401


def app_with_subdomains(**blueprints: McpBlueprint) -> Flask:
    """An app on site.example, whose public URL is https://api.site.example, and these blueprints by subdomain."""
    app = Flask("subdomains", subdomain_matching=True)
    app.config.update(SERVER_NAME="site.example", JSONRPC_MCP_PUBLIC_URL="https://api.site.example", SECRET_KEY="x")
    for subdomain, rpc in blueprints.items():
        app.register_blueprint(rpc, subdomain=f"<{subdomain}>" if subdomain == "tenant" else subdomain)
    return app


def status_on(app: Flask, subdomain: str, headers: Any) -> int:
    url = f"https://{subdomain}.site.example"
    return app.test_client().get("/mcp/tools/list", headers=headers, base_url=url).status_code


def test_requests_to_other_subdomains_do_not_change_the_audience(issuer: Issuer) -> None:
    app = app_with_subdomains(api=blueprint(issuer=issuer.url))
    found = app.test_client().get(PLACE, base_url="https://site.example").get_json()
    assert found["resource"] == "https://api.site.example/mcp"
    assert status_on(app, "api", bearer(issuer.token(aud="https://api.site.example/mcp"))) == 200


def test_subdomains_do_not_share_an_audience(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """There is one public URL, so only the blueprint on its host has tokens."""
    token = bearer(issuer.token(aud="https://api.site.example/mcp"))
    siblings = app_with_subdomains(api=blueprint("one", issuer.url), shop=blueprint("two", issuer.url))
    assert [status_on(siblings, name, token) for name in ("api", "shop")] == [200, 500]
    assert "OAuth does not work on shop.site.example" in caplog.text
    tenants = app_with_subdomains(tenant=blueprint(issuer=issuer.url))
    assert [status_on(tenants, name, token) for name in ("api", "acme")] == [200, 500]


def mounted(app: Flask) -> Client:
    return Client(DispatcherMiddleware(Flask("root"), {"/shop": app}))


@pytest.mark.parametrize("public", ["https://site.example/shop", "https://site.example/shop/"])
def test_below_a_mount_the_challenge_leads_inside(issuer: Issuer, public: str) -> None:
    """RFC 9728's own place is outside of the app; clients take what the challenge says."""
    client = mounted(make_app(blueprint(issuer=issuer.url), JSONRPC_MCP_PUBLIC_URL=public))
    url = metadata_url(client.get("/shop/mcp/tools/list"))
    assert url == f"https://site.example/shop{PLACE}/mcp"
    assert client.get(url.removeprefix(PUBLIC_URL)).get_json()["resource"] == "https://site.example/shop/mcp"
    assert client.get(f"{PLACE}/shop/mcp").status_code == 404
    token = bearer(issuer.token(aud="https://site.example/shop/mcp"))
    assert client.get("/shop/mcp/tools/list", headers=token).status_code == 200


def test_in_development_the_mount_is_that_of_the_request(issuer: Issuer) -> None:
    client = mounted(make_app(blueprint(issuer=issuer.url)))
    assert metadata_url(client.get("/shop/mcp/tools/list")) == f"http://localhost/shop{PLACE}/mcp"
    assert client.get(f"/shop{PLACE}/mcp").get_json()["resource"] == "http://localhost/shop/mcp"


FORWARDED = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/evil"}


def test_behind_a_proxy_the_public_url_wins(issuer: Issuer) -> None:
    app = make_app(blueprint(issuer=issuer.url), JSONRPC_MCP_PUBLIC_URL=PUBLIC_URL)
    app.wsgi_app = ProxyFix(app.wsgi_app, x_host=1, x_prefix=1)  # type: ignore[method-assign]
    client = app.test_client()
    assert metadata_url(client.get("/mcp/tools/list", headers=FORWARDED)) == METADATA_URL
    response = client.get(f"{PLACE}/mcp", headers=FORWARDED)
    assert response.get_json()["resource"] == "https://site.example/mcp"
    token = bearer(issuer.token())
    assert client.get("/mcp/tools/list", headers={**token, **FORWARDED}).status_code == 200


@pytest.mark.parametrize("environ", [{}, {"REMOTE_ADDR": FAR}], ids=["near", "far"])
def test_case_79_the_host_of_a_request_is_not_repeated(site: Site, environ: dict[str, str]) -> None:
    """From this machine the host is refused; from elsewhere it may be a name that only a proxy knows."""
    for path in (f"{PLACE}/mcp", PLACE, "/mcp/tools/describe?name=guarded"):
        response = site.client.get(path, base_url="http://evil.example", environ_overrides=environ)
        assert response.status_code in (200, 401, 403, 404)
        assert "evil.example" not in response.text + str(response.headers)


def test_without_a_public_url_only_this_machine_is_served(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """The name of the site must not be what a request says it is."""
    client = make_app(blueprint(issuer=issuer.url)).test_client()
    assert resources(client, "/mcp") == ["http://localhost/mcp"]
    token = issuer.token(aud="http://localhost/mcp")
    assert client.get("/mcp/tools/list", headers=bearer(token)).status_code == 200
    caplog.set_level(logging.ERROR)
    far = {"base_url": "http://evil.example", "environ_overrides": {"REMOTE_ADDR": FAR}}
    for headers in ({}, bearer(issuer.token(aud="http://evil.example/mcp"))):
        for path in (f"{PLACE}/mcp", "/mcp/tools/list"):
            caplog.clear()
            response = client.get(path, headers=headers, **far)
            assert (response.status_code, "JSONRPC_MCP_PUBLIC_URL" in caplog.text) == (500, True)
            assert "evil.example" not in response.text + str(response.headers)


@pytest.mark.parametrize(
    "url",
    [
        "http://site.example",
        "https://site.example?x=1",
        "https://site.example/#x",
        "site.example",
        "ftp://site.example",
        "https://",
        "https://user@site.example",
        7,
    ],
)
def test_a_public_url_that_is_none_stops_the_start(url: Any) -> None:
    with pytest.raises(ValueError, match="JSONRPC_MCP_PUBLIC_URL"):
        make_site(make_oauth(ISSUER), config={"JSONRPC_MCP_PUBLIC_URL": url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:5000", "http://localhost:5000", "http://[::1]:5000"])
def test_a_public_url_on_this_machine_needs_no_https(url: str) -> None:
    site = make_site(make_oauth(ISSUER), config={"JSONRPC_MCP_PUBLIC_URL": url})
    assert resources(site.client, "/mcp") == [f"{url}/mcp"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/jsonrpc",
        "/login",
        "//evil",
        "/%2e%2e/",
        "/../mcp",
        "/%2e%2e/mcp",
        "/mcp/tools/list",
        "/mcp/tools/public",
        "/mcp/explorer",
        "/MCP",
        "/mcp%00",
        "/mcp;x",
        "/http://evil.example/mcp",
        "//mcp",
        "/static/x",
    ],
)
def test_case_80_there_is_no_document_for_other_paths(site: Site, path: str) -> None:
    site.app.add_url_rule("/login", "login", lambda: "login")
    assert site.client.get(PLACE + path).status_code == 404


def test_a_trailing_slash_is_the_same_resource(site: Site) -> None:
    """Clients append the path of the URL that was typed."""
    assert resources(site.client, "/mcp/") == ["https://site.example/mcp"]


FOREIGN = {"Origin": "https://inspector.example"}


@pytest.mark.parametrize("path", ["/mcp", ""])
def test_case_81_pages_of_any_origin_may_read_the_document(site: Site, path: str) -> None:
    """SDKs in browsers send MCP-Protocol-Version, so there is a preflight."""
    response = site.client.get(PLACE + path, headers=FOREIGN)
    assert (response.status_code, response.headers["Access-Control-Allow-Origin"]) == (200, "*")
    assert "Access-Control-Allow-Credentials" not in response.headers
    asking = {
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "mcp-protocol-version",
    }
    preflight = site.client.options(PLACE + path, headers={**FOREIGN, **asking})
    assert (preflight.status_code, preflight.headers["Access-Control-Allow-Origin"]) == (204, "*")
    assert preflight.headers["Access-Control-Allow-Headers"] == "mcp-protocol-version"
    allowed = {verb.strip() for verb in preflight.headers["Access-Control-Allow-Methods"].split(",")}
    assert allowed == {"GET", "HEAD", "OPTIONS"}


def test_case_81_a_call_from_a_foreign_origin_is_refused_as_before(site: Site, issuer: Issuer) -> None:
    response = rest("public", {}).send(site.client, {**FOREIGN, **bearer(issuer.token())})
    assert response.status_code == 403
    assert challenges(response) == []
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
def test_the_document_is_read_only(site: Site, verb: str) -> None:
    assert site.client.open(f"{PLACE}/mcp", method=verb).status_code == 405


def test_head_is_get_without_a_body(site: Site) -> None:
    response = site.client.head(f"{PLACE}/mcp")
    assert (response.status_code, response.data) == (200, b"")


def test_the_host_is_checked(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url), config={"JSONRPC_MCP_ALLOWED_HOSTS": ["site.example"]})
    assert site.client.get(f"{PLACE}/mcp", base_url="https://site.example").status_code == 200
    assert site.client.get(f"{PLACE}/mcp", base_url="https://evil.example").status_code == 403


def test_the_well_known_page_says_where_to_sign_in(site: Site, issuer: Issuer) -> None:
    [server] = site.client.get("/.well-known/mcp.json").get_json()["servers"]
    assert server["authentication"]["oauth"] == {"resourceMetadata": METADATA_URL, "issuers": [issuer.url]}
    assert sorted(server["authentication"]["schemes"]) == ["Basic", "Bearer"]


def test_the_metadata_of_an_authorization_server_are_not_served(site: Site) -> None:
    """Those are at the issuer."""
    assert site.client.get("/.well-known/oauth-authorization-server").status_code == 404


def test_client_credentials_are_an_extension(issuer: Issuer) -> None:
    name = "io.modelcontextprotocol/oauth-client-credentials"
    for offered in (True, False):
        site = make_site(make_oauth(issuer.url, client_credentials=offered))
        capabilities = modern("server/discover").send(site.client).get_json()["result"]["capabilities"]
        assert (name in capabilities.get("extensions", {})) is offered


@pytest.mark.parametrize("face", FACES)
def test_an_audience_takes_the_place_of_the_url(issuer: Issuer, face: Face) -> None:
    """For authorization servers that ignore RFC 8707; the document names the URL as before."""
    site = make_site(make_oauth(issuer.url, audience=["api://shop", "guid"]))
    for aud, status in (("api://shop", 200), ("guid", 200), ("https://site.example/mcp", 401), ("api://shop/", 401)):
        assert face("public", {}).send(site.client, bearer(issuer.token(aud=aud))).status_code == status
    assert resources(site.client, "/mcp") == ["https://site.example/mcp"]
