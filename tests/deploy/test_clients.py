"""Real MCP clients, at home in tests/clients, against the sample site under gunicorn with several workers.

Each is a program of its own: it connects to a URL (in the mode it is told, where it knows both eras), lists all tools
and calls some, or else converses with the app in conversing_app.py. It prints one JSON document about what it saw. The
sign-in is in its environment.
"""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import basic
from tests.deploy.test_sample_app import FOR_ADMINS, FOR_EDITORS, PUBLIC
from tests.support.servers import ROOT, Server, gunicorn, need_made

MODERN, LEGACY = "2026-07-28", "2025-11-25"

ADMIN = "Bearer demo-admin-token"


@dataclass(frozen=True)
class McpClient:
    """A client, and what it should agree on with us.

    :param progress: It asks for progress with every call; FastMCP does in any case.
    """

    environment: str
    script: str
    mode: str
    version: str
    unknown_tool: Any = -32602
    progress: bool = False

    def visit(self, server: Server, *calls: tuple[str, Any], authorization: str | None = None) -> Any:
        """Let it call tools, and return what it saw."""
        return self._run(server, calls, authorization)

    def converse(self, server: Server) -> Any:
        """Let it use prompts, resources, progress and questions, and return what it saw."""
        return self._run(server, None)

    def _run(self, server: Server, calls: Any, authorization: str | None = None) -> Any:
        folder = ROOT / ".clients" / self.environment
        need_made(folder / ".installed", "clients")
        if self.script.endswith(".mjs"):
            need_made(ROOT / "tests/clients/node_modules/.installed", "clients")
        program = folder / "bin" / ("node" if self.script.endswith(".mjs") else "python")
        script = ROOT / "tests/clients" / self.script
        # Some clients remember things in the home directory.
        env = {"PATH": os.environ["PATH"], "HOME": str(server.log.parent)}
        if authorization is not None:
            env["AUTHORIZATION"] = authorization
        if self.progress:
            env["PROGRESS"] = "yes"
        done = subprocess.run(
            [program, script, f"{server.url}/mcp", self.mode, json.dumps(calls)],
            env=env,
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)


PYTHON = McpClient("mcp2", "python_sdk_2.py", "auto", MODERN)
PYTHON_LEGACY = McpClient("mcp2", "python_sdk_2.py", "legacy", LEGACY)
# It looks a name up in the list, and asks no further when it is not there.
INSPECTOR = McpClient("node", "inspector.mjs", "modern", MODERN, unknown_tool="tool_not_found")
INSPECTOR_LEGACY = McpClient("node", "inspector.mjs", "legacy", LEGACY, unknown_tool="tool_not_found")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(PYTHON, id="python-sdk-2"),
        pytest.param(PYTHON_LEGACY, id="python-sdk-2-legacy"),
        pytest.param(McpClient("mcp1", "python_sdk_1.py", "legacy", LEGACY), id="python-sdk-1"),
        pytest.param(McpClient("fastmcp", "fastmcp_client.py", "auto", MODERN), id="fastmcp"),
        pytest.param(McpClient("fastmcp", "fastmcp_client.py", "legacy", LEGACY), id="fastmcp-legacy"),
        pytest.param(McpClient("node", "typescript_sdk_2.mjs", "auto", MODERN), id="typescript-sdk-2"),
        pytest.param(McpClient("node", "typescript_sdk_2.mjs", "legacy", LEGACY), id="typescript-sdk-2-legacy"),
        pytest.param(McpClient("node", "typescript_sdk_1.mjs", "legacy", LEGACY), id="typescript-sdk-1"),
        pytest.param(INSPECTOR, id="inspector"),
        pytest.param(INSPECTOR_LEGACY, id="inspector-legacy"),
    ],
)
def client(request: pytest.FixtureRequest) -> McpClient:
    found: McpClient = request.param
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("clients")
    env = {
        "DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}",
        "SECRET_KEY": "key" * 16,
        # Without its URL the site has no OAuth, so that clients may connect who have not signed in.
        "FLASK_ALLOW_DEMO_USERS": "true",
        "WEB_CONCURRENCY": "3",
        "FLASK_JSONRPC_MCP_PAGE_SIZE": "3",
    }
    # Without keep-alive every request is a connection of its own, so that any worker may get it; the log tells which.
    spread = ("--keep-alive", "0", "--access-logfile", str(folder / "access.log"))
    told = ("--access-logformat", "%(p)s %({mcp-session-id}i)s")
    with gunicorn("wsgi:app", folder, "--config", "sample_app/gunicorn_conf.py", *spread, *told, env=env) as running:
        # A client that has to wait until the server has started takes it for an older one.
        assert running.request("/mcp/tools/list").status == 200
        yield running


@pytest.fixture(scope="module")
def seen(server: Server, client: McpClient) -> Any:
    """What a client sees that has not signed in."""
    return client.visit(
        server,
        ("articles.list", {"limit": 2}),
        ("articles.to_markdown", {"id": 1}),
        ("articles.word_counts", {}),
        ("articles.get", {"id": 999}),
        ("articles.list", {"limit": 1000, "ofset": 10}),
    )


def test_a_client_agrees_with_us_on_the_newest_version_it_knows(client: McpClient, seen: Any) -> None:
    """Clients that try the newest version first fall back silently, on almost any error."""
    assert (seen["version"], seen["server"]) == (client.version, "elm-street-garden")


def test_a_client_sees_every_page_of_the_list(server: Server, client: McpClient, seen: Any) -> None:
    assert {tool["name"] for tool in seen["tools"]} == PUBLIC
    assert seen["tools"] == [as_listed(tool, client.version) for tool in every_tool(server)]


def test_a_client_calls_tools(server: Server, client: McpClient, seen: Any) -> None:
    def value(name: str, arguments: Any) -> Any:
        return server.invoke(name, arguments).json()["result"]

    assert [known_members(result) for result in seen["results"]] == [
        success(value("articles.list", {"limit": 2}), client.version),
        success(value("articles.to_markdown", {"id": 1}), client.version),
        success(value("articles.word_counts", {}), client.version),
        failure("Article 999 does not exist"),
        failure("Invalid arguments: /limit: must be at most 100; /ofset: is not expected here"),
    ]


def test_a_client_signs_in(server: Server, client: McpClient) -> None:
    seen = client.visit(server, ("no.such.tool", {}), ("cache.rebuild", {}), authorization=ADMIN)
    assert {tool["name"] for tool in seen["tools"]} == PUBLIC | FOR_EDITORS | FOR_ADMINS
    unknown, rebuilt = seen["results"]
    assert unknown == {"error": client.unknown_tool}
    assert known_members(rebuilt) == success(True, client.version)


def test_a_client_signs_in_with_a_password(server: Server) -> None:
    seen = PYTHON.visit(server, ("cache.rebuild", {}), authorization=basic("admin")["Authorization"])
    assert [known_members(result) for result in seen["results"]] == [success(True, MODERN)]


@pytest.mark.parametrize("inspector", [INSPECTOR, INSPECTOR_LEGACY], ids=["modern", "legacy"])
def test_the_inspector_finds_no_schema_that_clients_would_misread(server: Server, inspector: McpClient) -> None:
    seen = inspector.visit(server, authorization=ADMIN)
    assert seen["strict"] == {"code": 0, "problems": ""}


def test_a_session_goes_from_worker_to_worker(server: Server) -> None:
    PYTHON_LEGACY.visit(server, *[("articles.get", {"id": 1})] * 20)
    workers = defaultdict(set)
    for line in (server.log.parent / "access.log").read_text().splitlines():
        worker, session = line.split()
        workers[session].add(worker)
    del workers["-"]
    assert max(map(len, workers.values())) > 1


@pytest.fixture(scope="module")
def conversing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("conversing")
    env = {"CONVERSING_JSONRPC_MCP_MAILBOX": str(folder / "mail"), "NOTES": str(folder)}
    with gunicorn(
        "tests.apps.conversing_app:create_app()", folder, "--workers", "3", "--keep-alive", "0", env=env
    ) as running:
        assert running.request("/mcp/tools/list").status == 200  # as above
        yield running
    assert "Traceback" not in running.log.read_text()


READ = {
    "prompts": ["paint"],
    "messages": [["user", "Paint the north wall green."], ["assistant", "With pleasure."]],
    "resources": ["notes://today", "notes://leaf"],
    "templates": ["notes://{id}/data"],
    "today": "Water the elms.",
    "data": '{"id":7,"words":3}',
    "leaf": b64encode(b"\x89PNG leaf").decode(),
}
HEARD = {
    "completed": ["green", "grey"],
    "progress": [[1, 3, "1 of 3"], [2, 3, "2 of 3"], [3, 3, "3 of 3"]],
    "counted": "3",
    "greeting": "Hello Ada",
    "deleted": "deleted 7",
    "asked": ["What is your name?", "Delete article 7?"],
}


def test_a_client_converses(conversing: Server, client: McpClient) -> None:
    """It reads prompts and resources; where it is more than a command line, it hears of progress, and is asked.

    The Inspector also listens, more often at once than there are places.
    """
    seen = client.converse(conversing)
    expected = READ if client.script == "inspector.mjs" else {**READ, **HEARD}
    assert seen["version"] == client.version
    assert {name: seen[name] for name in seen if name not in ("version", "server")} == expected


def every_tool(server: Server) -> list[dict[str, Any]]:
    """All pages of the list, as REST shows it; there is more than one."""
    pages, cursor = [], ""
    while cursor is not None:
        reply = server.request(f"/mcp/tools/list?cursor={cursor}" if cursor else "/mcp/tools/list").json()
        pages.append(reply["tools"])
        cursor = reply["nextCursor"]
    assert [len(page) for page in pages] == [3, 3, 3]
    return [tool for page in pages for tool in page]


def as_listed(tool: dict[str, Any], version: str) -> dict[str, Any]:
    """A tool as a version of MCP shows it: before 2026-07-28 every result is an object."""
    schema = tool["outputSchema"]
    if version == MODERN or schema["type"] == "object":
        return tool
    return {**tool, "outputSchema": {"type": "object", "properties": {"result": schema}, "required": ["result"]}}


def success(value: Any, version: str) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    structured = value if version == MODERN or isinstance(value, dict) else {"result": value}
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}


def failure(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def known_members(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what only one era, or only some clients, show of it."""
    return {name: value for name, value in result.items() if name not in ("_meta", "resultType")}
