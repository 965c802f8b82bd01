"""What scopes allow: who sees what, who may call it, and how each face says that a scope is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, current_call, method_called
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.mcp.versions import ANNOTATIONS_KEY
from flask_jsonrpc_mcp.oauth import OAuthResource
from tests.conftest import Site, asking, basic, make_auth
from tests.oauth.conftest import FACES, assert_runs, challenges, legacy, make_oauth, make_site, modern
from tests.support.faces import Asked, Face, batch, jsonrpc_get, mcp_modern, notification, own_url_get
from tests.support.issuer import Issuer
from tests.support.mcp_messages import LegacyClient
from tests.support.tokens import bearer

BOTH = "articles:read articles:write"

ABSENT = "absent"

CALLERS: dict[str, Mapping[str, Any]] = {
    "anonymous": {},
    "ada-with-scopes": {"sub": "ada", "scope": BOTH},
    "ada-without-scopes": {"sub": "ada", "scope": "articles:read"},
    "root-without-scopes": {"sub": "root", "scope": "articles:read"},
    "nobody-with-scopes": {"sub": "nobody", "scope": BOTH},
    "nobody-without-scopes": {"sub": "nobody", "scope": "articles:read"},
    "basic": {"basic": "writer"},
}

TABLE = {
    "anonymous": {"public": 200, "scoped": 401, "guarded": ABSENT, "hidden": ABSENT},
    "ada-with-scopes": {"public": 200, "scoped": 200, "guarded": 200, "hidden": ABSENT},
    "ada-without-scopes": {"public": 200, "scoped": 403, "guarded": 403, "hidden": ABSENT},
    "root-without-scopes": {"public": 200, "scoped": 403, "guarded": 403, "hidden": 403},
    "nobody-with-scopes": {"public": 200, "scoped": 200, "guarded": ABSENT, "hidden": ABSENT},
    "nobody-without-scopes": {"public": 200, "scoped": 403, "guarded": ABSENT, "hidden": ABSENT},
    "basic": {"public": 200, "scoped": 200, "guarded": 200, "hidden": ABSENT},
}
"""What a call is answered with; whatever is not absent is in the lists."""

ROWS = [pytest.param(who, row, id=who) for who, row in TABLE.items()]


def headers_of(who: str, issuer: Issuer) -> dict[str, str]:
    caller = CALLERS[who]
    if "basic" in caller:
        return basic(caller["basic"])
    return bearer(issuer.token(**caller)) if caller else {}


def whole(response: Any, name: str) -> Any:
    """All of a response but for the name that was asked for."""
    return response.status, response.data.replace(name.encode(), b"NAME"), sorted(response.headers)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("who", "row"), ROWS)
def test_cases_71_and_72_a_call_is_answered_as_the_table_says(
    site: Site, issuer: Issuer, who: str, row: dict[str, Any], face: Face
) -> None:
    """Lacking a permission looks as if the name were absent, byte by byte, with the scopes and without them."""
    headers = headers_of(who, issuer)
    for name, expected in row.items():
        response = face(name, {}).send(site.client, headers)
        if expected == 200:
            assert_runs(response, name)
        elif expected == ABSENT:
            absent = ABSENT[: len(name)].ljust(len(name), "x")
            assert whole(response, name) == whole(face(absent, {}).send(site.client, headers), absent)
        else:
            assert (name, response.status_code) == (name, expected)
            assert "ran" not in response.get_json()


@pytest.mark.parametrize(("who", "row"), ROWS)
@pytest.mark.parametrize("listing", [Asked("/mcp/tools/list"), modern("tools/list"), legacy("tools/list")])
def test_lists_have_what_is_not_absent(
    site: Site, issuer: Issuer, who: str, row: dict[str, Any], listing: Asked
) -> None:
    response = listing.send(site.client, headers_of(who, issuer))
    body = response.get_json()
    tools = body.get("result", body)["tools"]
    assert [tool["name"] for tool in tools] == [name for name, expected in row.items() if expected != ABSENT]
    for tool in tools:
        # MCP defines which annotations there are; those of others are in _meta.
        others = tool["annotations"] if "result" not in body else tool.get("_meta", {}).get(ANNOTATIONS_KEY, {})
        assert others.get("auth") == (
            None if tool["name"] == "public" else {"level": "required", "scopes": ["articles:write"]}
        )


def test_what_one_sees_does_not_depend_on_scopes(site: Site, issuer: Issuer) -> None:
    """Nor does its ETag: a list stays good while scopes are added."""
    with_scopes, without = (
        site.list_tools(headers=headers_of(who, issuer)) for who in ("ada-with-scopes", "ada-without-scopes")
    )
    assert (with_scopes.data, with_scopes.headers["ETag"]) == (without.data, without.headers["ETag"])


def test_annotations_of_the_app_are_left_alone(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url))
    site.rpc.tool("own", scopes=["x"], annotations={"auth": {"level": "optional"}})(lambda: None)
    assert site.describe("own").get_json()["tool"]["annotations"]["auth"] == {"level": "optional"}


REQUIRED = {"requiredScopes": ["articles:write"]}


@pytest.mark.parametrize("face", FACES)
def test_a_missing_scope_is_an_error_of_the_face(site: Site, issuer: Issuer, face: Face) -> None:
    """Never a result with isError: clients sign in again for the HTTP status only."""
    response = face("scoped", {}).send(site.client, bearer(issuer.token()))
    body = response.get_json()
    assert response.status_code == 403
    assert response.mimetype == "application/json"
    if "jsonrpc" in body:
        assert (body["id"], body["error"]["code"], body["error"]["data"]) == (1, -32600, REQUIRED)
    else:
        assert (body["error"]["code"], body["error"]["data"]) == ("insufficient_scope", REQUIRED)
    assert [scheme for scheme, _ in challenges(response)] == ["Bearer"]


@pytest.mark.parametrize("ask", [modern, legacy])
def test_a_missing_scope_is_found_before_a_stream_begins(issuer: Issuer, ask: Any) -> None:
    site = make_site(make_oauth(issuer.url))

    @site.rpc.tool("streaming", scopes=["articles:write"], streams=True)
    def streaming() -> str:
        current_call.progress(1)
        return "ran streaming"

    asked = ask("tools/call", {"name": "streaming", "arguments": {}})
    params = asked.payload["params"]
    params["_meta"] = {**params.get("_meta", {}), "progressToken": 1}
    accept = {"Accept": "application/json, text/event-stream"}
    response = asked.send(site.client, {**bearer(issuer.token()), **accept})
    assert (response.status_code, response.mimetype) == (403, "application/json")
    assert response.get_json()["error"]["data"] == REQUIRED
    assert "ran streaming" in asked.send(site.client, {**bearer(issuer.token(scope=BOTH)), **accept}).text


@pytest.mark.parametrize("face", [jsonrpc_get, own_url_get])
def test_a_missing_scope_is_told_by_get_too(site: Site, issuer: Issuer, face: Face) -> None:
    response = face("scoped", {}).send(site.client, bearer(issuer.token()))
    assert (response.status_code, challenges(response)[0][1]["error"]) == (403, "insufficient_scope")


def test_a_notification_without_its_scope_runs_nothing(site: Site, issuer: Issuer) -> None:
    ran = []
    site.rpc.method("noted", scopes=["articles:write"])(lambda: ran.append("noted"))
    notification("noted", {}).send(site.client, bearer(issuer.token()))
    assert ran == []
    notification("noted", {}).send(site.client, bearer(issuer.token(scope=BOTH)))
    assert ran == ["noted"]


def test_case_84_in_a_batch_a_missing_scope_is_an_error_of_its_item(site: Site, issuer: Issuer) -> None:
    calls = [asking("scoped", {}, id=1), asking("public", {}, id=2), asking("hidden", {}, id=3)]
    response = site.rpc_post(calls, headers=bearer(issuer.token()))
    scoped, public, hidden = response.get_json()
    assert response.status_code == 200
    assert challenges(response) == []
    assert (scoped["id"], scoped["error"]["code"], scoped["error"]["data"]) == (1, -32600, REQUIRED)
    assert (public["id"], public["result"]) == (2, "ran public")
    assert (hidden["id"], hidden["error"]["code"]) == (3, -32601)


def test_a_batch_of_one_is_a_batch(site: Site, issuer: Issuer) -> None:
    response = batch("scoped", {}).send(site.client, bearer(issuer.token()))
    assert (response.status_code, challenges(response)) == (200, [])
    assert response.get_json()[0]["error"]["data"] == REQUIRED


@pytest.mark.parametrize("ask", [modern, legacy])
def test_prompts_and_resources_have_scopes_too(issuer: Issuer, ask: Any) -> None:
    site = make_site(make_oauth(issuer.url))
    site.rpc.prompt("paint", scopes=["articles:write"])(lambda: "ran paint")
    site.rpc.resource("notes://today", name="today", scopes=["articles:write"])(lambda: "ran today")
    site.rpc.resource("notes://{number}", name="note", scopes=["articles:write"])(lambda number: "ran note")
    for method, params in (
        ("prompts/get", {"name": "paint"}),
        ("resources/read", {"uri": "notes://today"}),
        ("resources/read", {"uri": "notes://7"}),
    ):
        asked = ask(method, params)
        assert asked.send(site.client).status_code == 401
        refused = asked.send(site.client, bearer(issuer.token()))
        assert (refused.status_code, refused.get_json()["error"]["data"]) == (403, REQUIRED)
        assert challenges(refused)[0][1]["scope"] == BOTH
        assert "ran " in asked.send(site.client, bearer(issuer.token(scope=BOTH))).text
        assert "ran " in asked.send(site.client, basic("reader")).text
    for method, member in (("prompts/list", "prompts"), ("resources/list", "resources")):
        listed = ask(method).send(site.client, bearer(issuer.token())).get_json()["result"][member]
        assert len(listed) == 1


@pytest.mark.parametrize("ask", [modern, legacy])
def test_completion_without_the_scope_is_empty(issuer: Issuer, ask: Any) -> None:
    """Typing must not open a page of consent."""
    site, ran = make_site(make_oauth(issuer.url)), []
    site.rpc.prompt("paint", scopes=["articles:write"])(lambda color: f"Paint it {color}")

    @site.rpc.completer("paint", "color")
    def colors(value: str) -> list[str]:
        ran.append(value)
        return ["green"]

    asked = ask(
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "paint"}, "argument": {"name": "color", "value": "g"}},
    )
    for headers, expected in ((bearer(issuer.token()), []), (bearer(issuer.token(scope=BOTH)), ["green"])):
        response = asked.send(site.client, headers)
        assert response.status_code == 200
        assert response.get_json()["result"]["completion"]["values"] == expected
    assert ran == ["g"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "scope",
    [
        pytest.param("articles:read articles:writer", id="longer"),
        pytest.param("articles:read articles:write,articles:read", id="comma"),
        pytest.param("articles:read ARTICLES:WRITE", id="other-case"),
        pytest.param("articles:read articles", id="shorter"),
        pytest.param(["articles:read", "articles:writer"], id="list"),
    ],
)
def test_case_68_scopes_are_compared_whole(site: Site, issuer: Issuer, scope: Any, face: Face) -> None:
    response = face("scoped", {}).send(site.client, bearer(issuer.token(scope=scope)))
    assert response.status_code == 403


def test_case_68_scopes_are_separated_by_spaces_only(site: Site, issuer: Issuer) -> None:
    """RFC 6749 has no tabs in a scope, so such a token is not valid at all."""
    response = site.invoke("scoped", {}, headers=bearer(issuer.token(scope="articles:read\tarticles:write")))
    assert response.status_code in (401, 403)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"scope": ["articles:read", "articles:write"]}, id="scope-a-list"),
        pytest.param({"scope": None, "scp": BOTH}, id="scp-as-text"),
        pytest.param({"scope": None, "scp": ["articles:read", "articles:write"]}, id="scp-a-list"),
        pytest.param({"scope": f" {BOTH}  articles:read "}, id="more-spaces"),
    ],
)
def test_case_69_scopes_are_text_or_a_list(site: Site, issuer: Issuer, claims: Any, face: Face) -> None:
    assert_runs(face("scoped", {}).send(site.client, bearer(issuer.token(**claims))), "scoped")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("scope", ["admin", "articles:write", "admin other"])
def test_case_73_a_broader_scope_implies_narrower_ones(issuer: Issuer, scope: str, face: Face) -> None:
    """The specification: servers MUST honour hierarchies of scopes. Followed to their end, and round."""
    implies = {"admin": ["articles:write"], "articles:write": ["articles:read"], "articles:read": ["articles:read"]}
    site = make_site(make_oauth(issuer.url, implies=implies))
    assert_runs(face("scoped", {}).send(site.client, bearer(issuer.token(scope=scope))), "scoped")


def test_case_73_a_narrower_scope_implies_nothing(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url, implies={"articles:write": ["articles:read"]}))
    assert site.invoke("scoped", {}, headers=bearer(issuer.token(scope="articles:read"))).status_code == 403


def test_scopes_are_checked_before_arguments(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url))

    @site.rpc.tool("add", scopes=["articles:write"])
    def add(a: int) -> int:
        return a

    assert site.invoke("add", {"b": 1}, headers=bearer(issuer.token())).status_code == 403
    assert site.invoke("add", {"b": 1}, headers=bearer(issuer.token(scope=BOTH))).status_code == 400


def test_case_82_a_session_belongs_to_its_subject(issuer: Issuer) -> None:
    """And outlives the token it began with, because clients refresh and step up within a session."""
    site = make_site(make_oauth(issuer.url), config={"SECRET_KEY": "key"})
    ada = LegacyClient(site.client, headers=bearer(issuer.token()))
    assert_runs(ada.call("public"))
    session = ada.session
    ada.headers = bearer(issuer.token(scope=BOTH, jti="another"))
    assert_runs(ada.call("scoped"), "scoped")
    assert session == ada.session
    # A machine whose client id is the name of the user is not the user.
    machine = bearer(issuer.token(sub=None, client_id="ada"))
    for other in (bearer(issuer.token(sub="ben")), bearer(issuer.token(sub=None)), machine, basic("reader"), {}):
        assert LegacyClient(site.client, headers=other, session=session).call("public").status_code == 404


def test_a_client_that_is_called_like_a_user_is_another_caller(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url), config={"SECRET_KEY": "key"})
    ada = LegacyClient(site.client, headers=bearer(issuer.token()))
    assert_runs(ada.call("public"))
    machine = bearer(issuer.token(sub=None, client_id="ada"))
    assert LegacyClient(site.client, headers=machine, session=ada.session).call("public").status_code == 404


def test_a_session_belongs_to_the_user_that_the_callback_returns(issuer: Issuer) -> None:
    """A subject may be different users, if another claim says which."""
    oauth = make_oauth(issuer.url)
    oauth.get_user_roles(lambda user: [])
    oauth.verify_token(lambda token: {"id": f"{token.claims['tenant']}/{token.subject}"})
    site = make_site(oauth, config={"SECRET_KEY": "key"})
    ada = LegacyClient(site.client, headers=bearer(issuer.token(tenant="one")))
    assert_runs(ada.call("public"))
    for tenant, status in (("one", 200), ("two", 404)):
        token = bearer(issuer.token(tenant=tenant))
        assert LegacyClient(site.client, headers=token, session=ada.session).call("public").status_code == status


def test_what_a_method_can_know_of_its_token(issuer: Issuer) -> None:
    oauth, seen = make_oauth(issuer.url), list[Any]()
    site = make_site(oauth)
    site.rpc.tool("look")(lambda: seen.append((oauth.current_token(), oauth.current_user())))
    sent = issuer.token(scope=BOTH, custom="x")
    assert site.invoke("look", {}, headers=bearer(sent)).status_code == 200
    [(token, user)] = seen
    assert user is token
    assert (token.subject, token.issuer, token.client_id) == ("ada", issuer.url, "client-of-ada")
    assert (token.scopes, token.is_machine, token.id, token.name) == (frozenset(BOTH.split()), False, "ada", "ada")
    assert (token.claims["custom"], isinstance(token.expires_at, int)) == ("x", True)
    shown = f"{token!r} {token.claims}"
    assert [part for part in sent.split(".") if part in shown] == []
    assert "custom" not in repr(token)
    with pytest.raises(AttributeError):
        token.subject = "ben"
    for claims in ({"sub": None}, {"sub": "client-of-ada"}):
        site.invoke("look", {}, headers=bearer(issuer.token(**claims)))
        machine = seen.pop()[0]
        assert (machine.is_machine, machine.id) == (True, "client-of-ada")


def test_there_is_no_token_for_others(issuer: Issuer) -> None:
    oauth = make_oauth(issuer.url)
    site, seen = make_site(oauth), []
    site.rpc.tool("look")(lambda: seen.append(oauth.current_token()))
    site.invoke("look", {})
    site.invoke("look", {}, headers=basic("reader"))
    assert seen == [None, None]


def test_the_callback_gets_only_tokens_that_are_good(issuer: Issuer) -> None:
    oauth, seen = make_oauth(issuer.url), []

    @oauth.verify_token
    def user_of(token: Any) -> str | None:
        seen.append(token.subject)
        return {"ada": "Ada"}.get(token.subject)

    oauth.get_user_roles(lambda user: ["write"] if user == "Ada" else [])
    site = make_site(oauth)
    site.rpc.tool("who")(lambda: oauth.current_user())
    assert site.invoke("who", {}, headers=bearer(issuer.token())).get_json()["result"] == "Ada"
    assert site.invoke("guarded", {}, headers=bearer(issuer.token(scope=BOTH))).status_code == 200
    assert site.invoke("who", {}, headers=bearer(issuer.token(sub="ben"))).status_code == 401
    assert site.invoke("who", {}, headers=bearer(issuer.token(sub="eve", aud="other"))).status_code == 401
    assert site.invoke("who", {}, headers=bearer(issuer.token(sub="eve", scope="other"))).status_code == 403
    assert seen == ["ada", "ada", "ben"]


def test_scopes_can_be_the_permissions(issuer: Issuer) -> None:
    oauth = OAuthResource(issuer.url)
    oauth.get_user_roles(lambda user: user.scopes)
    site = make_site(oauth)
    site.rpc.tool("by-scope", access=["articles:read"])(lambda: "ran by-scope")
    assert_runs(site.invoke("by-scope", {}, headers=bearer(issuer.token())), "by-scope")
    assert site.invoke("by-scope", {}, headers=bearer(issuer.token(scope="other"))).status_code == 404


def test_the_signal_tells_the_scopes_of_a_caller(issuer: Issuer) -> None:
    site, seen = make_site(make_oauth(issuer.url)), []

    def remember(sender: Any, call: Any, **more: Any) -> None:
        seen.append(call.caller.scopes)

    with method_called.connected_to(remember, site.app):
        site.invoke("public", {}, headers=bearer(issuer.token()))
        site.invoke("public", {}, headers=basic("reader"))
        site.invoke("public", {})
    assert seen[:2] == [frozenset({"articles:read"}), None]


@pytest.mark.parametrize("scope", ["", "a b", 'a"b', "a\\b", "é", "offline_access", "openid"])
def test_a_scope_that_no_client_could_ask_for_is_a_mistake(issuer: Issuer, scope: str) -> None:
    rpc = McpBlueprint(auth=make_oauth(issuer.url))
    with pytest.raises((TypeError, ValueError), match="scope"):
        rpc.method("x", scopes=[scope])(lambda: None)
    with pytest.raises((TypeError, ValueError), match="scope"):
        OAuthResource(issuer.url, scopes=[scope])


def test_scopes_need_an_oauth_resource() -> None:
    with pytest.raises(ValueError, match="OAuthResource"):
        McpBlueprint(auth=make_auth()).method("x", scopes=["articles:read"])(lambda: None)


def test_the_command_line_needs_no_scopes(site: Site) -> None:
    result = site.app.test_cli_runner().invoke(mcp, ["call", "scoped"])
    assert (result.exit_code, "ran scoped" in result.output) == (0, True), result.output


def test_modern_calls_have_their_id_in_a_refusal(site: Site, issuer: Issuer) -> None:
    asked = mcp_modern("scoped", {})
    sent = Asked(asked.path, json.loads(json.dumps(asked.payload).replace('"id": 1', '"id": "seven"')), asked.headers)
    assert sent.send(site.client, bearer(issuer.token())).get_json()["id"] == "seven"
