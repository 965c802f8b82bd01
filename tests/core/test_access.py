"""Who is calling: every Flask-HTTPAuth object, wrong and malformed credentials, permissions, hidden names."""

from __future__ import annotations

import hashlib
import itertools
import json
import sqlite3
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from flask import Flask, abort, g, request
from flask_httpauth import HTTPBasicAuth, HTTPDigestAuth, HTTPTokenAuth, MultiAuth
from flask_limiter import Limiter
from itsdangerous import URLSafeTimedSerializer

from flask_jsonrpc_mcp import Call, Caller, McpBlueprint, RpcError, current_call, mcp_tool, method_called
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from tests.conftest import PERMISSIONS, Site, asking, basic, make_auth, make_token_auth
from tests.support import faces
from tests.support.mcp_messages import LegacyClient, ModernClient, result

CHALLENGE = 'Basic realm="Authentication Required"'


FACES = (
    faces.rest,
    faces.jsonrpc,
    faces.jsonrpc_get,
    faces.batch,
    faces.own_url,
    faces.own_url_get,
    faces.mcp_modern,
    faces.mcp_legacy,
)


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


@pytest.mark.parametrize("face", FACES)
def test_wrong_credentials_do_not_call_a_public_tool(face: faces.Face) -> None:
    ran: list[int] = []
    site = Site(McpBlueprint(auth=make_auth()))
    site.rpc.add_tool(lambda: ran.append(1), "public", read_only=True)
    assert face("public", {}).send(site.client, basic("admin", "wrong")).status_code == 401
    assert ran == []
    assert face("public", {}).send(site.client).status_code == 200
    assert ran == [1]


def test_the_well_known_page_checks_no_credentials(guarded_site: Site) -> None:
    anonymous = guarded_site.client.get("/.well-known/mcp.json")
    assert anonymous.status_code == 200
    wrong = guarded_site.client.get("/.well-known/mcp.json", headers=basic("admin", "wrong"))
    assert (wrong.status_code, wrong.data) == (200, anonymous.data)


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
        "Basic !" + encoded(b"admin:admin"),
        # Two headers, which a server joins: a proxy in front may have looked at the other one.
        "Basic " + encoded(b"admin:admin") + ",Basic " + encoded(b"writer:writer"),
        "Basic " + encoded(b"admin:admin") + ", Bearer x",
        "Bearer x, Basic " + encoded(b"admin:admin"),
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


def make_digest_auth(**options: Any) -> HTTPDigestAuth:
    auth = HTTPDigestAuth(**options)
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


@pytest.mark.parametrize(
    ("options", "changes"),
    [({"qop": None}, {}), ({"qop": None, "algorithm": "MD5-Sess"}, {"qop": None, "cnonce": None})],
    ids=str,
)
def test_a_digest_of_another_kind_is_401(options: dict[str, Any], changes: dict[str, str | None]) -> None:
    """Flask-HTTPAuth raises TypeError for these, too."""
    site = site_with(make_digest_auth(**options))
    assert site.invoke("whoami", {}, headers=digest("writer", "writer", **changes)).status_code == 401


def test_a_stored_password_is_compared_with_any_text() -> None:
    """``hmac.compare_digest`` takes ASCII only; a verify or hash callback takes everything."""
    plain, hashed = HTTPBasicAuth(), HTTPBasicAuth()
    plain.get_password(lambda username: "right")
    hashed.get_password(lambda username: hashlib.sha256("é".encode()).hexdigest())
    hashed.hash_password(lambda password: hashlib.sha256(password.encode()).hexdigest())
    for auth, password, status in ((plain, "right", 200), (plain, "é", 401), (hashed, "é", 200), (hashed, "e", 401)):
        assert Site(McpBlueprint(auth=auth)).list_tools(headers=basic("ada", password)).status_code == status


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


@pytest.mark.parametrize("roles", [{"write": False}, {"write": True}, 7, [["write"]]], ids=repr)
def test_roles_that_are_no_list_of_names_grant_nothing(roles: Any) -> None:
    """The keys of a mapping are names, but its values may say no."""
    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: username)
    auth.get_user_roles(lambda user: roles)
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: 1, name="w", access=["write"])
    assert site.list_tools(headers=basic("ada")).status_code == 500


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


def test_require_auth_of_mcp_closes_the_endpoint_of_ai_clients_alone() -> None:
    """They open their sign-in page when they get a 401, which must be the first response then."""
    site = site_with(make_auth(), require_auth="mcp")
    refused = ModernClient(site.client).post("server/discover")
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, CHALLENGE)
    assert LegacyClient(site.client).post("initialize").status_code == 401
    assert ModernClient(site.client, basic("reader")).post("server/discover").status_code == 200
    for response in (
        site.list_tools(),
        site.describe("public"),
        site.invoke("public", {}),
        site.rpc_post(asking("public")),
        site.client.get("/mcp/server-card"),
    ):
        assert response.status_code == 200
    [server] = site.client.get("/.well-known/mcp.json").get_json()["servers"]
    assert server["authentication"]["required"] is True


def test_require_auth_needs_an_auth_object() -> None:
    for required in (True, "mcp"):
        with pytest.raises(ValueError, match=f"require_auth={required!r} needs an auth object"):
            McpBlueprint(require_auth=required)


def test_require_auth_of_another_kind_raises() -> None:
    with pytest.raises(ValueError, match="require_auth must be True, False or 'mcp', not 'rest'"):
        McpBlueprint(auth=make_auth(), require_auth="rest")  # type: ignore[arg-type]


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
    with pytest.raises(
        TypeError, match="auth must be a Flask-HTTPAuth object, a function, or a list of these, not str"
    ):
        McpBlueprint(auth="basic")


@pytest.mark.parametrize(
    "auths",
    [
        (HTTPTokenAuth(), HTTPTokenAuth("bearer")),
        (HTTPBasicAuth(), HTTPTokenAuth(), HTTPBasicAuth("xBasic")),
        (HTTPTokenAuth("A", header="X-API-Key"), HTTPTokenAuth("B", header="X-API-Key")),
    ],
)
def test_two_auth_objects_for_the_same_credentials_raise(auths: Any) -> None:
    """MultiAuth would ask the first of them only."""
    with pytest.raises(ValueError, match=r"auth has two objects for \S+; use one"):
        McpBlueprint(auth=MultiAuth(*auths))


@pytest.mark.parametrize("failure", [RuntimeError("database is down: secret"), SystemExit(3)], ids=repr)
def test_a_failing_verify_callback_is_a_500_that_tells_nothing(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> None:
        raise failure

    response = Site(McpBlueprint(auth=auth)).list_tools(headers=basic("ada"))
    assert response.status_code == 500
    assert response.get_json()["error"]["code"] == "internal_error"
    assert b"secret" not in response.data
    [logged] = [record for record in caplog.records if record.exc_info]
    assert response.get_json()["error"]["message"][-12:] in logged.getMessage()


@pytest.mark.parametrize("status", [401, 403, 429, 503])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("where", ["verify_password", "permissions_loader"])
def test_a_callback_may_abort(where: str, face: faces.Face, status: int) -> None:
    """Such as one that locks a user out after too many wrong passwords."""
    auth = make_auth()
    rpc = McpBlueprint(auth=auth)
    rpc.add_method("f", mcp_tool(annotations={"readOnlyHint": True})(lambda: 1))
    if where == "verify_password":
        auth.verify_password(lambda username, password: abort(status))
    else:
        rpc.permissions_loader(lambda user: abort(status))
    response = face("f", {}).send(Site(rpc).client, basic("admin"))
    assert (response.status_code, response.mimetype) == (status, "application/json")
    assert ("WWW-Authenticate" in response.headers) is (status == 401)


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


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("before", ["a request in the same context", "a before_request function"])
def test_an_anonymous_caller_is_not_the_user_that_was_in_g_before(face: faces.Face, before: str) -> None:
    auth, seen = make_auth(), []
    rpc = McpBlueprint(auth=auth)
    rpc.add_method("whoami", mcp_tool(annotations={"readOnlyHint": True})(lambda: seen.append(auth.current_user())))
    site = Site(rpc)
    if before == "a before_request function":
        site.app.before_request(lambda: setattr(g, "flask_httpauth_user", "admin"))
    with site.app.app_context():  # Flask takes it for both requests, with its g
        for headers in (basic("writer"), {}):
            assert face("whoami", {}).send(site.client, headers).status_code == 200
    assert seen == ["writer", None]


def test_a_permissions_loader_may_ask_for_the_current_user() -> None:
    """It must not find the one before: permissions of another user would follow."""
    auth = make_auth()
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: 1, name="administer", access=["administer"])
    site.rpc.permissions_loader(lambda user: PERMISSIONS.get(auth.current_user(), []))
    with site.app.app_context():
        names = [site.names(headers=headers) for headers in ({}, basic("admin"), {}, basic("reader"))]
    assert names == [[], ["administer"], [], []]


@pytest.mark.parametrize("failure", [RuntimeError("database is down: secret"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("headers", [{}, basic("admin")], ids=["anonymous", "signed in"])
def test_a_failing_permissions_loader_runs_nothing(
    headers: dict[str, str], face: faces.Face, failure: BaseException
) -> None:
    ran: list[int] = []
    rpc = McpBlueprint(auth=make_auth())
    rpc.add_method("f", mcp_tool(annotations={"readOnlyHint": True})(lambda: ran.append(1)))

    @rpc.permissions_loader
    def load(user: str | None) -> None:
        raise failure

    response = face("f", {}).send(Site(rpc).client, headers)
    assert "error" in response.get_json()
    assert b"secret" not in response.data
    assert ran == []


class Falsy:
    """A user object that counts as false, and equals nothing but itself."""

    def __bool__(self) -> bool:
        return False


class LikeNumpy(Falsy):
    """numpy's False: it is not ``False``, and equals it."""

    def __eq__(self, other: object) -> bool:
        return other is False

    __hash__ = None  # type: ignore[assignment]


class Unequal:
    """A user object that equals not even itself, and has no hash."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


class Comparable:
    """A user object that can only be compared with others of its kind."""

    id = 7

    def __eq__(self, other: Any) -> bool:
        return bool(self.id == other.id)

    __hash__ = None  # type: ignore[assignment]


def shown(value: object) -> str:
    return repr(value) if type(value).__module__ == "builtins" else type(value).__name__


def password_auth(returned: Any) -> HTTPBasicAuth:
    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: returned)
    return auth


def token_auth(returned: Any, **options: Any) -> HTTPTokenAuth:
    auth = HTTPTokenAuth(**options)
    auth.verify_token(lambda token: returned)
    return auth


def async_auth(returned: Any) -> HTTPBasicAuth:
    auth = HTTPBasicAuth()

    @auth.verify_password
    async def verify(username: str, password: str) -> Any:
        return returned

    return auth


BEARER = {"Authorization": "Bearer token"}
AUTHS: dict[str, tuple[Any, dict[str, str]]] = {
    "Basic": (password_auth, basic("ada")),
    "Basic, async": (async_auth, basic("ada")),
    "Bearer": (token_auth, BEARER),
    "another scheme": (lambda returned: token_auth(returned, scheme="ApiKey"), {"Authorization": "ApiKey token"}),
    "a header": (lambda returned: token_auth(returned, header="X-API-Key"), {"X-API-Key": "token"}),
    "Basic of a MultiAuth": (lambda returned: MultiAuth(password_auth(returned), token_auth("bob")), basic("ada")),
    "Bearer of a MultiAuth": (lambda returned: MultiAuth(password_auth("bob"), token_auth(returned)), BEARER),
}


def statuses(auth: Any, headers: dict[str, str]) -> tuple[int, set[int]]:
    """What ``login_required`` answers, and what our faces do."""
    rpc = McpBlueprint(auth=auth)
    rpc.add_method("public", mcp_tool(annotations={"readOnlyHint": True})(lambda: "ran"))
    site = Site(rpc)
    site.app.add_url_rule("/view", view_func=auth.login_required(lambda: "ran"), methods=["POST"])
    ours = {face("public", {}).send(site.client, headers).status_code for face in FACES}
    return site.client.post("/view", headers=headers).status_code, ours


@pytest.mark.parametrize("returned", [None, False, 0, 0.0, LikeNumpy()], ids=shown)
@pytest.mark.parametrize("kind", AUTHS)
def test_what_login_required_refuses_is_refused(kind: str, returned: Any) -> None:
    make, headers = AUTHS[kind]
    assert statuses(make(returned), headers) == (401, {401})


@pytest.mark.parametrize("returned", ["", [], {}, Falsy()], ids=shown)
@pytest.mark.parametrize("kind", AUTHS)
def test_any_other_falsy_value_is_refused_too(kind: str, returned: Any) -> None:
    """``login_required`` lets these through, as a user who has no name."""
    make, headers = AUTHS[kind]
    assert statuses(make(returned), headers) == (200, {401})


@pytest.mark.parametrize("returned", [True, "ada", 7, {"id": 0}, ("ada",), Unequal()], ids=shown)
@pytest.mark.parametrize("kind", AUTHS)
def test_any_other_value_is_the_user(kind: str, returned: Any) -> None:
    make, headers = AUTHS[kind]
    assert statuses(make(returned), headers) == (200, {200})


def test_a_user_is_never_compared() -> None:
    """``login_required`` compares it with False, and fails."""
    site = Site(McpBlueprint(auth=password_auth(Comparable())))
    assert site.list_tools(headers=basic("ada")).status_code == 200


@pytest.mark.parametrize(
    ("stored", "status"), [(None, 401), (False, 401), (0, 401), ("", 401), ("wrong", 401), ("right", 200)]
)
def test_the_password_of_a_digest(stored: Any, status: int) -> None:
    auth = make_digest_auth()
    auth.get_password(lambda username: stored)
    site = Site(McpBlueprint(auth=auth))
    site.tool(lambda: "ran", name="public")
    site.app.add_url_rule("/view", view_func=auth.login_required(lambda: "ran"), methods=["POST"])
    headers = digest("writer", "right")
    assert site.invoke("public", {}, headers=headers).status_code == status
    assert site.client.post("/view", headers=headers).status_code == status


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("kind", ["Basic", "Bearer", "a header"])
def test_a_callback_that_forgets_to_await_signs_nobody_in(kind: str) -> None:
    """A coroutine is truthy, so ``login_required`` takes it for the user."""

    async def verify() -> None:
        return None

    make, headers = AUTHS[kind]
    auth = make(None)
    auth.verify_password_callback = auth.verify_token_callback = lambda *credentials: verify()
    site = Site(McpBlueprint(auth=auth))
    assert site.list_tools(headers=headers).status_code == 500


@dataclass
class User:
    """A user object, as a database or a mapping of claims has it."""

    id: Any = None
    username: Any = None
    name: Any = None
    email: Any = None


class Customer(User):
    """A user from another table, with ids of its own."""


def row(**columns: Any) -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    values = ", ".join(f":{name} AS {name}" for name in columns)
    with closing(connection):
        found: sqlite3.Row = connection.execute(f"SELECT {values}", columns).fetchone()
    return found


def caller_of(auth: Any, headers: dict[str, str]) -> Caller:
    """Who calls, as the receivers of ``method_called`` get to know it."""
    site, seen = Site(McpBlueprint(auth=auth)), []
    site.tool(lambda: 1, name="f")

    def receive(sender: Flask, call: Call, **rest: Any) -> None:
        seen.append(call.caller)

    with method_called.connected_to(receive, site.app):
        assert site.invoke("f", {}, headers=headers).status_code == 200
    [caller] = seen
    assert isinstance(caller, Caller)
    return caller


class TestNames:
    """A caller is named by the user that the callback returned, and never by a secret."""

    @pytest.mark.parametrize(
        ("returned", "name"),
        [
            ("ada", "ada"),
            ("Ada Lovelace", "Ada Lovelace"),
            (7, "7"),
            (UUID(int=7), str(UUID(int=7))),
            (User(7, "ada", "Ada Lovelace", "ada@site.example"), "ada"),
            (User(7, None, "Ada Lovelace", "ada@site.example"), "Ada Lovelace"),
            (User(7, email="ada@site.example"), "7"),
            (User(0), "0"),
            (User(email="ada@site.example"), "ada@site.example"),
            ({"username": "ada"}, "ada"),
            ({"username": "", "name": ["ada"], "id": 7}, "7"),
            (row(id=7, username="ada"), "ada"),
            (row(user_id=7), "password"),
            (object(), "password"),
            (True, "password"),
        ],
        ids=shown,
    )
    def test_the_user_that_was_found_is_the_one_that_is_logged(self, returned: Any, name: str) -> None:
        assert caller_of(password_auth(returned), basic("ADA", "lovelace")).name == name
        assert caller_of(token_auth(returned), BEARER).name == name.replace("password", "token")

    def test_a_digest_needs_the_password_so_its_name_is_no_secret(self) -> None:
        site = site_with(make_digest_auth())
        site.tool(lambda: current_call.caller.name, name="named")
        assert site.invoke("named", {}, headers=digest("writer", "writer")).get_json() == {"result": "writer"}

    SECRET = "sk_live_0123456789"

    @pytest.mark.parametrize(
        ("auth", "headers"),
        [
            (password_auth(True), basic(SECRET, "")),
            (password_auth(True), basic(SECRET, "unused")),
            (password_auth(User(7, "ada")), basic(SECRET, "")),
            (password_auth(User(7, "ada")), basic(SECRET, "unused")),
            (password_auth(object()), basic(SECRET, "unused")),
            (password_auth(SECRET), basic(SECRET, "")),
            (password_auth({"id": SECRET, "name": SECRET}), basic(SECRET, "")),
            (password_auth(SECRET), basic("x-access-token", SECRET)),
            (password_auth({"id": SECRET}), basic("x-access-token", SECRET)),
            (token_auth(True), {"Authorization": f"Bearer {SECRET}"}),
            (token_auth(SECRET), {"Authorization": f"Bearer {SECRET}"}),
            (token_auth(User(SECRET, SECRET, SECRET, SECRET)), {"Authorization": f"Bearer {SECRET}"}),
            (token_auth(SECRET, header="X-API-Key"), {"X-API-Key": SECRET}),
        ],
        ids=itertools.count(),
    )
    def test_a_secret_is_in_no_log_limit_session_or_signal(
        self, auth: Any, headers: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """API keys are sent as user names too, with any password or none."""
        limiter = Limiter(lambda: "anyone", storage_uri="memory://")
        site = Site(McpBlueprint(auth=auth, limiter=limiter, rate_limit="9/hour"), SECRET_KEY="key")
        limiter.init_app(site.app)
        site.tool(lambda: current_call.caller.name + current_call.caller.principal, name="named", rate_limit="9/hour")
        caplog.set_level("DEBUG")
        client = LegacyClient(site.client, headers=headers)
        client.initialize()
        assert client.session is not None
        named = result(client.call("named"))["structuredContent"]["result"]
        _, signed = URLSafeTimedSerializer("any key").loads_unsafe(client.session)
        counted = str(limiter.storage.storage)  # type: ignore[attr-defined]
        assert LEGACY[0] in signed
        assert "9/1/hour" in counted
        assert "name='named'" in caplog.text
        for text in (named, str(signed), counted, caplog.text):
            assert self.SECRET not in text


class TestPrincipals:
    """Limits, sessions and questions belong to the user that the callback returned."""

    SPELLINGS = ("ada", "Ada", "ADA", "ada ", " ada", "\uff41da", "a\u200dda")

    @pytest.mark.parametrize("user", ["ada", 7, User(7), User(None, "ada"), {"name": "ada"}, row(id=7)], ids=shown)
    def test_every_spelling_of_a_name_is_one_caller(self, user: Any) -> None:
        limiter = Limiter(lambda: "anyone", storage_uri="memory://")
        site = Site(McpBlueprint(auth=password_auth(user), limiter=limiter, rate_limit="3/hour"), SECRET_KEY="key")
        limiter.init_app(site.app)
        site.tool(lambda: 1, name="f")
        statuses = [site.invoke("f", {}, headers=basic(name, "x")).status_code for name in self.SPELLINGS]
        assert statuses == [200] * 3 + [429] * 4
        client = LegacyClient(site.client, headers=basic("ada", "x"))
        client.initialize()
        client.headers = basic("ADA", "x")
        assert client.send(asking("ping")).status_code == 200

    def test_a_new_token_of_a_user_is_the_same_caller(self) -> None:
        first, second = ({"Authorization": f"Bearer {token}"} for token in ("one", "two"))
        auth = token_auth(User(7))
        assert caller_of(auth, first).principal == caller_of(auth, second).principal

    def test_different_users_are_different_callers(self) -> None:
        users = [
            "7",
            7,
            UUID(int=7),
            str(UUID(int=7)),
            User(7),
            User("7"),
            User(None, "7"),
            User(None, None, None, "7"),
            Customer(7),
            {"id": 7},
            {"id": "7"},
            {"username": "7"},
            User(0),
            User(id="basic:ada"),
            User(id="ada', 'x"),
            # One name, and identities of other types.
            User(id=b"1", name="Ada"),
            User(id=b"2", name="Ada"),
            User(id=("north", 7), name="Ada"),
            User(id=("south", 7), name="Ada"),
        ]
        auths = [password_auth(user) for user in users]
        principals = {caller_of(auth, basic("ada")).principal for auth in auths}
        assert len(principals) == len(users)
        assert "" not in principals

    def test_users_whose_identity_has_no_text_differ_by_their_credentials(self) -> None:
        auth = token_auth(User(id=object(), name="Ada"))
        first, second = ({"Authorization": f"Bearer {token}"} for token in ("one", "two"))
        assert caller_of(auth, first).principal != caller_of(auth, second).principal

    def test_one_name_signed_in_in_different_ways_is_different_callers(self) -> None:
        ways: list[tuple[Any, dict[str, str]]] = [
            (password_auth("ada"), basic("ada")),
            (token_auth("ada"), BEARER),
            (token_auth("ada", scheme="ApiKey"), {"Authorization": "ApiKey token"}),
            (token_auth("ada", header="X-Key-A"), {"X-Key-A": "token"}),
            (token_auth("ada", header="X-Key-B"), {"X-Key-B": "token"}),
        ]
        both = MultiAuth(token_auth("ada", header="X-Key-A"), token_auth("ada", header="X-Key-B"))
        assert len({caller_of(auth, headers).principal for auth, headers in ways}) == len(ways)
        assert [caller_of(both, headers).principal for _, headers in ways[3:]] == [
            caller_of(auth, headers).principal for auth, headers in ways[3:]
        ]

    @pytest.mark.parametrize("user", [True, object(), Unequal()], ids=shown)
    def test_without_a_name_of_the_user_the_credentials_count(self, user: Any) -> None:
        for auth, headers in (
            (password_auth(user), [basic("ada"), basic("bob")]),
            (token_auth(user), [{"Authorization": "Bearer ada"}, {"Authorization": "Bearer bob"}]),
        ):
            assert len({caller_of(auth, sent).principal for sent in headers}) == 2


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

    @pytest.mark.parametrize("found", [0, "", [], False, None, LikeNumpy()], ids=shown)
    def test_a_loader_that_returns_a_falsy_value_finds_nobody(self, found: Any) -> None:
        assert self.called_as(self.blueprint(make_auth(), find=lambda name: found), "writer") == 2

    @pytest.mark.parametrize(
        ("found", "name"), [(True, "ADA"), (object(), "ADA"), ("ada", "ada"), (User(7, "ada"), "ada")], ids=shown
    )
    @pytest.mark.parametrize("make", [HTTPBasicAuth, HTTPDigestAuth, HTTPTokenAuth])
    def test_they_are_named_by_the_user_that_was_found(self, make: Any, found: Any, name: str) -> None:
        auth = make()
        auth.get_user_roles(lambda user: [])
        rpc = McpBlueprint(auth=auth)
        rpc.user_loader(lambda typed: found)
        rpc.add_method("whoami", lambda: current_call.caller.name)
        assert self.called_as(rpc, "ADA") == name

    def test_every_spelling_of_a_name_is_one_caller(self) -> None:
        rpc = McpBlueprint()
        rpc.user_loader(lambda typed: User(7, "ada"))
        rpc.add_method("whoami", lambda: current_call.caller.principal)
        assert self.called_as(rpc, "ADA") == self.called_as(rpc, "ada") != ""

    def test_a_loader_may_be_async(self) -> None:
        async def find(name: str) -> str:
            return name

        assert self.called_as(self.blueprint(make_auth(), find=find), "writer") == "writer"
