"""Who is calling: every Flask-HTTPAuth object, wrong and malformed credentials, permissions, hidden names."""

from __future__ import annotations

import hashlib
import json
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import g, request
from flask_httpauth import HTTPBasicAuth, HTTPDigestAuth, HTTPTokenAuth, MultiAuth

from flask_jsonrpc_mcp import McpBlueprint, RpcError
from flask_jsonrpc_mcp.cli import mcp
from tests.conftest import PERMISSIONS, Site, asking, basic, make_auth, make_token_auth

CHALLENGE = 'Basic realm="Authentication Required"'


def site_with(auth: Any, **options: Any) -> Site:
    site = Site(McpBlueprint(auth=auth, **options), SECRET_KEY="key")
    site.tool(lambda: "hello", name="public")
    site.tool(lambda: auth.current_user(), name="whoami", access=["write"])
    return site


def test_callers_see_what_their_permissions_allow(guarded_site: Site) -> None:
    assert guarded_site.names() == ["public"]
    assert guarded_site.names(headers=basic("reader")) == ["public"]
    assert guarded_site.names(headers=basic("writer")) == ["public", "write"]
    assert guarded_site.names(headers=basic("admin")) == ["public", "write", "administer"]


def test_every_permission_is_needed(guarded_site: Site) -> None:
    """Flask-HTTPAuth reads a list of roles as "any of"; access=[...] means all of them."""
    assert guarded_site.invoke("administer", {}, headers=basic("writer")).status_code == 404
    assert guarded_site.invoke("administer", {}, headers=basic("admin")).get_json() == {"result": "administered"}


@pytest.mark.parametrize(
    "path", ["/mcp/tools/list", "/mcp/tools/describe?name=public", "/mcp/server-card", "/mcp/none"]
)
def test_wrong_credentials_are_401_on_every_route(guarded_site: Site, path: str) -> None:
    """``login_required(optional=True)`` would let the caller through as anonymous."""
    response = guarded_site.client.get(path, headers=basic("admin", "wrong"))
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == CHALLENGE
    assert response.headers["Cache-Control"] == "no-store"
    assert response.get_json()["error"]["code"] == "unauthorized"


def test_wrong_credentials_do_not_call_a_public_tool(guarded_site: Site) -> None:
    assert guarded_site.invoke("public", {}, headers=basic("admin", "wrong")).status_code == 401
    assert guarded_site.invoke("public", {}).get_json() == {"result": "hello"}


def encoded(raw: bytes) -> str:
    return b64encode(raw).decode()


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic " + encoded(b"nocolon"),
        "Basic " + encoded(b":nouser"),
        "Basic " + encoded(b"admin:\xff\xfe"),
        "Basic " + encoded(b"admin:admin\x00"),
        "Basic " + encoded(b"ad\nmin:admin"),
        "Basic " + "A" * 6000,
        "Basic é",
        "Foo " + encoded(b"admin:admin"),
        "Bearer " + encoded(b"admin:admin"),
        "Bearer",
        "Digest username=admin",
        encoded(b"admin:admin"),
        "Basic," + encoded(b"admin:admin"),
    ],
)
def test_malformed_credentials_are_401_and_never_sign_in(guarded_site: Site, header: str) -> None:
    """HTTPBasicAuth never looks at the scheme: "Foo" and "Bearer" with a password would sign in."""
    response = guarded_site.list_tools(headers={"Authorization": header})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == CHALLENGE


@pytest.mark.parametrize("header", ["", " "])
def test_an_empty_header_is_no_credentials(guarded_site: Site, header: str) -> None:
    assert guarded_site.names(headers={"Authorization": header}) == ["public"]


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
def test_schemes_have_no_case(guarded_site: Site, scheme: str) -> None:
    header = {"Authorization": f"{scheme} {encoded(b'writer:writer')}"}
    assert guarded_site.names(headers=header) == ["public", "write"]


def test_the_verify_callback_is_only_asked_about_real_credentials() -> None:
    """Flask-HTTPAuth calls it with two empty strings when there is no header; returning True would sign everyone in."""
    asked = []
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> bool:
        asked.append(username)
        return True

    site = Site(McpBlueprint(auth=auth))
    assert site.list_tools().status_code == 200
    assert asked == []


def test_without_an_auth_object_credentials_mean_nothing(site: Site) -> None:
    site.tool(lambda: 1, name="public")
    site.tool(lambda: 1, name="guarded", access=["write"])
    assert site.names(headers=basic("admin")) == ["public"]
    response = site.invoke("guarded", {})
    assert response.status_code == 404
    assert "WWW-Authenticate" not in response.headers


def test_bearer_tokens() -> None:
    site = site_with(make_token_auth())
    assert site.names(headers={"Authorization": "Bearer writer-token"}) == ["public", "whoami"]
    assert site.names(headers={"Authorization": "bearer writer-token"}) == ["public", "whoami"]
    response = site.list_tools(headers={"Authorization": "Bearer wrong"})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="Authentication Required"'


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer a=b,c=d", "Bearer \x7f", "Basic " + encoded(b"a:b")])
def test_what_is_no_token_is_401(header: str) -> None:
    assert site_with(make_token_auth()).list_tools(headers={"Authorization": header}).status_code == 401


def test_a_token_in_a_header_of_its_own() -> None:
    site = site_with(make_token_auth(header="X-API-Key"))
    response = site.list_tools(headers={"X-API-Key": "writer-token"})
    assert [tool["name"] for tool in response.get_json()["tools"]] == ["public", "whoami"]
    assert response.headers["Vary"] == "Authorization, X-API-Key, Origin"
    assert site.list_tools(headers={"X-API-Key": "wrong"}).status_code == 401
    assert site.names(headers={"X-API-Key": ""}) == ["public"]


def test_a_token_in_the_query_string_is_no_credential() -> None:
    assert (
        site_with(make_token_auth()).list_tools("?access_token=admin-token&token=admin-token").get_json()["tools"][1:]
        == []
    )


def test_multi_auth_chooses_by_scheme_in_any_case() -> None:
    """MultiAuth compares the scheme exactly, so "bearer x" would fall to Basic."""
    site = site_with(MultiAuth(make_auth(), make_token_auth()))
    for header in (basic("writer")["Authorization"], "bearer writer-token", "BEARER writer-token"):
        assert site.invoke("whoami", {}, headers={"Authorization": header}).get_json() == {"result": "writer"}
    response = site.list_tools(headers={"Authorization": "Bearer " + encoded(b"writer:writer")})
    assert response.status_code == 401
    assert response.headers.getlist("WWW-Authenticate") == [CHALLENGE, 'Bearer realm="Authentication Required"']


def make_digest_auth() -> HTTPDigestAuth:
    auth = HTTPDigestAuth()
    auth.generate_nonce(lambda: "nonce")
    auth.verify_nonce(lambda nonce: nonce == "nonce")
    auth.generate_opaque(lambda: "opaque")
    auth.verify_opaque(lambda opaque: opaque == "opaque")
    auth.get_password(lambda username: username if username in PERMISSIONS else None)
    auth.get_user_roles(lambda credentials: PERMISSIONS[credentials.username])
    return auth


def digest(username: str, password: str, /, **changes: str | None) -> dict[str, str]:
    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()  # noqa: S324

    ha1, ha2 = md5(f"{username}:Authentication Required:{password}"), md5("POST:/mcp/tools/invoke")
    parts: dict[str, str | None] = {
        "username": username,
        "realm": "Authentication Required",
        "nonce": "nonce",
        "uri": "/mcp/tools/invoke",
        "opaque": "opaque",
        "qop": "auth",
        "nc": "00000001",
        "cnonce": "c",
        "response": md5(f"{ha1}:nonce:00000001:c:auth:{ha2}"),
        **changes,
    }
    return {"Authorization": "Digest " + ", ".join(f'{k}="{v}"' for k, v in parts.items() if v is not None)}


def test_digest_auth() -> None:
    site = site_with(make_digest_auth())
    assert site.invoke("whoami", {}, headers=digest("writer", "writer")).get_json() == {"result": "writer"}
    response = site.invoke("whoami", {}, headers=digest("writer", "wrong"))
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Digest realm=")


@pytest.mark.parametrize(
    "changes",
    [{"nc": None}, {"cnonce": None}, {"nonce": "é"}, {"opaque": None}, {"username": None}, {"response": "é"}],
    ids=str,
)
def test_an_incomplete_digest_is_401(changes: dict[str, str | None]) -> None:
    """Flask-HTTPAuth raises TypeError for some of these, which would be a 500."""
    site = site_with(make_digest_auth())
    assert site.invoke("whoami", {}, headers=digest("writer", "writer", **changes)).status_code == 401


def test_a_custom_scheme_still_takes_basic() -> None:
    """Apps use one to keep browsers from asking; their clients go on sending "Basic"."""
    auth = HTTPBasicAuth(scheme="xBasic")
    auth.verify_password(lambda username, password: username == password)
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: auth.current_user(), name="whoami")
    assert site.invoke("whoami", {}, headers=basic("ada")).get_json() == {"result": "ada"}
    assert site.list_tools(headers=basic("ada", "x")).headers["WWW-Authenticate"].startswith("xBasic")


def test_the_users_object_and_its_roles_reach_the_method() -> None:
    class User:
        def __init__(self, name: str) -> None:
            self.name, self.roles = name, ("write",)

    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: User(username) if password == "right" else None)
    auth.get_user_roles(lambda user: user.roles)
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: auth.current_user().name, name="whoami", access=["write"])
    assert site.invoke("whoami", {}, headers=basic("ada", "right")).get_json() == {"result": "ada"}


@pytest.mark.parametrize(("roles", "names"), [("write", ["w"]), (None, []), ({"write"}, ["w"]), ([], [])])
def test_roles_may_be_one_several_or_none(roles: Any, names: list[str]) -> None:
    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: username)
    auth.get_user_roles(lambda user: roles)
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: 1, name="w", access=["write"])
    assert site.names(headers=basic("ada")) == names


def test_async_callbacks() -> None:
    auth = HTTPBasicAuth()

    @auth.verify_password
    async def verify(username: str, password: str) -> str:
        return username

    @auth.get_user_roles
    async def roles(user: str) -> str:
        return "write"

    site = site_with(auth)
    assert site.invoke("whoami", {}, headers=basic("ada")).get_json() == {"result": "ada"}


def test_a_permissions_loader_replaces_the_roles(guarded_site: Site) -> None:
    @guarded_site.rpc.permissions_loader
    def load(user: str | None) -> list[str]:
        return ["write", "administer"] if user == "reader" else ["write"]

    assert guarded_site.names() == ["public", "write"]
    assert guarded_site.names(headers=basic("reader")) == ["public", "write", "administer"]
    assert guarded_site.names(headers=basic("admin")) == ["public", "write"]


def test_a_list_that_a_loader_decides_is_private(guarded_site: Site) -> None:
    assert guarded_site.list_tools().headers["Cache-Control"] == "public, no-cache"
    guarded_site.rpc.permissions_loader(lambda user: ["write"] if request.cookies.get("who") else [])
    assert guarded_site.list_tools().headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize("arguments", [{}, {"bad": 1}, {"a": []}])
@pytest.mark.parametrize("caller", [None, "reader", "writer"])
def test_a_hidden_tool_cannot_be_told_from_an_absent_one(
    guarded_site: Site, caller: str | None, arguments: dict[str, Any]
) -> None:
    headers = basic(caller) if caller else {}

    def answers(name: str) -> list[Any]:
        replies = [guarded_site.describe(name, headers=headers), guarded_site.invoke(name, arguments, headers=headers)]
        return [(r.status_code, r.data.replace(name.encode(), b"NAME"), sorted(r.headers.keys())) for r in replies]

    assert answers("administer") == answers("absentname")
    assert answers("administer")[0][0] == (404 if caller else 401)


def test_an_anonymous_caller_is_told_to_sign_in(guarded_site: Site) -> None:
    for name in ("write", "absent"):
        response = guarded_site.invoke(name, {})
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == CHALLENGE


def test_require_auth_closes_everything_but_well_known() -> None:
    site = site_with(make_auth(), require_auth=True)
    for response in (
        site.list_tools(),
        site.describe("public"),
        site.invoke("public", {}),
        site.client.get("/mcp/server-card"),
    ):
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == CHALLENGE
    assert site.client.get("/.well-known/mcp.json").status_code == 200
    assert site.invoke("public", {}, headers=basic("reader")).status_code == 200


def test_require_auth_needs_an_auth_object() -> None:
    with pytest.raises(ValueError, match="needs an auth object"):
        McpBlueprint(require_auth=True)


def test_discover_access_guards_list_and_describe() -> None:
    site = site_with(make_auth(), discover_access=["administer"])
    for caller, status in ((None, 401), ("writer", 403), ("admin", 200)):
        headers = basic(caller) if caller else {}
        assert site.list_tools(headers=headers).status_code == status
        assert site.describe("public", headers=headers).status_code == status
    assert site.list_tools(headers=basic("writer")).get_json() == {
        "error": {"code": "forbidden", "message": "Access denied"}
    }
    assert site.invoke("public", {}).status_code == 200


def test_an_auth_object_of_another_kind_raises() -> None:
    with pytest.raises(TypeError, match="auth must be a Flask-HTTPAuth object, not str"):
        McpBlueprint(auth="basic")


@pytest.mark.parametrize("failure", [RuntimeError("database is down: secret"), SystemExit(3)], ids=repr)
def test_a_failing_verify_callback_is_a_500_that_tells_nothing(failure: BaseException) -> None:
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> None:
        raise failure

    response = Site(McpBlueprint(auth=auth)).list_tools(headers=basic("ada"))
    assert response.status_code == 500
    assert response.get_json()["error"]["code"] == "internal_error"
    assert b"secret" not in response.data


def test_credentials_of_two_kinds_at_once_are_refused() -> None:
    site = site_with(MultiAuth(make_auth(), make_token_auth(header="X-API-Key")))
    assert site.list_tools(headers={**basic("writer"), "X-API-Key": "admin-token"}).status_code == 401


def test_a_loader_gets_the_name_where_there_is_no_user_object() -> None:
    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: True)
    site = site_with(auth)
    site.rpc.permissions_loader(lambda user: ["write"] if user == "ada" else [])
    assert site.names(headers=basic("ada")) == ["public", "whoami"]
    assert site.names(headers=basic("bob")) == ["public"]


def test_an_expected_failure_of_a_callback_is_not_one_of_a_tool() -> None:
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> None:
        raise RpcError("The directory is closed")

    response = Site(McpBlueprint(auth=auth)).list_tools(headers=basic("ada"))
    assert response.get_json()["error"]["message"] == "The directory is closed"


def test_a_challenge_that_cannot_be_made_is_a_500_in_json() -> None:
    """Digest keeps its nonce in the session, which needs a SECRET_KEY."""
    site = Site(McpBlueprint(auth=HTTPDigestAuth(), require_auth=True))
    response = site.list_tools()
    assert (response.status_code, response.get_json()["error"]["code"]) == (500, "internal_error")


def test_a_token_that_is_taken_for_the_user_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    auth = HTTPTokenAuth("Bearer")
    auth.verify_token(lambda token: token)
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: 1, name="f")
    with caplog.at_level("INFO", logger=site.app.logger.name):
        assert site.invoke("f", {}, headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert "caller='token'" in caplog.text
    assert "s3cret" not in caplog.text


def test_identities_never_mix_between_threads(guarded_site: Site) -> None:
    """Signed-in and anonymous calls at once: nobody ever sees another's tools."""
    expected = {
        None: ["public"],
        "reader": ["public"],
        "writer": ["public", "write"],
        "admin": ["public", "write", "administer"],
    }
    start = threading.Barrier(8)

    def look(number: int) -> bool:
        caller = list(expected)[number % 4]
        client = guarded_site.app.test_client()
        start.wait()
        for _ in range(40):
            response = client.get("/mcp/tools/list", headers=basic(caller) if caller else {})
            if [tool["name"] for tool in response.get_json()["tools"]] != expected[caller]:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(look, range(8)))


def test_g_belongs_to_the_request(guarded_site: Site) -> None:
    guarded_site.tool(lambda: getattr(g, "flask_httpauth_user", "nobody"), name="seen")
    assert guarded_site.invoke("seen", {}, headers=basic("admin")).get_json() == {"result": "admin"}
    assert guarded_site.invoke("seen", {}).get_json() == {"result": None}


def test_an_anonymous_caller_is_not_the_user_of_a_context_around_the_request(guarded_site: Site) -> None:
    guarded_site.tool(lambda: getattr(g, "flask_httpauth_user", "nobody"), name="seen")
    guarded_site.app.before_request(lambda: setattr(g, "flask_httpauth_user", "admin"))
    assert guarded_site.invoke("seen", {}).get_json() == {"result": None}


class Falsy:
    def __bool__(self) -> bool:
        return False


@pytest.mark.parametrize("returned", [None, False, 0, 0.0, "", [], {}, Falsy()], ids=repr)
@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
@pytest.mark.parametrize("several", [False, True], ids=["alone", "in a MultiAuth"])
def test_a_verify_callback_that_returns_a_falsy_value_refuses(scheme: str, returned: Any, several: bool) -> None:
    basic_auth, token_auth = HTTPBasicAuth(), HTTPTokenAuth()
    basic_auth.verify_password(lambda username, password: returned)
    token_auth.verify_token(lambda token: returned)
    alone = basic_auth if scheme == "Basic" else token_auth
    site = Site(McpBlueprint(auth=MultiAuth(basic_auth, token_auth) if several else alone))
    site.tool(lambda: "ran", name="public")
    headers = basic("ada") if scheme == "Basic" else {"Authorization": "Bearer token"}
    assert site.invoke("public", {}, headers=headers).status_code == 401
    assert site.rpc_post(asking("public"), headers=headers).status_code == 401
    assert site.client.post("/mcp", json=asking("ping"), headers=headers).status_code == 401


class TestUsersByName:
    """Who runs the app on the command line may be anyone, without a password."""

    def called_as(self, rpc: McpBlueprint, name: str) -> Any:
        ran = Site(rpc).app.test_cli_runner().invoke(mcp, ["call", "whoami", "--user", name])
        return json.loads(ran.stdout) if ran.exit_code == 0 else ran.exit_code

    def blueprint(self, auth: Any, *, find: Any) -> McpBlueprint:
        rpc = McpBlueprint(auth=auth)
        rpc.add_method("whoami", lambda: auth.current_user(), access=["write"])
        assert rpc.user_loader(find) is find
        return rpc

    def test_they_have_the_permissions_of_the_user(self) -> None:
        rpc = self.blueprint(make_auth(), find=lambda name: name)
        assert self.called_as(rpc, "writer") == "writer"
        assert self.called_as(rpc, "reader") == 2

    def test_any_auth_object_may_know_the_permissions(self) -> None:
        rpc = self.blueprint(MultiAuth(HTTPBasicAuth(), make_token_auth()), find=lambda name: name)
        assert self.called_as(rpc, "writer") == "writer"

    def test_a_permissions_loader_decides_where_there_is_one(self) -> None:
        rpc = self.blueprint(make_auth(), find=lambda name: {"name": name})
        rpc.permissions_loader(lambda user: ["write"] if user == {"name": "ada"} else [])
        assert self.called_as(rpc, "ada") == {"name": "ada"}
        assert self.called_as(rpc, "writer") == 2

    def test_a_loader_that_only_says_yes_leaves_the_name(self) -> None:
        """As with a verify callback that returns True, get_user_roles gets credentials."""
        auth = HTTPBasicAuth()
        auth.get_user_roles(lambda credentials: PERMISSIONS[credentials.username])
        rpc = self.blueprint(auth, find=lambda name: name in PERMISSIONS)
        assert self.called_as(rpc, "writer") == "writer"
        assert self.called_as(rpc, "nobody") == 2

    def test_a_loader_may_be_async(self) -> None:
        async def find(name: str) -> str:
            return name

        assert self.called_as(self.blueprint(make_auth(), find=find), "writer") == "writer"
