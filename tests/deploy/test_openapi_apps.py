"""APIs of several frameworks under gunicorn, whose operations are tools by one line: ``rpc.add_openapi``.

Each API is in ``tests/host_apps``; the frameworks share an environment, which ``make host-apps`` installs.
"""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_clients import PYTHON, PYTHON_LEGACY
from tests.deploy.test_host_apps import HostApp, basic, by_password, serve
from tests.support.documents import read_blocks
from tests.support.servers import ROOT, Reply, Server, need_made

FRAMEWORKS = ["smorest", "apiflask", "restx", "openapi3", "connexion", "apispec"]
PREFIXES = {"restx": "/api", "connexion": "/v1"}
PNG = b"\x89PNG\r\n\x1a\n"
COVER = {"filename": "emma.png", "content": b64encode(PNG).decode()}
TOOLS = {"list_books", "add_book", "get_book", "change_book", "delete_book", "set_cover", "get_cover"}
CALLERS = {"anonymous": None, "ben": basic("ben", "a long secret"), "ada": basic("ada", "a long secret")}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Server]]:
    """The path of the books, and the server."""
    name = request.param
    app = HostApp(f"openapi_{name}", by_password, ("", ""), environment="openapi")
    with serve(app, tmp_path_factory.mktemp(name)) as server:
        yield f"{PREFIXES.get(name, '')}/books", server


def test_a_client_works_with_the_operations(api: tuple[str, Server]) -> None:
    books, server = api
    server.request("/reset", data={})
    # A start of each client takes seconds, so that only one API is used with the older version of the protocol.
    client = PYTHON_LEGACY if books == "/api/books" else PYTHON
    book = {"title": "Middlemarch", "pages": 800}
    etag = server.request(f"{books}/2").headers["ETag"]
    calls: list[tuple[str, Any]] = [
        ("list_books", {"page": 2, "page_size": 2}),
        ("add_book", book),
        ("get_book", {"id": 99}),
        ("add_book", {"title": "", "pages": "many"}),
        ("add_book", {"title": "EMMA", "pages": 13}),
        ("get_book", {"id": 2}),
        ("change_book", {"id": 2, **book, "If-Match": etag}),
        ("change_book", {"id": 2, **book, "If-Match": etag}),
        ("set_cover", {"id": 3, "file": COVER}),
        ("get_cover", {"id": 3}),
        ("set_cover", {"id": 3, "file": {"content": "not base64"}}),
        ("delete_book", {"id": 1}),
    ]
    seen = client.visit(server, *calls, authorization=CALLERS["ben"])
    tools = {tool["name"]: tool for tool in seen["tools"]}
    assert tools.keys() == TOOLS
    assert tools["get_book"]["annotations"] == {"readOnlyHint": True}
    assert tools["delete_book"]["annotations"] == {"destructiveHint": True, "idempotentHint": True}
    assert tools["add_book"]["description"].rstrip(".") == "Add a book"
    page, added, missing, invalid, refused, read, changed, stale, stored, cover, broken, forbidden = seen["results"]
    assert json.loads(text_of(page)) == [{"id": 3, "title": "Walden", "pages": 300}]
    assert json.loads(text_of(added)) == {"id": 4, **book}
    assert (missing["isError"], text_of(missing)) == (True, "There is no book 99")
    assert (invalid["isError"], text_of(invalid)) == (
        True,
        "Invalid arguments: /title: must have at least 1 character; /pages: must be of type integer, not string",
    )
    # What the document does not say is found by the endpoint itself.
    assert refused["isError"]
    for text in ("/title: ", "Do not shout", "/pages: ", "Bad luck"):
        assert text in text_of(refused)
    assert json.loads(text_of(read)) == {"id": 2, "title": "Ulysses", "pages": 200}
    assert read["content"][1]["text"] == f"ETag: {etag}"
    assert read["_meta"]["flask-jsonrpc-mcp/headers"] == {"ETag": etag}
    assert json.loads(text_of(changed)) == {"id": 2, **book}
    assert stale["isError"]
    assert json.loads(text_of(stored)) == {"filename": "emma.png", "bytes": len(PNG)}
    assert (cover["content"][0]["type"], cover["content"][0]["mimeType"]) == ("image", "image/png")
    assert b64decode(cover["content"][0]["data"]) == PNG
    assert text_of(broken) == "Invalid arguments: /file/content: must be base64"
    assert forbidden["isError"]
    assert server.request(f"{books}/1").status == 200


def text_of(result: Any) -> str:
    text: str = result["content"][0]["text"]
    return text


Request = tuple[str, str, Any]
"""The HTTP method, the path below the books, and the JSON body."""

CASES: list[tuple[str, dict[str, Any], Request]] = [
    ("list_books", {}, ("GET", "{slash}", None)),
    ("list_books", {"page": 2, "page_size": 1}, ("GET", "{slash}?page=2&page_size=1", None)),
    ("get_book", {"id": 1}, ("GET", "/1", None)),
    ("get_book", {"id": 77}, ("GET", "/77", None)),
    ("add_book", {"title": "Persuasion", "pages": 250}, ("POST", "{slash}", {"title": "Persuasion", "pages": 250})),
    ("add_book", {"title": "EMMA", "pages": 13}, ("POST", "{slash}", {"title": "EMMA", "pages": 13})),
    ("delete_book", {"id": 2}, ("DELETE", "/2", None)),
    ("delete_book", {"id": 77}, ("DELETE", "/77", None)),
]


@pytest.mark.parametrize("caller", CALLERS)
def test_a_tool_does_what_its_endpoint_does_for_the_same_caller(api: tuple[str, Server], caller: str) -> None:
    books, server = api
    credentials = CALLERS[caller]
    headers = {} if credentials is None else {"Authorization": credentials}
    slash = "/" if server.request(f"{books}/").status == 200 else ""
    statuses = set()
    for name, arguments, (method, path, body) in CASES:
        server.request("/reset", data={})
        expected = server.request(books + path.format(slash=slash), headers=headers, data=body, method=method)
        after = titles(server, books + slash)
        server.request("/reset", data={})
        found = server.invoke(name, arguments, headers)
        assert titles(server, books + slash) == after, name
        check_same(expected, found)
        statuses.add(found.status)
    # flask-openapi3 validates the body before it asks who is calling, so that anonymous callers may see a 400 too.
    assert statuses >= {"anonymous": {200, 401, 404}, "ben": {200, 400, 403, 404}, "ada": {200, 400, 404}}[caller]


def check_same(expected: Reply, found: Reply) -> None:
    if expected.status < 300:
        assert found.status == 200
        assert found.json() == {"result": expected.json() if expected.body.strip() else None}
    elif expected.status in (400, 422):
        assert (found.status, found.json()["error"]["code"]) == (400, "invalid_arguments")
        assert {problem["path"] for problem in found.json()["error"]["errors"]} == {"/title", "/pages"}
    else:
        assert found.status == expected.status


def titles(server: Server, books: str) -> list[str]:
    return [book["title"] for book in server.request(books).json()]


@pytest.mark.parametrize("page", sorted((ROOT / "docs/frameworks").glob("*.md")), ids=lambda page: page.stem)
def test_the_page_about_a_framework_is_true(page: Path, tmp_path: Path) -> None:
    [block] = read_blocks(page)
    (tmp_path / "app.py").write_text(block.text, encoding="utf-8")
    environment = ROOT / ".host_apps/openapi"
    need_made(environment / ".installed", "host-apps")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(environment / "bin/python"), "app.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
