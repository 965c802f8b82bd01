"""The pages for people: the consent page and the connected apps, as text and in a real browser."""

from __future__ import annotations

import http.server
import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.oauth_server.conftest import CHALLENGE, Site, answer_in, assert_error, assert_page
from tests.support.browser import DESKTOP, PATIENCE, PHONE
from tests.support.servers import ROOT, Server, gunicorn, listen, need_made

AXE = ROOT / "tests/explorer/node_modules/axe-core/axe.min.js"


def text_of(page: Any) -> str:
    """What a person reads on a page."""
    content = page.text.partition("<main>")[2].partition("</main>")[0]
    return re.sub(r"\s+([.?”])", r"\1", " ".join(re.sub(r"<[^>]+>", " ", content).split()))


def test_the_consent_page_says_who_asks_for_what(plain_site: Site) -> None:
    plain_site.log_in("ada")
    callback = "https://claude.ai/api/mcp/auth_callback"
    client_id = plain_site.client_id(client_name="Claude", redirect_uris=[callback])
    page = plain_site.authorize(
        client_id=client_id, redirect_uri=callback, scope="articles:write articles:read", state=None
    )
    assert text_of(page) == (
        "Connect Claude to site? You are signed in as ada. The app will be able to: Read articles Write articles in"
        " your name The app calls itself “ Claude”. site cannot check this name. You will be sent to claude.ai. Allow"
        " Cancel"
    )


def test_the_consent_page_warns_of_programs_on_the_own_machine(plain_site: Site) -> None:
    plain_site.log_in("ada")
    warning = "You will be sent to a program on your own device ( 127.0.0.1:3030 )."
    assert warning in text_of(plain_site.authorize())
    client_id = plain_site.client_id(redirect_uris=["cursor://anysphere/callback"])
    page = plain_site.authorize(client_id=client_id, redirect_uri="cursor://anysphere/callback")
    assert "You will be sent to a program on your own device ( cursor: )." in text_of(page)


def test_the_consent_page_calls_people_by_their_name(plain_site: Site) -> None:
    plain_site.users["ada"] = type("User", (), {"id": "ada", "name": "Ada <Lovelace>"})()
    plain_site.log_in("ada")
    assert "You are signed in as <strong><bdi>Ada &lt;Lovelace&gt;</bdi></strong>." in plain_site.authorize().text


def test_an_app_can_have_a_consent_page_of_its_own(tmp_path: Path) -> None:
    site = Site(tmp_path, template="ours.html")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/ours.html").write_text(
        '{{ client_name }} {{ scopes }} <form action="{{ action }}"><input name="proof" value="{{ proof }}"></form>'
    )
    site.app.jinja_loader.searchpath.append(str(tmp_path / "templates"))  # type: ignore[union-attr]
    site.log_in("ada")
    page = site.authorize()
    assert page.text.startswith("Test [&#39;Read articles&#39;] ")
    assert page.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert "code" in answer_in(site.decide(page))


def disconnect(site: Site, page: Any, **form: Any) -> Any:
    [proof, *_] = re.findall(r'name="proof" value="([^"]+)"', page.text)
    return site.browser.post("/oauth/apps", data={"proof": proof, **form})


def test_connected_apps_are_listed_and_disconnected(site: Site) -> None:
    site.log_in("ada")
    assert text_of(site.browser.get("/oauth/apps")) == "Connected apps No app is connected to your account."
    claude = site.client_id(client_name="Claude")
    tokens = [site.sign_in(client_id=claude), site.sign_in(client_id=claude, scope="articles:write"), site.sign_in()]
    of_eve = site.sign_in("eve", client_id=claude)
    site.log_in("ada")
    page = site.browser.get("/oauth/apps")
    [day] = set(re.findall(r"\d{4}-\d\d-\d\d", text_of(page)))
    assert text_of(page) == (
        f"Connected apps These apps can use site as ada. Claude Connected on {day}. It can: Read articles Write"
        f" articles in your name Disconnect Test Connected on {day}. It can: Read articles Disconnect"
    )
    after = disconnect(site, page, client_id=claude)
    assert text_of(after).startswith("Connected apps Claude has been disconnected. These apps can use site")
    assert [site.runs(each) for each in (*tokens, of_eve)] == [False, False, True, True]


@pytest.mark.parametrize(("home", "links"), [("/", ['<a href="/below/">Back to site</a>']), ("/start", [])])
def test_connected_apps_have_a_link_to_the_home_page_if_there_is_one(
    plain_site: Site, home: str, links: list[str]
) -> None:
    plain_site.app.add_url_rule(home, "home", lambda: "home")
    plain_site.log_in("ada")
    page = plain_site.browser.get("/oauth/apps", base_url="http://localhost/below")
    assert (page.status_code, re.findall("<a .*</a>", page.text)) == (200, links)


def test_connected_apps_are_disconnected_by_their_person_only(plain_site: Site) -> None:
    tokens = plain_site.sign_in()
    plain_site.log_in("eve")
    of_eve = plain_site.browser.get("/oauth/apps")
    plain_site.sign_in("eve")
    of_eve = plain_site.browser.get("/oauth/apps")
    disconnect(plain_site, of_eve, client_id=plain_site.client_id())
    plain_site.log_in("ada")
    assert_page(disconnect(plain_site, of_eve, client_id=plain_site.client_id()))
    assert_page(plain_site.browser.post("/oauth/apps", data={"client_id": plain_site.client_id()}))
    assert plain_site.runs(tokens)
    plain_site.log_in(None)
    assert plain_site.browser.get("/oauth/apps").headers["Location"] == "/login?next=/oauth/apps"


def test_pages_say_that_the_storage_fails(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tokens, code = site.sign_in(), site.code()
    (tmp_path / "instance/grants.sqlite").write_bytes(b"not a database" * 1000)
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"instance/grants.sqlite{suffix}").unlink(missing_ok=True)
    assert_page(site.browser.get("/oauth/apps"), 503)
    assert_error(site.redeem(code), "temporarily_unavailable", 503)
    unavailable = site.call(tokens["access_token"])
    assert (unavailable.status_code, unavailable.headers["Retry-After"]) == (503, "5")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, listener = tmp_path_factory.mktemp("site"), listen()
    env = {"PUBLIC_URL": f"http://127.0.0.1:{listener.getsockname()[1]}", "GRANTS": str(folder / "grants.sqlite")}
    with gunicorn("tests.apps.oauth_server_app:create_app()", folder, env=env, listener=listener) as running:
        yield running


@pytest.fixture(scope="module")
def callback() -> Iterator[str]:
    """The client, waiting for the browser on this machine."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>back at the client</title>")

        def log_message(self, *args: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as waiting:
        thread = threading.Thread(target=waiting.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{waiting.server_port}/callback"
        waiting.shutdown()
        thread.join()


def show(driver: Chrome, size: tuple[int, int], scheme: str) -> None:
    width, height = size
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE},
    )
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


def assert_accessible(driver: Chrome) -> None:
    need_made(AXE.parents[1] / ".installed", "clients")
    driver.execute_script(AXE.read_text())
    for scheme in ("light", "dark"):
        for size in (DESKTOP, PHONE):
            show(driver, size, scheme)
            report = driver.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[0])")
            assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in report["violations"]] == []
            assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_a_person_connects_and_disconnects_an_app_in_a_browser(server: Server, driver: Chrome, callback: str) -> None:
    """Without a script, and with nothing that axe or the browser complain about."""
    registered = server.request("/oauth/register", data={"client_name": "Claude", "redirect_uris": [callback]}).json()
    query = (
        f"response_type=code&client_id={registered['client_id']}&redirect_uri={callback}&state=s&scope=articles:write"
        f"&code_challenge={CHALLENGE}&code_challenge_method=S256"
    )
    driver.get(f"{server.url}/oauth/authorize?{query}")
    driver.find_element(By.NAME, "login").send_keys("ada\n")
    wait = WebDriverWait(driver, PATIENCE)
    wait.until(lambda _: driver.title.startswith("Connect Claude"))
    assert_accessible(driver)
    driver.find_element(By.CSS_SELECTOR, "button.main").click()
    wait.until(lambda _: driver.title == "back at the client")
    assert driver.current_url.startswith(f"{callback}?code=")
    code = re.search(r"code=([^&]+)", driver.current_url)
    assert code is not None
    verifier = "v" * 43
    form = (
        f"grant_type=authorization_code&code={code[1]}&client_id={registered['client_id']}&redirect_uri={callback}"
        f"&code_verifier={verifier}"
    )
    token = post_form(server, "/oauth/token", form)["access_token"]
    assert server.invoke("write", {}, {"Authorization": f"Bearer {token}"}).json() == {"result": "written"}
    driver.get(f"{server.url}/oauth/apps")
    assert_accessible(driver)
    [button] = driver.find_elements(By.TAG_NAME, "button")
    assert button.accessible_name == "Disconnect Claude"
    button.click()
    wait.until(lambda _: "has been disconnected" in driver.page_source)
    assert_accessible(driver)
    assert server.invoke("write", {}, {"Authorization": f"Bearer {token}"}).status == 401
    driver.get(f"{server.url}/oauth/authorize")
    assert_accessible(driver)
    entries = driver.get_log("browser")  # type: ignore[no-untyped-call]
    [complaint] = [each["message"] for each in entries if each["message"].startswith(f"{server.url}/oauth/")]
    assert "the server responded with a status of 400" in complaint  # the last page


def post_form(server: Server, path: str, form: str) -> Any:
    request = urllib.request.Request(server.url + path, data=form.encode())
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())
