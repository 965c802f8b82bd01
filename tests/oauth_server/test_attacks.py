"""What attackers try on the authorization server, by number. 96, the documents of clients, has a file of its own."""

from __future__ import annotations

import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp.oauth import OAuthServer
from tests.oauth_server.conftest import (
    CALLBACK,
    CHALLENGE,
    KEY,
    PUBLIC_URL,
    VERIFIER,
    Clock,
    Site,
    answer_in,
    assert_error,
    assert_page,
    file_grants,
    repeated,
)


def assert_redirected_with(response: Any, error: str, state: str | None = "a state") -> None:
    """An error that the client gets, with the issuer, so that it cannot take it for one of another server."""
    answer = answer_in(response)
    answer.pop("error_description", None)
    expected = {"error": error, "iss": PUBLIC_URL}
    assert answer == (expected if state is None else {**expected, "state": state})


def test_86_a_code_works_once_and_its_second_use_ends_the_grant(site: Site) -> None:
    code = site.code()
    tokens = site.redeem(code).get_json()
    assert site.runs(tokens)
    assert_error(site.redeem(code), "invalid_grant")
    assert not site.runs(tokens)
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")
    assert_error(site.redeem(code), "invalid_grant")


def test_86_of_eight_uses_at_once_one_succeeds(site: Site) -> None:
    """Authlib deletes a code after the token is made, so that several could get one."""
    code, client_id = site.code(), site.client_id()
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: site.redeem(code, client_id=client_id).status_code, range(8)))
    assert sorted(statuses) == [200] + [400] * 7


def test_86_a_code_works_for_a_minute(site: Site, clock: Clock) -> None:
    code = site.code()
    clock.advance(61)
    assert_error(site.redeem(code), "invalid_grant")


@pytest.mark.parametrize("code", ["", "x", "W10.x", "é"])
def test_86_a_code_must_be_ours(plain_site: Site, code: str) -> None:
    response = plain_site.redeem(code)
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("verifier", "error"),
    [(None, "invalid_request"), ("", "invalid_request"), ("w" * 43, "invalid_grant"), (CHALLENGE, "invalid_grant")],
)
def test_87_a_wrong_or_missing_verifier_gets_nothing(plain_site: Site, verifier: str | None, error: str) -> None:
    code = plain_site.code()
    assert_error(plain_site.redeem(code, code_verifier=verifier), error)
    # The code is not used up: who has it without the verifier cannot stop the client.
    assert plain_site.redeem(code).status_code == 200


@pytest.mark.parametrize(
    "parameters",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "s256"},
        {"code_challenge": VERIFIER, "code_challenge_method": "plain"},
        {"code_challenge": "short"},
    ],
)
def test_88_pkce_is_required_with_s256(plain_site: Site, parameters: dict[str, Any]) -> None:
    """Authlib has it optional, and ``plain`` as the default."""
    plain_site.log_in("ada")
    assert_redirected_with(plain_site.authorize(**parameters), "invalid_request")


@pytest.mark.parametrize(
    "redirect_uri",
    [
        None,
        "",
        "https://evil.example/callback",
        f"{CALLBACK}/",
        f"{CALLBACK}?x=1",
        "http://127.0.0.1:3030/other",
        "https://127.0.0.1:3030/callback",
        "http://localhost:3030/callback",
        "http://127.0.0.1:3030@evil.example/callback",
        "http://127.0.0.1:x/callback",
        CALLBACK.replace("127", "１２７"),
    ],
)
@pytest.mark.parametrize("user", [None, "ada"])
def test_89_a_redirect_that_is_not_registered_is_not_followed(
    plain_site: Site, redirect_uri: str | None, user: str | None
) -> None:
    plain_site.log_in(user)
    page = plain_site.authorize(redirect_uri=redirect_uri, code_challenge=None)
    assert_page(page)
    assert "evil.example" not in page.text


@pytest.mark.parametrize("port", ["", ":1", ":65535"])
def test_89_a_program_on_the_own_machine_may_have_any_port(plain_site: Site, port: str) -> None:
    plain_site.log_in("ada")
    page = plain_site.authorize(redirect_uri=f"http://127.0.0.1{port}/callback")
    assert plain_site.decide(page).headers["Location"].startswith(f"http://127.0.0.1{port}/callback?code=")


@pytest.mark.parametrize("redirect_uri", [None, "http://127.0.0.1:3031/callback", "https://evil.example"])
def test_90_the_redirect_must_be_the_same_at_the_token_endpoint(plain_site: Site, redirect_uri: str | None) -> None:
    assert_error(plain_site.redeem(plain_site.code(), redirect_uri=redirect_uri), "invalid_grant")


@pytest.mark.parametrize("resource", ["https://other.example/mcp", f"{PUBLIC_URL}/other", PUBLIC_URL, "", "x"])
def test_91_a_resource_must_be_one_of_this_app(plain_site: Site, resource: str) -> None:
    """Authlib does not know RFC 8707."""
    plain_site.log_in("ada")
    assert_redirected_with(plain_site.authorize(resource=resource), "invalid_target")
    assert_error(plain_site.redeem(plain_site.code(), resource=resource), "invalid_target")
    assert_error(plain_site.refresh(plain_site.sign_in()["refresh_token"], resource=resource), "invalid_target")


@pytest.mark.parametrize("resource", [None, f"{PUBLIC_URL}/mcp", f"{PUBLIC_URL}/mcp/"])
def test_91_the_only_resource_need_not_be_named(plain_site: Site, resource: str | None) -> None:
    code = plain_site.code(resource=resource)
    tokens = plain_site.redeem(code, resource=resource).get_json()
    assert plain_site.runs(plain_site.refresh(tokens["refresh_token"], resource=resource).get_json())


@pytest.mark.parametrize("client_id", [None, "", "unknown", "WyJhIl0.x", "http://client.example/app", "é", "x" * 5000])
@pytest.mark.parametrize("user", [None, "ada"])
def test_92_an_unknown_client_is_not_redirected_to(plain_site: Site, client_id: str | None, user: str | None) -> None:
    plain_site.log_in(user)
    assert_page(plain_site.authorize(client_id=client_id))
    is_malformed = client_id == "é" or len(client_id or "") > 4000
    assert_error(plain_site.redeem("x", client_id=client_id), "invalid_request" if is_malformed else "invalid_client")


def test_93_consent_needs_the_proof_that_this_person_has_seen_this_page(plain_site: Site, clock: Clock) -> None:
    """Without it the page asks again, and no other page of the person's browser can press its button."""
    site = plain_site
    site.log_in("eve")
    of_eve = site.authorize()
    site.log_in("ada")
    page, more = site.authorize(), site.authorize(scope="articles:read articles:write")
    proofs = [re.findall(r'name="proof" value="([^"]+)"', each.text)[0] for each in (of_eve, more)]
    for proof in (None, "", "x", *proofs, site.client_id()):
        again = site.decide(page, proof=proof)
        assert_page(again)
        assert "Please decide again" in again.text
    clock.advance(601)
    assert_page(site.decide(page))
    assert "code" in answer_in(site.decide(site.authorize()))


def test_93_who_is_signed_out_meanwhile_signs_in_first(plain_site: Site) -> None:
    plain_site.log_in("ada")
    page = plain_site.authorize()
    plain_site.log_in(None)
    assert plain_site.decide(page).headers["Location"].startswith("/login?next=")


def test_94_no_page_can_be_framed_stored_or_run_scripts(plain_site: Site) -> None:
    plain_site.log_in("ada")
    for page in (plain_site.authorize(), plain_site.authorize(client_id="x"), plain_site.browser.get("/oauth/apps")):
        policy = page.headers["Content-Security-Policy"]
        assert re.fullmatch(
            r"default-src 'none'; style-src 'nonce-([\w-]+)'; base-uri 'none'; frame-ancestors 'none'", policy
        )
        assert page.headers["X-Frame-Options"] == "DENY"
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["Referrer-Policy"] == "same-origin"
        assert "<script" not in page.text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('"><form action="//evil">', "&#34;&gt;&lt;form action=&#34;//evil&#34;&gt;"),
        ("{{ 7 * 7 }}", "{{ 7 * 7 }}"),
        ("\u202eedualC\u2066 \u200b\x00\n", "edualC"),
        ("\u3164Claude\u2800Desktop\ufe0f", "Claude Desktop"),
        ("\u3164\u2800\u115f", "An app without a name"),
        ("x" * 10_000, "x" * 59 + "…"),
        ("", "An app without a name"),
        (None, "An app without a name"),
        (7, "An app without a name"),
    ],
)
def test_95_a_client_name_is_text(plain_site: Site, name: Any, shown: str) -> None:
    plain_site.log_in("ada")
    page = plain_site.authorize(client_id=plain_site.client_id(client_name=name))
    assert f"<h1>Connect <bdi>{shown}</bdi> to site?</h1>" in page.text


def test_97_parallel_refreshes_get_one_successor(site: Site) -> None:
    """Claude refreshes in parallel; with plain rotation it would sign its user out. Authlib rotates only if told to."""
    tokens, client_id = site.sign_in(), site.client_id()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: site.refresh(tokens["refresh_token"], client_id=client_id), range(8)))
    assert [reply.status_code for reply in replies] == [200] * 8
    assert len({reply.get_json()["refresh_token"] for reply in replies} - {tokens["refresh_token"]}) == 1
    assert all(site.runs(reply.get_json()) for reply in replies)
    assert site.refresh(replies[0].get_json()["refresh_token"]).status_code == 200


def test_97_a_refresh_token_gets_the_same_successor_for_two_minutes(site: Site, clock: Clock) -> None:
    tokens = site.sign_in()
    successor = site.refresh(tokens["refresh_token"]).get_json()["refresh_token"]
    clock.advance(119)
    assert site.refresh(tokens["refresh_token"]).get_json()["refresh_token"] == successor
    clock.advance(2)
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")
    assert_error(site.refresh(successor), "invalid_grant")


def test_98_an_older_refresh_token_ends_the_grant(site: Site) -> None:
    first = site.sign_in()
    second = site.refresh(first["refresh_token"]).get_json()
    third = site.refresh(second["refresh_token"]).get_json()
    assert site.runs(third)
    assert_error(site.refresh(first["refresh_token"]), "invalid_grant")
    assert not site.runs(third)
    assert_error(site.refresh(third["refresh_token"]), "invalid_grant")


def test_98_a_grant_that_is_not_used_ends(site: Site, clock: Clock) -> None:
    tokens = site.sign_in()
    clock.advance(30 * 24 * 3600 - 10)
    tokens = site.refresh(tokens["refresh_token"]).get_json()
    clock.advance(30 * 24 * 3600 + 10)
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")


def test_98_a_grant_that_is_used_ends_after_half_a_year(site: Site, clock: Clock) -> None:
    tokens = site.sign_in()
    for _ in range(8):
        clock.advance(20 * 24 * 3600)
        tokens = site.refresh(tokens["refresh_token"]).get_json()
    clock.advance(20 * 24 * 3600)
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")


def test_98_an_access_token_expires(site: Site, clock: Clock) -> None:
    tokens = site.sign_in()
    clock.advance(3599)
    assert site.runs(tokens)
    clock.advance(2)
    refused = site.call(tokens["access_token"])
    assert (refused.status_code, 'error="invalid_token"' in refused.headers["WWW-Authenticate"]) == (401, True)


@pytest.mark.parametrize("scope", ["articles:read articles:write", "articles:write", "unknown"])
def test_99_a_refresh_cannot_add_scopes(plain_site: Site, scope: str) -> None:
    tokens = plain_site.sign_in()
    assert_error(plain_site.refresh(tokens["refresh_token"], scope=scope), "invalid_scope")
    assert plain_site.refresh(tokens["refresh_token"]).get_json()["scope"] == "articles:read"


def test_99_a_refresh_can_leave_scopes_out(plain_site: Site) -> None:
    tokens = plain_site.sign_in(scope="articles:read articles:write")
    less = plain_site.refresh(tokens["refresh_token"], scope="articles:read").get_json()
    assert (less["scope"], plain_site.call(less["access_token"], "write").status_code) == ("articles:read", 403)
    assert plain_site.runs(plain_site.refresh(less["refresh_token"]).get_json(), "write")


@pytest.mark.parametrize("scope", [" ", "articles:write"])
def test_99_a_refresh_keeps_the_base_scopes(plain_site: Site, scope: str) -> None:
    """A scope without a token in it is none (RFC 6749, section 3.3)."""
    tokens = plain_site.sign_in(scope="articles:read articles:write")
    refreshed = plain_site.refresh(tokens["refresh_token"], scope=scope).get_json()
    assert (refreshed["scope"], plain_site.runs(refreshed, "read")) == ("articles:read articles:write", True)


def test_99_a_token_of_another_client_is_refused(plain_site: Site) -> None:
    other = plain_site.client_id(client_name="Other")
    assert_error(plain_site.redeem(plain_site.code(), client_id=other), "invalid_grant")
    tokens = plain_site.sign_in()
    assert_error(plain_site.refresh(tokens["refresh_token"], client_id=other), "invalid_grant")
    assert_error(revoke(plain_site, tokens["refresh_token"], client_id=other), "invalid_grant")
    assert plain_site.runs(tokens)


def revoke(site: Site, token: str, **form: Any) -> Any:
    sent = {"token": token, "client_id": site.client_id(), **form}
    return site.http.post("/oauth/revoke", data={name: value for name, value in sent.items() if value is not None})


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", [None, "access_token", "refresh_token"])
def test_100_what_a_client_revokes_ends_at_once(site: Site, which: str, hint: str | None) -> None:
    tokens = site.sign_in()
    response = revoke(site, tokens[which], token_type_hint=hint)
    assert (response.status_code, response.get_json()) == (200, {})
    assert not site.runs(tokens)
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")
    assert revoke(site, tokens[which]).status_code == 200  # RFC 7009, section 2.2: also for an invalid token


def test_100_what_the_app_revokes_ends_at_once(site: Site) -> None:
    mine, other, of_eve = site.sign_in(), site.sign_in(), site.sign_in("eve")
    with site.app.app_context():
        [first, second] = site.oauth.grants_of("ada")
        assert (first.client_name, first.scopes, first.resource) == ("Test", ["articles:read"], f"{PUBLIC_URL}/mcp")
        site.oauth.revoke(first.id)
        assert site.oauth.grants_of("ada") == [second]
        assert [site.runs(each) for each in (mine, other, of_eve)] == [False, True, True]
        site.oauth.revoke_user("ada")
        assert [site.runs(each) for each in (mine, other, of_eve)] == [False, False, True]
        assert (site.oauth.grants_of("ada"), len(site.oauth.grants_of("eve"))) == ([], 1)


def test_100_a_revocation_holds_on_a_machine_whose_clock_is_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, now = site.sign_in(), time.time
    with site.app.app_context(), monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now() + 3)
        site.oauth.revoke_user("ada")
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")
    assert not site.runs(tokens)


@pytest.mark.parametrize("account", [None, False])
def test_100_a_deleted_or_closed_account_is_out_at_once(site: Site, account: Any) -> None:
    tokens, code = site.sign_in(), site.code()
    site.users["ada"] = account
    refused = site.call(tokens["access_token"])
    assert (refused.status_code, "invalid_token" in refused.headers["WWW-Authenticate"]) == (401, True)
    assert_error(site.refresh(tokens["refresh_token"]), "invalid_grant")
    assert_error(site.redeem(code), "invalid_grant")


class Inactive:
    id = "ada"
    is_active = False


def test_100_an_account_that_flask_login_would_not_let_in_is_out(plain_site: Site) -> None:
    tokens = plain_site.sign_in()
    plain_site.users["ada"] = Inactive()
    assert not plain_site.runs(tokens)


def test_101_an_altered_client_id_is_unknown(plain_site: Site) -> None:
    client_id = plain_site.client_id()
    plain_site.log_in("ada")
    for altered in (client_id[:-1], f"{client_id}x", "X" + client_id[1:], client_id.split(".")[0] + "."):
        assert_page(plain_site.authorize(client_id=altered))
        assert_error(plain_site.redeem(plain_site.code(), client_id=altered), "invalid_client")


def test_101_what_is_signed_for_one_purpose_is_not_valid_for_another(plain_site: Site) -> None:
    tokens, code, client_id = plain_site.sign_in(), plain_site.code(), plain_site.client_id()
    for other in (tokens["refresh_token"], code, client_id):
        assert plain_site.call(other).status_code == 401
    for other in (tokens["access_token"], code, client_id):
        assert_error(plain_site.refresh(other), "invalid_grant")
    for other in (*tokens.values(), client_id):
        assert_error(plain_site.redeem(str(other)), "invalid_grant")


def test_101_another_app_with_the_same_key_accepts_nothing_of_this_one(tmp_path: Path) -> None:
    site = Site(tmp_path)
    other = Site(tmp_path, config={"JSONRPC_MCP_PUBLIC_URL": "https://other.example"})
    assert not other.runs(site.sign_in())
    assert_error(other.redeem(site.code()), "invalid_grant")


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "ftp://client.example/",
        "http://client.example/callback",
        "http://localhost.evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://user@localhost/callback",
        "https://user:password@client.example/callback",
        "https://client.example/callback#part",
        "https://client.example\\@evil.example/",
        "https://client.example\\.evil.example/",
        "https://client%2eexample/callback",
        "https:///callback",
        "https:client.example",
        "https://client.example:x/",
        "https://[::1/",
        "https://client.example/ callback",
        "https://client.example/\ncallback",
        "https://clíent.example/callback",
        "unknown://callback",
        "//client.example/callback",
        "/callback",
        "",
        "x",
        7,
        None,
        "https://client.example/" + "x" * 500,
    ],
)
def test_102_a_redirect_that_is_not_safe_cannot_be_registered(plain_site: Site, redirect_uri: Any) -> None:
    response = plain_site.register(redirect_uris=[CALLBACK, redirect_uri])
    assert_error(response, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://client.example:8443/callback?x=1",
        "http://localhost/callback",
        "http://[::1]:3030/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
def test_102_other_redirects_can(plain_site: Site, redirect_uri: str) -> None:
    client_id = plain_site.client_id(redirect_uris=[redirect_uri])
    plain_site.log_in("ada")
    page = plain_site.authorize(client_id=client_id, redirect_uri=redirect_uri)
    separator = "&" if "?" in redirect_uri else "?"
    assert plain_site.decide(page).headers["Location"].startswith(f"{redirect_uri}{separator}code=")


def test_102_an_app_can_narrow_the_redirects(tmp_path: Path) -> None:
    site = Site(tmp_path, redirect_hosts=["claude.ai"], redirect_schemes=[])
    assert site.register(redirect_uris=["https://claude.ai/api/mcp/auth_callback"]).status_code == 201
    for redirect_uri in (CALLBACK, "https://evil.example/", "cursor://x/"):
        assert_error(site.register(redirect_uris=[redirect_uri]), "invalid_redirect_uri")


def test_102_a_narrower_app_does_not_know_what_was_registered_before(tmp_path: Path) -> None:
    client_id = Site(tmp_path).client_id()
    site = Site(tmp_path, redirect_hosts=["claude.ai"])
    site.log_in("ada")
    assert_page(site.authorize(client_id=client_id))


def test_103_a_new_secret_key_keeps_what_the_old_one_signed_while_it_is_a_fallback(tmp_path: Path) -> None:
    old = Site(tmp_path)
    tokens, code, client_id = old.sign_in(), old.code(), old.client_id()
    new_key = "another key for tests, of more than 32 bytes"
    new = Site(tmp_path, config={"SECRET_KEY": new_key, "SECRET_KEY_FALLBACKS": [KEY]})
    assert new.runs(tokens)
    assert new.redeem(code, client_id=client_id).status_code == 200
    successor = new.refresh(tokens["refresh_token"], client_id=client_id).get_json()
    without = Site(tmp_path, config={"SECRET_KEY": new_key})
    assert (without.runs(successor), without.runs(tokens)) == (True, False)
    assert_error(without.refresh(tokens["refresh_token"]), "invalid_grant")
    without.log_in("ada")
    assert_page(without.authorize(client_id=client_id))


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_104_the_address_twice_is_no_address(plain_site: Site, name: str) -> None:
    plain_site.log_in("ada")
    query = repeated(plain_site.query(), name, CALLBACK)
    assert_page(plain_site.browser.get("/oauth/authorize", query_string=query))


@pytest.mark.parametrize(
    "name", ["response_type", "scope", "state", "code_challenge", "code_challenge_method", "resource", "é"]
)
def test_104_a_parameter_twice_is_an_error(plain_site: Site, name: str) -> None:
    """Authlib checks some of them."""
    plain_site.log_in("ada")
    query = repeated(plain_site.query(**{name: "x"}), name, "x")
    response = plain_site.browser.get("/oauth/authorize", query_string=query)
    assert_redirected_with(response, "invalid_request", None if name == "state" else "a state")


@pytest.mark.parametrize("name", ["grant_type", "code", "client_id", "redirect_uri", "code_verifier", "resource"])
def test_104_a_parameter_twice_is_an_error_of_the_token_endpoint(plain_site: Site, name: str) -> None:
    form = {"code": plain_site.code(), "grant_type": "authorization_code", name: ["x", "x"]}
    assert_error(plain_site.token(**form), "invalid_request")


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"response_type": None}, "unsupported_response_type"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": 'é"'}, "invalid_request"),
        ({"scope": "unknown"}, "invalid_scope"),
        ({"scope": "articles:read\n"}, "invalid_request"),
        ({"scope": "é"}, "invalid_request"),
        ({"other": "\x00"}, "invalid_request"),
    ],
)
def test_104_every_other_mistake_is_the_clients_to_know(plain_site: Site, parameters: Any, error: str) -> None:
    """Always with the issuer (RFC 9207), which Authlib leaves out there."""
    plain_site.log_in("ada")
    assert_redirected_with(plain_site.authorize(**parameters), error)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"response_type": "x"}, {"scope": "unknown"}, {"code_challenge": None}, {"resource": "x"}, {"prompt": "none"}],
)
def test_104_a_visitor_signs_in_before_any_redirect_to_a_client(plain_site: Site, parameters: Any) -> None:
    """RFC 9700, section 4.11.2: a link to this site must not lead to a page that anyone has registered."""
    phish = "https://evil.example/phish"
    client_id = plain_site.client_id(redirect_uris=[phish])
    response = plain_site.authorize(client_id=client_id, redirect_uri=phish, **parameters)
    assert (response.status_code, response.headers["Location"].partition("?")[0]) == (302, "/login")


def test_104_parameters_of_a_token_request_are_in_its_body(plain_site: Site) -> None:
    query = {"grant_type": "authorization_code", "code": plain_site.code(), "client_id": plain_site.client_id()}
    response = plain_site.http.post("/oauth/token", query_string=query)
    assert_error(response, "unsupported_grant_type")
    assert_error(plain_site.http.post("/oauth/token", json=query), "unsupported_grant_type")
    assert_error(plain_site.token(grant_type="client_credentials"), "unsupported_grant_type")
    assert_error(plain_site.token(grant_type="refresh_token", client_id=plain_site.client_id()), "invalid_request")
    assert_error(plain_site.http.post("/oauth/token", data={"x": "x" * 100_000}), "invalid_request", 413)


def test_105_registrations_leave_nothing_behind(tmp_path: Path) -> None:
    site = Site(tmp_path)
    ids = {site.client_id(client_name=f"Client {number}") for number in range(1000)}
    assert len(ids) == 1000
    assert list(tmp_path.rglob("*")) == []
    assert site.sign_in(client_id=ids.pop())["scope"] == "articles:read"


@pytest.mark.parametrize(
    ("body", "error", "status"),
    [
        (b"", "invalid_request", 400),
        (b"[]", "invalid_client_metadata", 400),
        (b"x", "invalid_request", 400),
        (b'{"redirect_uris": []}', "invalid_redirect_uri", 400),
        (b"{}", "invalid_redirect_uri", 400),
        (b'{"redirect_uris": "https://a.example/"}', "invalid_redirect_uri", 400),
        (b'{"redirect_uris": ["https://a.example/"], "grant_types": ["implicit"]}', "invalid_client_metadata", 400),
        (b'{"redirect_uris": ["https://a.example/"], "response_types": "code"}', "invalid_client_metadata", 400),
        (b'{"redirect_uris": ["https://a.example/"], "x": "' + b"x" * 100_000 + b'"}', "invalid_request", 413),
    ],
)
def test_105_a_registration_that_cannot_be_used_is_an_error(
    plain_site: Site, body: bytes, error: str, status: int
) -> None:
    response = plain_site.http.post("/oauth/register", data=body, content_type="application/json")
    assert_error(response, error, status)


def test_105_a_registration_is_bounded(plain_site: Site) -> None:
    many = [f"https://client.example/{number}" for number in range(10)]
    assert plain_site.register(redirect_uris=many).status_code == 201
    assert_error(plain_site.register(redirect_uris=[*many, "https://client.example/"]), "invalid_redirect_uri")
    long = [f"https://client.example/{secrets.token_urlsafe(300)}" for _ in range(4)]
    assert_error(plain_site.register(redirect_uris=long), "invalid_redirect_uri")


def test_105_an_app_can_do_without_registration(tmp_path: Path) -> None:
    client_id = Site(tmp_path).client_id()
    site = Site(tmp_path, registration=False, documents=False)
    assert site.register().status_code == 404
    metadata = site.http.get("/.well-known/oauth-authorization-server").get_json()
    assert ("registration_endpoint" in metadata, metadata["client_id_metadata_document_supported"]) == (False, False)
    site.log_in("ada")
    assert_page(site.authorize(client_id=client_id))
    assert_page(site.authorize(client_id="https://client.example/app"))


def test_an_app_has_one_authorization_server(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with pytest.raises(ValueError, match="one OAuthServer"):
        site.app.register_blueprint(OAuthServer("other", scopes={"a": "A"}, grants=file_grants(tmp_path)))


def test_no_token_is_logged(plain_site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    tokens = plain_site.sign_in()
    successor = plain_site.refresh(tokens["refresh_token"]).get_json()
    revoke(plain_site, tokens["access_token"])
    assert not plain_site.runs(successor)
    assert "Issue token <the tokens> to" in caplog.text
    for token in (*tokens.values(), *successor.values()):
        assert not isinstance(token, str) or len(token) < 20 or token not in caplog.text
