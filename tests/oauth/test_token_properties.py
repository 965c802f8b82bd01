"""Generated tokens: never a fault of the server, and never a yes where a verifier on PyJWT says no."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Site
from tests.oauth.conftest import FACES, make_oauth, make_site
from tests.support.faces import Face
from tests.support.issuer import Issuer, issuing
from tests.support.tokens import RESOURCE, Signer, encoded, make_claims, private_key

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
STRANGER = Signer("rsa-1", "RS256", private_key("RS256", 7))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def site(issuer: Issuer) -> Site:
    return make_site(make_oauth(issuer.url, scopes=()))


def is_good(authorization: str, issuer: Issuer) -> bool:
    """The reference: what PyJWT makes of a token, with the keys and checks that it must have."""
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return False
    try:
        header = jwt.get_unverified_header(token.strip())
        fitting = [key for key in issuer.keys if header.get("kid", key["kid"]) == key["kid"]]
        for key in fitting:
            try:
                claims = jwt.decode(
                    token.strip(),
                    jwt.PyJWK(key).key,
                    algorithms=ALGORITHMS,
                    audience=[RESOURCE, RESOURCE + "/"],
                    issuer=issuer.url,
                    leeway=30,
                    options={"require": ["exp", "aud", "iss"], "verify_sub": False, "verify_jti": False},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError, TypeError):  # of another kind of key, too
                continue
            return bool(claims.get("sub") or claims.get("client_id")) and "cnf" not in claims
    except (jwt.PyJWTError, TypeError, ValueError, RecursionError):
        pass
    return False


scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["RS256", "none", "HS256", "ES256", "at+jwt", "JWT", "rsa-1", "ec-1", RESOURCE, "ada"]),
)
values = st.recursive(scalars, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=5), some))

times = st.integers(-100, 100).map(lambda seconds: int(time.time()) + seconds)
claims_changed = st.dictionaries(
    st.sampled_from(["iss", "aud", "sub", "client_id", "iat", "nbf", "exp", "scope", "scp", "cnf", "jti", "typ"]),
    # PyJWT refuses null where we take it for absent.
    st.one_of(values, times, st.just(RESOURCE), st.just([RESOURCE]), st.just(...)).map(
        lambda value: ... if value is None else value
    ),
    max_size=3,
)
header_changed = st.dictionaries(
    st.sampled_from(["alg", "typ", "kid", "crit", "jku", "jwk", "x5c", "x5u", "b64", "zip", "cty", "nonce"]),
    values | st.just(...),
    max_size=2,
)


def changed(members: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**members, **changes}.items() if value is not ...}


@st.composite
def signed_tokens(draw: st.DrawFn) -> Any:
    """Tokens that are right but for a few members, so that some of them are good."""
    claims, header = draw(claims_changed), draw(header_changed)
    which = draw(st.sampled_from(["rsa", "ec", "ed", "stranger"]))

    def make(issuer: Issuer) -> str:
        signer = STRANGER if which == "stranger" else getattr(issuer, which)
        members = changed({"alg": signer.alg, "typ": "at+jwt", "kid": signer.kid}, header)
        return "Bearer " + str(signer.signed(members, changed(make_claims(issuer.url), claims)))

    return make


@st.composite
def bent_tokens(draw: st.DrawFn) -> Any:
    """A good token with characters changed, left out or added."""
    place, length = draw(st.floats(0, 1)), draw(st.integers(0, 3))
    inserted = draw(st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=3))

    def make(issuer: Issuer) -> str:
        value = "Bearer " + issuer.token()
        start = int(place * len(value))
        return value[:start] + inserted + value[start + length :]

    return make


@st.composite
def unlikely_tokens(draw: st.DrawFn) -> Any:
    """Headers that are no token, or hardly one."""
    parts = st.one_of(
        st.text(st.characters(max_codepoint=255, exclude_characters="\r\n")),
        values.map(lambda value: encoded(json.dumps(value).encode())),
    )
    value = " ".join([draw(st.sampled_from(["Bearer", "bearer", "DPoP", ""])), ".".join(draw(st.lists(parts)))])
    return lambda issuer: value


@settings(max_examples=300, deadline=None)
@given(make=signed_tokens() | bent_tokens() | unlikely_tokens(), face=st.sampled_from(FACES))
def test_a_generated_token_is_good_only_if_the_reference_says_so(
    site: Site, issuer: Issuer, make: Any, face: Face
) -> None:
    authorization = make(issuer)
    response = face("public", {}).send(site.client, {"Authorization": authorization})
    if not authorization.strip():
        assert response.status_code == 200  # of an anonymous caller
        return
    assert response.status_code in (200, 401)
    if response.status_code == 200:
        assert is_good(authorization, issuer)


def test_the_reference_knows_good_from_bad(site: Site, issuer: Issuer) -> None:
    """Else the test above would be content with anything."""
    good = [f"Bearer {signer.token(make_claims(issuer.url))}" for signer in (issuer.rsa, issuer.ec, issuer.ed)]
    bad = [
        good[0][:-4] + "AAAA",
        f"Bearer {issuer.token(aud='other')}",
        f"Bearer {STRANGER.token(make_claims(issuer.url))}",
    ]
    for authorization, expected in [*((each, True) for each in good), *((each, False) for each in bad)]:
        assert is_good(authorization, issuer) is expected
        status = site.invoke("public", {}, headers={"Authorization": authorization}).status_code
        assert status == (200 if expected else 401)
