"""The explorer as it is served: one page under a strict policy, open to everyone. What it does: test_explorer_page."""

from __future__ import annotations

import html
import json
import re
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from flask_httpauth import HTTPDigestAuth, HTTPTokenAuth, MultiAuth
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.clients import CLIENTS
from tests.conftest import Site, basic, make_app, make_auth, make_token_auth

PATH = "/mcp/explorer"


@pytest.fixture
def page(site: Site) -> TestResponse:
    return site.client.get(PATH)


def facts(page: TestResponse) -> Any:
    """What the page knows of the app."""
    [found] = re.findall(r'data-site="([^"]*)"', page.text)
    return json.loads(html.unescape(found))


def policy(page: TestResponse) -> dict[str, str]:
    directives = page.headers["Content-Security-Policy"].split("; ")
    return {name: rest for name, _, rest in (directive.partition(" ") for directive in directives)}


def test_it_is_one_page_of_less_than_128_kilobytes(page: TestResponse) -> None:
    assert (page.status_code, page.content_type) == (200, "text/html; charset=utf-8")
    assert len(page.data) < 128_000


def test_it_loads_nothing(page: TestResponse) -> None:
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?https?:""", page.text) == []
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=(?!\"data:)", page.text) == []


def test_nothing_runs_in_it_but_its_own_script(page: TestResponse) -> None:
    [style] = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)

    def allowed(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    assert policy(page) == {
        "default-src": "'none'",
        "script-src": " ".join(map(allowed, scripts)),
        "style-src": allowed(style),
        "connect-src": "'self'",
        "img-src": "data:",
        "media-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_it_has_the_headers_of_our_routes(page: TestResponse) -> None:
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert page.headers["Cache-Control"] == "public, no-cache"


def test_a_browser_that_has_it_need_not_load_it_again(site: Site, page: TestResponse) -> None:
    again = site.client.get(PATH, headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_it_knows_where_everything_is(page: TestResponse) -> None:
    known = facts(page)
    assert known == {
        "urls": {
            "mcp": "/mcp",
            "jsonrpc": "/jsonrpc",
            "list": "/mcp/tools/list",
            "describe": "/mcp/tools/describe",
            "invoke": "/mcp/tools/invoke",
            "tasks": "/mcp/tasks",
            "caller": "/mcp/explorer/caller",
            "openapi": "/mcp/openapi.json",
        },
        "signIn": [],
        "cookies": False,
        "connect": known["connect"],
    }


def test_it_knows_where_a_prefix_with_variables_has_put_everything() -> None:
    app = make_app(McpBlueprint(url_prefix="/<team>"))
    page = app.test_client().get("/red/mcp/explorer", base_url="http://localhost/under")
    assert facts(page)["urls"]["invoke"] == "/under/red/mcp/tools/invoke"


def test_a_prefix_cannot_break_out_of_the_page() -> None:
    app = make_app(McpBlueprint(url_prefix="/<team>"))
    page = app.test_client().get('/"><script>alert(1)<!--/mcp/explorer')
    assert "<script>alert" not in page.text
    assert facts(page)["urls"]["mcp"].endswith("/mcp")


def test_it_knows_how_to_sign_in() -> None:
    auth = MultiAuth(make_auth(), make_token_auth(), HTTPTokenAuth(header="X-Key"), HTTPDigestAuth())
    page = Site(McpBlueprint(auth=auth)).client.get(PATH)
    assert facts(page)["signIn"] == [
        {"kind": "password", "scheme": "Basic", "header": "Authorization"},
        {"kind": "token", "scheme": "Bearer", "header": "Authorization"},
        {"kind": "token", "scheme": "Bearer", "header": "X-Key"},
        {"kind": "other", "scheme": "Digest", "header": "Authorization"},
    ]


def connections(page: TestResponse) -> dict[str, str]:
    """What is to be pasted into each AI client."""
    return {client["title"]: client["text"] for client in facts(page)["connect"]["clients"]}


def test_it_tells_ai_clients_what_the_command_line_does() -> None:
    app = make_app(McpBlueprint(auth=make_token_auth()), JSONRPC_MCP_SERVER_NAME="garden")
    shown = connections(app.test_client().get(PATH, base_url="http://localhost:8000"))
    assert list(shown) == [
        *("Claude Code", "Claude Desktop", "VS Code", "Cursor", "Codex"),
        *("Gemini CLI", "Goose", "Windsurf", "MCP Inspector"),
    ]
    printed = {}
    for name, (title, _) in CLIENTS.items():
        options = ["--url", "http://localhost:8000", "--token-env", "MCP_GARDEN_TOKEN"]
        printed[title] = app.test_cli_runner().invoke(mcp, ["config", name, *options]).stdout.rstrip("\n")
    bridge = json.loads(printed["Claude Desktop"])["mcpServers"]["garden"]["command"]
    printed["Claude Desktop"] = printed["Claude Desktop"].replace(bridge, "flask-jsonrpc-mcp")
    assert shown == printed


def test_it_tells_nothing_of_the_machine_it_runs_on(page: TestResponse) -> None:
    assert str(Path(sys.executable).parent) not in page.text


@pytest.mark.parametrize(
    ("auth", "header", "meaning"),
    [
        (make_token_auth(), "Bearer ${MCP_GARDEN_TOKEN}", "your token"),
        (MultiAuth(make_auth(), make_token_auth()), "Bearer ${MCP_GARDEN_TOKEN}", "your token"),
        (make_auth(), "${MCP_GARDEN_AUTHORIZATION}", "“Basic”, a space and user:password in base64"),
        (HTTPTokenAuth("ApiKey"), "${MCP_GARDEN_AUTHORIZATION}", "“ApiKey”, a space and your token"),
    ],
)
def test_ai_clients_sign_in_with_a_variable(auth: Any, header: str, meaning: str) -> None:
    app = make_app(McpBlueprint(auth=auth, require_auth=True), JSONRPC_MCP_SERVER_NAME="garden")
    page = app.test_client().get(PATH)
    entry = json.loads(connections(page)["Claude Code"])["mcpServers"]["garden"]
    assert entry["headers"] == {"Authorization": header}
    [variable] = re.findall(r"\w+", header)[-1:]
    assert facts(page)["connect"]["notes"] == [f"`{variable}` stands for {meaning}."]


def test_ai_clients_send_a_key_in_a_header_of_its_own() -> None:
    app = make_app(McpBlueprint(auth=HTTPTokenAuth(header="X-Key")), JSONRPC_MCP_SERVER_NAME="Gärten & Co")
    page = app.test_client().get(PATH)
    assert json.loads(connections(page)["Cursor"])["mcpServers"]["Gärten & Co"]["headers"] == {
        "X-Key": "${env:MCP_G_RTEN_CO_KEY}"
    }
    assert facts(page)["connect"]["notes"] == [
        "`MCP_G_RTEN_CO_KEY` stands for your key.",
        "Leave it out, with its header, to use what is open to everyone.",
    ]


def test_a_sign_in_that_no_ai_client_knows_is_told() -> None:
    page = Site(McpBlueprint(auth=HTTPDigestAuth())).client.get(PATH)
    assert facts(page)["connect"]["notes"] == ["AI clients cannot sign in by Digest."]
    assert "headers" not in connections(page)["Claude Code"]


def test_it_is_open_where_everything_else_is_closed() -> None:
    """It is where people sign in, and it is the same for everyone."""
    site = Site(McpBlueprint(auth=make_auth(), require_auth=True))
    anonymous = site.client.get(PATH)
    assert anonymous.status_code == 200
    assert site.client.get(PATH, headers=basic("reader", "wrong")).data == anonymous.data


def test_it_is_not_for_a_host_that_is_not_ours(site: Site) -> None:
    response = site.client.get(PATH, base_url="http://rebound.example")
    assert (response.status_code, response.get_json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("options", [{}, {"auth": make_auth(), "require_auth": True}], ids=["open", "closed"])
def test_it_can_be_turned_off(options: dict[str, Any]) -> None:
    """The path is then as unknown as any other."""
    site = Site(McpBlueprint(explorer=False, **options))
    off, unknown = site.client.get(PATH), site.client.get("/mcp/unknown")
    assert (off.status_code, off.data) == (unknown.status_code, unknown.data)
    [server] = site.client.get("/.well-known/mcp.json").get_json()["servers"]
    assert "explorer" not in server["endpoints"]


def test_other_verbs_are_405(site: Site) -> None:
    response = site.client.post(PATH)
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("options", [{}, {"auth": make_auth(), "require_auth": True}], ids=["open", "closed"])
def test_a_browser_that_opens_the_url_for_ai_clients_is_sent_to_it(path: str, options: dict[str, Any]) -> None:
    app = make_app(McpBlueprint(url_prefix="/<team>", **options))
    response = app.test_client().get(f"/red{path}", base_url="http://localhost/under", headers=BROWSER)
    assert (response.status_code, response.data) == (303, b"")
    assert response.headers["Cache-Control"] == "no-store"
    target = urljoin(f"http://localhost/under/red{path}", response.headers["Location"])
    assert target == "http://localhost/under/red/mcp/explorer"


@pytest.mark.parametrize("accept", [None, "*/*", "text/event-stream", "application/json, text/event-stream"])
def test_every_other_client_that_opens_it_is_told_that_only_post_is_served(site: Site, accept: str | None) -> None:
    """As MCP says. Clients of older versions try to open an event stream by GET, and go on without it."""
    response = site.client.get("/mcp", headers={} if accept is None else {"Accept": accept})
    assert (response.status_code, response.headers["Allow"]) == (405, "OPTIONS, POST")


def test_without_the_explorer_a_browser_is_told_so_too() -> None:
    response = Site(McpBlueprint(explorer=False)).client.get("/mcp", headers=BROWSER)
    assert (response.status_code, response.headers["Allow"]) == (405, "OPTIONS, POST")


def test_a_browser_is_sent_from_no_other_path(site: Site) -> None:
    for path in ("/jsonrpc", "/mcp/tools/invoke"):
        assert site.client.get(path, headers=BROWSER).status_code in (400, 405)
    assert site.client.put("/mcp", headers=BROWSER).status_code == 405


def test_describe_tells_the_permissions_of_a_tool(guarded_site: Site) -> None:
    described = guarded_site.describe("administer", headers=basic("admin")).get_json()
    assert described["access"] == ["administer", "write"]
    assert "access" not in guarded_site.describe("public").get_json()
