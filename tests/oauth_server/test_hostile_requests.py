"""Generated requests: whatever is sent, the answer is an error of OAuth or a page, and never a failure of the app."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oauth_server.conftest import CALLBACK, CHALLENGE, PUBLIC_URL, VERIFIER, Site

FORM = "application/x-www-form-urlencoded"
NAMES = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "grant_type",
    "code",
    "code_verifier",
    "refresh_token",
    "token",
    "token_type_hint",
    "proof",
    "decision",
]
VALUES = ["code", "authorization_code", "refresh_token", "articles:read", "S256", "allow", "https://client.example/"]
VALUES += [CALLBACK, CHALLENGE, VERIFIER, f"{PUBLIC_URL}/mcp"]

text = st.text(st.characters(codec="utf-8"), max_size=30)
parameters = st.lists(st.tuples(st.sampled_from(NAMES) | text, st.sampled_from(VALUES) | text), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | text | st.just(CALLBACK),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
metadata = values | st.dictionaries(st.sampled_from(["redirect_uris", "client_name", "grant_types"]), values)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@settings(max_examples=100, deadline=None)
@given(query=parameters, form=parameters, is_near=st.booleans(), user=st.sampled_from([None, "ada"]))
def test_the_pages_answer_everything(site: Site, query: Any, form: Any, is_near: bool, user: str | None) -> None:
    site.log_in(user)
    near = [("response_type", "code"), ("redirect_uri", CALLBACK), ("client_id", site.client_id())]
    asked = urlencode([*near, *query] if is_near else query)
    for path in ("/oauth/authorize", "/oauth/apps"):
        for response in (
            site.browser.get(path, query_string=asked),
            site.browser.post(path, query_string=asked, data=urlencode(form), content_type=FORM),
        ):
            assert response.status_code in (200, 302, 400)
            location = response.headers.get("Location", "/login?")
            assert location.startswith(("/login?next=", f"{CALLBACK}?error=")) or response.status_code != 302


@settings(max_examples=100, deadline=None)
@given(form=parameters, grant_type=st.sampled_from(["authorization_code", "refresh_token", "x"]))
def test_the_endpoints_answer_everything(site: Site, form: Any, grant_type: str) -> None:
    sent = urlencode([*form, ("client_id", site.client_id()), ("grant_type", grant_type)])
    for path in ("/oauth/token", "/oauth/revoke"):
        response = site.http.post(path, data=sent, content_type=FORM)
        assert response.status_code in (200, 400, 401)
        assert (response.get_json() == {}) if response.status_code == 200 else response.get_json()["error"]


@settings(max_examples=100, deadline=None)
@given(metadata=metadata)
def test_registration_answers_everything(site: Site, metadata: Any) -> None:
    response = site.http.post("/oauth/register", data=json.dumps(metadata), content_type="application/json")
    assert response.status_code in (201, 400)
    assert ("client_id" in response.get_json()) == (response.status_code == 201)
