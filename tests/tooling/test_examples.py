"""The examples do what their docstrings say, in the hands of someone who types it, and of their own tests."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_jsonrpc_mcp.testing import FACES, McpTestClient, Progress, assert_tools_valid
from tests.conftest import asking
from tests.support.answering import listening
from tests.support.mcp_messages import modern_headers, modern_meta
from tests.support.servers import ROOT, Server, free_port, need

FOLDER = ROOT / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")

SERVERS = ("flask", "gunicorn", "redis-server")
FLASK_PORT = "5000"

_PORT = re.compile(r"(?<=127\.0\.0\.1:)[0-9]+|(?<=--port )[0-9]+")
_SETTING = re.compile(r"([A-Z_]+)=(.*)")


@dataclass(frozen=True)
class Step:
    """A command of a docstring, and the output that is shown below it."""

    command: str
    shown: str

    @property
    def settings(self) -> dict[str, str]:
        return {read[1]: read[2] for word in self._split() if (read := _SETTING.fullmatch(word))}

    @property
    def words(self) -> list[str]:
        return [word for word in self._split() if not _SETTING.fullmatch(word)]

    def _split(self) -> list[str]:
        # A shell takes a line break after a backslash away; shlex keeps it.
        return shlex.split(self.command.replace("\\\n", " "))

    @property
    def is_server(self) -> bool:
        return self.words[:1] in [[program] for program in SERVERS]


def read_steps(name: str) -> list[Step]:
    """Read the commands of a docstring, which stand behind a ``$``; ports are replaced by some that are free."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
    ports = {port: str(free_port()) for port in {*_PORT.findall(text), FLASK_PORT}}
    text = text.replace(" run\n", f" run --port {FLASK_PORT}\n")
    text = _PORT.sub(lambda found: ports[found[0]], text)
    block = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    return [_read_step(part.splitlines()) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]


def _read_step(lines: list[str]) -> Step:
    """A command goes on in the lines that are further in."""
    count = next((number for number, line in enumerate(lines) if number and not line.startswith("    ")), len(lines))
    return Step("\n".join(lines[:count]), "\n".join(lines[count:]).strip())


@contextmanager
def running(step: Step, folder: Path) -> Iterator[Server]:
    """Run a server of a docstring until the block is left."""
    program, *arguments = step.words
    command = [need(program)] if program == "redis-server" else [sys.executable, "-m", program]
    port = int(_PORT.findall(step.command)[-1])
    log = folder / f"{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], cwd=FOLDER, env={**os.environ, **step.settings}, stdout=output, stderr=output
        )
    server = Server(process, port, log)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def type_in(steps: list[Step], folder: Path) -> list[str]:
    """Type commands into one shell, and return the output of each without its empty lines."""
    end = "--- and that was it ---"
    script = "\n".join(f"{step.command}\necho '{end}'" for step in steps)
    ran = subprocess.run(["bash", "-ec", script], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return [re.sub(r"\n+", "\n", output).strip() for output in ran.stdout.split(end)[:-1]]


@contextmanager
def servers_of(steps: list[Step], folder: Path) -> Iterator[list[Server]]:
    """Run all servers of a docstring until the block is left."""
    with ExitStack() as servers:
        yield [servers.enter_context(running(step, folder)) for step in steps if step.is_server]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_docstring_says_is_so(name: str, tmp_path: Path) -> None:
    steps = read_steps(name)
    typed = [step for step in steps if not step.is_server]
    with servers_of(steps, tmp_path):
        outputs = type_in(typed, tmp_path)
    assert any(step.shown for step in typed)
    for step, output in zip(typed, outputs, strict=True):
        if step.shown.startswith("{"):
            assert json.loads(output) == json.loads(step.shown), step.command
        elif step.shown.endswith("..."):
            assert output.startswith(step.shown.removesuffix("...")), step.command
        elif step.shown:
            assert output == step.shown, step.command


def test_the_readme_of_the_examples_names_each() -> None:
    listed = re.findall(r"\[(\w+)\.py\]\(\1\.py\)", (FOLDER / "README.md").read_text())
    assert sorted(listed) == NAMES


def test_the_smallest_app_is_a_tool_on_every_face() -> None:
    from examples.smallest import app

    assert_tools_valid(app)
    for face in FACES:
        assert McpTestClient(app, face=face).call("greet", {"name": "Ada"}).value == "Hello, Ada!"


@pytest.fixture
def login_site() -> Flask:
    from examples import login_site

    importlib.reload(login_site)  # with nobody's notes
    return login_site.app


def test_pages_and_tools_of_a_site_share_what_they_do(login_site: Flask) -> None:
    assert_tools_valid(login_site)
    page = login_site.test_client()
    page.post("/login", data={"username": "ada", "password": "lovelace"})
    page.post("/notes", data={"text": "by page"})
    ada = McpTestClient(login_site).with_token(page.post("/token").text)
    assert ada.call("notes_add", {"text": "by tool"})
    assert ada.call("notes_list").value == page.get("/notes").get_json() == ["by page", "by tool"]


def test_the_cookie_of_a_site_opens_its_tools_to_its_own_pages_only(login_site: Flask) -> None:
    page = login_site.test_client()
    page.post("/login", data={"username": "ada", "password": "lovelace"})
    for face in FACES:
        client = McpTestClient(login_site, face=face, http=page)
        assert client.call("notes_list").value == []
        other = client.with_headers({"Sec-Fetch-Site": "cross-site"})
        assert other.call("notes_list").error.slug == "unauthorized"


def test_whose_notes_are_shown_is_said_by_the_token_and_not_by_the_cookie(login_site: Flask) -> None:
    ada, bob = login_site.test_client(), login_site.test_client()
    ada.post("/login", data={"username": "ada", "password": "lovelace"})
    bob.post("/login", data={"username": "bob", "password": "builder"})
    token = ada.post("/token").text
    ada.post("/notes", data={"text": "mine"})
    assert McpTestClient(login_site, http=bob).with_token(token).call("notes_list").value == ["mine"]


def test_the_pages_of_a_site_keep_their_sign_in(login_site: Flask) -> None:
    page = login_site.test_client()
    assert page.get("/notes").status_code == 401
    assert page.post("/login", data={"username": "ada", "password": "wrong"}).status_code == 403
    assert page.post("/token").status_code == 401


@pytest.fixture
def books(tmp_path: Path) -> McpTestClient:
    from examples.sqlalchemy_crud import create_app

    return McpTestClient(create_app(f"sqlite:///{tmp_path}/books.db"))


EMMA = {"isbn": "9780141439518", "title": "Emma", "year": 1815}


def test_books_are_created_read_updated_and_deleted(books: McpTestClient) -> None:
    assert_tools_valid(books.app)
    assert books.call("books_create", EMMA).value == {"id": 1, **EMMA}
    assert books.call("books_update", {"id": 1, "year": None}).value == {"id": 1, **EMMA, "year": None}
    assert [book["title"] for book in books.call("books_list").value] == ["Emma"]
    assert books.call("books_delete", {"id": 1}).value is True
    assert books.call("books_list").value == []


def test_what_is_wrong_with_a_book_is_told(books: McpTestClient) -> None:
    books.call("books_create", EMMA)
    assert books.call("books_create", EMMA).error.message == "There is a book with the ISBN 9780141439518 already"
    assert books.call("books_update", {"id": 7, "title": "?"}).error.message == "Book 7 does not exist"
    assert books.call("books_create", {"isbn": "978", "year": "long ago"}).error.paths == ["/isbn", "/year", "/title"]
    assert len(books.call("books_list").value) == 1


ROWS = "name,email\nAda,ada@site.example\nBob,bob@site.example\nEve,eve@site.example\n"


@pytest.fixture
def contacts() -> Iterator[dict[str, str]]:
    from examples.long_import import CONTACTS

    CONTACTS.clear()
    yield CONTACTS
    CONTACTS.clear()


def test_an_import_says_how_far_it_is(contacts: dict[str, str]) -> None:
    from examples.long_import import app

    assert_tools_valid(app)
    result = McpTestClient(app).call("contacts_import", {"csv": ROWS}, listen=True)
    assert result.value == {"rows": 3, "contacts": 3}
    assert result.progress == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]
    assert contacts["bob@site.example"] == "Bob"


def test_an_import_is_whole_or_nothing(contacts: dict[str, str]) -> None:
    from examples.long_import import app

    error = McpTestClient(app).call("contacts_import", {"csv": ROWS + "Zoe,none\n"}).error
    assert error.message == "Row 4 has no e-mail address; nothing was imported"
    assert contacts == {}


def test_an_import_stops_when_nobody_waits_for_it(contacts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from examples import long_import

    looked_at = []

    def look(row: dict[str, str], number: int) -> str:
        looked_at.append(number)
        return row["email"]

    monkeypatch.setattr(long_import, "address_in", look)
    params: dict[str, Any] = {"name": "contacts_import", "arguments": {"csv": ROWS}}
    payload = asking("tools/call", {**params, "_meta": {**modern_meta(), "progressToken": 1}})
    headers = {**modern_headers("tools/call", params), "Accept": "application/json, text/event-stream"}
    client = long_import.app.test_client()

    def leave(chunk: bytes) -> None:
        raise BrokenPipeError

    with listening(client, leave) as heard:
        client.post("/mcp", json=payload, headers=headers)
    assert len(heard) == 1
    assert b'"progress":1' in heard[0]
    assert (looked_at, contacts) == ([1], {})


def test_an_answer_may_go_to_another_server_than_the_call(tmp_path: Path) -> None:
    steps = read_steps("several_instances")
    with servers_of(steps, tmp_path) as [_, one, other]:
        capabilities = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}}
        welcome = one.request("/mcp", data=asking("initialize", capabilities))
        headers = {"Mcp-Session-Id": welcome.headers["Mcp-Session-Id"], "Accept": "application/json, text/event-stream"}
        call = asking("tools/call", {"name": "put_back", "arguments": {}})
        request = urllib.request.Request(
            one.url + "/mcp", json.dumps(call).encode(), {**headers, "Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as stream:
            messages = (json.loads(line[5:]) for line in stream if line.startswith(b"data:"))
            question = next(messages)
            assert question["params"]["message"] == "Put all lots back?"
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
            assert other.request("/mcp", data=answer, headers=headers).status == 202
            assert next(messages)["result"]["structuredContent"] == {"result": "put back"}
