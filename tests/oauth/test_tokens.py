"""Access tokens that a resource server must refuse, and some that it must take, on every face.

Nothing of a refused token is shown to anyone, and the log has the reason without the token.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import Site
from tests.oauth.conftest import (
    EXPIRED,
    FACES,
    NOT_VALID,
    NOT_YET,
    OTHER_AUDIENCE,
    OTHER_ISSUER,
    UNKNOWN_USER,
    assert_not_shown,
    assert_refused,
    assert_runs,
    make_oauth,
    make_site,
)
from tests.support.faces import Face
from tests.support.issuer import METADATA, Issuer, issuing
from tests.support.tokens import RESOURCE, Signer, base64url, bearer, encoded, hmac_token, make_claims, private_key

SECRET = b"a secret that is offered as a key"
IMPOSTOR = Signer("rsa-1", "RS256", private_key("RS256", 7))
"""Another key under the name of the issuer's."""
SECOND_EC = Signer("ec-2", "ES256", private_key("ES256", 7))
ENCRYPTION = Signer("enc-1", "RS256", private_key("RS256", 8))
LEAKED = Signer("leaked-1", "RS256", private_key("RS256", 10))

Make = Callable[[Issuer], str]
"""Makes a token."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """One that publishes more keys than should be used."""
    with issuing() as running:
        running.keys += [
            {"kty": "oct", "kid": "oct-1", "k": base64url(SECRET), "alg": "HS256", "use": "sig"},
            SECOND_EC.jwk(),
            ENCRYPTION.jwk(use="enc"),
            LEAKED.jwk(private=True),
        ]
        yield running


@pytest.fixture(scope="module")
def attacker() -> Iterator[Issuer]:
    """A server that no token may make us ask."""
    with issuing(number=7) as running:
        yield running


@pytest.fixture(scope="module")
def site(issuer: Issuer) -> Site:
    return make_site(make_oauth(issuer.url, implies={"admin": ["articles:write"], "articles:write": ["articles:read"]}))


def claimed(**claims: Any) -> Make:
    """A token signed as it should be, with these claims changed."""
    return lambda issuer: issuer.token(**claims)


def headed(**header: Any) -> Make:
    """A token with these members of the header changed."""
    return lambda issuer: issuer.rsa.token(make_claims(issuer.url), **header)


def payload(content: bytes) -> Make:
    """A token with this payload, signed as it should be."""
    return lambda issuer: issuer.rsa.token(content)


def claims_text(change: Callable[[str], str]) -> Make:
    """A token with a change in the text of its claims, which ``json.dumps`` would not make."""
    return lambda issuer: issuer.rsa.token(change(json.dumps(make_claims(issuer.url))).encode())


def in_seconds(seconds: float) -> int:
    return int(time.time() + seconds)


def with_signature(issuer: Issuer, header: Any, signature: bytes) -> str:
    return f"{encoded(header)}.{encoded(make_claims(issuer.url))}.{base64url(signature)}"


def duplicate_alg(issuer: Issuer) -> str:
    return issuer.rsa.signed(b'{"alg":"none","kid":"rsa-1","typ":"at+jwt","alg":"RS256"}', make_claims(issuer.url))


def other_alphabet(issuer: Issuer) -> str:
    """A good token whose signature is in the alphabet of plain Base64."""
    for number in range(1000):
        token = issuer.token(jti=str(number))
        content, _, signature = token.rpartition(".")
        if "-" in signature or "_" in signature:
            return f"{content}.{signature.replace('-', '+').replace('_', '/')}"
    raise AssertionError("no signature with either character")


def json_serialisation(issuer: Issuer) -> str:
    protected, content, signature = issuer.token().split(".")
    return json.dumps({"protected": protected, "payload": content, "signature": signature}, separators=(",", ":"))


def modulus(issuer: Issuer) -> bytes:
    numbers = issuer.rsa.key.public_key().public_numbers()  # type: ignore[union-attr]
    return int(numbers.n).to_bytes(256, "big")  # type: ignore[union-attr]


REFUSED: dict[str, Make | tuple[Make, str]] = {
    "case-1-alg-none": lambda issuer: with_signature(issuer, {"alg": "none", "kid": "rsa-1"}, b""),
    "case-2-alg-none-in-other-case": headed(alg="nOnE"),
    "case-3-empty-signature": lambda issuer: with_signature(issuer, {"alg": "RS256", "kid": "rsa-1"}, b""),
    "case-4-secret-is-the-public-key": lambda issuer: hmac_token(
        issuer.rsa.pem, make_claims(issuer.url), kid=issuer.rsa.kid
    ),
    "case-5-secret-is-the-modulus": lambda issuer: hmac_token(
        modulus(issuer), make_claims(issuer.url), kid=issuer.rsa.kid
    ),
    "case-6-published-secret": lambda issuer: hmac_token(SECRET, make_claims(issuer.url), kid="oct-1"),
    "case-6-published-secret-without-kid": lambda issuer: hmac_token(SECRET, make_claims(issuer.url)),
    "case-7-key-of-an-impostor": lambda issuer: IMPOSTOR.token(make_claims(issuer.url)),
    "case-8-another-alg-than-the-key": lambda issuer: Signer("rsa-1", "PS256", issuer.rsa.key).token(
        make_claims(issuer.url)
    ),
    "case-9-key-for-encryption": lambda issuer: ENCRYPTION.token(make_claims(issuer.url)),
    "case-9-key-whose-secret-is-published": lambda issuer: LEAKED.token(make_claims(issuer.url)),
    "case-14-crit": headed(crit=["x"], x=1),
    "case-15-unencoded-payload": headed(b64=False, crit=["b64"]),
    "case-16-alg-a-list": headed(alg=["RS256"]),
    "case-16-alg-a-number": headed(alg=256),
    "case-16-alg-missing": headed(alg=None),
    "case-17-kid-a-list": headed(kid=["rsa-1"]),
    "case-17-kid-a-number": headed(kid=1),
    "case-18-typ-a-list": headed(typ=["at+jwt"]),
    "case-18-typ-a-number": headed(typ=1),
    "case-19-alg-twice": duplicate_alg,
    "case-20-aud-twice": claims_text(lambda text: text[:-1] + f', "aud": "{RESOURCE}"}}'),
    "case-21-kid-is-a-path": headed(kid="../../../../dev/null"),
    "case-22-kid-is-sql": headed(kid="' OR 1=1--"),
    "case-23-kid-of-100-kB": headed(kid="k" * 100_000),
    "case-23-kid-of-11-kB": headed(kid="k" * 11_000),
    "case-23-kid-of-201-characters": headed(kid="k" * 201),
    "case-24-no-kid-and-two-keys": lambda issuer: issuer.ec.token(make_claims(issuer.url), kid=None),
    "case-28-aud-of-another-service": (claimed(aud="https://other.example/mcp"), OTHER_AUDIENCE),
    "case-30-aud-is-our-origin": (claimed(aud="https://site.example"), OTHER_AUDIENCE),
    "case-31-aud-goes-on": (claimed(aud=RESOURCE + "/x"), OTHER_AUDIENCE),
    "case-31-aud-with-a-query": (claimed(aud=RESOURCE + "?x"), OTHER_AUDIENCE),
    "case-32-aud-ends-early": (claimed(aud=RESOURCE[:-1]), OTHER_AUDIENCE),
    "case-33-aud-in-other-case": (claimed(aud="https://site.example/MCP"), OTHER_AUDIENCE),
    "case-36-aud-missing": (claimed(aud=None), OTHER_AUDIENCE),
    "case-37-aud-empty": (claimed(aud=[]), OTHER_AUDIENCE),
    "case-38-aud-an-object": (claimed(aud={}), OTHER_AUDIENCE),
    "case-38-aud-an-object-with-ours": (claimed(aud={RESOURCE: True}), OTHER_AUDIENCE),
    "case-39-aud-in-two-lists": (claimed(aud=[[RESOURCE]]), OTHER_AUDIENCE),
    "case-40-iss-of-another": (claimed(iss="https://other.example"), OTHER_ISSUER),
    "case-41-iss-with-a-slash": (lambda issuer: issuer.token(iss=issuer.url + "/"), OTHER_ISSUER),
    "case-42-iss-a-list": (lambda issuer: issuer.token(iss=[issuer.url]), OTHER_ISSUER),
    "case-42-iss-missing": (claimed(iss=None), OTHER_ISSUER),
    "case-44-expired-by-more-than-the-leeway": (claimed(exp=in_seconds(-31)), EXPIRED),
    "case-46-nbf-in-ten-minutes": (lambda issuer: issuer.token(nbf=in_seconds(600)), NOT_YET),
    "case-47-iat-in-ten-minutes": (lambda issuer: issuer.token(iat=in_seconds(600)), NOT_YET),
    "case-47-iat-as-text": claimed(iat="now"),
    "case-46-nbf-a-bool": claimed(nbf=True),
    "case-48-exp-missing": claimed(exp=None),
    "case-49-exp-as-text": claimed(exp=str(in_seconds(3600))),
    "case-50-exp-true": claimed(exp=True),
    "case-51-exp-nan": claimed(exp=float("nan")),
    "case-51-exp-infinite": claimed(exp=float("inf")),
    "case-52-exp-1e400": claims_text(lambda text: text.replace('"exp": ', '"exp": 1e400, "was": ')),
    "case-52-exp-of-5000-digits": claims_text(lambda text: text.replace('"exp": ', f'"exp": {"9" * 5000}, "was": ')),
    "case-53-no-subject-and-no-client": claimed(sub=None, client_id=None),
    "case-53-empty-subject": claimed(sub="", client_id=None),
    "case-54-sub-a-number": claimed(sub=7),
    "case-55-bound-to-a-key": claimed(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
    "case-57-typ-dpop": headed(typ="dpop+jwt"),
    "case-57-typ-logout": headed(typ="logout+jwt"),
    "case-57-typ-id-jag": headed(typ="oauth-id-jag+jwt"),
    "case-58-id-token": (
        lambda issuer: issuer.rsa.token(
            make_claims(issuer.url, aud="client-of-ada", nonce="n", scope=None, client_id=None), typ="JWT"
        ),
        OTHER_AUDIENCE,
    ),
    "case-59-payload-not-json": payload(b"hello there, server"),
    "case-59-payload-a-list": payload(b'["iss", "aud", "exp"]'),
    "case-59-payload-not-utf-8": payload(b'{"iss": "\xff\xfe"}'),
    "case-59-payload-deep": payload(b"[" * 4_000 + b"]" * 4_000),
    "case-59-payload-100000-deep": payload(b"[" * 100_000 + b"]" * 100_000),
    "case-59-payload-of-2-MB": claimed(more="m" * 2_000_000),
    "case-60-padding": lambda issuer: issuer.token() + "=",
    "case-60-padded-header": lambda issuer: "=.".join(issuer.token().split(".")),
    "case-60-other-alphabet": other_alphabet,
    "case-60-four-parts": lambda issuer: issuer.token() + ".e30",
    "case-60-two-parts": lambda issuer: issuer.token().rpartition(".")[0],
    "case-60-five-parts": lambda issuer: ".".join(
        [encoded({"alg": "RSA-OAEP", "enc": "A256GCM", "kid": "rsa-1"}), *["c2VjcmV0LXBhcnQ"] * 4]
    ),
    "case-60-json-serialisation": json_serialisation,
    "case-60-not-ascii": lambda issuer: issuer.token() + "é",
    "case-60-nul": lambda issuer: issuer.token() + "\0",
    "case-60-tab": lambda issuer: issuer.token() + "\tx",
    "case-60-only-dots": lambda issuer: "..",
    "case-61-two-headers-joined": lambda issuer: f"{issuer.token()},Bearer {issuer.token()}",
    "case-62-two-tokens": lambda issuer: f"{issuer.token()} {issuer.token()}",
    "case-62-a-b": lambda issuer: "a b",
    "case-63-no-token": lambda issuer: "",
    "case-70-scope-with-a-quote": claimed(scope='articles:read "injected-scope"'),
    "case-70-scope-with-a-line-break": claimed(scope="articles:read\ninjected-scope"),
    "case-70-scope-a-number": claimed(scope=12345678901234),
    "case-70-scope-a-list-of-numbers": claimed(scope=["articles:read", 12345678901234]),
    "case-70-scope-not-ascii": claimed(scope="articles:read injécted-scope"),
}

# Before the signature is checked nothing is known to be true; some cases say more, because they are signed.
SIGNED = {name: made if isinstance(made, tuple) else (made, NOT_VALID) for name, made in REFUSED.items()}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("make", "description"), SIGNED.values(), ids=SIGNED)
def test_a_token_that_is_not_good_is_refused(
    site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture, make: Make, description: str, face: Face
) -> None:
    caplog.set_level(logging.DEBUG)
    token = make(issuer)
    response = face("public", {}).send(site.client, bearer(token))
    assert_refused(response, description)
    assert_not_shown(token, response.text, str(response.headers), caplog.text)
    assert "injected" not in response.text + str(response.headers)
    assert "ran public" not in response.text


ACCEPTED: dict[str, Make] = {
    "case-25-no-kid-and-one-key": lambda issuer: issuer.ed.token(make_claims(issuer.url), kid=None),
    "case-34-aud-with-a-slash": claimed(aud=RESOURCE + "/"),
    "case-35-aud-a-list-with-ours": claimed(aud=["https://other.example", RESOURCE]),
    "case-45-expired-within-the-leeway": lambda issuer: issuer.token(exp=in_seconds(-10)),
    "case-46-nbf-within-the-leeway": lambda issuer: issuer.token(nbf=in_seconds(10)),
    "case-57-typ-missing": headed(typ=None),
    "case-57-typ-jwt": headed(typ="JWT"),
    "case-57-typ-with-its-type": headed(typ="application/at+jwt"),
    "case-57-a-private-header-as-entra-sends": headed(nonce="n", x5t="thumb"),
    "rs256": claimed(),
    "es256": lambda issuer: issuer.ec.token(make_claims(issuer.url)),
    "eddsa": lambda issuer: issuer.ed.token(make_claims(issuer.url)),
    "ed25519": lambda issuer: issuer.ed.token(make_claims(issuer.url), alg="Ed25519"),
    "machine": claimed(sub=None),
    "exp-with-a-fraction": lambda issuer: issuer.token(exp=time.time() + 60.5),
    "case-69-scope-a-list": claimed(scope=["articles:read"]),
    "case-69-scp-as-text": claimed(scope=None, scp="articles:read"),
    "case-69-scp-a-list": claimed(scope=None, scp=["articles:read"]),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED)
def test_a_good_token_is_taken(site: Site, issuer: Issuer, make: Make, face: Face) -> None:
    assert_runs(face("public", {}).send(site.client, bearer(make(issuer))))


@pytest.mark.parametrize("start", ["bearer ", "BEARER ", "Bearer   ", " Bearer "])
def test_the_scheme_is_taken_in_any_case_and_with_more_spaces(site: Site, issuer: Issuer, start: str) -> None:
    """RFC 9110 has case-insensitive schemes, and one space or more behind them."""
    headers = {"Authorization": start + issuer.token()}
    assert_runs(site.invoke("public", {}, headers=headers))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("header", "value"),
    [
        pytest.param("jku", "{url}/jwks", id="case-10-jku"),
        pytest.param("x5u", "{url}/chain.pem", id="case-11-x5u"),
        pytest.param("jwk", "the key", id="case-12-jwk"),
        pytest.param("x5c", ["MIIB"], id="case-13-x5c"),
    ],
)
def test_a_key_that_a_token_brings_is_not_used(
    site: Site, issuer: Issuer, attacker: Issuer, header: str, value: Any, face: Face
) -> None:
    """The attacker's key has the name of the issuer's, and the place in the token says where to get it."""
    brought = attacker.rsa.jwk() if header == "jwk" else value
    brought = brought.format(url=attacker.url) if isinstance(brought, str) else brought
    for kid in ("rsa-1", "unknown", None):
        token = attacker.rsa.token(make_claims(issuer.url), **{header: brought, "kid": kid})
        assert_refused(face("public", {}).send(site.client, bearer(token)))
    assert attacker.asked == []


@pytest.mark.parametrize("face", FACES)
def test_case_56_another_scheme_is_not_taken(site: Site, issuer: Issuer, face: Face) -> None:
    """It is refused as any unknown scheme is: without an error, because there was no bearer token."""
    response = face("public", {}).send(site.client, {"Authorization": f"DPoP {issuer.token()}"})
    assert response.status_code == 401
    assert "error=" not in response.headers["WWW-Authenticate"]


@pytest.mark.parametrize("face", FACES)
def test_case_61_two_authorization_headers_are_refused(site: Site, issuer: Issuer, face: Face) -> None:
    asked, token = face("public", {}), issuer.token()
    headers = [*asked.headers.items(), ("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    assert_refused(site.client.post(asked.path, json=asked.payload, headers=headers))


@pytest.mark.parametrize("face", FACES)
def test_case_65_a_token_in_the_query_is_not_looked_at(issuer: Issuer, face: Face) -> None:
    """RFC 6750 allows it and OAuth 2.1 does not, because addresses are logged."""
    site, before = make_site(make_oauth(issuer.url), require_auth=True), len(issuer.asked)
    asked = face("public", {})
    response = site.client.post(
        f"{asked.path}?access_token={issuer.token()}", json=asked.payload, headers=asked.headers
    )
    assert response.status_code == 401
    assert "error=" not in str(response.headers.getlist("WWW-Authenticate"))
    assert len(issuer.asked) == before


@pytest.mark.parametrize("path", ["/mcp", "/jsonrpc", "/mcp/tools/invoke"])
@pytest.mark.parametrize(("required", "status"), [(False, 415), (True, 401)])
def test_case_66_a_token_in_a_form_is_not_looked_at(issuer: Issuer, path: str, required: bool, status: int) -> None:
    site, before = make_site(make_oauth(issuer.url), require_auth=required), len(issuer.asked)
    response = site.client.post(path, data={"access_token": issuer.token()})
    assert response.status_code == status
    assert len(issuer.asked) == before


def test_a_refusal_is_logged_with_its_reason(site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """So that one can find out what is set wrong; the caller is not told."""
    caplog.set_level(logging.INFO)
    token = issuer.token(aud="https://other.example/" + "x" * 500)
    assert_refused(site.invoke("public", {}, headers=bearer(token)), OTHER_AUDIENCE)
    [record] = [record for record in caplog.records if "https://other.example/" in record.getMessage()]
    assert {issuer.url, "rsa-1", "client-of-ada"} <= set(
        record.getMessage().replace("'", " ").replace(",", " ").split()
    )
    assert "x" * 201 not in record.getMessage()


def test_the_log_names_a_user_whom_the_app_does_not_know(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """A client may send the person to the sign-in page again and again, and only the log says why."""
    oauth = make_oauth(issuer.url)
    oauth.verify_token(lambda token: None)
    assert_refused(make_site(oauth).invoke("public", {}, headers=bearer(issuer.token(sub="bob"))), UNKNOWN_USER)
    assert f"access token refused: verify_token returned no user iss='{issuer.url}' sub='bob'" in caplog.messages


def test_the_log_names_the_issuer_that_a_token_should_have(
    site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the keys of the other issuer are not known here."""
    token = Signer("of-another-issuer").token(make_claims("https://other.example"))
    assert_refused(site.invoke("public", {}, headers=bearer(token)))
    assert any(f"its issuer is not {issuer.url}" in message for message in caplog.messages)


def test_a_log_line_is_one_line(site: Site, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """What is in a token must not look like another line of the log."""
    caplog.set_level(logging.INFO)
    token = issuer.token(aud="x\nERROR forged", client_id="y\r\nERROR forged")
    assert_refused(site.invoke("public", {}, headers=bearer(token)), OTHER_AUDIENCE)
    assert not [record for record in caplog.records if "\nERROR" in record.getMessage()]


def test_the_keys_of_this_site_were_fetched_from_its_issuer(issuer: Issuer) -> None:
    """The other tests of this module would pass if there were no keys at all but for the good tokens."""
    assert {asked.path for asked in issuer.asked} <= {METADATA, "/jwks"}
    assert not [asked for asked in issuer.asked if asked.headers.get("Authorization")]
