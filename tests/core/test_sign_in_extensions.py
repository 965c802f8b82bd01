"""Apps that sign in with Flask-Login, Flask-JWT-Extended, Flask-Security or Flask-AppBuilder.

ada may write, and bob may not. In a method, the extension's own current user is the caller, whatever the way in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask, g
from flask.testing import FlaskClient
from flask_httpauth import HTTPBasicAuth
from werkzeug.exceptions import Forbidden
from werkzeug.security import generate_password_hash

from flask_jsonrpc_mcp import SIGNED_IN, McpBlueprint, current_call
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from flask_jsonrpc_mcp.sign_in import AppBuilderAuth, FlaskLoginAuth, FlaskSecurityAuth, JWTExtendedAuth
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import asking, basic
from tests.support.mcp_messages import LegacyClient
from tests.support.servers import need_installed

KEY = "a-secret-key-of-at-least-32-bytes"
ANYONE = {"caller": None, "current": None, "may_write": False}
ADA = {"caller": "ada", "current": "ada", "may_write": True}
BOB = {"caller": "bob", "current": "bob", "may_write": False}

# Where a request comes from, as a browser says it. A script cannot set these headers.
SAME_SITE_PAGES = ({"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site"})


@dataclass
class ExtensionSite:
    """An app with one of the extensions.

    :param headers: What a client without cookies sends for a user.
    :param wrong: Credentials that the extension rejects.
    :param find: Finds a user by name, for ways to sign in that are not of the extension.
    :param current: Returns the name of the extension's current user; ``None`` for an anonymous one.
    :param may_write: Whether the extension's own check lets the current user write.
    :param log_in: Signs a user in, in a browser.
    :param only_its_own: The extension's current user cannot be set for callers who sign in another way.
    """

    app: Flask
    auth: Any
    headers: Callable[[str], dict[str, str]]
    wrong: list[dict[str, str]]
    find: Callable[[str], Any]
    current: Callable[[], str | None]
    may_write: Callable[[], bool]
    log_in: Callable[[FlaskClient, str], None]
    challenges: list[str] = field(default_factory=list)
    permissions: Callable[[Any], list[str]] | None = None
    only_its_own: bool = False

    def __post_init__(self) -> None:
        password = HTTPBasicAuth()
        password.verify_password(lambda username, password: self.find(username) if password == username else None)
        for name, auth in (("mcp", self.auth), ("both", [password, self.auth])):
            rpc = McpBlueprint(name, auth=auth, url_prefix=None if name == "mcp" else "/both")
            rpc.add_tool(self.who, read_only=True)
            rpc.add_tool(lambda: self.current(), name="mine", read_only=True, access=[SIGNED_IN])
            rpc.add_tool(lambda: self.current(), name="write", read_only=True, access=["write"])
            rpc.user_loader(self.find)
            if self.permissions is not None:
                rpc.permissions_loader(self.permissions)
            self.app.register_blueprint(rpc)

    def who(self) -> dict[str, Any]:
        """Who calls, and whom the extension takes for the current user."""
        user = current_call.caller.user
        called_by = getattr(user, "username", None) or getattr(user, "id", user)
        return {"caller": called_by, "current": self.current(), "may_write": self.may_write()}

    def client(self, face: str, **options: Any) -> McpTestClient:
        options.setdefault("blueprint", "mcp")
        if face == "mcp, older":
            return McpTestClient(self.app, version=LEGACY[0], **options)
        return McpTestClient(self.app, face=face, **options)

    def page(self, user: str) -> FlaskClient:
        """A browser in which a user has signed in."""
        browser = self.app.test_client()
        self.log_in(browser, user)
        return browser

    @contextmanager
    def before_each_request(self, func: Callable[[], Any]) -> Iterator[None]:
        functions = self.app.before_request_funcs.setdefault(None, [])
        functions.append(lambda: func() and None)
        try:
            yield
        finally:
            functions.pop()


def flask_login_site(*, remember: bool = False) -> ExtensionSite:
    from flask_login import LoginManager, UserMixin, current_user, login_user

    class User(UserMixin):  # type: ignore[misc]
        def __init__(self, id: str) -> None:
            self.id = id

    users = {name: User(name) for name in ("ada", "bob")}
    app = Flask("site")
    app.config.update(SECRET_KEY=KEY)
    manager = LoginManager(app)
    manager.user_loader(users.get)
    manager.request_loader(lambda request: users.get(request.headers.get("Authorization", "").removeprefix("Bearer ")))

    @app.post("/login/<name>")
    def log_in(name: str) -> str:
        login_user(users[name], remember=remember)
        return ""

    def sign_in(browser: FlaskClient, user: str) -> None:
        assert browser.post(f"/login/{user}").status_code == 200
        if remember:
            browser.delete_cookie("session")

    return ExtensionSite(
        app,
        FlaskLoginAuth(),
        lambda user: {"Authorization": f"Bearer {user}"},
        [{"Authorization": "Bearer eve"}, {"Authorization": "Negotiate ada"}],
        users.get,
        lambda: current_user.id if current_user.is_authenticated else None,
        lambda: current_user == users["ada"],
        sign_in,
        permissions=lambda user: ["write"] if user is users["ada"] else [],
    )


@dataclass(frozen=True)
class Person:
    id: str


def jwt_site(*, has_users: bool = True, locations: Any = ("headers", "cookies"), **config: Any) -> ExtensionSite:
    need_installed("flask_jwt_extended")
    from flask_jwt_extended import (
        JWTManager,
        create_access_token,
        create_refresh_token,
        get_current_user,
        get_jwt_identity,
        set_access_cookies,
    )

    users = {name: Person(name) if has_users else name for name in ("ada", "bob")}
    app = Flask("site")
    app.config.update(SECRET_KEY=KEY, JWT_TOKEN_LOCATION=locations, JWT_COOKIE_CSRF_PROTECT=False)
    app.config.update(config)
    manager = JWTManager(app)
    if has_users:
        manager.user_lookup_loader(lambda header, claims: users.get(claims["sub"]))

    @app.post("/login/<name>")
    def log_in(name: str) -> Any:
        response = app.make_response("")
        set_access_cookies(response, create_access_token(name))
        return response

    def current() -> str | None:
        if not has_users:
            identity: str | None = get_jwt_identity()
            return identity
        user = get_current_user()
        return None if user is None else str(user.id)

    def token(user: str, **options: Any) -> dict[str, str]:
        with app.app_context():
            return {"Authorization": f"Bearer {create_access_token(user, **options)}"}

    with app.app_context():
        refresh = {"Authorization": f"Bearer {create_refresh_token('ada')}"}
    [(name, altered)] = token("ada").items()
    return ExtensionSite(
        app,
        JWTExtendedAuth(),
        token,
        [
            token("ada", expires_delta=timedelta(-1)),
            refresh,
            {name: altered[:-6] + "AAAAAA"},
            {name: "Bearer"},
            {name: "Bearer x"},
            {name: altered.replace("Bearer", "Token")},
            {name: f"{altered}, Basic x"},
            {name: f"Basic x, {altered}"},
            *([token("eve")] if has_users else []),
        ],
        users.get,
        current,
        lambda: current() == "ada",
        lambda browser, user: browser.post(f"/login/{user}"),  # type: ignore[arg-type]
        ["Bearer"],
        lambda user: ["write"] if user is not None and user == users["ada"] else [],
        only_its_own=True,
    )


def security_site() -> ExtensionSite:
    need_installed("flask_security")
    from flask_security import (
        RoleMixin,
        Security,
        SQLAlchemyUserDatastore,
        UserMixin,
        current_user,
        hash_password,
        permissions_required,
    )
    from flask_sqlalchemy import SQLAlchemy

    app = Flask("site")
    app.config.update(
        SECRET_KEY=KEY,
        SECURITY_PASSWORD_SALT="salt",
        SECURITY_PASSWORD_HASH="plaintext",
        SECURITY_PASSWORD_SCHEMES=["plaintext"],
        SECURITY_DEPRECATED_PASSWORD_SCHEMES=[],
        SQLALCHEMY_DATABASE_URI="sqlite://",
        WTF_CSRF_ENABLED=False,
    )
    db = SQLAlchemy(app)
    held = db.Table(
        "held",
        db.Column("user_id", db.ForeignKey("user.id")),
        db.Column("role_id", db.ForeignKey("role.id")),
    )

    class Role(db.Model, RoleMixin):  # type: ignore[name-defined, misc]
        id = db.Column(db.Integer, primary_key=True)
        name = db.Column(db.String, unique=True)
        permissions = db.Column(db.JSON)

    class User(db.Model, UserMixin):  # type: ignore[name-defined, misc]
        id = db.Column(db.Integer, primary_key=True)
        email = db.Column(db.String, unique=True)
        username = db.Column(db.String, unique=True)
        password = db.Column(db.String)
        active = db.Column(db.Boolean)
        fs_uniquifier = db.Column(db.String, unique=True)
        roles = db.relationship(Role, secondary=held)

    store = SQLAlchemyUserDatastore(db, User, Role)
    Security(app, store)
    with app.app_context():
        db.create_all()
        editor = store.create_role(name="editor", permissions=["write", "read"])
        for name, roles in (("ada", [editor]), ("bob", [])):
            email = f"{name}@site.example"
            store.create_user(email=email, username=name, password=hash_password(name), roles=roles)
        store.commit()

    @permissions_required("write")
    def write() -> bool:
        return True

    def may_write() -> bool:
        try:
            return write() is True
        except Forbidden:
            return False

    def token(user: str) -> dict[str, str]:
        with app.test_request_context():
            return {"Authentication-Token": store.find_user(username=user).get_auth_token()}

    def sign_in(browser: FlaskClient, user: str) -> None:
        sent = {"email": f"{user}@site.example", "password": user}
        assert browser.post("/login", json=sent).status_code == 200

    return ExtensionSite(
        app,
        FlaskSecurityAuth(),
        token,
        [{"Authentication-Token": "x"}, {"Authorization": "Bearer x"}],
        lambda name: store.find_user(username=name),
        lambda: current_user.username if current_user.is_authenticated else None,
        may_write,
        sign_in,
    )


def appbuilder_site(**config: Any) -> ExtensionSite:
    need_installed("flask_appbuilder")
    from flask_appbuilder import AppBuilder
    from flask_appbuilder.utils.legacy import get_sqla_class
    from flask_jwt_extended import create_access_token

    app = Flask("site")
    app.config.update(SECRET_KEY=KEY, SQLALCHEMY_DATABASE_URI="sqlite://", WTF_CSRF_ENABLED=False)
    app.config.update(config)
    with app.app_context():
        builder = AppBuilder(app, get_sqla_class()(app).session)
        manager = builder.sm
        allowed = manager.add_permission_view_menu("can_write", "Articles")
        roles = {"ada": manager.add_role("write", [allowed]), "bob": manager.add_role("read")}
        for name, role in roles.items():
            manager.add_user(
                name,
                name,
                name,
                f"{name}@site.example",
                role,
                hashed_password=generate_password_hash(name, "pbkdf2:sha256:1"),
            )

    def token(user: str) -> dict[str, str]:
        with app.app_context():
            return {"Authorization": f"Bearer {create_access_token(str(manager.find_user(user).id))}"}

    def sign_in(browser: FlaskClient, user: str) -> None:
        assert browser.post("/login/", data={"username": user, "password": user}).status_code == 302

    return ExtensionSite(
        app,
        AppBuilderAuth(),
        token,
        [{"Authorization": "Bearer x"}, {"Authorization": "bearer x"}, {"Authorization": "Negotiate x"}],
        manager.find_user,
        lambda: g.user.username if g.user.is_authenticated else None,
        lambda: manager.has_access("can_write", "Articles"),
        sign_in,
        ["Bearer"],
    )


BUILDERS: dict[str, Callable[[], ExtensionSite]] = {
    "Flask-Login": flask_login_site,
    "Flask-Login remembers": lambda: flask_login_site(remember=True),
    "Flask-JWT-Extended": jwt_site,
    "Flask-JWT-Extended without users": lambda: jwt_site(has_users=False),
    "Flask-Security": security_site,
    "Flask-AppBuilder": appbuilder_site,
}
FACES = ("mcp", "mcp, older", "jsonrpc", "rest")


@pytest.fixture(scope="module", params=BUILDERS)
def site(request: pytest.FixtureRequest) -> ExtensionSite:
    return BUILDERS[request.param]()


def names(client: McpTestClient) -> list[str]:
    return [tool["name"] for tool in client.list_tools()]


@pytest.mark.parametrize("face", FACES)
def test_an_anonymous_caller_is_asked_to_sign_in(site: ExtensionSite, face: str) -> None:
    client = site.client(face)
    assert names(client) == ["who"]
    assert client.call("who").value == ANYONE
    for name in ("mine", "write", "absent"):
        refused = client.call(name)
        assert (refused.status, refused.headers.getlist("WWW-Authenticate")) == (401, site.challenges)


@pytest.mark.parametrize("face", FACES)
def test_a_client_with_a_token_calls_as_its_user(site: ExtensionSite, face: str) -> None:
    ada, bob = (site.client(face).with_headers(site.headers(user)) for user in ("ada", "bob"))
    assert names(ada) == ["who", "mine", "write"]
    assert names(bob) == ["who", "mine"]
    assert (ada.call("who").value, bob.call("who").value) == (ADA, BOB)
    assert [ada.call(name).value for name in ("mine", "write")] == ["ada", "ada"]
    assert bob.call("mine").value == "bob"
    assert bob.call("write").error.message == bob.call("absent").error.message.replace("absent", "write")


@pytest.mark.parametrize("face", FACES)
def test_wrong_credentials_are_401_for_public_tools_too(site: ExtensionSite, face: str) -> None:
    for headers in site.wrong:
        refused = site.client(face).with_headers(headers).call("who")
        assert (refused.status, refused.headers.getlist("WWW-Authenticate")) == (401, site.challenges), headers


@pytest.mark.parametrize("face", FACES)
def test_a_page_of_the_app_calls_as_the_user_of_its_cookie(site: ExtensionSite, face: str) -> None:
    ada, bob = (site.client(face, http=site.page(user)) for user in ("ada", "bob"))
    assert (ada.call("who").value, bob.call("who").value) == (ADA, BOB)
    assert names(ada) == ["who", "mine", "write"]
    assert (ada.call("write").value, bob.call("write").error.slug) == ("ada", "tool_not_found")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["", "by a before_request function already"])
@pytest.mark.parametrize("origin", SAME_SITE_PAGES, ids=str)
def test_a_page_of_another_site_is_an_anonymous_caller(
    site: ExtensionSite, origin: dict[str, str], is_loaded: bool, face: str
) -> None:
    """Not even the extension's current user is the one of the cookie, which the browser has sent along."""
    client = site.client(face, http=site.page("ada")).with_headers(origin)
    with site.before_each_request(lambda: load_current_user(site) if is_loaded else None):
        assert client.call("who").value == ANYONE
        assert client.call("mine").status == 401


def load_current_user(site: ExtensionSite) -> None:
    try:
        site.current()
    except RuntimeError:  # Flask-JWT-Extended has no current user before a token was verified
        from flask_jwt_extended import verify_jwt_in_request

        verify_jwt_in_request(optional=True)
    if site.app.extensions.get("appbuilder"):
        g.user = g.user._get_current_object()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("origin", [{"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://localhost"}, {}], ids=str)
def test_a_token_counts_and_not_the_cookie_beside_it(site: ExtensionSite, origin: dict[str, str], face: str) -> None:
    browser = site.page("bob")
    client = site.client(face, http=browser).with_headers({"Sec-Fetch-Site": "", **origin, **site.headers("ada")})
    assert client.call("who").value == ADA
    assert client.with_headers(site.wrong[0]).call("who").status == 401


@pytest.mark.parametrize("face", FACES)
def test_callers_who_sign_in_another_way_are_the_current_user_too(site: ExtensionSite, face: str) -> None:
    client = site.client(face, blueprint="both", http=site.page("bob"))
    current = {"current": None, "may_write": False} if site.only_its_own else {}
    assert client.with_headers(basic("ada")).call("who").value == {**ADA, **current}
    assert client.with_headers(basic("bob")).call("who").value == {**BOB, **current}
    assert names(client.with_headers(basic("ada"))) == ["who", "mine", "write"]
    assert client.with_headers(basic("ada", "wrong")).call("who").status == 401
    assert client.with_headers(site.headers("ada")).call("who").value == ADA
    assert client.call("who").value == BOB


def test_no_response_sets_a_cookie(site: ExtensionSite) -> None:
    """A client with a token must not get a session beside it, nor may a page of another site end the one there is."""
    browser = site.page("ada")
    for headers in (site.headers("bob"), basic("bob"), *SAME_SITE_PAGES, site.wrong[0]):
        client = site.client("rest", blueprint="both", http=browser).with_headers(headers)
        assert "Set-Cookie" not in client.call("who").headers
    assert site.client("rest", http=browser).call("who").value == ADA


def test_a_session_of_an_older_client_belongs_to_its_user(site: ExtensionSite) -> None:
    client = LegacyClient(site.app.test_client(use_cookies=False), headers=site.headers("ada"))
    client.initialize()
    assert client.session is not None
    assert client.send(asking("ping")).status_code == 200
    for headers in (site.headers("bob"), {}):
        client.headers = headers
        assert client.send(asking("ping")).status_code == 404
    by_cookie = LegacyClient(site.page("ada"), headers={"Sec-Fetch-Site": "same-origin"}, session=client.session)
    assert by_cookie.send(asking("ping")).status_code == 200


@pytest.mark.parametrize("blueprint", ["mcp", "both"])
def test_the_command_line_calls_as_a_user(site: ExtensionSite, blueprint: str) -> None:
    def call(*options: str) -> Any:
        command = ["call", "who", "--blueprint", blueprint, *options]
        ran = site.app.test_cli_runner().invoke(mcp, command, catch_exceptions=False)
        return json.loads(ran.stdout)

    current = {"current": None, "may_write": False} if site.only_its_own else {}
    assert call("--user", "ada") == {**ADA, **current}
    assert call("--user", "bob") == {**BOB, **current}
    assert call() == ANYONE


def test_the_server_says_how_to_sign_in(site: ExtensionSite) -> None:
    servers = site.app.test_client().get("/.well-known/mcp.json").get_json()["servers"]
    assert [server["authentication"]["schemes"] for server in servers] == [site.challenges, ["Basic", *site.challenges]]


def test_flask_login_works_without_a_request_loader() -> None:
    site = flask_login_site()
    site.app.login_manager.request_loader(None)  # type: ignore[attr-defined]
    assert site.client("rest", http=site.page("ada")).call("who").value == ADA
    assert site.client("rest", http=site.page("ada")).with_headers(SAME_SITE_PAGES[0]).call("who").value == ANYONE
    assert site.client("rest").with_headers(site.headers("ada")).call("who").status == 401


def test_a_user_that_flask_login_does_not_know_is_not_its_current_user() -> None:
    """Such as a user name that a password callback returns."""
    site = flask_login_site()
    site.find = lambda name: name
    client = site.client("rest", blueprint="both", http=site.page("bob")).with_headers(basic("ada"))
    assert client.call("who").value == {**ADA, "current": None, "may_write": False}


class TestJWTExtended:
    def test_an_app_that_takes_tokens_only_from_cookies_takes_them_from_the_header_here(self) -> None:
        """MCP clients have no cookies."""
        site = jwt_site(locations="cookies")
        assert site.client("rest").with_headers(site.headers("ada")).call("who").value == ADA
        assert site.client("rest", http=site.page("ada")).call("who").value == ADA
        assert site.client("rest", http=site.page("ada")).with_headers(SAME_SITE_PAGES[1]).call("who").value == ANYONE

    def test_a_header_of_its_own(self) -> None:
        site = jwt_site(JWT_HEADER_NAME="X-Token", JWT_HEADER_TYPE="")
        token = site.headers("ada")["Authorization"].removeprefix("Bearer ")
        assert site.client("rest").with_headers({"X-Token": token}).call("who").value == ADA
        for headers in ({"X-Token": "x"}, {"X-Token": f"Bearer {token}"}, site.headers("ada")):
            assert site.client("rest").with_headers(headers).call("who").status == 401
        response = site.app.test_client().get("/mcp/tools/list")
        assert response.headers["Vary"] == "Authorization, X-Token, Cookie, Sec-Fetch-Site, Origin"

    def test_a_token_in_the_query_string_if_the_app_says_so(self) -> None:
        for locations, seen in ((["headers", "query_string"], {"name": "ada"}), (["headers"], {"name": None})):
            site = jwt_site(locations=locations)
            token = site.headers("ada")["Authorization"].removeprefix("Bearer ")
            path = "/mcp/explorer/caller"
            assert site.app.test_client().get(path, query_string={"jwt": token}).get_json() == seen
            status = site.app.test_client().get(path, query_string={"jwt": "x"}).status_code
            assert status == (401 if len(locations) == 2 else 200)

    def test_a_cookie_that_is_not_good_any_more_is_ignored(self) -> None:
        """As a session is that has ended; the page can still use what is public."""
        site = jwt_site(JWT_ACCESS_TOKEN_EXPIRES=timedelta(-1))
        assert site.client("rest", http=site.page("ada")).call("who").value == ANYONE
        site = jwt_site(JWT_COOKIE_CSRF_PROTECT=True)
        browser = site.page("ada")
        assert site.client("rest", http=browser).call("who").value == ANYONE
        proof = browser.get_cookie("csrf_access_token")
        assert proof is not None
        assert site.client("rest", http=browser).with_headers({"X-CSRF-TOKEN": proof.value}).call("who").value == ADA


class TestFlaskSecurity:
    def test_roles_and_permissions_open_tools(self) -> None:
        site = security_site()
        rpc = McpBlueprint("roles", auth=site.auth, url_prefix="/roles")
        for name in ("editor", "read", "delete"):
            rpc.add_tool(lambda: 1, name=name, access=[name])
        site.app.register_blueprint(rpc)
        client = site.client("rest", blueprint="roles")
        assert names(client.with_headers(site.headers("ada"))) == ["editor", "read"]
        assert names(client.with_headers(site.headers("bob"))) == names(client) == []

    def test_a_token_in_the_query_string(self) -> None:
        site = security_site()
        [token] = site.headers("ada").values()
        for sent, answer in ((token, (200, {"name": "ada"})), ("x", (401, None))):
            response = site.app.test_client().get("/mcp/explorer/caller", query_string={"auth_token": sent})
            assert (response.status_code, response.get_json() if answer[1] else None) == answer

    def test_a_user_who_was_deactivated_is_out(self) -> None:
        site = security_site()
        browser, headers = site.page("ada"), site.headers("ada")
        with site.app.app_context():
            store = site.app.extensions["security"].datastore
            store.deactivate_user(store.find_user(username="ada"))
            store.commit()
        assert site.client("rest").with_headers(headers).call("who").status == 401
        assert site.client("rest", http=browser).call("who").value == ANYONE


class TestAppBuilder:
    def tools(self, site: ExtensionSite, *access: str) -> McpTestClient:
        rpc = McpBlueprint("more", auth=site.auth, url_prefix="/more")
        for number, permission in enumerate(access):
            rpc.add_tool(lambda: 1, name=f"tool-{number}", access=[permission])
        site.app.register_blueprint(rpc)
        return site.client("rest", blueprint="more")

    def test_a_permission_on_a_view_opens_tools(self) -> None:
        site = appbuilder_site()
        client = self.tools(site, "can_write on Articles", "can_read on Articles", "write", "Admin")
        assert names(client.with_headers(site.headers("ada"))) == ["tool-0", "tool-2"]
        assert names(client.with_headers(site.headers("bob"))) == []

    def test_anonymous_callers_have_the_public_role(self) -> None:
        site = appbuilder_site()
        client = self.tools(site, "can_write on Articles", "Public")
        assert names(client) == ["tool-1"]
        manager = site.app.appbuilder.sm  # type: ignore[attr-defined]
        with site.app.app_context():
            allowed = manager.find_permission_view_menu("can_write", "Articles")
            manager.add_permission_role(manager.get_public_role(), allowed)
        assert names(client) == ["tool-0", "tool-1"]
        assert site.client("rest").call("who").value == {**ANYONE, "may_write": True}

    def test_a_role_of_the_settings_has_patterns(self) -> None:
        site = appbuilder_site(FAB_ROLES={"read": [["Art.*", "can_w.*"]]})
        client = self.tools(site, "can_write on Articles", "can_list on UserDBModelView")
        assert names(client.with_headers(site.headers("bob"))) == ["tool-0"]
        assert site.client("rest").with_headers(site.headers("bob")).call("who").value == {**BOB, "may_write": True}

    def test_api_keys(self) -> None:
        need_installed("flask_appbuilder")
        site = appbuilder_site(FAB_API_KEY_ENABLED=True)
        manager = site.app.appbuilder.sm  # type: ignore[attr-defined]
        if not hasattr(manager, "create_api_key"):
            assert "CI" not in os.environ, "this version of Flask-AppBuilder has no API keys"
            pytest.skip("this version of Flask-AppBuilder has no API keys")
        with site.app.app_context():
            key = manager.create_api_key(manager.find_user("ada"), "test")["key"]
        for face in FACES:
            client = site.client(face, http=site.page("bob"))
            assert client.with_token(key).call("who").value == ADA
            assert client.with_token(f"{key}x").call("who").status == 401
            assert client.with_headers(site.headers("ada")).call("who").value == ADA

    def test_a_user_who_was_deactivated_is_out(self) -> None:
        site = appbuilder_site()
        browser, headers = site.page("ada"), site.headers("ada")
        with site.app.app_context():
            manager = site.app.appbuilder.sm  # type: ignore[attr-defined]
            user = manager.find_user("ada")
            user.active = False
            manager.update_user(user)
        assert site.client("rest").with_headers(headers).call("who").status == 401
        assert site.client("rest", http=browser).call("who").value == ANYONE
