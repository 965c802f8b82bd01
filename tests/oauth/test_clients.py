"""Real MCP clients, at home in tests/clients, sign in at a real authorization server and call a site of three workers.

A client is given a URL and nothing else: it finds the authorization server by our challenge and metadata, registers
itself, and sends the person to the pages there. Each prints one JSON document about what it saw.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.oidc_provider import oidc_provider
from tests.support.servers import ROOT, Server, free_port, gunicorn, listen, need_made, running

MODERN, LEGACY = "2026-07-28", "2025-11-25"
READ, BOTH = "articles:read", "articles:read articles:write"


@dataclass(frozen=True)
class McpClient:
    """A client, and the version that it should agree on with us.

    :param steps_up: Whether it asks for more scopes while it has a refresh token. One that does not refreshes it,
        which adds no scope, and gives up.
    """

    environment: str
    script: str
    mode: str
    version: str
    steps_up: bool = True

    def sign_in(self, server: Server, *steps: str, mount: str = "", login: str = "ada", **env: str) -> Any:
        """Let it sign in and call tools, and return what it saw."""
        folder = ROOT / ".clients" / self.environment
        need_made(folder / ".installed", "clients")
        if self.script.endswith(".mjs"):
            need_made(ROOT / "tests/clients/node_modules/.installed", "clients")
        program = folder / "bin" / ("node" if self.script.endswith(".mjs") else "python")
        done = subprocess.run(
            [program, ROOT / "tests/clients" / self.script, f"{server.url}{mount}/mcp", self.mode, json.dumps(steps)],
            env={"PATH": os.environ["PATH"], "HOME": str(server.log.parent), "LOGIN": login, **env},
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)


CLIENTS = {
    "python-sdk-2": McpClient("mcp2", "python_sdk_2_oauth.py", "auto", MODERN),
    "python-sdk-2-legacy": McpClient("mcp2", "python_sdk_2_oauth.py", "legacy", LEGACY),
    "python-sdk-1": McpClient("mcp1", "python_sdk_1_oauth.py", "legacy", LEGACY),
    "fastmcp": McpClient("fastmcp", "fastmcp_oauth.py", "auto", MODERN),
    "fastmcp-legacy": McpClient("fastmcp", "fastmcp_oauth.py", "legacy", LEGACY),
    "typescript-sdk-2": McpClient("node", "typescript_oauth.mjs", "auto", MODERN),
    "typescript-sdk-2-legacy": McpClient("node", "typescript_oauth.mjs", "legacy", LEGACY),
    "typescript-sdk-1": McpClient("node", "typescript_oauth.mjs", "1", LEGACY, steps_up=False),
}
MACHINE = McpClient("mcp2", "python_sdk_2_oauth.py", "machine", MODERN)


@pytest.fixture(scope="module", params=CLIENTS.values(), ids=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> McpClient:
    found: McpClient = request.param
    return found


@contextmanager
def site(folder: Path, provider_env: Any = None, *, mount: str = "", **env: str) -> Iterator[Server]:
    """A site with three workers and its authorization server.

    :param mount: The path that the app is mounted below.
    """
    access_log = ("--access-logfile", str(folder / "access.log"), "--access-logformat", "%({mcp-session-id}i)s")
    with ExitStack() as stack:
        listener = listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        (folder / "provider").mkdir()
        provider = stack.enter_context(oidc_provider(folder / "provider", f"{url}{mount}/mcp", env=provider_env))
        server = stack.enter_context(
            gunicorn(
                "tests.apps.oauth_app:create_app()",
                folder,
                *("--workers", "3", "--keep-alive", "0", *access_log),
                env={"ISSUER": provider.url, "PUBLIC_URL": url + mount, "SCRIPT_NAME": mount, **env},
                listener=listener,
            )
        )
        # A client that has to wait until the server has started takes it for an older one.
        assert server.request(f"{mount}/mcp/tools/list").status == 401
        yield server
    assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def seen(server: Server, client: McpClient) -> Any:
    """What a client sees that signs in, needs another scope, and then another token."""
    log = server.log.parent / "access.log"
    before = len(log.read_text().splitlines())
    seen = client.sign_in(server, "read", "write", "refresh", "read")
    return {**seen, "sessions": set(log.read_text().splitlines()[before:]) - {"-"}}


def test_a_client_signs_in_and_calls_a_tool(client: McpClient, seen: Any) -> None:
    assert (seen["version"], seen["tools"]) == (client.version, ["read", "write"])
    assert seen["results"][0] == "read by ada"
    # Some ask for a refresh token by a scope of its own.
    assert set(seen["asked"][0].split()) - {"offline_access"} == {READ}


def test_a_client_steps_up(client: McpClient, seen: Any) -> None:
    """It asks for the scope of the second tool when it is told so, and keeps the first."""
    if client.steps_up:
        assert seen["results"][1] == "written"
        assert [set(scope.split()) - {"offline_access"} for scope in seen["asked"][1:]] == [set(BOTH.split())]
    else:
        assert "403" in seen["results"][1]["error"]
        assert len(seen["asked"]) == 1


def test_a_session_outlives_new_tokens(client: McpClient, seen: Any) -> None:
    """A 2025-11-25 session belongs to the person, not to the token."""
    assert seen["results"][2] == "read by ada"
    assert len(seen["saved"]) > len(seen["asked"])  # one token without a sign-in
    assert len(seen["sessions"]) == (1 if client.version == LEGACY else 0)


def test_a_machine_signs_in_by_itself(server: Server) -> None:
    seen = MACHINE.sign_in(server, "read", "write")
    assert seen["results"] == ["read by machine", "written"]
    assert seen["asked"] == []


def test_opaque_tokens_are_introspected(tmp_path: Path) -> None:
    with site(tmp_path, {"TOKEN_FORMAT": "opaque"}, INTROSPECTION="yes") as server:
        seen = CLIENTS["python-sdk-2"].sign_in(server, "read", "write")
        assert seen["results"] == ["read by ada", "written"]


def test_clients_find_an_app_below_a_path(tmp_path: Path) -> None:
    """RFC 9728 has its metadata outside of the app, where nothing is; the challenge leads inside."""
    with site(tmp_path, mount="/shop") as server:
        for name in ("python-sdk-2", "python-sdk-1", "typescript-sdk-2", "typescript-sdk-1"):
            assert CLIENTS[name].sign_in(server, "read", mount="/shop")["results"] == ["read by ada"], name


def test_make_serve_oauth_is_a_site_to_sign_in_at(tmp_path: Path) -> None:
    """A newcomer starts it, gives a client its URL, and signs in as one of the demo users."""
    need_made(ROOT / "tests/authorization_server/node_modules/.installed", "clients")
    port, env = free_port(), {"DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}", "SECRET_KEY": "key" * 16}
    with running(["make", "serve-oauth", f"PORT={port}"], port, tmp_path, cwd=ROOT, env=env) as server:
        Server(server.process, port + 1, server.log).wait_until_ready()
        seen = CLIENTS["python-sdk-2"].sign_in(server, "articles.list", "articles.create", login="editor")
    assert [set(scope.split()) - {"offline_access"} for scope in seen["asked"]] == [{READ}, set(BOTH.split())]
    assert seen["results"][1].startswith("Invalid arguments: /title")  # it was called with none, after the consent
