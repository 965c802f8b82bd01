"""Real MCP clients, at home in tests/clients, sign in at the site itself, which has three workers."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.oauth.test_clients import BOTH, CLIENTS, LEGACY, READ, McpClient
from tests.support.internet import serving_documents
from tests.support.servers import Server, gunicorn, listen


@contextmanager
def site(folder: Path, **env: str) -> Iterator[Server]:
    listener = listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    log = ("--access-logfile", str(folder / "access.log"), "--access-logformat", "%(p)s %({mcp-session-id}i)s")
    with gunicorn(
        "tests.apps.oauth_server_app:create_app()",
        folder,
        *("--workers", "3", "--keep-alive", "0", *log),
        env={"PUBLIC_URL": url, "GRANTS": str(folder / "grants.sqlite"), **env},
        listener=listener,
    ) as server:
        # A client that has to wait until the server has started takes it for an older one.
        assert server.request("/mcp/tools/list").status == 401
        yield server
    assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module", params=CLIENTS.values(), ids=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> McpClient:
    found: McpClient = request.param
    return found


def scopes(asked: list[str]) -> list[set[str]]:
    return [set(scope.split()) for scope in asked]


def test_a_client_signs_in_steps_up_refreshes_and_is_disconnected(server: Server, client: McpClient) -> None:
    """The person disconnects it at the end; then it has to ask again, and may."""
    log = server.log.parent / "access.log"
    before = len(log.read_text().splitlines())
    seen = client.sign_in(server, "read", "write", "refresh", "read", "disconnect", "read", login=client.script)
    lines = [line.split() for line in log.read_text().splitlines()[before:]]
    assert (seen["version"], seen["tools"]) == (client.version, ["read", "write"])
    by = f"read by {client.script}"
    assert [seen["results"][0], *seen["results"][2:]] == [by, by, by]
    first, *stepped_up, last = scopes(seen["asked"])
    assert (first, READ in last) == ({READ}, True)
    if client.steps_up:
        assert (seen["results"][1], stepped_up) == ("written", [set(BOTH.split())])
    else:
        assert ("403" in seen["results"][1]["error"], stepped_up) == (True, [])
    assert len(seen["saved"]) > len(seen["asked"])  # one token without a sign-in
    assert len({worker for worker, _ in lines}) > 1
    # A 2025-11-25 session belongs to the person, not to the token.
    assert len({session for _, session in lines} - {"-"}) == (1 if client.version == LEGACY else 0)


def test_a_client_that_is_a_document_signs_in(tmp_path: Path) -> None:
    """It registers nowhere. Three workers fetch the document at most once each."""
    with serving_documents(tmp_path) as documents:
        document = documents.publish("/client.json")
        env = {"DOCUMENTS_PORT": str(documents.port), "SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        with site(tmp_path, **env) as server:
            steps = ("read", "write", "refresh", "read", "disconnect", "read")
            seen = CLIENTS["python-sdk-2"].sign_in(server, *steps, CLIENT_DOCUMENT=document, SHOW_TOKENS="yes")
    assert seen["results"] == ["read by ada", "written", "read by ada", "read by ada"]
    assert seen["client"] == document
    assert 1 <= len(documents.requested) <= 3


def post(server: Server, path: str, form: dict[str, str]) -> Any:
    request = urllib.request.Request(server.url + path, data=urllib.parse.urlencode(form).encode())
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.status, json.loads(response.read())


def test_eight_refreshes_at_once_in_three_workers_have_one_successor(server: Server) -> None:
    seen = CLIENTS["python-sdk-2"].sign_in(server, login="grace", SHOW_TOKENS="yes")
    form = {"grant_type": "refresh_token", "refresh_token": seen["refresh"], "client_id": seen["client"]}
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: post(server, "/oauth/token", form), range(8)))
    assert [status for status, _ in replies] == [200] * 8
    [successor] = {reply["refresh_token"] for _, reply in replies}
    assert successor != seen["refresh"]
    tokens = [reply["access_token"] for _, reply in replies]
    called = [server.invoke("read", {}, {"Authorization": f"Bearer {token}"}).json() for token in tokens]
    assert called == [{"result": "read by grace"}] * 8
    status, _ = post(server, "/oauth/token", {**form, "refresh_token": successor})
    assert status == 200
