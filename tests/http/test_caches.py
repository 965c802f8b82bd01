"""What caches may keep: every GET route, for every kind of caller, and nothing of what failed."""

from __future__ import annotations

import pytest
from flask_httpauth import MultiAuth
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from tests.conftest import Site, asking, basic, make_auth, make_token_auth
from tests.support.faces import by_query, jsonrpc_get, own_url_get
from tests.support.mcp_messages import ModernClient

READ = mcp_tool(annotations={"readOnlyHint": True})


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def site(ran: list[str]) -> Site:
    site = Site(McpBlueprint(auth=MultiAuth(make_auth(), make_token_auth())))
    site.rpc.add_method("kept", READ(lambda: ran.append("kept")), max_age=60)
    site.rpc.add_method("unsaid", READ(lambda: ran.append("unsaid")))
    site.rpc.add_method("write", mcp_tool(lambda: ran.append("write")), max_age=60)
    return site


ROUTES = [
    "/mcp/tools/list",
    "/mcp/tools/describe?name=kept",
    "/mcp/server-card",
    "/.well-known/mcp.json",
    *(face(name, {}).path for face in (jsonrpc_get, own_url_get) for name in ("kept", "unsaid")),
    by_query("/jsonrpc", asking("rpc.discover")),
]
SIGNED_IN = [basic("reader"), basic("admin"), {"Authorization": "Bearer writer-token"}]
BROKEN = [
    "/mcp/tools/list?cursor=x",
    "/mcp/tools/describe",
    "/mcp/tools/describe?name=absent",
    "/mcp/tools/invoke",
    "/mcp/nothing",
    "/mcp",
    "/jsonrpc",
    "/jsonrpc?query={",
    jsonrpc_get("absent", {}).path,
    jsonrpc_get("kept", {"unknown": 1}).path,
    own_url_get("absent", {}).path,
    own_url_get("write", {}).path,
]
# One is open to everyone, the others have no GET to be let in to.
ASKING_NOBODY = {"/.well-known/mcp.json", "/mcp/tools/invoke", "/mcp"}


def directives(response: TestResponse) -> set[str]:
    return set(response.headers["Cache-Control"].split(", "))


@pytest.mark.parametrize("path", ROUTES)
def test_what_a_caller_with_credentials_sees_is_theirs_alone(site: Site, path: str) -> None:
    for headers in SIGNED_IN:
        response = site.client.get(path, headers=headers)
        assert response.status_code == 200
        assert directives(response) & {"private", "no-store"}
        assert "public" not in directives(response)


@pytest.mark.parametrize("path", ROUTES)
def test_what_everyone_sees_depends_on_who_asks(site: Site, path: str) -> None:
    """A cache that keeps it must not show it to a caller with credentials, nor to a page of another site."""
    response = site.client.get(path)
    assert response.status_code == 200
    assert "no-store" in directives(response) or response.headers["Vary"] == "Authorization, Origin"


@pytest.mark.parametrize("headers", [{}, *SIGNED_IN, {"Origin": "https://evil.example"}], ids=str)
@pytest.mark.parametrize("path", BROKEN)
def test_nobody_keeps_what_failed(site: Site, path: str, headers: dict[str, str]) -> None:
    response = site.client.get(path, headers=headers)
    assert "error" in response.get_json()
    assert directives(response) == {"no-store"}


@pytest.mark.parametrize("path", [path for path in (*ROUTES, *BROKEN) if path not in ASKING_NOBODY])
def test_nobody_keeps_a_401(site: Site, path: str) -> None:
    response = site.client.get(path, headers=basic("admin", "wrong"))
    assert response.status_code == 401
    assert directives(response) == {"no-store"}


@pytest.mark.parametrize("path", [*ROUTES, *BROKEN])
def test_head_runs_what_get_runs_and_no_more(site: Site, ran: list[str], path: str) -> None:
    get = site.client.get(path)
    by_get = list(ran)
    ran.clear()
    head = site.client.head(path)
    assert (head.status, head.data, ran) == (get.status, b"", by_get)
    # The two requests may be answered in different seconds.
    del head.headers["Date"], get.headers["Date"]
    assert sorted(head.headers) == sorted(get.headers)
    assert "write" not in ran


def test_an_mcp_list_that_differs_between_callers_is_private(site: Site) -> None:
    for headers in ({}, *SIGNED_IN):
        result = ModernClient(site.client, headers).list().get_json()["result"]
        assert result["cacheScope"] == "private"
    assert ModernClient(Site(McpBlueprint()).client).list().get_json()["result"]["cacheScope"] == "public"


def test_a_page_that_has_not_changed_is_still_private(site: Site) -> None:
    for headers in SIGNED_IN:
        etag = site.list_tools(headers=headers).headers["ETag"]
        again = site.list_tools(headers={**headers, "If-None-Match": etag})
        assert again.status_code == 304
        assert "private" in directives(again)
        assert again.headers["Vary"] == "Authorization, Origin"
