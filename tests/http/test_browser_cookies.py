"""Cookies in a real browser: which pages can use the tools of a site where its visitor has signed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, request, session
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from flask_jsonrpc_mcp import SIGNED_IN, McpBlueprint, current_call
from tests.support.browser import PATIENCE, Explorer
from tests.support.servers import served_here

CALL = '/mcp/tools/who?query={"jsonrpc":"2.0","id":1,"method":"who","params":{}}'
FETCH = """
    const [url, options, done] = arguments;
    const read = (response) => response.type === "opaque" ? null : response.json();
    fetch(url, options).then(read).then(done, (error) => done(String(error)));
"""

Visits = list[tuple[str, str | None, str | None]]
"""The calls of the tool: HTTP method, ``Sec-Fetch-Site``, and the caller's user."""


@pytest.fixture
def visits() -> Visits:
    return []


@pytest.fixture
def site(visits: Visits) -> Iterator[str]:
    rpc = McpBlueprint(auth=lambda: session.get("user"))

    @rpc.tool(read_only=True)
    def who() -> str | None:
        assert session["user"] == "ada"  # the browser has sent the cookie
        user: str | None = current_call.caller.user
        visits.append((request.method, request.headers.get("Sec-Fetch-Site"), user))
        return user

    rpc.add_tool(lambda: 1, name="mine", access=[SIGNED_IN])
    app = Flask("site")
    app.secret_key = "key"
    app.register_blueprint(rpc)

    @app.get("/login")
    def log_in() -> str:
        session["user"] = "ada"
        return "Welcome"

    with served_here(app) as place:
        yield f"http://127.0.0.1:{place.port}"


@pytest.fixture
def other_port() -> Iterator[int]:
    app = Flask("other")
    app.add_url_rule("/", view_func=lambda: "Hello")
    with served_here(app) as place:
        yield place.port


def fetched(driver: Chrome, url: str, **options: Any) -> Any:
    """What the script of the open page reads; ``None`` if the browser keeps it secret."""
    return driver.execute_async_script(FETCH, url, options)


def test_a_page_of_the_site_calls_as_its_visitor(site: str, driver: Chrome, visits: Visits) -> None:
    driver.get(f"{site}/login")
    sent = {"method": "POST", "headers": {"Content-Type": "application/json"}}
    called = fetched(driver, "/mcp/tools/invoke", **sent, body='{"name": "who", "arguments": {}}')
    assert called == {"result": "ada"}
    assert fetched(driver, CALL)["result"] == "ada"
    assert [tool["name"] for tool in fetched(driver, "/mcp/tools/list")["tools"]] == ["who", "mine"]
    assert visits == [("POST", "same-origin", "ada"), ("GET", "same-origin", "ada")]


def test_an_address_that_was_typed_is_opened_as_the_visitor(site: str, driver: Chrome, visits: Visits) -> None:
    driver.get(f"{site}/login")
    driver.get(site + CALL)
    assert visits == [("GET", "none", "ada")]


@pytest.mark.parametrize(("host", "relation"), [("127.0.0.1", "same-site"), ("localhost", "cross-site")])
def test_a_link_of_another_page_is_opened_as_an_anonymous_caller(
    site: str, other_port: int, driver: Chrome, visits: Visits, host: str, relation: str
) -> None:
    """Browsers send even cookies with ``SameSite=Lax`` along."""
    driver.get(f"{site}/login")
    driver.get(f"http://{host}:{other_port}")
    driver.execute_script("location = arguments[0]", site + CALL)
    WebDriverWait(driver, PATIENCE, poll_frequency=0.02).until(lambda _: visits, "the link was not opened")
    assert visits == [("GET", relation, None)]


def test_a_sister_site_cannot_use_the_cookie_unseen(site: str, other_port: int, driver: Chrome, visits: Visits) -> None:
    """To a browser, the pages of all ports and subdomains are one site, so it sends the cookie with all of these."""
    driver.get(f"{site}/login")
    driver.get(f"http://127.0.0.1:{other_port}")
    hidden = {"mode": "no-cors", "credentials": "include"}
    assert fetched(driver, site + CALL, **hidden) is None
    assert fetched(driver, f"{site}/mcp/tools/invoke", **hidden, method="POST", body='{"name": "who"}') is None
    readable = fetched(driver, f"{site}/mcp/tools/list", credentials="include")
    assert readable == "TypeError: Failed to fetch"
    assert visits == [("GET", "same-site", None)]


def test_the_explorer_is_signed_in_by_the_cookie(site: str, driver: Chrome, visits: Visits) -> None:
    page = Explorer(driver, site)
    page.open()
    driver.delete_all_cookies()  # those of an earlier test: a browser does not tell the ports of a host apart
    page.open()
    assert "mine" not in page.texts("nav .title")
    assert page.texts(".who") == [""]
    driver.get(f"{site}/login")
    page.open("#/tools/who")
    page.wait_for(".who", "Signed in as ada")
    assert "mine" in page.texts("nav .title")
    page.press("Run")
    page.wait_for(".outcome", "ada")
    assert visits == [("POST", "same-origin", "ada")]
