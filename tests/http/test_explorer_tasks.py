"""Tasks in the explorer, in a real browser: followed, answered, cancelled, and found again after a reload."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.browser import PHONE, Explorer
from tests.support.servers import Server, gunicorn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # One worker, because tests tell a running method in its memory to go on.
    folder = tmp_path_factory.mktemp("printer")
    env = {"TASKS_DATABASE": f"sqlite:///{folder / 'tasks.db'}"}
    with gunicorn("tests.apps.tasks_explorer_app:create_app()", folder, "--workers", "1", env=env) as running:
        yield running


def go_on(server: Server, title: str) -> None:
    """Let a book be printed to its end."""
    body = json.dumps({"jsonrpc": "2.0", "method": "prints.go_on", "params": [title], "id": 1}).encode()
    request = urllib.request.Request(f"{server.url}/jsonrpc", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        assert json.load(response) == {"jsonrpc": "2.0", "result": None, "id": 1}


def print_book(page: Explorer, title: str) -> None:
    page.press_link("Print a book")
    page.fill("title", title)
    page.press("Run")
    page.wait_for(".outcome .status", "3 of 12: April")


def test_a_task_has_a_bar_and_its_message_until_its_result_is_there(page: Explorer, server: Server) -> None:
    page.open()
    print_book(page, "Compost")
    bar = page.wait_for(".outcome progress")
    assert (bar.get_attribute("value"), bar.get_attribute("max")) == ("3", "12")
    assert page.violations() == []
    go_on(server, "Compost")
    page.wait_for(".outcome .status", "Done in")
    assert page.result() == {"title": "Compost", "pages": 12}


def test_a_task_is_cancelled_by_its_button(page: Explorer) -> None:
    page.open()
    print_book(page, "Weeds")
    page.press("Cancel")
    page.wait_for(".outcome .status", "Cancelled after")


def test_a_task_that_asks_is_answered_in_place(page: Explorer) -> None:
    page.open()
    page.press_link("Print a cover")
    page.fill("title", "Roses")
    page.press("Run")
    page.wait_for(".question", "Which colour?")
    assert page.violations() == []
    page.fill("colour", "red")
    page.press("Send")
    page.wait_for(".outcome .status", "Done in")
    page.wait_for(".outcome pre", "Roses in red")
    page.press("Run")
    page.wait_for(".question", "Which colour?")
    page.press("Cancel", ".question")
    page.wait_for(".outcome .status", "Cancelled")


def test_a_task_whose_tool_fails_says_why(page: Explorer) -> None:
    page.open()
    page.press_link("Print nothing")
    page.press("Run")
    page.wait_for(".outcome .status", "Failed after")
    page.wait_for(".outcome .failure", "There is no paper")


def test_those_who_are_signed_in_find_their_tasks_again_after_a_reload(page: Explorer, server: Server) -> None:
    page.open()
    assert page.texts("nav .place") == ["Connect an AI client"]
    page.sign_in("writer", "writer")
    print_book(page, "Hedges")
    page.press_link("Print nothing")
    page.press("Run")
    page.wait_for(".outcome .failure", "There is no paper")
    page.press_link("Print a cover")
    page.fill("title", "Hedges")
    page.press("Run")
    page.wait_for(".question", "Which colour?")

    page.open()
    page.sign_in("writer", "writer")
    page.press_link("Your tasks")
    page.wait_for("h1", "Your tasks")
    page.wait_for(".task .status", "3 of 12: April")
    assert page.texts(".task > .heading a") == ["Print a cover", "Print nothing", "Print a book"]
    page.wait_for(".task .question", "Which colour?")
    for scheme in ("light", "dark"):
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        assert page.violations() == []
    page.fill("colour", "green")
    page.press("Send")
    page.wait_for(".task pre", "Hedges in green")
    page.press("Show result")
    page.wait_for(".task .failure", "There is no paper")
    go_on(server, "Hedges")
    page.wait_for(".task:last-child .status", "Done")
    page.wait_for(".task:last-child pre", '"pages": 12')
    page.press("Sign out")
    page.wait_until("!document.querySelector('nav').innerText.includes('Your tasks')")


def test_a_task_is_cancelled_on_the_page_of_all_of_them(page: Explorer) -> None:
    page.open()
    page.sign_in("admin", "admin")
    print_book(page, "Moles")
    page.open("#/tasks", size=PHONE, touch=True)
    page.sign_in("admin", "admin")
    page.wait_for(".task .status", "3 of 12: April")
    assert page.driver.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
    page.press("Cancel", ".task")
    page.wait_for(".task .status", "Cancelled")
    page.open()
