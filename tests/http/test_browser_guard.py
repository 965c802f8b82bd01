"""Pages of other sites stay outside: the Host and Origin headers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Site
from tests.support.servers import ROOT

PATHS = [
    "/mcp/tools/list",
    "/mcp/tools/describe",
    "/mcp/tools/invoke",
    "/mcp/tools/f",
    "/mcp",
    "/jsonrpc",
    "/mcp/explorer",
    "/mcp/server-card",
    "/.well-known/mcp.json",
    "/mcp/nothing",
]


def status(site: Site, headers: dict[str, str], path: str = "/mcp/tools/list", **kwargs: Any) -> int:
    return site.client.get(path, headers=headers, **kwargs).status_code


@pytest.mark.parametrize("path", PATHS)
def test_another_origin_is_403_on_every_route(site: Site, path: str) -> None:
    response = site.client.get(path, headers={"Origin": "https://evil.example"})
    assert response.status_code == 403
    assert "JSONRPC_MCP_ALLOWED_ORIGINS" in response.get_json()["error"]["message"]


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
@pytest.mark.parametrize("peer", ["127.0.0.1", "192.168.1.9"])
def test_a_page_rebound_to_this_machine_is_refused(site: Site, peer: str, path: str) -> None:
    """Its requests are same-origin for the browser and carry no Origin, only the name that was rebound."""
    response = site.client.get(path, headers={"Host": "evil.example"}, environ_overrides={"REMOTE_ADDR": peer})
    assert response.status_code == 403
    assert "JSONRPC_MCP_ALLOWED_HOSTS" in response.get_json()["error"]["message"]


LOOPBACK = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1")
PRIVATE = ("192.168.1.9", "10.2.3.4", "172.17.0.1", "169.254.7.7", "100.64.0.7", "fe80::1%eth0", "fd00::7")
PUBLIC = ("93.184.216.34", "2606:2800:220::1")
LOCAL_SOCKET = ("", "<local>")


def status_from(site: Site, peer: str, host: str) -> int:
    return status(site, {"Host": host}, environ_overrides={"REMOTE_ADDR": peer})


@pytest.mark.parametrize("peer", [*LOOPBACK, *PRIVATE, *PUBLIC, *LOCAL_SOCKET])
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LOCALHOST",
        "app.localhost",
        "127.0.0.1",
        "127.0.0.1:8000",
        "[::1]:8000",
        "192.168.1.5:8000",
        "[fd00::5]",
        "93.184.216.34",
    ],
)
def test_localhost_and_addresses_cannot_be_rebound(site: Site, peer: str, host: str) -> None:
    """Such as a container on a published port, or a server on 0.0.0.0 that another machine reaches by its address."""
    assert status_from(site, peer, host) == 200


@pytest.mark.parametrize("peer", [*LOOPBACK, *PRIVATE])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "devbox",
        "devbox.local",
        "api:8000",
        "localhost.",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.1",
        "evil.example,a.localhost",
        "evil.example/.localhost",
        "user@a.localhost",
        "127.0.0.1,evil.example",
        "evil.example,127.0.0.1",
    ],
)
def test_from_this_machine_or_a_private_network_no_other_name_is_accepted(site: Site, peer: str, host: str) -> None:
    """The page of a name that was rebound to an address of this machine is open in a browser there."""
    assert status_from(site, peer, host) == 403


@pytest.mark.parametrize("peer", [*PUBLIC, *LOCAL_SOCKET])
def test_from_public_addresses_any_name_is_accepted(site: Site, peer: str) -> None:
    """Who can reach us from there needs no rebinding; and a browser reaches no local socket."""
    assert status_from(site, peer, "site.example") == 200


ON_A_PUBLIC_ADDRESS = """
import sys, threading
from http.client import HTTPConnection
from werkzeug.serving import make_server
from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import make_app

address = sys.argv[1]
server = make_server("::", 0, make_app(McpBlueprint()))
threading.Thread(target=server.serve_forever, daemon=True).start()
for host in ("evil.example", f"[{address}]"):
    connection = HTTPConnection(address, server.port)
    connection.request("GET", "/mcp/tools/list", headers={"Host": host})
    print(connection.getresponse().status)
"""


def test_a_public_address_of_this_machine_is_no_other_machine() -> None:
    """IPv6 gives one to most, which a page sees and can be rebound to, behind a firewall that keeps its author out."""
    address = "2606:2800:220::9"
    network = f'ip link set lo up && ip address add {address}/128 dev lo nodad && exec "$@"'
    alone = ["unshare", "--map-root-user", "--net", "sh", "-c", network, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        assert "CI" not in os.environ, "no network of its own"
        pytest.skip("needs a network of its own")
    command = [*alone, sys.executable, "-c", ON_A_PUBLIC_ADDRESS, address]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["403", "200"], ran.stderr


@pytest.mark.parametrize("peer", [*LOOPBACK, *PRIVATE])
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("site.example", 200),
        ("Site.Example:8443", 200),
        ("api.site.example", 200),
        ("localhost:8000", 200),
        ("192.168.1.5", 200),
        ("evil.example", 403),
        ("evil-site.example", 403),
        ("site.example.evil.example", 403),
    ],
)
def test_the_server_name_is_a_name_of_this_server(peer: str, host: str, expected: int) -> None:
    site = Site(McpBlueprint(), SERVER_NAME="site.example:8000")
    assert status_from(site, peer, host) == expected


@pytest.mark.parametrize("peer", [*LOOPBACK, *PRIVATE])
@pytest.mark.parametrize("public", ["https://Site.Example", "https://site.example:8443/app"])
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("site.example", 200),
        ("SITE.example:8000", 200),
        ("localhost:8000", 200),
        ("api.site.example", 403),
        ("evil.example", 403),
        ("evil-site.example", 403),
        ("site.example.evil.example", 403),
        ("site.example:8443.evil.example", 403),
        ("site.example@evil.example", 403),
    ],
)
def test_the_host_of_the_public_url_is_a_name_of_this_server(peer: str, public: str, host: str, expected: int) -> None:
    """Whatever the port: a proxy in front of the app may have another one. A page cannot be rebound to this name."""
    site = Site(McpBlueprint(), JSONRPC_MCP_PUBLIC_URL=public)
    assert status_from(site, peer, host) == expected


def test_the_allowed_hosts_count_and_not_the_public_url() -> None:
    site = Site(
        McpBlueprint(), JSONRPC_MCP_PUBLIC_URL="https://site.example", JSONRPC_MCP_ALLOWED_HOSTS=["other.example"]
    )
    assert status_from(site, LOOPBACK[0], "other.example") == 200
    assert status_from(site, LOOPBACK[0], "site.example") == 403


def test_a_host_that_is_none_has_no_pages_of_its_own(site: Site) -> None:
    peer = {"REMOTE_ADDR": PUBLIC[0]}
    assert status(site, {"Host": "x:99999", "Origin": "null"}, environ_overrides=peer) == 403


def test_behind_a_proxy_that_the_app_knows_of_any_name_goes(site: Site) -> None:
    site.app.wsgi_app = ProxyFix(site.app.wsgi_app, x_for=1, x_host=1)  # type: ignore[method-assign]
    for peer in ("127.0.0.1", "192.168.1.9", PUBLIC[0]):
        assert status(site, {"X-Forwarded-For": peer, "X-Forwarded-Host": "site.example"}) == 200


@pytest.mark.parametrize("setting", ["JSONRPC_MCP_ALLOWED_HOSTS", "TRUSTED_HOSTS"])
def test_hosts_can_be_named(setting: str) -> None:
    config: dict[str, Any] = {setting: ["site.example", ".sub.example"]}
    site = Site(McpBlueprint(), **config)
    for peer in (*LOOPBACK, *PRIVATE, *PUBLIC, *LOCAL_SOCKET):
        assert status_from(site, peer, "site.example") == 200
        assert status_from(site, peer, "a.sub.example:8443") == 200
        assert 400 <= status_from(site, peer, "localhost") < 500
        assert 400 <= status_from(site, peer, "evil.example") < 500


@pytest.mark.parametrize(("named", "sent"), [("Site.Example", "site.example"), ("site.example", "SITE.example:8000")])
def test_names_of_hosts_have_no_case(named: str, sent: str) -> None:
    assert status(Site(McpBlueprint(), JSONRPC_MCP_ALLOWED_HOSTS=[named]), {"Host": sent}) == 200
    assert status(Site(McpBlueprint(), SERVER_NAME=named), {"Host": sent}) == 200


def test_no_answer_allows_other_origins(site: Site) -> None:
    response = site.client.get("/mcp/tools/list", headers={"Origin": "http://localhost"})
    assert not [name for name, _ in response.headers if name.startswith("Access-Control")]
