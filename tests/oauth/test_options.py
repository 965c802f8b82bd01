"""The options of an OAuthResource: mistakes that stop the start, and what it costs those who do not use it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from flask import Flask

import flask_jsonrpc_mcp.oauth
from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import OAuthResource
from tests.oauth.conftest import assert_refused, assert_runs, make_oauth, make_site
from tests.support.issuer import Issuer
from tests.support.tokens import Signer, bearer, make_claims

ISSUER = "https://login.example.com"
KEYS = {"keys": [Signer("rsa-1").jwk()]}


def test_the_public_names() -> None:
    server = {"FileGrants", "Grant", "OAuthServer", "SqlGrants"}
    assert set(flask_jsonrpc_mcp.oauth.__all__) == {"AccessToken", "OAuthResource"} | server


@pytest.mark.parametrize(
    ("issuer", "options", "named"),
    [
        ("http://login.example.com", {}, "issuer"),
        ("login.example.com", {}, "issuer"),
        ("https://login.example.com?x=1", {}, "issuer"),
        ("https://login.example.com#x", {}, "issuer"),
        ([], {}, "issuer"),
        ([ISSUER, 7], {}, "issuer"),
        (ISSUER, {"algorithms": ["HS256"]}, "HS256"),
        (ISSUER, {"algorithms": ["RS256", "none"]}, "none"),
        (ISSUER, {"algorithms": []}, "algorithms"),
        (ISSUER, {"jwks_uri": "http://keys.example/jwks"}, "jwks_uri"),
        (ISSUER, {"jwks_uri": "file:///etc/keys.json"}, "jwks_uri"),
        (ISSUER, {"keys": {"keys": []}}, "keys"),
        (ISSUER, {"keys": {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}}, "keys"),
        (ISSUER, {"keys": [Signer("rsa-1").jwk()]}, "keys"),
        (ISSUER, {"keys": KEYS, "jwks_uri": f"{ISSUER}/jwks"}, "keys"),
        (ISSUER, {"keys": KEYS, "introspection": ("id", "secret")}, "introspection"),
        (ISSUER, {"introspection": "id:secret"}, "introspection"),
        (ISSUER, {"introspection_endpoint": f"{ISSUER}/introspect"}, "introspection"),
        (ISSUER, {"introspection": ("a", "b"), "introspection_endpoint": "http://a.example"}, "introspection_endpoint"),
        (ISSUER, {"implies": {"a b": ["c"]}}, "implies"),
        (ISSUER, {"implies": {"a": ["b c"]}}, "implies"),
        (f"{ISSUER}/.well-known/openid-configuration", {}, "issuer"),
        (ISSUER, {"audience": []}, "audience"),
        (ISSUER, {"audience": ["a", 7]}, "audience"),
        (ISSUER, {"scopes": "articles:read"}, "a list of scopes"),
        (ISSUER, {"scope_prefix": "api: "}, "scope_prefix"),
    ],
)
def test_a_mistake_is_named(issuer: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        OAuthResource(issuer, **options)


@pytest.mark.parametrize("options", [{"keys": KEYS}, {"jwks_uri": f"{ISSUER}/jwks"}, {"introspection": ("a", "b")}])
def test_what_is_of_one_issuer_needs_a_single_one(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="single"):
        make_site(make_oauth([ISSUER, "https://other.example"], **options))


def test_a_class_is_not_an_object() -> None:
    with pytest.raises(TypeError, match=r"OAuthResource\(\)"):
        McpBlueprint(auth=OAuthResource)


def test_algorithms_can_be_narrowed(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url, algorithms=["ES256"]))
    assert_runs(site.invoke("public", {}, headers=bearer(issuer.ec.token(make_claims(issuer.url)))))
    assert_refused(site.invoke("public", {}, headers=bearer(issuer.token())))


def test_the_leeway_can_be_less(issuer: Issuer) -> None:
    site = make_site(make_oauth(issuer.url, leeway=0))
    late = issuer.token(exp=make_claims("")["iat"] - 5)
    assert site.invoke("public", {}, headers=bearer(late)).status_code == 401


@pytest.mark.parametrize("leeway", [30, 0.5])
def test_a_token_may_expire_later_than_any_clock_can_show(issuer: Issuer, leeway: float) -> None:
    site = make_site(make_oauth(issuer.url, leeway=leeway))
    for _ in range(2):
        assert site.invoke("public", {}, headers=bearer(issuer.token(exp=10**400, jti="same"))).status_code == 200


def test_the_length_of_a_token_can_be_limited(issuer: Issuer) -> None:
    token = issuer.token()
    for limit, status in ((len(token), 200), (len(token) - 1, 401)):
        site = make_site(make_oauth(issuer.url, max_token=limit))
        assert site.invoke("public", {}, headers=bearer(token)).status_code == status


def test_other_views_cannot_use_it(issuer: Issuer) -> None:
    """A token is for the MCP endpoint; were it taken at a view, the audience would not be checked."""
    oauth, app = make_oauth(issuer.url), Flask("site")
    app.testing = True
    app.add_url_rule("/page", "page", oauth.login_required(lambda: "page"))
    app.register_blueprint(McpBlueprint(auth=oauth))
    with pytest.raises(RuntimeError, match="login_required"):
        app.test_client().get("/page", headers=bearer(issuer.token()))


def test_the_package_can_be_used_without_the_extra() -> None:
    """Neither is imported, and who needs them is told what to install."""
    script = """
import sys
import flask_jsonrpc_mcp
assert not {"joserfc", "httpx", "cryptography"} & set(sys.modules)
sys.modules["joserfc"] = None
try:
    import flask_jsonrpc_mcp.oauth
except ImportError as error:
    extras = "flask-jsonrpc-mcp[oauth], or flask-jsonrpc-mcp[oauth-server] for an OAuthServer"
    assert str(error).endswith(f"; install {extras}"), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
