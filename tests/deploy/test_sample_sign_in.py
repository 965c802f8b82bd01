"""The sample site as ``make serve`` runs it: its login page, and how AI clients and the explorer sign in by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import httpx
import pytest
from selenium.webdriver import Chrome

from tests.conftest import basic
from tests.oauth.test_clients import BOTH, CLIENTS, READ
from tests.support.browser import DESKTOP, PHONE, Explorer
from tests.support.servers import ROOT, Server, free_port, gunicorn, running

APPS = "/oauth/apps"


def environment(folder: Path) -> dict[str, str]:
    return {"DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}", "SECRET_KEY": "key" * 16}


@contextmanager
def site(folder: Path, **env: str) -> Iterator[Server]:
    config = ("--config", "sample_app/gunicorn_conf.py")
    with gunicorn("wsgi:app", folder, *config, env=environment(folder) | env) as server:
        yield server
    assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with site(tmp_path_factory.mktemp("garden"), SITE_ENV="development") as server:
        yield server


@pytest.fixture
def visitor(garden: Server) -> Iterator[httpx.Client]:
    """A browser without scripts."""
    with httpx.Client(base_url=garden.url, timeout=60) as client:
        yield client


def sign_in(visitor: httpx.Client, name: str = "editor", password: str = "", path: str = "/login") -> httpx.Response:
    page = visitor.get(path)
    form = {"login": name, "password": password or name, "form_token": form_token(page.text)}
    [action] = re.findall(r'<form method="post" action="([^"]+)"', page.text)
    return visitor.post(unescape(action), data=form)


def form_token(page: str) -> str:
    [token] = re.findall(r'name="form_token" value="([^"]+)"', page)
    return str(token)


# The login page


def test_someone_signs_in_and_returns_to_where_they_came_from(visitor: httpx.Client) -> None:
    asked = visitor.get(APPS)
    assert (asked.status_code, asked.headers["Location"]) == (302, f"/login?next={APPS}")
    signed_in = sign_in(visitor, path=asked.headers["Location"])
    assert (signed_in.status_code, signed_in.headers["Location"]) == (303, APPS)
    assert "No app is connected to your account." in visitor.get(APPS).text
    start = visitor.get("/").text
    assert "Signed in as <strong>editor</strong>" in start
    assert f'href="{APPS}"' in start


def test_a_wrong_password_is_said_and_the_name_stays(visitor: httpx.Client) -> None:
    answer = sign_in(visitor, '"><b>', "wrong")
    assert answer.status_code == 403
    assert '<p class="problem" role="alert">The user name or the password is wrong.</p>' in answer.text
    assert 'value="&#34;&gt;&lt;b&gt;"' in answer.text
    assert visitor.get(APPS).status_code == 302


def test_a_form_of_another_site_signs_no_one_in_or_out(garden: Server, visitor: httpx.Client) -> None:
    """Else it could sign people in as someone else, who then sees what they do."""
    with httpx.Client(base_url=garden.url, timeout=60) as attacker:
        their_own = form_token(attacker.get("/login").text)
    visitor.get("/login")
    for token in ({}, {"form_token": "-"}, {"form_token": ""}, {"form_token": their_own}):
        refused = visitor.post("/login", data={"login": "editor", "password": "editor", **token})
        assert refused.status_code == 400
        assert "Please try again" in refused.text
    assert visitor.get(APPS).status_code == 302
    sign_in(visitor)
    assert visitor.post("/logout", data={"form_token": their_own}).status_code == 400
    assert visitor.get(APPS).status_code == 200
    left = visitor.post("/logout", data={"form_token": form_token(visitor.get("/").text)})
    assert (left.status_code, left.headers["Location"]) == (303, "/")
    assert visitor.get(APPS).status_code == 302


@pytest.mark.parametrize("elsewhere", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example"])
def test_the_login_page_leads_to_no_other_site(visitor: httpx.Client, elsewhere: str) -> None:
    path = str(httpx.URL("/login", params={"next": elsewhere}))
    assert sign_in(visitor, path=path).headers["Location"] == "/"


def test_the_login_page_can_be_neither_framed_nor_stored(visitor: httpx.Client) -> None:
    page = visitor.get("/login")
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Set-Cookie"].endswith("; HttpOnly; Path=/; SameSite=Lax")


def test_demo_users_cannot_sign_in_where_others_can_reach_the_site(garden: Server, tmp_path: Path) -> None:
    """Nor with a session from before."""
    with httpx.Client(base_url=garden.url, timeout=60) as before:
        sign_in(before)
        session = {"Cookie": f"garden_session={before.cookies['garden_session']}"}
    url = {"FLASK_JSONRPC_MCP_PUBLIC_URL": "https://garden.example"}
    with site(tmp_path, **url) as server, httpx.Client(base_url=server.url, timeout=60) as visitor:
        page = visitor.get("/login")
        assert page.headers["Set-Cookie"].endswith("; Secure; HttpOnly; Path=/; SameSite=Lax")
        assert "editor" not in page.text
        # The browser would send it by https only.
        held = {"Cookie": page.headers["Set-Cookie"].partition(";")[0]}
        form = {"login": "editor", "password": "editor", "form_token": form_token(page.text)}
        assert visitor.post("/login", data=form, headers=held).status_code == 403
        assert visitor.get(APPS, headers=session).headers["Location"] == f"/login?next={APPS}"


def test_without_its_url_a_site_for_others_has_no_oauth(tmp_path: Path) -> None:
    with site(tmp_path) as server, httpx.Client(base_url=server.url, timeout=60) as visitor:
        assert visitor.get("/login").status_code == 404
        assert visitor.get("/.well-known/oauth-authorization-server").status_code == 404
        assert visitor.get("/mcp/tools/list").status_code == 200


# AI clients


def test_an_ai_client_has_to_sign_in_and_everyone_else_may_read(garden: Server) -> None:
    refused = garden.request("/mcp", data={"jsonrpc": "2.0", "id": 1, "method": "initialize"})
    assert refused.status == 401
    assert garden.request("/mcp/tools/list").status == 200
    assert garden.request("/mcp/tools/list", headers=basic("editor")).status == 200


def test_make_serve_is_enough_for_a_client_to_sign_in_and_step_up(tmp_path: Path) -> None:
    """A newcomer starts it, gives a client its URL, and signs in on the login page of the site."""
    port = free_port()
    command = ["make", "serve", f"PORT={port}"]
    with running(command, port, tmp_path, cwd=ROOT, env=environment(tmp_path)) as server:
        seen = CLIENTS["python-sdk-2"].sign_in(server, "articles.list", "articles.create", login="editor")
    assert "articles.create" in seen["tools"]
    assert "cache.rebuild" not in seen["tools"]  # the editor may not use it
    assert [set(scope.split()) - {"offline_access"} for scope in seen["asked"]] == [{READ}, set(BOTH.split())]
    assert seen["results"][1].startswith("Invalid arguments: /title")  # it was called with none, after the consent


# In a browser


@pytest.fixture
def page(garden: Server, driver: Chrome) -> Iterator[Explorer]:
    """The explorer, in a browser in which no one is signed in."""
    page = Explorer(driver, garden.url)
    page.command("Network.clearBrowserCookies")
    page.complaints()
    yield page
    for handle in driver.window_handles[1:]:
        driver.switch_to.window(handle)
        driver.close()
    driver.switch_to.window(driver.window_handles[0])
    assert page.complaints() == []


def open_login_page(page: Explorer) -> str:
    """Ask the explorer for it; return the window of the explorer."""
    explorer = page.driver.current_window_handle
    page.press("Sign in", ".bar")
    page.wait_for(".choice span", "Login page").click()
    page.press("Continue", "dialog")
    page.wait_for("dialog button", "Waiting")
    go_to_new_window(page)
    return explorer


def go_to_new_window(page: Explorer) -> None:
    page._wait(lambda driver: len(driver.window_handles) == 2, "second window")
    [_, new] = page.driver.window_handles
    page.driver.switch_to.window(new)


def log_in(page: Explorer, name: str = "editor") -> None:
    page.wait_for("h1", "Sign in")
    page.fill("User name", name)
    page.fill("Password", name)
    page.press("Sign in")


def come_back(page: Explorer, explorer: str) -> None:
    """The new window closes by itself."""
    page._wait(lambda driver: driver.window_handles == [explorer], "first window alone")
    page.driver.switch_to.window(explorer)


def check_in_all_forms(page: Explorer) -> None:
    """Nothing for axe to find, in light and in dark colours, and on a phone nothing that is too wide."""
    for scheme, (width, height) in (("light", DESKTOP), ("dark", DESKTOP), ("light", PHONE)):
        page.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 400
        )
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        assert page.violations() == []
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_someone_signs_in_consents_calls_and_disconnects(page: Explorer, garden: Server) -> None:
    page.open("#/tools/articles.create")
    page.wait_for("h1", "Sign in to begin")
    explorer = open_login_page(page)
    page.wait_for("p", "An app wants to connect to your account")
    check_in_all_forms(page)
    page.fill("User name", "editor")
    page.fill("Password", "wrong")
    page.press("Sign in")
    page.wait_for("[role=alert]", "is wrong")
    check_in_all_forms(page)
    page.fill("Password", "editor")
    page.press("Sign in")

    page.wait_for("h1", "Connect Explorer to elm-street-garden?")
    assert page.texts("ul li") == ["Read and search articles", "Write, change and delete articles in your name"]
    check_in_all_forms(page)
    page.press("Allow")
    come_back(page, explorer)
    assert page.wait_for(".user").text == "Signed in as editor"
    page.fill("title", "By OAuth")
    page.press("Run")
    assert page.result()["author"] == "editor"
    assert page.violations() == []

    page.driver.switch_to.new_window("tab")
    page.show(APPS)
    page.wait_for("h2", "Explorer")
    check_in_all_forms(page)
    page.press("Disconnect")
    page.wait_for("[role=status]", "Explorer has been disconnected.")
    check_in_all_forms(page)
    page.driver.close()
    page.driver.switch_to.window(explorer)
    page.press("Run")
    page.wait_for("main p", "Your sign-in has ended.")
    assert page.wait_for(".trouble").text == "Your sign-in has ended."
    assert page.violations() == []


def test_the_explorer_keeps_no_token_in_the_browser(page: Explorer) -> None:
    page.open()
    explorer = open_login_page(page)
    log_in(page)
    page.press("Allow")
    come_back(page, explorer)
    page.wait_for(".user", "editor")
    stored = "return [localStorage.length, sessionStorage.length, document.cookie, location.search]"
    assert page.driver.execute_script(stored) == [0, 0, "", ""]
    page.driver.refresh()
    page.wait_for("h1", "Sign in to begin")


def test_signing_out_revokes_the_token(page: Explorer, garden: Server) -> None:
    page.open()
    explorer = open_login_page(page)
    log_in(page, "admin")
    page.press("Allow")
    come_back(page, explorer)
    page.wait_for(".user", "admin")
    page.press("Sign out", ".bar")
    page.wait_for("h1", "Sign in to begin")
    page.show(APPS)
    page.wait_for("p", "No app is connected to your account.")


def test_what_goes_wrong_on_the_way_is_said_in_the_dialog(page: Explorer) -> None:
    page.open()
    explorer = open_login_page(page)
    log_in(page)
    page.press("Cancel")
    come_back(page, explorer)
    assert page.wait_for("dialog [role=alert]").text == "You have not allowed it."
    assert page.violations() == []
    page.press("Cancel", "dialog")
    assert page.texts(".user") == []
