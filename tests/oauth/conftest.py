"""A site that takes access tokens, and what its refusals have in common."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from flask_httpauth import MultiAuth
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import OAuthResource
from tests.conftest import Site, asking, make_auth
from tests.support.faces import Asked, Face, jsonrpc, mcp_legacy, mcp_modern, own_url, rest
from tests.support.issuer import Issuer, issuing
from tests.support.mcp_messages import modern_headers, modern_meta

FACES: list[Face] = [rest, jsonrpc, own_url, mcp_modern, mcp_legacy]

PUBLIC_URL = "https://site.example"
METADATA_URL = f"{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"

PERMISSIONS = {"ada": ["write"], "root": ["write", "administer"]}
"""By the subjects of tokens. The users of Basic have theirs from tests/conftest.py."""


def make_oauth(issuer: Any = None, **options: Any) -> OAuthResource:
    oauth = OAuthResource(issuer, **{"scopes": ["articles:read"], **options})

    @oauth.get_user_roles
    def permissions(user: Any) -> list[str]:
        return PERMISSIONS.get(user.subject, [])

    return oauth


def declare(rpc: McpBlueprint) -> None:
    """A tool for each column of the table "who sees what"; each returns its name."""
    declared: dict[str, dict[str, Any]] = {
        "public": {},
        "scoped": {"scopes": ["articles:write"]},
        "guarded": {"access": ["write"], "scopes": ["articles:write"]},
        "hidden": {"access": ["administer"], "scopes": ["articles:write"]},
    }
    for name, options in declared.items():
        rpc.tool(name, annotations={"readOnlyHint": True}, **options)(lambda name=name: f"ran {name}")


def make_site(oauth: OAuthResource, *others: Any, config: Any = None, **options: Any) -> Site:
    """A site with Basic and OAuth, or with these others before OAuth."""
    rpc = McpBlueprint(auth=MultiAuth(*(others or (make_auth(),)), oauth), **options)
    declare(rpc)
    return Site(rpc, **{"JSONRPC_MCP_PUBLIC_URL": PUBLIC_URL, **(config or {})})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture
def site(issuer: Issuer) -> Site:
    return make_site(make_oauth(issuer.url))


def modern(method: str, params: Any = None) -> Asked:
    sent = params or {}
    return Asked("/mcp", asking(method, {**sent, "_meta": modern_meta()}), modern_headers(method, sent))


def legacy(method: str, params: Any = None) -> Asked:
    return Asked("/mcp", asking(method, params or {}), {"MCP-Protocol-Version": "2025-11-25"})


def challenges(response: TestResponse) -> list[tuple[str, dict[str, str]]]:
    """The challenges of a response in their order, one for each header line, no parameter twice."""
    found = []
    for line in response.headers.getlist("WWW-Authenticate"):
        scheme, _, rest = line.partition(" ")
        pairs = re.findall(r'(\w+)="([^"]*)"', rest)
        assert len(dict(pairs)) == len(pairs), line
        assert scheme != "Bearer" or ", ".join(f'{name}="{value}"' for name, value in pairs) == rest, line
        found.append((scheme, dict(pairs)))
    return found


def assert_runs(response: TestResponse, name: str = "public") -> None:
    assert (response.status_code, f"ran {name}" in response.text) == (200, True), (response.status, response.text)


NOT_VALID = "The access token is not valid"
EXPIRED = "The access token has expired"
NOT_YET = "The access token is not valid yet"
OTHER_AUDIENCE = "The access token is for another audience"
UNKNOWN_USER = "The user of the access token is not known here"
OTHER_ISSUER = "The access token comes from another issuer"


def assert_refused(response: TestResponse, description: str = NOT_VALID) -> None:
    """A 401 for a token that is not good, with the OAuth challenge first."""
    scheme, parameters = challenges(response)[0]
    assert (response.status_code, scheme) == (401, "Bearer"), response.text
    assert parameters == {
        "resource_metadata": METADATA_URL,
        "scope": "articles:read",
        "error": "invalid_token",
        "error_description": description,
    }
    assert response.headers["Cache-Control"] == "no-store"


def assert_unavailable(response: TestResponse) -> None:
    """A 503, which keeps a client's tokens: there is no challenge."""
    assert (response.status_code, response.headers.get("Retry-After")) == (503, "5"), response.text
    assert challenges(response) == []
    assert response.headers["Cache-Control"] == "no-store"


def assert_not_shown(token: str, *places: str) -> None:
    """No part of a token may be seen; a part that is as short as a word may be there for another reason."""
    parts = [part for part in re.split(r"[.,\s]+", token) if len(part) > 12]
    assert not [part[:40] for part in parts for place in places if part in place or part[:40] in place]


@dataclass
class Clock:
    """The two clocks of Python's ``time``, ahead of the real ones by so many seconds."""

    wall: float = 0
    monotonic: float = 0

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let time pass without waiting."""
    clock, wall, monotonic = Clock(), time.time, time.monotonic
    monkeypatch.setattr(time, "time", lambda: wall() + clock.wall)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + clock.monotonic)
    return clock
