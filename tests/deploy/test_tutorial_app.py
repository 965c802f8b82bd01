"""The apps of the tutorial, typed from its pages, with clients that ask for progress with every call.

The first runs under five servers. It keeps a plain ``sqlite3`` connection in ``g``, which only the thread that opened
it may use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.deploy.test_clients import MODERN, McpClient
from tests.oauth.test_clients import CLIENTS as OAUTH_CLIENTS
from tests.support.browser import Explorer
from tests.support.documents import read_blocks
from tests.support.servers import (
    FLASK_RUN,
    GEVENT,
    GRANIAN,
    GTHREAD,
    ROOT,
    WAITRESS,
    Server,
    free_port,
    running,
    serving,
)

TOKEN = "token-of-ada"
"""As the page has it."""

FASTMCP = McpClient("fastmcp", "fastmcp_client.py", "auto", MODERN)
PYTHON = McpClient("mcp2", "python_sdk_2.py", "auto", MODERN, progress=True)


@pytest.fixture(scope="module", params=[FLASK_RUN, GTHREAD, GEVENT, WAITRESS, GRANIAN])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the finished app: the last that the page calls ``app.py``."""
    folder = tmp_path_factory.mktemp("bookshelf")
    *_, finished = (block for block in read_blocks(ROOT / "docs/tutorial.md") if block.file == "app.py")
    (folder / "app.py").write_text(finished.text + "\n", encoding="utf-8")
    with serving(request.param, "app:app", folder) as running:
        yield running


@pytest.fixture
def shelf(server: Server) -> Iterator[Server]:
    """The server, in whose log a test may leave no traceback."""
    before = len(server.log.read_text())
    yield server
    assert "Traceback" not in server.log.read_text()[before:]


@pytest.mark.parametrize("client", [pytest.param(FASTMCP, id="fastmcp"), pytest.param(PYTHON, id="python-sdk-2")])
def test_a_client_adds_books_and_reads_them_back(shelf: Server, client: McpClient) -> None:
    def book(title: str, stars: int | None) -> dict[str, Any]:
        return {"title": title, "author": client.script, "stars": stars}

    seen = client.visit(
        shelf,
        ("add_book", book("Kindred", 5)),
        ("add_book", book("Dawn", None)),
        ("list_books", {"author": client.script}),
        authorization=f"Bearer {TOKEN}",
    )
    assert [result.get("isError") for result in seen["results"]] == [False] * 3, seen["results"]
    kindred, dawn, listed = (result["structuredContent"] for result in seen["results"])
    assert kindred == {"id": kindred["id"], **book("Kindred", 5)}
    assert dawn == {"id": kindred["id"] + 1, **book("Dawn", None)}
    assert listed == [dawn, kindred]


def test_the_explorer_adds_a_book_and_lists_it(shelf: Server, driver: Chrome) -> None:
    page = Explorer(driver, shelf.url)
    page.open()
    page.press("Sign in", ".bar")
    page.driver.find_element(By.XPATH, "//dialog//label[contains(., 'Token')]").click()
    page.fill("Token", TOKEN)
    page.press("Sign in", "dialog")
    page.press_link("Add a book")
    page.fill("title", "Kindred")
    page.fill("author", "the explorer")
    page.fill("stars", "5")
    added = run(page)
    assert added == {"id": added["id"], "title": "Kindred", "author": "the explorer", "stars": 5}
    page.press_link("List books")
    page.fill("author", "the explorer")
    assert run(page) == [added]


def test_a_client_signs_in_on_the_login_page_of_the_second_app(tmp_path: Path) -> None:
    """The page of the connector promises it for Claude, which does as the official Python client."""
    *_, finished = (block for block in read_blocks(ROOT / "docs/connector.md") if block.file == "app.py")
    (tmp_path / "app.py").write_text(finished.text + "\n", encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "flask", "--app", "app", "run", "--port", str(port)]
    with running(command, port, tmp_path) as server:
        client = OAUTH_CLIENTS["python-sdk-2"]
        seen = client.sign_in(server, "list_notes", "add_note", login="ada", PASSWORD="lovelace")
    assert seen["results"] == ['["Weave algebraic patterns"]', "Invalid arguments: /text: is required"]
    assert [set(scope.split()) for scope in seen["asked"]] == [{"notes:read"}, {"notes:read", "notes:write"}]
    assert (tmp_path / "instance/oauth.sqlite").exists()


def run(page: Explorer) -> Any:
    """Run the tool that is shown, and return its result; a failure is not waited out."""
    page.press("Run")
    status = page.wait_for(".outcome h3.status")
    assert "good" in str(status.get_attribute("class")).split(), page.texts(".outcome")
    return page.result()
