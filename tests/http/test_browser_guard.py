"""Pages of other sites stay outside: the Host and Origin headers."""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Site

PATHS = ["/mcp/tools/list", "/mcp/server-card", "/.well-known/mcp.json", "/mcp/nothing"]


def status(site: Site, headers: dict[str, str], path: str = "/mcp/tools/list", **kwargs: Any) -> int:
    return site.client.get(path, headers=headers, **kwargs).status_code


@pytest.mark.parametrize("path", PATHS)
def test_another_origin_is_403_on_every_route(site: Site, path: str) -> None:
    response = site.client.get(path, headers={"Origin": "https://evil.example"})
    assert response.status_code == 403
    error = response.get_json()["error"]
    assert error["code"] == "forbidden"
    assert "JSONRPC_MCP_ALLOWED_ORIGINS" in error["message"]


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://localhost.evil.example",
        "http://127.0.0.1@evil.example",
        "http://evil.example#localhost",
        "http://localhost:81",
        "https://localhost",
        "http://localhost/path",
        "http://localhost:port",
        "localhost",
        "file://",
    ],
)
def test_strangers(site: Site, origin: str) -> None:
    assert status(site, {"Origin": origin}) == 403


@pytest.mark.parametrize("origin", ["http://localhost", "http://localhost:80", "HTTP://LOCALHOST"])
def test_our_own_pages_are_let_in(site: Site, origin: str) -> None:
    assert status(site, {"Origin": origin}) == 200


def test_an_origin_can_be_allowed() -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_ALLOWED_ORIGINS=["https://app.example"])
    assert status(site, {"Origin": "https://app.example"}) == 200
    assert status(site, {"Origin": "https://app.example:443"}) == 200
    assert status(site, {"Origin": "http://app.example"}) == 403


def test_a_stranger_runs_nothing(site: Site) -> None:
    ran: list[int] = []
    site.tool(lambda: ran.append(1), name="f")
    assert site.invoke("f", {}, headers={"Origin": "https://evil.example"}).status_code == 403
    assert ran == []


@pytest.mark.parametrize("path", PATHS)
def test_a_page_rebound_to_this_machine_is_refused(site: Site, path: str) -> None:
    """Its requests are same-origin for the browser and carry no Origin, only the name that was rebound."""
    response = site.client.get(path, headers={"Host": "evil.example"})
    assert response.status_code == 403
    assert "JSONRPC_MCP_ALLOWED_HOSTS" in response.get_json()["error"]["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1", "127.0.0.1:8000", "[::1]:8000", "app.localhost"]
)
def test_the_names_of_this_machine(site: Site, host: str) -> None:
    assert status(site, {"Host": host}) == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "10.0.0.1",
        "evil.example,a.localhost",
        "evil.example/.localhost",
        "user@a.localhost",
        "127.0.0.1,evil.example",
    ],
)
def test_names_that_only_look_like_it(site: Site, host: str) -> None:
    assert status(site, {"Host": host}) == 403


def test_this_machine_on_a_socket_for_both_kinds_of_addresses(site: Site) -> None:
    peer = {"REMOTE_ADDR": "::ffff:127.0.0.1"}
    assert status(site, {"Host": "evil.example"}, environ_overrides=peer) == 403
    assert status(site, {"Host": "localhost"}, environ_overrides=peer) == 200


def test_a_host_that_is_none_has_no_pages_of_its_own(site: Site) -> None:
    peer = {"REMOTE_ADDR": "192.0.2.7"}
    assert status(site, {"Host": "x:99999", "Origin": "null"}, environ_overrides=peer) == 403


def test_callers_from_elsewhere_may_use_any_name(site: Site) -> None:
    assert status(site, {"Host": "site.example"}, environ_overrides={"REMOTE_ADDR": "192.0.2.7"}) == 200


def test_behind_a_proxy_that_the_app_knows_of_any_name_goes(site: Site) -> None:
    site.app.wsgi_app = ProxyFix(site.app.wsgi_app, x_for=1, x_host=1)  # type: ignore[method-assign]
    assert status(site, {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "site.example"}) == 200


@pytest.mark.parametrize("setting", ["JSONRPC_MCP_ALLOWED_HOSTS", "TRUSTED_HOSTS"])
def test_hosts_can_be_named(setting: str) -> None:
    config: dict[str, Any] = {setting: ["site.example", ".sub.example"]}
    site = Site(McpBlueprint(), **config)
    assert status(site, {"Host": "site.example"}) == 200
    assert status(site, {"Host": "a.sub.example:8443"}) == 200
    assert 400 <= status(site, {"Host": "localhost"}) < 500


def test_no_answer_allows_other_origins(site: Site) -> None:
    response = site.client.get("/mcp/tools/list", headers={"Origin": "http://localhost"})
    assert not [name for name, _ in response.headers if name.startswith("Access-Control")]
