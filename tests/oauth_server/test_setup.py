"""An OAuthServer in an app: mistakes that stop the start, what finds out who is signed in, and where it is mounted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from flask_login import LoginManager, UserMixin, login_user
from flask_wtf import CSRFProtect
from sqlalchemy import create_engine
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.doctor import examine
from flask_jsonrpc_mcp.oauth import FileGrants, OAuthServer, SqlGrants
from flask_jsonrpc_mcp.sign_in import FlaskSecurityAuth
from tests.conftest import make_auth
from tests.core.test_sign_in_extensions import security_site
from tests.oauth_server.conftest import KEY, PUBLIC_URL, SCOPES, Site, answer_in, assert_error, assert_page
from tests.support.servers import ROOT


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scopes": {}}, "scopes must be a dict"),
        ({"scopes": ["articles:read"]}, "scopes must be a dict"),
        ({"scopes": {"articles:read": ""}}, "'articles:read' needs a text for the consent page"),
        ({"scopes": {"articles read": "Read"}}, "cannot be a scope"),
        ({"scopes": {"openid": "Sign in"}}, "openid"),
        ({"base": ["articles:delete"]}, "articles:delete is missing in scopes"),
        ({"base": "articles:read"}, "base"),
        ({"access_age": 0}, "access_age"),
        ({"access_age": "1h"}, "access_age"),
        ({"refresh_age": True}, "refresh_age"),
        ({"max_age": 1.5}, "max_age"),
        ({"grace": -1}, "grace"),
        ({"redirect_hosts": "claude.ai"}, r"redirect_hosts must be a list; write \['claude.ai'\]"),
        ({"redirect_schemes": ["javascript"]}, "javascript"),
        ({"redirect_schemes": ["https"]}, "https"),
        ({"redirect_schemes": ["my app"]}, "my app"),
        ({"grants": "oauth.sqlite"}, "FileGrants"),
    ],
)
def test_a_mistake_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        OAuthServer(**{"scopes": SCOPES, **options})


@pytest.mark.parametrize("key", [None, "", "short", b"short", "x" * 31])
def test_a_secret_key_must_be_long_enough(key: Any) -> None:
    app = Flask("site")
    app.secret_key = key
    with pytest.raises(ValueError, match="SECRET_KEY: set a key of at least 32 bytes before you register"):
        app.register_blueprint(OAuthServer(scopes=SCOPES))


def test_the_public_url_must_be_https() -> None:
    app = Flask("site")
    app.config.update(SECRET_KEY=KEY, JSONRPC_MCP_PUBLIC_URL="http://site.example")
    with pytest.raises(ValueError, match="JSONRPC_MCP_PUBLIC_URL must be the https URL"):
        app.register_blueprint(OAuthServer(scopes=SCOPES))


def test_a_tool_cannot_need_a_scope_that_no_token_can_have() -> None:
    rpc = McpBlueprint(auth=OAuthServer(scopes=SCOPES).resource)
    with pytest.raises(ValueError, match=r"delete\(\): no token can have articles:delete; add it to OAuthServer"):

        @rpc.tool(scopes=["articles:delete"])
        def delete() -> None: ...


@pytest.mark.parametrize("in_list", [False, True])
def test_the_server_in_place_of_its_resource_is_named(in_list: bool) -> None:
    oauth = OAuthServer(scopes=SCOPES)
    with pytest.raises(TypeError, match=r"a list of these, not OAuthServer; write auth=oauth\.resource$"):
        McpBlueprint(auth=[make_auth(), oauth] if in_list else oauth)


def make_app(**config: Any) -> Flask:
    app = Flask("site")
    app.config.update({"SECRET_KEY": KEY, "JSONRPC_MCP_PUBLIC_URL": PUBLIC_URL, **config})
    return app


def slugs(app: Flask) -> dict[str, str]:
    found = {finding.slug: finding.why for finding in examine(app) if finding.slug.startswith("oauth-")}
    return {slug: why for slug, why in found.items() if slug not in ("oauth-issuer", "oauth-metadata")}


def test_an_app_that_does_not_say_who_is_signed_in_is_told_how(tmp_path: Path) -> None:
    """The doctor knows, and so does who opens the page while developing."""
    app, oauth = make_app(), OAuthServer(scopes=SCOPES, grants=FileGrants(tmp_path / "grants"))
    app.register_blueprint(McpBlueprint(auth=oauth.resource))
    assert list(slugs(app)) == ["oauth-server"]
    app.register_blueprint(oauth)
    assert "register a function with @oauth.signed_in" in slugs(app)["oauth-login"]
    app.testing = True
    with pytest.raises(RuntimeError, match=r"@oauth\.signed_in"):
        app.test_client().get("/oauth/authorize")
    oauth.signed_in(lambda: None)
    assert "the app has no view 'login': name the endpoint of your login page" in slugs(app)["oauth-login"]
    with pytest.raises(RuntimeError, match="login_view"):
        app.test_client().get("/oauth/apps")


def test_a_doctor_finds_a_storage_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    site = Site(tmp_path, lambda folder: FileGrants(folder / "file" / "grants.sqlite"))
    assert list(slugs(site.app)) == ["oauth-grants"]


@pytest.mark.parametrize(("policy", "found"), [("Strict", True), ("strict", True), ("Lax", False), (None, False)])
def test_a_doctor_finds_a_session_cookie_that_does_not_come_along(
    tmp_path: Path, policy: str | None, found: bool
) -> None:
    """A browser that comes from the site of an AI client does not send it."""
    site = Site(tmp_path, config={"SESSION_COOKIE_SAMESITE": policy})
    why = (
        "SESSION_COOKIE_SAMESITE is 'Strict': a browser that an AI client sends to this site does not send the session"
        " cookie, so people have to log in each time"
    )
    assert slugs(site.app) == ({"oauth-cookie": why} if found else {})


def test_tokens_without_their_server_are_an_error_of_the_app(plain_site: Site) -> None:
    app = make_app()
    app.register_blueprint(McpBlueprint(auth=plain_site.oauth.resource))
    response = app.test_client().get("/mcp/tools/list", headers={"Authorization": "Bearer x"})
    assert response.status_code == 500


class User(UserMixin):  # type: ignore[misc] # Flask-Login has no types
    def __init__(self, id: str) -> None:
        self.id = id
        self.name = "Ada"


def test_flask_login_is_found_by_itself(tmp_path: Path) -> None:
    """It has the login page, and knows the users."""
    site = Site(tmp_path)
    app, oauth = make_app(), OAuthServer(scopes=SCOPES, grants=FileGrants(tmp_path / "grants"))
    manager, closed = LoginManager(app), set[str]()
    manager.user_loader(lambda user_id: None if user_id in closed else User(user_id))
    app.add_url_rule("/enter", "enter", lambda: str(login_user(User("7"))))
    app.register_blueprint(oauth)
    rpc = McpBlueprint(auth=oauth.resource)
    rpc.tool("who", access=["signed-in"])(lambda: type(oauth.resource.current_user()).__name__)
    app.register_blueprint(rpc)
    assert "set login_manager.login_view" in slugs(app)["oauth-login"]
    manager.login_view = "enter"
    site.app, site.browser, site.http = app, app.test_client(), app.test_client(use_cookies=False)
    url = "/oauth/authorize?" + site.query()
    assert site.browser.get(url).headers["Location"].startswith("/enter?next=%2Foauth%2Fauthorize%3F")
    site.browser.get("/enter")
    page = site.browser.get(url)
    assert "<bdi>Ada</bdi>" in page.text
    tokens = site.redeem(answer_in(site.decide(page))["code"]).get_json()
    assert site.call(tokens["access_token"], "who").get_json() == {"result": "User"}
    closed.add("7")
    assert site.call(tokens["access_token"], "who").status_code == 401
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")


def test_the_user_is_the_access_token_where_the_app_has_no_objects(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.oauth._accounts.user_loader = None
    assert site.runs(site.sign_in("7"))


def test_ids_may_be_numbers(plain_site: Site) -> None:
    plain_site.users["7"] = {"id": 7}
    plain_site.sign_in(7)  # type: ignore[arg-type]
    with plain_site.app.app_context():
        assert [grant.user_id for grant in plain_site.oauth.grants_of(7)] == ["7"]


def test_a_user_loader_that_does_not_find_the_user_is_found_before_consent(
    plain_site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The usual mistake: ids are numbers, and the user_loader gets a text."""
    users: dict[Any, Any] = {7: {"id": 7}}
    plain_site.oauth.user_loader(users.get)
    plain_site.log_in(7)  # type: ignore[arg-type]
    page = plain_site.authorize()
    assert_page(page, 403)
    assert "this site does not find your account" in page.text
    [error] = caplog.records
    assert (error.levelname, error.getMessage()) == (
        "ERROR",
        "user_loader found no active user with the id '7', although this user has signed in. The id is a string: if"
        " your ids are numbers, look up int(user_id)",
    )
    plain_site.oauth.user_loader(lambda user_id: users.get(int(user_id)))
    assert plain_site.runs(plain_site.sign_in(7))  # type: ignore[arg-type]


def test_a_user_loader_that_does_not_find_the_user_is_logged_when_a_client_asks_for_a_token(
    plain_site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, code = plain_site.sign_in(), plain_site.code()
    plain_site.users.clear()
    for refused in (plain_site.redeem(code), plain_site.refresh(tokens["refresh_token"])):
        assert_error(refused, "invalid_grant")
        assert refused.get_json()["error_description"] == "The user is not known here any more."
    logged = [(record.levelname, "The id is a string" in record.getMessage()) for record in caplog.records]
    assert logged == [("WARNING", True)] * 2


def test_csrf_protection_of_the_app_does_not_stop_clients(tmp_path: Path) -> None:
    """The pages have a proof of their own; see case 93."""
    site = Site(tmp_path)
    CSRFProtect(site.app)
    tokens = site.sign_in()
    assert site.runs(site.refresh(tokens["refresh_token"]).get_json())
    assert_page(site.browser.post("/oauth/apps"))


def two_blueprints(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    app = make_app()
    app.register_blueprint(site.oauth)
    for name, prefix in (("shop", "/shop"), ("tenant", "/at/<tenant>")):
        rpc = McpBlueprint(name, auth=site.oauth.resource, url_prefix=prefix)
        rpc.tool("read", access=["signed-in"])(lambda tenant=None: "read")
        app.register_blueprint(rpc)
    app.add_url_rule("/login", "login", lambda: "")
    site.app, site.browser, site.http = app, app.test_client(), app.test_client(use_cookies=False)
    return site


def test_a_token_is_for_one_blueprint_and_one_tenant(tmp_path: Path) -> None:
    site = two_blueprints(tmp_path)
    paths = ["/shop/mcp", "/at/acme/mcp", "/at/other/mcp"]
    for own in paths:
        tokens = site.sign_in(resource=PUBLIC_URL + own)
        header = {"Authorization": f"Bearer {tokens['access_token']}"}
        statuses = [site.http.get(f"{path}/tools/list", headers=header).status_code for path in paths]
        assert statuses == [200 if path == own else 401 for path in paths]


@pytest.mark.parametrize("resource", [None, "/mcp", "/at/mcp", "/at//mcp", "/shop/jsonrpc", "/shop", "/login"])
def test_with_several_blueprints_a_client_must_say_which(tmp_path: Path, resource: str | None) -> None:
    site = two_blueprints(tmp_path)
    site.log_in("ada")
    answer = answer_in(site.authorize(resource=resource and PUBLIC_URL + resource))
    assert answer["error"] == "invalid_target"


def test_an_app_below_a_path(tmp_path: Path) -> None:
    site = Site(tmp_path, config={"JSONRPC_MCP_PUBLIC_URL": f"{PUBLIC_URL}/app"})
    http = Client(DispatcherMiddleware(Flask("root").wsgi_app, {"/app": site.app.wsgi_app}))
    metadata = http.get("/app/.well-known/oauth-authorization-server").get_json()
    assert (metadata["issuer"], metadata["token_endpoint"]) == (f"{PUBLIC_URL}/app", f"{PUBLIC_URL}/app/oauth/token")
    query = site.query(resource=f"{PUBLIC_URL}/app/mcp")
    assert http.get(f"/app/oauth/authorize?{query}").headers["Location"].startswith("/app/login?next=/app/oauth/")


def test_the_routes_can_be_elsewhere(tmp_path: Path) -> None:
    site = Site(tmp_path, name="connect", url_prefix="/account/connect")
    metadata = site.http.get("/.well-known/oauth-authorization-server").get_json()
    assert metadata["authorization_endpoint"] == f"{PUBLIC_URL}/account/connect/authorize"
    assert site.http.post("/account/connect/register", json={}).status_code == 400


def test_grants_are_in_the_instance_folder_by_default(tmp_path: Path) -> None:
    oauth, app = OAuthServer(scopes=SCOPES), Flask("site", instance_path=str(tmp_path / "instance"))
    app.config.update(SECRET_KEY=KEY)
    app.register_blueprint(oauth)
    assert not (tmp_path / "instance").exists()
    with app.app_context():
        assert oauth.grants_of("ada") == []
    assert (tmp_path / "instance/oauth.sqlite").stat().st_mode & 0o777 == 0o600


def test_an_engine_may_come_from_a_function(tmp_path: Path) -> None:
    """Flask-SQLAlchemy has its engine in an app context only."""
    engine = create_engine(f"sqlite:///{tmp_path / 'site.sqlite'}")
    site = Site(tmp_path, lambda _: SqlGrants(lambda: engine))
    assert site.runs(site.sign_in())


def test_one_server_can_serve_several_apps(plain_site: Site, tmp_path: Path) -> None:
    other = make_app(JSONRPC_MCP_PUBLIC_URL="https://other.example")
    other.register_blueprint(plain_site.oauth)
    metadata = other.test_client().get("/.well-known/oauth-authorization-server").get_json()
    assert metadata["issuer"] == "https://other.example"


def test_it_costs_nothing_where_it_is_not_used() -> None:
    """The extra "oauth" goes on without Authlib; who asks for the server is told what to install."""
    script = """
import sys
sys.modules["authlib"] = None
from flask_jsonrpc_mcp.oauth import OAuthResource
assert "flask_jsonrpc_mcp.oauth_server" not in sys.modules
try:
    from flask_jsonrpc_mcp.oauth import OAuthServer
except ModuleNotFoundError as error:
    print(error)
try:
    from flask_jsonrpc_mcp.oauth import Other
except ImportError as error:
    print(type(error).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    [missing, other] = ran.stdout.splitlines()
    assert (missing.endswith("; install flask-jsonrpc-mcp[oauth-server]"), other) == (True, "ImportError"), ran.stderr


def test_an_app_without_json_web_tokens_does_not_import_cryptography() -> None:
    """It would be a tenth of the memory of a worker."""
    script = """
import sys
from flask import Flask
from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import OAuthServer
oauth = OAuthServer(scopes={"articles:read": "Read articles"})
app = Flask("site")
app.secret_key = "x" * 32
app.register_blueprint(oauth)
app.register_blueprint(McpBlueprint(auth=oauth.resource))
refused = app.test_client().post("/oauth/register", json={"redirect_uris": []})
print(refused.json["error"], *{"joserfc", "cryptography"} & set(sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout == "invalid_redirect_uri\n", ran.stderr


def test_flask_security_is_found_too(tmp_path: Path) -> None:
    """Its login page, its ids, and that a user was deactivated."""
    extension = security_site()
    site, app = Site(tmp_path), extension.app
    app.config["JSONRPC_MCP_PUBLIC_URL"] = PUBLIC_URL
    oauth = OAuthServer(scopes=SCOPES, grants=FileGrants(tmp_path / "grants"))
    rpc = McpBlueprint("shop", url_prefix="/shop", auth=[oauth.resource, FlaskSecurityAuth()])
    rpc.tool("who", access=["write"])(lambda: extension.current())
    app.register_blueprint(oauth)
    app.register_blueprint(rpc)
    assert slugs(app) == {}
    site.app, site.browser, site.http = app, app.test_client(), app.test_client(use_cookies=False)
    url = "/oauth/authorize?" + site.query(resource=f"{PUBLIC_URL}/shop/mcp")
    assert urlsplit(site.browser.get(url).headers["Location"]).path == "/login"
    extension.log_in(site.browser, "ada")
    tokens = site.redeem(answer_in(site.decide(site.browser.get(url)))["code"]).get_json()

    def call() -> Any:
        header = {"Authorization": f"Bearer {tokens['access_token']}"}
        return site.http.post("/shop/mcp/tools/invoke", json={"name": "who", "arguments": {}}, headers=header)

    assert call().get_json() == {"result": "ada"}
    with app.app_context():
        extension.find("ada").active = False
        app.extensions["security"].datastore.commit()
    assert call().status_code == 401
