"""How the keys of an authorization server are found, kept and renewed, whatever state that server is in."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from typing import Any

import pytest

from flask_jsonrpc_mcp.oauth.authorization_server import ServerFailure, endpoint_in
from tests.conftest import Site, basic
from tests.oauth.conftest import (
    EXPIRED,
    FACES,
    NOT_YET,
    UNKNOWN_USER,
    Clock,
    assert_refused,
    assert_runs,
    assert_unavailable,
    make_oauth,
    make_site,
)
from tests.support.faces import Face
from tests.support.issuer import JWKS, METADATA, Issuer, endless, issuing
from tests.support.tokens import Signer, bearer, make_claims, private_key

ISSUER = "https://login.example.com"

NEW = Signer("rsa-2", "RS256", private_key("RS256", 1))
"""The key that the issuer rotates to."""


def call(site: Site, token: str) -> Any:
    return site.invoke("public", {}, headers=bearer(token))


def strangers(issuer: Issuer, count: int) -> Iterator[str]:
    for number in range(count):
        yield issuer.rsa.token(make_claims(issuer.url), kid=f"stranger-{number}")


def test_an_app_starts_without_its_authorization_server(issuer: Issuer) -> None:
    issuer.stop()
    site = make_site(make_oauth(issuer.url))
    assert site.list_tools().status_code == 200
    assert issuer.asked == []


def test_keys_are_fetched_once(site: Site, issuer: Issuer) -> None:
    for _ in range(3):
        assert_runs(call(site, issuer.token()))
    assert [asked.path for asked in issuer.asked] == [METADATA, JWKS]


@pytest.mark.parametrize(
    "place",
    [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
    ],
)
def test_the_metadata_of_an_issuer_with_a_path_is_found(place: str) -> None:
    """RFC 8414 inserts the well-known part before the path, and OpenID Connect appends it; the first that is there."""
    with issuing("/tenant") as issuer:
        issuer.metadata_path = place
        assert_runs(call(make_site(make_oauth(issuer.url)), issuer.token()))
        assert [asked.path for asked in issuer.asked][-2:] == [place, JWKS]


def test_a_jwks_uri_takes_the_place_of_the_metadata(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url, jwks_uri=issuer.metadata["jwks_uri"]))
    assert_runs(call(site, issuer.token()))
    assert [asked.path for asked in issuer.asked] == [JWKS]


def test_keys_that_are_given_need_no_network(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url, keys={"keys": issuer.keys}))
    assert_runs(call(site, issuer.token()))
    assert_refused(call(site, next(strangers(issuer, 1))))
    assert issuer.asked == []


def test_case_26_tokens_with_random_kids_cause_at_most_one_fetch(site: Site, issuer: Issuer, clock: Clock) -> None:
    """Whatever the face is that they are sent to."""
    assert_runs(call(site, issuer.token()))
    clock.advance(31)
    for token, face in zip(strangers(issuer, 500), cycle(FACES), strict=False):
        assert_refused(face("public", {}).send(site.client, bearer(token)))
    assert issuer.count(JWKS) == 2


def test_a_key_is_looked_for_again_after_half_a_minute(site: Site, issuer: Issuer, clock: Clock) -> None:
    """Counted from the last try, so that strangers cannot push it ahead of them."""
    assert_runs(call(site, issuer.token()))
    issuer.rotate(NEW)
    assert_refused(call(site, issuer.token()))
    clock.advance(29)
    assert_refused(call(site, issuer.token()))
    clock.advance(2)
    assert_runs(call(site, issuer.token()))
    assert issuer.count(JWKS) == 2


def test_case_27_calls_that_meet_a_new_key_at_once_fetch_it_once(site: Site, issuer: Issuer, clock: Clock) -> None:
    assert_runs(call(site, issuer.token()))
    issuer.rotate(NEW)
    clock.advance(31)
    token, together = issuer.token(), threading.Barrier(50)

    def invoke() -> int:
        client = site.app.test_client()
        together.wait()
        return client.post(
            "/mcp/tools/invoke", json={"name": "public", "arguments": {}}, headers=bearer(token)
        ).status_code

    with ThreadPoolExecutor(50) as pool:
        statuses = [each.result() for each in [pool.submit(invoke) for _ in range(50)]]
    assert statuses == [200] * 50
    assert issuer.count(JWKS) == 2


def test_calls_that_meet_no_keys_at_once_fetch_them_once(site: Site, issuer: Issuer) -> None:
    token, together = issuer.token(), threading.Barrier(20)

    def invoke() -> int:
        together.wait()
        return Site(site.rpc, site.app).invoke("public", {}, headers=bearer(token)).status_code

    with ThreadPoolExecutor(20) as pool:
        statuses = [each.result() for each in [pool.submit(invoke) for _ in range(20)]]
    assert (statuses, issuer.count(JWKS)) == ([200] * 20, 1)


@pytest.mark.parametrize(
    ("max_age", "fresh", "old"), [(None, 599, 601), (120, 119, 121), (5, 59, 61), (86_400, 3_599, 3_601)]
)
def test_keys_are_fetched_again_when_they_are_old(
    site: Site, issuer: Issuer, clock: Clock, max_age: int | None, fresh: int, old: int
) -> None:
    """After ten minutes, or when the reply says so, between a minute and an hour."""
    issuer.max_age = max_age
    assert_runs(call(site, issuer.token()))
    clock.advance(fresh)
    assert_runs(call(site, issuer.token()))
    assert issuer.count(JWKS) == 1
    clock.advance(old - fresh)
    assert_runs(call(site, issuer.token()))
    assert issuer.count(JWKS) == 2


def test_one_call_renews_old_keys_and_the_others_go_on(site: Site, issuer: Issuer, clock: Clock) -> None:
    assert_runs(call(site, issuer.token()))
    clock.advance(601)
    asked, release = threading.Event(), threading.Event()
    right = issuer._right_answer(JWKS, {})

    def slow(handler: Any) -> None:
        asked.set()
        release.wait()
        right.send(handler)

    issuer.replies[JWKS] = slow
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(lambda: Site(site.rpc, site.app).invoke("public", {}, headers=bearer(issuer.token())))
        asked.wait()
        for _ in range(3):
            assert_runs(call(site, issuer.token()))
        release.set()
        assert_runs(renewing.result())
    assert issuer.count(JWKS) == 2


def test_a_key_that_was_removed_is_dead_after_the_refresh(site: Site, issuer: Issuer, clock: Clock) -> None:
    """And after the minute for which a token is remembered."""
    old, token = issuer.rsa, issuer.token()
    assert_runs(call(site, token))
    issuer.rotate(NEW)
    clock.advance(601)
    assert_runs(call(site, issuer.token()))
    assert_refused(call(site, old.token(make_claims(issuer.url))))
    clock.advance(61)
    assert_refused(call(site, token))


def test_a_remembered_token_needs_no_keys(site: Site, issuer: Issuer, clock: Clock) -> None:
    token = issuer.token()
    assert_runs(call(site, token))
    issuer.rotate(NEW)
    clock.advance(31)
    assert_runs(call(site, issuer.token()))  # which fetches, and the old key is gone
    clock.advance(28)
    assert_runs(call(site, token))
    clock.advance(2)
    assert_refused(call(site, token))


def test_case_43_an_issuer_cannot_sign_for_another(issuer: Issuer) -> None:
    with issuing(number=2) as other:
        site = make_site(make_oauth([issuer.url, other.url]))
        for each in (issuer, other):
            assert_runs(call(site, each.token()))
        assert_refused(call(site, issuer.rsa.token(make_claims(other.url))))
        assert_refused(call(site, other.rsa.token(make_claims(issuer.url))))


@pytest.mark.parametrize("face", FACES)
def test_case_74_without_keys_only_those_with_a_token_have_to_wait(site: Site, issuer: Issuer, face: Face) -> None:
    issuer.stop()
    assert_unavailable(face("public", {}).send(site.client, bearer(issuer.token())))
    assert_runs(face("public", {}).send(site.client, basic("reader")))
    assert_runs(face("public", {}).send(site.client))
    assert face("guarded", {}).send(site.client).status_code == 401


def test_the_keys_are_asked_for_again_after_five_seconds(site: Site, issuer: Issuer, clock: Clock) -> None:
    issuer.answer(JWKS, b"", 500)
    assert_unavailable(call(site, issuer.token()))
    assert_unavailable(call(site, issuer.token()))
    assert issuer.count(JWKS) == 1
    issuer.replies.clear()
    clock.advance(6)
    assert_runs(call(site, issuer.token()))


def test_case_75_known_keys_serve_for_a_day_while_the_server_is_down(
    site: Site, issuer: Issuer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert_runs(call(site, issuer.token()))
    issuer.stop()
    clock.advance(601)
    for _ in range(5):
        assert_runs(call(site, issuer.token()))
    for seconds, warnings in ((0, 1), (31, 1), (31, 2)):  # one a minute
        clock.advance(seconds)
        assert_runs(call(site, issuer.token()))
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == warnings
    # Its key may be a new one. A 401 would make the client discard a good token.
    assert_unavailable(call(site, next(strangers(issuer, 1))))
    clock.advance(23 * 3600)
    assert_runs(call(site, issuer.token()))
    clock.advance(2 * 3600)
    assert_unavailable(call(site, issuer.token()))


BROKEN: dict[str, Callable[[Issuer], None]] = {
    "html": lambda issuer: issuer.answer(JWKS, b"<html>Sorry</html>", Content_Type="text/html"),
    "500": lambda issuer: issuer.answer(JWKS, {"keys": []}, 500),
    "keys-are-no-list": lambda issuer: issuer.answer(JWKS, {"keys": "x"}),
    "no-object": lambda issuer: issuer.answer(JWKS, ["keys"]),
    "deep": lambda issuer: issuer.answer(JWKS, b"[" * 100_000),
    "a-gigabyte": lambda issuer: issuer.replies.update({JWKS: endless}),
}


@pytest.mark.parametrize("break_", BROKEN.values(), ids=[f"case-76-{name}" for name in BROKEN])
def test_a_broken_reply_is_no_set_of_keys(
    site: Site, issuer: Issuer, clock: Clock, break_: Callable[[Issuer], None]
) -> None:
    break_(issuer)
    assert_unavailable(call(site, issuer.token()))
    issuer.replies.clear()
    clock.advance(6)
    assert_runs(call(site, issuer.token()))
    break_(issuer)
    clock.advance(601)
    assert_runs(call(site, issuer.token()))
    assert issuer.count(JWKS) == 3


def test_case_76_a_redirect_is_not_followed(site: Site, issuer: Issuer) -> None:
    with issuing(number=3) as elsewhere:
        issuer.answer(JWKS, b"", 302, Location=elsewhere.metadata["jwks_uri"])
        assert_unavailable(call(site, issuer.token()))
        assert elsewhere.asked == []


def test_case_76_a_slow_server_is_given_up(site: Site, issuer: Issuer) -> None:
    """The one test that waits: five seconds, and without a limit of ours for ever."""
    issuer.replies[JWKS] = issuer.stall
    assert_unavailable(call(site, issuer.token()))


@pytest.mark.parametrize("start", [b"HTTP/1.0 200 OK\r\nX: ", b"HTTP/1.0 200 OK\r\n\r\n"], ids=["header", "body"])
def test_case_76_a_server_that_sends_byte_by_byte_is_given_up(
    site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture, start: bytes
) -> None:
    """This waits, too. Each byte comes in time; only all of them together do not."""
    ended = threading.Event()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(start)
        for _ in range(20):
            handler.wfile.write(b" ")
            issuer.released.wait(0.5)
        ended.set()
        end_of_header = b"" if start.endswith(b"\n") else b"x\r\n\r\n"
        handler.wfile.write(end_of_header + json.dumps({"keys": issuer.keys}).encode())

    issuer.replies[JWKS] = reply
    assert_unavailable(call(site, issuer.token()))
    assert not ended.is_set()
    assert "took more than 5 seconds" in caplog.text


def test_case_76_one_bad_key_spoils_nothing(site: Site, issuer: Issuer) -> None:
    bad: list[Any] = [{"kty": "RSA", "kid": "bad", "n": "!", "e": "AQAB"}, {"kty": "odd"}, {}, [], None, 7]
    issuer.keys = [*bad, *issuer.keys]
    assert_runs(call(site, issuer.token()))


def test_a_key_that_is_too_short_is_dropped(site: Site, issuer: Issuer) -> None:
    """Without a warning too, which an app may have made an error."""
    short = Signer("short", "RS256", private_key("RS256", 9, bits=1024))
    issuer.keys.append(short.jwk())
    assert_runs(call(site, issuer.token()))
    assert_refused(call(site, short.token(make_claims(issuer.url))))


@pytest.mark.parametrize(("length", "status"), [(200, 200), (201, 401)])
def test_the_name_of_a_key_has_at_most_200_characters(site: Site, issuer: Issuer, length: int, status: int) -> None:
    issuer.rotate(Signer("k" * length))
    assert call(site, issuer.token()).status_code == status


def test_keys_past_the_64th_are_dropped(site: Site, issuer: Issuer) -> None:
    issuer.keys = [NEW.jwk(kid=f"more-{number}") for number in range(64)] + issuer.keys
    assert_runs(call(site, NEW.token(make_claims(issuer.url), kid="more-63")))
    assert_refused(call(site, issuer.token()))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"issuer": "https://other.example"}, id="case-77-another-issuer"),
        pytest.param({"issuer": None}, id="case-77-no-issuer"),
        # Which would lead here, but need not.
        pytest.param({"jwks_uri": "http://0.0.0.0:{port}/jwks"}, id="case-77-http"),
        pytest.param({"jwks_uri": "file:///etc/passwd"}, id="case-77-file"),
        pytest.param({"jwks_uri": "ftp://127.0.0.1/jwks"}, id="case-77-ftp"),
        pytest.param({"jwks_uri": "http://127.0.0.1.keys.example/jwks"}, id="case-77-almost-loopback"),
        pytest.param({"jwks_uri": "https://" + 70 * "k" + ".example/jwks"}, id="case-77-long-label"),
        pytest.param({"jwks_uri": "https://xn--a/jwks"}, id="case-77-no-unicode"),
        pytest.param({"jwks_uri": 7}, id="case-77-number"),
        pytest.param({"jwks_uri": None}, id="case-77-no-jwks-uri"),
    ],
)
def test_metadata_that_cannot_be_trusted_are_an_error_in_the_log(
    site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
) -> None:
    for name, value in change.items():
        issuer.metadata[name] = value.format(port=issuer.port) if isinstance(value, str) else value
    assert_unavailable(call(site, issuer.token()))
    assert [record for record in caplog.records if record.levelno == logging.ERROR]
    assert issuer.count(JWKS) == 0


def test_a_remote_issuer_does_not_lead_to_servers_on_this_machine() -> None:
    for url in ("http://localhost:6379/jwks", "http://127.0.0.1/jwks", "http://[::1]/jwks"):
        assert endpoint_in({"issuer": "http://127.0.0.1:8001", "jwks_uri": url}, "jwks_uri") == url
        with pytest.raises(ServerFailure, match="is not https"):
            endpoint_in({"issuer": ISSUER, "jwks_uri": url}, "jwks_uri")
    assert endpoint_in({"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}, "jwks_uri") == f"{ISSUER}/jwks"


def test_case_83_a_remembered_token_is_refused_when_it_has_expired(site: Site, issuer: Issuer, clock: Clock) -> None:
    token = issuer.token(exp=make_claims("")["iat"] + 20)
    assert_runs(call(site, token))
    clock.advance(51)
    assert_refused(call(site, token), EXPIRED)


@pytest.mark.parametrize("face", FACES)
def test_case_83_the_user_of_a_remembered_token_is_looked_up_each_time(issuer: Issuer, face: Face) -> None:
    oauth, users = make_oauth(issuer.url), {"ada"}
    oauth.verify_token(lambda token: token if token.subject in users else None)
    site, token = make_site(oauth), issuer.token()
    assert_runs(face("public", {}).send(site.client, bearer(token)))
    users.clear()
    assert_refused(face("public", {}).send(site.client, bearer(token)), UNKNOWN_USER)


def test_case_85_keys_and_memory_live_by_monotonic_time(site: Site, issuer: Issuer, clock: Clock) -> None:
    token = issuer.token()
    assert_runs(call(site, token))
    clock.wall -= 600
    assert_runs(call(site, token))
    assert issuer.count(JWKS) == 1
    clock.monotonic += 61
    assert_refused(call(site, token), NOT_YET)
    clock.monotonic += 540
    assert_runs(call(site, issuer.token()))
    assert issuer.count(JWKS) == 2
