"""Functions of the app that say who is calling, cookies that sign in, and tools for everyone who has signed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from flask import Flask, abort, g, request
from flask.testing import FlaskClient
from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth, MultiAuth
from flask_limiter import Limiter
from itsdangerous import URLSafeTimedSerializer
from werkzeug.exceptions import Forbidden, Unauthorized
from werkzeug.local import LocalProxy

from flask_jsonrpc_mcp import SIGNED_IN, McpBlueprint, current_call
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.doctor import examine
from flask_jsonrpc_mcp.sign_in import FlaskLoginAuth
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import Site, asking, basic, make_auth, make_token_auth
from tests.core.test_access import FACES
from tests.support import faces
from tests.support.mcp_messages import LegacyClient


@dataclass(frozen=True)
class User:
    id: Any = None
    username: Any = None


def site_with(auth: Any, **options: Any) -> Site:
    """A site with a tool for everyone, one for everyone who has signed in, and one for those who may write."""
    site = Site(McpBlueprint(auth=auth, **options))
    site.rpc.add_tool(lambda: current_call.caller.user, name="who", read_only=True)
    site.rpc.add_tool(lambda: current_call.caller.user, name="mine", read_only=True, access=[SIGNED_IN])
    site.rpc.add_tool(lambda: current_call.caller.user, name="write", read_only=True, access=["write"])
    return site


def cookie_user() -> str | None:
    """As an app does that has a sign-in of its own."""
    user: str | None = g.user
    return user


def app_user() -> str | None:
    """Read a cookie, a bearer token and an API key."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return {"ada-token": "ada"}.get(request.headers.get("X-API-Key") or token) or cookie_user()


def app_user_without_cookies() -> str | None:
    return app_user()


app_user_without_cookies.uses_cookies = False  # type: ignore[attr-defined]


def cookie_site(auth: Any, cookies: Mapping[str, str] | None = None, **options: Any) -> tuple[Site, FlaskClient]:
    """A site whose pages find the user in a cookie, and a browser with cookies."""
    site = site_with(auth, **options)
    site.app.config["JSONRPC_MCP_ALLOWED_ORIGINS"] = ["https://friend.example"]

    @site.app.before_request
    def load_user() -> None:
        g.user = request.cookies.get("user")

    client = site.app.test_client()
    for name, value in (cookies or {}).items():
        client.set_cookie(name, value)
    return site, client


TOKEN = {"Authorization": "Bearer ada-token"}
KEY = {"X-API-Key": "ada-token"}
PAGE, OTHER_PAGE = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}
OWN, FRIEND = {"Origin": "http://localhost"}, {"Origin": "https://friend.example"}
SIGNED_IN_COOKIE, OTHER_COOKIE = {"user": "ada"}, {"cart": "3"}
KEPT_PASSWORD = {**OTHER_PAGE, **basic("ada")}
POST, GET = faces.rest, faces.own_url_get


@pytest.mark.parametrize(
    ("client", "face", "headers", "cookies", "status", "user"),
    [
        ("a page of the site", POST, PAGE, SIGNED_IN_COOKIE, 200, "ada"),
        ("a page of the site", POST, {**PAGE, **OWN}, SIGNED_IN_COOKIE, 200, "ada"),
        ("a page of the site", GET, PAGE, SIGNED_IN_COOKIE, 200, "ada"),
        ("a page of the site, not signed in", POST, PAGE, OTHER_COOKIE, 200, None),
        ("an address that was typed", GET, {"Sec-Fetch-Site": "none"}, SIGNED_IN_COOKIE, 200, "ada"),
        ("a page on plain HTTP", POST, OWN, SIGNED_IN_COOKIE, 200, "ada"),
        ("a page on plain HTTP", GET, {}, SIGNED_IN_COOKIE, 200, None),
        ("a page on plain HTTP", GET, OWN, SIGNED_IN_COOKIE, 200, None),
        ("a page of another site, by a link or an image", GET, OTHER_PAGE, SIGNED_IN_COOKIE, 200, None),
        ("a page of a sister site", GET, {"Sec-Fetch-Site": "same-site"}, SIGNED_IN_COOKIE, 200, None),
        ("a page of another site", POST, {"Origin": "https://other.example"}, SIGNED_IN_COOKIE, 403, None),
        ("a page without an origin", POST, {"Origin": "null"}, SIGNED_IN_COOKIE, 403, None),
        ("a page of an allowed origin", POST, {**FRIEND, **OTHER_PAGE}, SIGNED_IN_COOKIE, 200, None),
        ("a page of an allowed origin", POST, FRIEND, SIGNED_IN_COOKIE, 200, None),
        ("a page of an allowed origin, with a token", POST, {**FRIEND, **OTHER_PAGE, **TOKEN}, {}, 200, "ada"),
        ("another site, and a password that the browser has kept", GET, KEPT_PASSWORD, SIGNED_IN_COOKIE, 401, None),
        ("curl", POST, {}, {}, 200, None),
        ("curl with a jar of cookies", POST, {}, SIGNED_IN_COOKIE, 200, None),
        ("curl with a jar of cookies", GET, {}, SIGNED_IN_COOKIE, 200, None),
        ("an MCP client with a token", POST, TOKEN, {}, 200, "ada"),
        ("an MCP client with a wrong token", POST, {"Authorization": "Bearer x"}, {}, 401, None),
        ("an MCP client with an API key", POST, KEY, {}, 200, "ada"),
        ("a mobile client with a token and cookies", POST, TOKEN, OTHER_COOKIE, 200, "ada"),
        ("a mobile client with a token and a session", POST, TOKEN, {"user": "bob"}, 200, "ada"),
        ("a mobile client with an API key and cookies", POST, KEY, OTHER_COOKIE, 200, None),
        ("a page with a token", POST, {**PAGE, **TOKEN}, {"user": "bob"}, 200, "ada"),
    ],
    ids=str,
)  # fmt: skip
def test_a_cookie_signs_in_only_on_requests_of_pages_of_the_site(
    client: str, face: faces.Face, headers: dict[str, str], cookies: dict[str, str], status: int, user: str | None
) -> None:
    _, browser = cookie_site(app_user, cookies)
    response = face("who", {}).send(browser, headers)
    assert response.status_code == status
    if status == 200:
        assert response.get_json()["result"] == user
    assert face("mine", {}).send(browser, headers).status_code == (200 if user else 403 if status == 403 else 401)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("headers", "status"), [(PAGE, 200), (OTHER_PAGE, 401), ({}, 401)], ids=["a page", "another page", "curl"]
)
def test_the_rule_holds_on_every_face(face: faces.Face, headers: dict[str, str], status: int) -> None:
    _, browser = cookie_site(cookie_user, SIGNED_IN_COOKIE)
    response = face("mine", {}).send(browser, headers)
    assert response.status_code == (200 if face is faces.batch else status)
    assert ("ada" in response.text) is (status == 200)


def test_the_form_of_a_page_does_not_sign_in() -> None:
    _, browser = cookie_site(cookie_user, SIGNED_IN_COOKIE)
    for headers in (PAGE, {**PAGE, **OWN}):
        assert browser.post("/mcp/tools/who", data={"query": "{}"}, headers=headers).status_code == 415
        assert browser.post("/mcp", data="{}", content_type="text/plain", headers=headers).status_code == 415
    _, browser = cookie_site(cookie_user, SIGNED_IN_COOKIE, require_auth=True)
    assert browser.post("/mcp", data="{}", content_type="text/plain", headers=PAGE).status_code == 401


@pytest.mark.parametrize("cookies", [SIGNED_IN_COOKIE, OTHER_COOKIE], ids=str)
def test_a_function_that_reads_no_cookies_can_say_so(cookies: dict[str, str]) -> None:
    _, browser = cookie_site(app_user_without_cookies, cookies)
    for headers in (KEY, TOKEN, {**KEY, **OTHER_PAGE}):
        assert POST("who", {}).send(browser, headers).get_json() == {"result": "ada"}


def test_lists_are_cached_for_each_cookie_and_kind_of_page() -> None:
    site, browser = cookie_site(app_user, SIGNED_IN_COOKIE)
    response = browser.get("/mcp/tools/list", headers=PAGE)
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert {"Authorization", "Cookie", "Sec-Fetch-Site", "Origin"} <= set(response.vary)
    etags = {browser.get("/mcp/tools/list", headers=headers).headers["ETag"] for headers in (PAGE, OTHER_PAGE)}
    assert len(etags) == 2
    site, _ = cookie_site(app_user_without_cookies)
    assert site.list_tools().headers["Vary"] == "Authorization, Origin"


class TestFunctions:
    """What ``McpBlueprint(auth=function)`` takes, and what the function may return and raise."""

    @pytest.mark.parametrize("face", FACES)
    def test_its_user_is_the_caller(self, face: faces.Face) -> None:
        site = site_with(lambda: "ada")
        for name in ("who", "mine"):
            response = face(name, {}).send(site.client)
            assert (response.status_code, "ada" in response.text) == (200, True)
        assert site.names() == ["who", "mine"]

    @pytest.mark.parametrize("returned", [None, False, "", 0, {}])
    def test_without_a_user_the_caller_is_anonymous(self, returned: Any) -> None:
        site = site_with(lambda: returned)
        assert site.names() == ["who"]
        assert site.invoke("who", {}).get_json() == {"result": None}
        response = site.invoke("mine", {})
        assert (response.status_code, "WWW-Authenticate" in response.headers) == (401, False)
        assert site.list_tools(headers={"Authorization": "Bearer x"}).status_code == 401

    def test_an_object_that_says_it_is_anonymous_is(self) -> None:
        """``auth=lambda: current_user`` must not sign in everyone, because the object for anonymous users is truthy."""

        class Anonymous:
            id = 7
            is_authenticated = False

        for user in (Anonymous(), LocalProxy(Anonymous)):
            assert site_with(lambda user=user: user).names() == ["who"]

    def test_a_proxy_stands_for_the_user_behind_it(self) -> None:
        site = site_with(lambda: LocalProxy(lambda: User("ada")))
        site.rpc.add_tool(lambda: type(current_call.caller.user).__name__, name="kind")
        seen = [site.invoke(name, {}).get_json()["result"] for name in ("kind", "who")]
        assert seen == ["User", {"id": "ada", "username": None}]

    @pytest.mark.parametrize("status", [401, 403, 429])
    @pytest.mark.parametrize("face", FACES)
    def test_it_may_abort(self, face: faces.Face, status: int) -> None:
        def user() -> None:
            abort(status)

        user.challenge = 'Bearer realm="site"'  # type: ignore[attr-defined]
        response = face("who", {}).send(site_with(user).client)
        assert (response.status_code, response.mimetype) == (status, "application/json")
        assert response.headers.get("WWW-Authenticate") == ('Bearer realm="site"' if status == 401 else None)

    @pytest.mark.parametrize(("error", "slug"), [(Unauthorized(), "unauthorized"), (Forbidden(), "forbidden")])
    def test_it_may_raise_what_abort_raises(self, error: Exception, slug: str) -> None:
        def user() -> None:
            raise error

        assert site_with(user).invoke("who", {}).get_json()["error"]["code"] == slug

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
    @pytest.mark.parametrize("returned", [True, object(), ["ada"], Flask("x").response_class()], ids=repr)
    def test_what_is_no_user_is_an_error(self, returned: Any) -> None:
        """Such as the redirect of a function behind ``login_required``."""
        response = site_with(lambda: returned).invoke("who", {})
        assert (response.status_code, response.get_json()["error"]["code"]) == (500, "internal_error")

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
    def test_it_may_be_async(self) -> None:
        async def user() -> str:
            return "ada"

        assert site_with(user).names() == ["who", "mine"]
        assert site_with(lambda: user()).invoke("who", {}).status_code == 500

    def test_it_may_be_an_object_with_attributes(self) -> None:
        class Gateway:
            challenge = "Gateway"
            uses_cookies = False

            def __call__(self) -> str | None:
                return request.headers.get("X-User")

            def get_user_roles(self, user: str) -> list[str]:
                return ["write"] if user == "ada" else []

        site = site_with(Gateway())
        assert site.names(headers={"X-User": "ada"}) == ["who", "mine", "write"]
        assert site.names(headers={"X-User": "bob"}) == ["who", "mine"]
        assert site.invoke("mine", {}).headers["WWW-Authenticate"] == "Gateway"
        site.rpc.permissions_loader(lambda user: ["write"] if user == "bob" else [])
        assert site.names(headers={"X-User": "ada"}) == ["who", "mine"]

    def test_it_cannot_make_the_server_read_more_than_the_limit(self) -> None:
        site = site_with(lambda: request.get_json(silent=True) and None)
        assert site.invoke("who", {}).get_json() == {"result": None}
        body = BytesIO(b" " * 5 * 1024 * 1024)
        sent: Any = {"input_stream": body, "content_length": 5 * 1024 * 1024, "content_type": "application/json"}
        assert site.client.post("/mcp/tools/invoke", **sent).status_code == 413
        assert body.tell() == 0

    @pytest.mark.parametrize(
        ("auth", "message"),
        [
            (HTTPBasicAuth, r"auth must be an object; write HTTPBasicAuth\(\)"),
            ([FlaskLoginAuth], r"auth must be an object; write FlaskLoginAuth\(\)"),
            (lambda username, password: True, "must take no arguments to be auth="),
            (7, "auth must be a Flask-HTTPAuth object, a function, or a list of these, not int"),
            ([], "not list"),
            ([make_auth(), None], "not NoneType"),
            ({"basic": make_auth()}, "not dict"),
        ],
        ids=str,
    )
    def test_what_cannot_sign_in_raises(self, auth: Any, message: str) -> None:
        """A class would make a new object for everyone, who would then be signed in as that."""
        with pytest.raises(TypeError, match=message):
            McpBlueprint(auth=auth)


class TestSeveralWays:
    """A list of Flask-HTTPAuth objects and functions."""

    def test_they_work_side_by_side(self) -> None:
        _, browser = cookie_site([make_auth(), make_token_auth(), cookie_user], SIGNED_IN_COOKIE)

        def who(headers: dict[str, str]) -> Any:
            response = POST("who", {}).send(browser, headers)
            return response.get_json()["result"] if response.status_code == 200 else response.status_code

        assert who(PAGE) == "ada"
        assert who({}) is None
        assert who(basic("writer")) == who({**PAGE, **basic("writer")}) == "writer"
        assert who({"Authorization": "Bearer admin-token"}) == "admin"
        assert who({**PAGE, **basic("writer", "wrong")}) == who({"Authorization": "Bearer x"}) == 401

    def test_the_first_function_that_knows_the_user_counts(self) -> None:
        site = site_with([lambda: None, lambda: "ada", lambda: "bob"])
        assert site.invoke("who", {}).get_json() == {"result": "ada"}

    def test_a_multi_auth_and_a_list_are_the_same(self) -> None:
        auths = [make_auth(), make_token_auth()]
        for auth in (MultiAuth(*auths), auths, tuple(auths), [MultiAuth(*auths)]):
            assert site_with(auth).names(headers=basic("writer")) == ["who", "mine", "write"]
            challenges = site_with(auth).invoke("mine", {}).headers.getlist("WWW-Authenticate")
            assert [challenge.split()[0] for challenge in challenges] == ["Basic", "Bearer"]
        with pytest.raises(ValueError, match="auth has two objects for bearer"):
            McpBlueprint(auth=[HTTPTokenAuth(), make_token_auth()])

    def test_roles_of_one_way_are_not_those_of_another(self) -> None:
        """A user of a token must not get the roles of the user with that name who has a password."""
        tokens = HTTPTokenAuth()
        tokens.verify_token(lambda token: "admin")
        site = site_with([make_auth(), tokens])
        assert site.names(headers={"Authorization": "Bearer x"}) == ["who", "mine"]

    def test_the_current_user_of_flask_httpauth_is_the_caller(self) -> None:
        auth = make_auth()
        site = site_with([auth, lambda: request.headers.get("X-User")])
        site.rpc.add_tool(lambda: auth.current_user(), name="current")
        for headers, user in ((basic("writer"), "writer"), ({"X-User": "ada"}, "ada"), ({}, None)):
            assert site.invoke("current", {}, headers=headers).get_json() == {"result": user}


class TestSignedIn:
    """``access=[SIGNED_IN]``: everyone who is known, with whatever permissions."""

    @pytest.mark.parametrize("auth", [make_auth(), [make_auth(), lambda: None]], ids=["alone", "in a list"])
    def test_every_user_has_it(self, auth: Any) -> None:
        site = site_with(auth)
        assert site.names() == ["who"]
        assert site.names(headers=basic("reader")) == ["who", "mine"]
        assert site.describe("mine", headers=basic("reader")).get_json()["access"] == [SIGNED_IN]

    def test_it_cannot_be_granted(self) -> None:
        site = site_with(make_auth())
        site.rpc.permissions_loader(lambda user: [SIGNED_IN] if user is None else None)
        assert site.names() == ["who"]
        assert site.invoke("mine", {}).status_code == 401
        assert site.names(headers=basic("reader")) == ["who", "mine"]

    def test_it_is_one_permission_among_others(self) -> None:
        site = site_with(make_auth())
        site.rpc.permissions_loader(lambda user: ["write"])
        site.rpc.add_tool(lambda: 1, name="both", access=[SIGNED_IN, "write"])
        assert site.names() == ["who", "write"]
        assert site.names(headers=basic("reader")) == ["who", "mine", "write", "both"]

    def test_without_auth_no_caller_has_it(self) -> None:
        site = site_with(None)
        assert site.names() == ["who"]
        assert site.invoke("mine", {}).status_code == 404

    def test_it_guards_lists(self) -> None:
        site = site_with(make_auth(), discover_access=[SIGNED_IN])
        assert (site.list_tools().status_code, site.names(headers=basic("reader"))) == (401, ["who", "mine"])

    @pytest.mark.parametrize(("options", "status"), [([], 0), (["--user", "reader"], 0), (["--as-permissions", ""], 2)])
    def test_the_command_line_has_it(self, options: list[str], status: int) -> None:
        site = site_with(make_auth())
        site.rpc.user_loader(lambda name: "reader")
        ran = site.app.test_cli_runner().invoke(mcp, ["call", "mine", *options])
        assert ran.exit_code == status, ran.output


class TestWhoItIs:
    """Logs, limits, sessions and questions belong to the user that a function returns."""

    @pytest.mark.parametrize(
        ("user", "name"),
        [("ada", "ada"), (7, "7"), (User(7, "ada"), "ada"), ({"id": 7}, "7"), (User(None, "ada"), "ada")],
        ids=str,
    )
    def test_it_is_named_in_the_log(self, user: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        site_with(lambda: user).invoke("who", {})
        assert f"caller={name!r}" in caplog.text

    @pytest.mark.parametrize("secret", ["sk_live_1", "other"])
    def test_a_token_is_not_named(self, secret: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        site = site_with(lambda: request.headers["Authorization"].split()[1])
        assert site.invoke("who", {}, headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        assert "caller='token'" in caplog.text
        assert secret not in caplog.text

    def test_a_user_without_an_id_needs_get_id(self, caplog: pytest.LogCaptureFixture) -> None:
        """As users of Flask-Login have it, whatever the name of their id is."""

        class Account:
            user_id = 7

        class LoginAccount(Account):
            def get_id(self) -> str:
                return str(self.user_id)

        assert site_with(lambda: LoginAccount()).list_tools().status_code == 200
        assert site_with(lambda: Account()).list_tools().status_code == 500
        assert "returned a Account without id, username, email, name or get_id()" in caplog.text

    def test_limits_and_sessions_are_for_one_user(self) -> None:
        limiter = Limiter(lambda: "anyone", storage_uri="memory://")
        site = site_with(lambda: User(request.headers.get("X-User")), limiter=limiter, rate_limit="2/hour")
        site.app.secret_key = "key"
        limiter.init_app(site.app)
        ada, bob = {"X-User": "ada"}, {"X-User": "bob"}
        statuses = [site.invoke("who", {}, headers=headers).status_code for headers in (ada, ada, ada, bob)]
        assert statuses == [200, 200, 429, 200]
        client = LegacyClient(site.client, headers=ada)
        client.initialize()
        assert client.session is not None
        assert "ada" not in str(URLSafeTimedSerializer("any key").loads_unsafe(client.session))
        statuses = []
        for client.headers in (ada, bob):
            statuses.append(client.send(asking("ping")).status_code)
        assert statuses == [200, 404]

    def test_the_same_name_from_two_functions_is_two_callers(self) -> None:
        def customers() -> str | None:
            return request.headers.get("X-Customer")

        def staff() -> str | None:
            return request.headers.get("X-Staff")

        site = site_with([customers, staff])
        site.rpc.add_tool(lambda: current_call.caller.principal, name="principal")
        principals = {
            site.invoke("principal", {}, headers={header: "ada"}).get_json()["result"]
            for header in ("X-Customer", "X-Staff")
        }
        assert len(principals) == 2


class TestOtherPlaces:
    """Discovery, the explorer, the doctor and the command line know functions, too."""

    def test_the_schemes_are_those_of_the_challenges(self) -> None:
        def bearer() -> None: ...

        bearer.challenge = 'Bearer realm="site"'  # type: ignore[attr-defined]
        for auth, schemes in ((lambda: None, []), (bearer, ["Bearer"]), ([make_auth(), bearer], ["Basic", "Bearer"])):
            [server] = site_with(auth).client.get("/.well-known/mcp.json").get_json()["servers"]
            assert server["authentication"] == {"required": False, "schemes": schemes}

    def test_the_explorer_knows_who_is_signed_in(self) -> None:
        _, browser = cookie_site([make_auth(), cookie_user], SIGNED_IN_COOKIE)
        for headers, name in ((PAGE, "ada"), (basic("writer"), "writer"), (OTHER_PAGE, None)):
            response = browser.get("/mcp/explorer/caller", headers=headers)
            assert (response.get_json(), response.headers["Cache-Control"]) == ({"name": name}, "no-store")
        _, browser = cookie_site(cookie_user, require_auth=True)
        assert browser.get("/mcp/explorer/caller").get_json() == {"name": None}
        assert browser.get("/mcp/explorer/caller", headers=basic("ada")).status_code == 401
        assert "&#34;cookies&#34;:true" in browser.get("/mcp/explorer").text.replace("&quot;", "&#34;")

    def test_the_doctor_finds_what_anyone_can_call(self) -> None:
        found = {str(finding) for finding in examine(site_with(lambda: None).app, tools_only=True)}
        assert {finding.partition(":")[0] for finding in found} >= {"public-read (who)"}
        assert not any("public" in finding and "mine" in finding for finding in found)

    @pytest.mark.parametrize("command", [["list"], ["call", "mine"], ["config", "claude-code"]], ids=str)
    def test_the_commands_do_not_ask_the_function(self, command: list[str]) -> None:
        """It reads a request, and there is none."""
        asked: list[int] = []
        site = site_with(lambda: asked.append(1), require_auth=True)
        ran = site.app.test_cli_runner().invoke(mcp, command)
        assert (ran.exit_code, asked) == (0, []), ran.output

    def test_the_test_client_is_a_page_of_the_site(self) -> None:
        site, browser = cookie_site(cookie_user, SIGNED_IN_COOKIE)
        for face in ("mcp", "jsonrpc", "rest"):
            assert McpTestClient(site.app, face=face, http=browser).call("mine").value == "ada"
            assert McpTestClient(site.app, face=face, http=browser).with_headers(OTHER_PAGE).call("mine").status == 401
