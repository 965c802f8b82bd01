"""Tokens that only their authorization server can read (RFC 7662)."""

from __future__ import annotations

import logging
import threading
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.conftest import Site, basic
from tests.oauth.conftest import (
    EXPIRED,
    FACES,
    NOT_VALID,
    OTHER_AUDIENCE,
    OTHER_ISSUER,
    Clock,
    assert_not_shown,
    assert_refused,
    assert_runs,
    assert_unavailable,
    make_oauth,
    make_site,
)
from tests.support.faces import Face
from tests.support.issuer import INTROSPECTION, JWKS, Answer, Issuer
from tests.support.tokens import bearer, make_claims

TOKEN = "an-opaque-token-of-ada"


@pytest.fixture
def site(issuer: Issuer) -> Site:
    return make_site(make_oauth(issuer.url, introspection=("rs id", "s:cret/%é")))


def say(issuer: Issuer, **claims: Any) -> None:
    """Let introspection say that the token is active, with these claims changed."""
    issuer.introspected[TOKEN] = {**make_claims(issuer.url, active=True, token_type="Bearer"), **claims}
    for name in [name for name, value in claims.items() if value is None]:
        del issuer.introspected[TOKEN][name]


@pytest.mark.parametrize("face", FACES)
def test_the_authorization_server_is_asked_about_a_token(site: Site, issuer: Issuer, face: Face) -> None:
    say(issuer)
    assert_runs(face("public", {}).send(site.client, bearer(TOKEN)))
    assert face("scoped", {}).send(site.client, bearer(TOKEN)).status_code == 403
    [asked] = [asked for asked in issuer.asked if asked.path == INTROSPECTION]
    assert asked.form == {"token": [TOKEN], "token_type_hint": ["access_token"]}
    # Form-encoded first, as RFC 6749 section 2.3.1 says.
    credentials = b64decode(asked.headers["Authorization"].removeprefix("Basic "))
    assert credentials == b"rs+id:s%3Acret%2F%25%C3%A9"
    assert issuer.count(JWKS) == 0


def test_a_jwt_is_asked_about_too(site: Site, issuer: Issuer) -> None:
    """It may have been revoked, so its signature says too little."""
    token = issuer.token()
    assert_refused(site.invoke("public", {}, headers=bearer(token)))
    issuer.introspected[token] = make_claims(issuer.url, active=True)
    assert issuer.count(INTROSPECTION) == 1


def test_the_endpoint_can_be_given(issuer: Issuer) -> None:
    endpoint = issuer.metadata["introspection_endpoint"]
    oauth = make_oauth(issuer.url, introspection=("rs", "secret"), introspection_endpoint=endpoint)
    say(issuer)
    assert_runs(make_site(oauth).invoke("public", {}, headers=bearer(TOKEN)))
    assert {asked.path for asked in issuer.asked} == {INTROSPECTION}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "inactive": ({"active": False}, NOT_VALID),
    "active-as-text": ({"active": "true"}, NOT_VALID),
    "active-as-number": ({"active": 1}, NOT_VALID),
    "active-missing": ({"active": None}, NOT_VALID),
    "other-aud": ({"aud": "https://other.example/mcp"}, OTHER_AUDIENCE),
    "no-aud": ({"aud": None}, OTHER_AUDIENCE),
    "other-iss": ({"iss": "https://other.example"}, OTHER_ISSUER),
    "token-type": ({"token_type": "DPoP"}, NOT_VALID),
    "expired": ({"exp": 1}, EXPIRED),
    "no-exp": ({"exp": None}, NOT_VALID),
    "bound": ({"cnf": {"jkt": "x"}}, NOT_VALID),
    "nobody": ({"sub": None, "client_id": None}, NOT_VALID),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("claims", "description"), REFUSED.values(), ids=[f"case-78-{name}" for name in REFUSED])
def test_case_78_a_token_that_is_not_good_is_refused(
    site: Site,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
    claims: dict[str, Any],
    description: str,
    face: Face,
) -> None:
    caplog.set_level(logging.DEBUG)
    say(issuer, **claims)
    response = face("public", {}).send(site.client, bearer(TOKEN))
    assert_refused(response, description)
    assert_not_shown(TOKEN, response.text, str(response.headers), caplog.text)


@pytest.mark.parametrize("claims", [{"iss": None}, {"token_type": "bearer"}, {"token_type": None}])
def test_what_need_not_be_there_may_be_missing(site: Site, issuer: Issuer, claims: dict[str, Any]) -> None:
    say(issuer, **claims)
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))


BROKEN: dict[str, Callable[[Issuer], None]] = {
    "html": lambda issuer: issuer.answer(INTROSPECTION, b"<html>Sorry</html>", Content_Type="text/html"),
    "401": lambda issuer: issuer.answer(INTROSPECTION, {"error": "invalid_client"}, 401),
    "400": lambda issuer: issuer.answer(INTROSPECTION, {"error": "unsupported_token_type"}, 400),
    "500": lambda issuer: issuer.answer(INTROSPECTION, {"active": True}, 500),
    "list": lambda issuer: issuer.answer(INTROSPECTION, [{"active": True}]),
    "redirect": lambda issuer: issuer.answer(INTROSPECTION, b"", 302, Location="/jwks"),
    "down": lambda issuer: issuer.stop(),
    "slow": lambda issuer: issuer.replies.update({INTROSPECTION: issuer.stall}),
}


@pytest.mark.parametrize("break_", BROKEN.values(), ids=[f"case-78-{name}" for name in BROKEN])
def test_case_78_a_server_that_gives_no_answer_is_unavailable(
    site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture, break_: Callable[[Issuer], None]
) -> None:
    say(issuer)
    break_(issuer)
    response = site.invoke("public", {}, headers=bearer(TOKEN))
    assert_unavailable(response)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert_not_shown(TOKEN, response.text, str(response.headers), caplog.text)
    assert "s:cret" not in caplog.text
    assert_runs(site.invoke("public", {}, headers=basic("reader")))


def test_a_server_that_cannot_be_reached_is_asked_again_after_five_seconds(
    site: Site, issuer: Issuer, clock: Clock
) -> None:
    """Each token would hold a thread until the server is given up."""
    say(issuer)
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))
    issuer.stop()
    assert_unavailable(site.invoke("public", {}, headers=bearer("another")))
    issuer.start()
    asked = issuer.count(INTROSPECTION)
    assert_unavailable(site.invoke("public", {}, headers=bearer("a-third")))
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))  # is known
    assert issuer.count(INTROSPECTION) == asked
    clock.advance(6)
    assert_refused(site.invoke("public", {}, headers=bearer("a-third")))
    assert_refused(site.invoke("public", {}, headers=bearer("another")))


def test_after_the_pause_one_call_asks_and_the_others_do_not_wait(site: Site, issuer: Issuer, clock: Clock) -> None:
    say(issuer)
    assert_refused(site.invoke("public", {}, headers=bearer("another")))  # finds the endpoint
    issuer.stop()
    assert_unavailable(site.invoke("public", {}, headers=bearer(TOKEN)))
    clock.advance(6)
    asked, answered = threading.Event(), threading.Event()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        answered.wait(4)
        Answer(issuer.introspected[TOKEN]).send(handler)

    issuer.replies[INTROSPECTION] = reply
    issuer.start()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(site.invoke, "public", {}, headers=bearer(TOKEN))
        assert asked.wait(4)
        assert_unavailable(site.invoke("public", {}, headers=bearer("a-third")))
        answered.set()
        assert_runs(first.result())


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_response_to_one_token_keeps_no_other_from_being_asked_about(site: Site, issuer: Issuer, status: int) -> None:
    """Some servers answer so to tokens of a form that they do not know, and anybody can send one."""
    say(issuer)
    issuer.answer(INTROSPECTION, {"error": "unsupported_token_type"}, status)
    assert_unavailable(site.invoke("public", {}, headers=bearer("x.y.z")))
    issuer.replies.clear()
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))


def test_a_good_answer_is_kept_for_half_a_minute(site: Site, issuer: Issuer, clock: Clock) -> None:
    say(issuer)
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))
    issuer.introspected.clear()
    clock.advance(29)
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))
    clock.advance(2)
    assert_refused(site.invoke("public", {}, headers=bearer(TOKEN)))
    assert issuer.count(INTROSPECTION) == 2


def test_a_good_answer_is_not_kept_past_its_expiry(site: Site, issuer: Issuer, clock: Clock) -> None:
    say(issuer, exp=make_claims("")["iat"] - 20)
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))
    clock.advance(12)
    assert_refused(site.invoke("public", {}, headers=bearer(TOKEN)), EXPIRED)


def test_an_inactive_token_is_asked_about_again_after_ten_seconds(site: Site, issuer: Issuer, clock: Clock) -> None:
    assert_refused(site.invoke("public", {}, headers=bearer(TOKEN)))
    say(issuer)
    clock.advance(9)
    assert_refused(site.invoke("public", {}, headers=bearer(TOKEN)))
    assert issuer.count(INTROSPECTION) == 1
    clock.advance(2)
    assert_runs(site.invoke("public", {}, headers=bearer(TOKEN)))


@pytest.mark.parametrize("token", ["", "a b", "é", "x" * 20_000, 'a"b', "a,b"])
def test_what_cannot_be_a_token_is_not_asked_about(site: Site, issuer: Issuer, token: str) -> None:
    assert_refused(site.invoke("public", {}, headers=bearer(token)))
    assert issuer.count(INTROSPECTION) == 0
