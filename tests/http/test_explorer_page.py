"""The explorer in a real browser: what people see, fill in and get."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.apps.explorer_app import BEYOND_JAVASCRIPT
from tests.support.browser import DESKTOP, PHONE, Explorer
from tests.support.servers import Server, gunicorn, need


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # One worker, because tests tell a running job in its memory to go on.
    folder = tmp_path_factory.mktemp("agency")
    with gunicorn("tests.apps.explorer_app:create_app()", folder, "--workers", "1") as running:
        yield running


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The sample site, as ``make serve`` runs it."""
    folder = tmp_path_factory.mktemp("garden")
    env = {"DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}", "SECRET_KEY": "key" * 16, "SITE_ENV": "development"}
    with gunicorn("wsgi:app", folder, "--config", "sample_app/gunicorn_conf.py", env=env) as running:
        yield running


def test_the_first_minutes_of_a_newcomer(garden: Server, driver: Chrome) -> None:
    page = Explorer(driver, garden.url)
    page.open()
    page.wait_for("h1", "Sign in to begin")
    page.sign_in("editor", "editor")
    page.press_link("Create an article")
    page.fill("title", "Hello from the explorer")
    page.fill("body", "It has *a form*.")
    page.press("Run")
    assert page.result()["author"] == "editor"
    again = json.loads(shell(page.snippet("curl"), answering="editor\n"))
    page.press_link("List articles")
    page.fill("limit", "2")
    page.press("Run")
    titles = [(article["title"], article["author"]) for article in page.result()["items"]]
    assert titles == [("Hello from the explorer", "editor")] * 2
    assert again["result"]["body"] == "It has *a form*."
    assert page.complaints() == []


def test_the_url_for_ai_clients_leads_here_in_a_browser(page: Explorer) -> None:
    page.driver.get(f"{page.url}/mcp")
    page.wait_for("h1", "agency")
    assert page.driver.current_url == f"{page.url}/mcp/explorer"


def test_the_sample_site_begins_with_a_page_that_leads_here(garden: Server, driver: Chrome) -> None:
    page = Explorer(driver, garden.url)
    page.show("/")
    curl, claude = page.texts("pre")
    assert len(json.loads(shell(curl))["result"]["matches"]) > 0
    assert claude == f"claude mcp add --transport http garden {garden.url}/mcp"
    for scheme in ("light", "dark"):
        page.show("/", scheme=scheme)
        assert page.violations() == []
    page.show("/", size=PHONE, touch=True)
    assert page.driver.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
    page.press_link("Open the explorer")
    page.wait_for("h1", "Sign in to begin")
    assert page.complaints() == []


# What there is


def test_it_lists_every_page_of_tools_by_namespace(page: Explorer) -> None:
    page.open()
    assert page.texts("nav .kind:first-child h3") == ["asks", "jobs", "shows", "trips"]
    trips = page.texts("nav .kind:first-child .group:last-child .title")
    assert trips == ["Book a trip", "trips.echo", "trips.unsaid", "trips.route"]


def test_kinds_that_a_server_has_not_are_not_shown(page: Explorer) -> None:
    page.open()
    assert page.texts("nav h2") == ["Tools", "Prompts", "Resources", "Resource templates"]
    many = Explorer(page.driver, f"{page.url}/many")
    many.open()
    assert many.texts("nav h2") == ["Tools"]


def test_the_list_can_be_searched_by_name_title_and_description(page: Explorer) -> None:
    page.open()
    page.fill_search("FOUR trip")
    assert page.texts("nav .title") == ["Book a trip"]
    assert page.texts("#found") == ["1 of 19"]
    page.fill_search("no such thing")
    assert page.texts("nav .title") == []
    assert page.texts("#found") == ["Nothing found"]


def test_a_thousand_tools_are_listed_and_found(page: Explorer) -> None:
    many = Explorer(page.driver, f"{page.url}/many")
    many.open()
    many.wait_for(".counts", "1,000 tools")
    assert len(many.driver.find_elements(By.CSS_SELECTOR, "nav li")) == 1000
    many.fill_search("book777")
    many.press_link("shelf17.book777")
    many.wait_for("h1", "shelf17.book777")


def test_a_tool_has_an_address_of_its_own(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    page.wait_for("h1", "Book a trip")
    assert page.driver.title == "Book a trip – agency"
    page.press_link("trips.echo")
    page.wait_for("h1", "trips.echo")
    page.driver.back()
    page.wait_for("h1", "Book a trip")
    assert page.texts("nav [aria-current='page'] .title") == ["Book a trip"]


def test_what_is_not_there_may_need_a_sign_in(page: Explorer) -> None:
    page.open("#/tools/trips.cancel")
    page.wait_for("main", "does not exist, or you have to sign in to see it")
    page.sign_in("admin", "admin")
    page.wait_for("h1", "Cancel a trip")


def test_an_address_that_is_none_is_told(page: Explorer) -> None:
    page.open("#/tools/%E0%A4%A")
    page.wait_for("h1", "Not here")


def test_hints_and_permissions_are_shown(page: Explorer) -> None:
    page.open()
    page.sign_in("admin", "admin")
    page.press_link("Cancel a trip")
    page.wait_for(".facts", "administer")
    assert page.texts(".facts code") == ["administer", "write"]
    assert page.texts(".badge") == ["Destructive", "Idempotent"]


def test_schemas_are_shown_as_tables_and_as_they_are(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    rows = page.texts(".schemas section:first-child tbody tr")
    assert [row.split() for row in rows if row.startswith("age")] == [["age", "required", "integer", "0", "to", "130"]]
    assert [row.split()[0] for row in rows][:5] == ["period", "start", "end", "guests", "name"]
    page.press_summary("JSON Schema")
    page.wait_for(".schemas .more", "Show all").click()
    assert json.loads(page.wait_for(".schemas pre").text)["required"] == ["period", "guests"]


# Connecting AI clients


def test_the_start_page_has_what_to_paste_into_each_ai_client(page: Explorer) -> None:
    allow_clipboard(page)
    page.open()
    page.wait_for(".connect .address", f"{page.url}/mcp")
    assert len(page.texts(".connect .tab")) == 9
    for client in page.texts(".connect .tab"):
        page.press(client, ".connect")
        assert page.url in page.wait_for(".connect pre").text
    page.press("Gemini CLI", ".connect")
    page.press("Copy", ".connect .tab-bar")
    page.wait_for(".connect .tab-bar .copy", "Copied")
    assert json.loads(clipboard(page))["mcpServers"]["agency"] == {
        "httpUrl": f"{page.url}/mcp",
        "headers": {"Authorization": "Bearer ${MCP_AGENCY_TOKEN}"},
    }
    page.wait_for(".connect .notes code", "MCP_AGENCY_TOKEN")


def test_the_command_for_a_client_works(page: Explorer) -> None:
    """That of the MCP Inspector, as far as a shell reads it."""
    keyed = Explorer(page.driver, f"{page.url}/keyed")
    keyed.open()
    keyed.press("MCP Inspector", ".connect")
    command = keyed.wait_for(".connect pre").text.replace("npx @modelcontextprotocol/inspector", "printf '%s\\n'")
    parts = shell(f"MCP_AGENCY_KEY=key; {command}").splitlines()
    assert (parts[1], parts[-1]) == (f"{page.url}/keyed/mcp", "X-Key: key")


def test_the_start_page_can_be_reached_from_everywhere(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    page.press_link("Connect an AI client")
    page.wait_for(".connect")
    assert page.texts("nav [aria-current='page']") == ["Connect an AI client"]
    page.open(size=PHONE, touch=True)
    assert page.texts("main") == []
    page.press_link("Connect an AI client")
    page.wait_until("document.activeElement.tagName === 'H1'")
    page.wait_for(".connect pre", "mcpServers")
    page.press_link("← Everything")
    page.wait_for("nav .title", "Book a trip")


# Filling in and running


def test_a_nested_form_sends_what_is_filled_in_and_nothing_else(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    set_value(page, "start", "2026-04-05")
    page.press("Add item", "fieldset:has(> legend .name)")
    page.fill("name", "Ada")
    page.fill("age", "36")
    page.fill("board", "half")
    page.driver.find_element(By.XPATH, "//label[contains(., 'hills')]").click()
    page.press("Run")
    booked = page.result()
    assert booked["period"] == {"start": "2026-04-05", "end": None}
    assert booked["guests"] == [{"name": "Ada", "age": 36, "vegetarian": False}]
    sent = body_of(page.snippet("JSON-RPC"))["params"]
    assert sent == {
        "period": {"start": "2026-04-05"},
        "guests": [{"name": "Ada", "age": 36}],
        "board": "half",
        "tags": ["hills"],
    }


def test_a_list_that_is_too_short_is_told_at_the_list(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    set_value(page, "start", "2026-04-05")
    page.press("Run")
    page.wait_for(".field.wrong > .error", "must have at least 1 item")
    page.wait_until("document.activeElement.ariaLabel === 'Add item to guests'")


def test_rows_can_be_removed_and_null_is_sent_where_it_is_ticked(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    for name in ("Ada", "Bob"):
        page.press("Add item")
        page.type(name)
    page.press("Remove")
    page.driver.find_element(By.CSS_SELECTOR, "[aria-label='budget: send null']").click()
    sent = body_of(page.snippet("JSON-RPC"))["params"]
    assert sent == {"period": {}, "guests": [{"name": "Bob"}], "budget": None}


def test_a_date_and_time_is_sent_as_the_same_moment_in_utc(page: Explorer) -> None:
    page.command("Emulation.setTimezoneOverride", timezoneId="America/New_York")
    try:
        page.open("#/tools/trips.book")
        set_value(page, "pickup", "2026-01-31T20:30")
        assert body_of(page.snippet("JSON-RPC"))["params"]["pickup"] == "2026-02-01T01:30:00Z"
    finally:
        page.command("Emulation.setTimezoneOverride", timezoneId="")


def test_references_alternatives_and_anything_else_can_be_filled_in(page: Explorer) -> None:
    """A place has parts that are places; a contact is a text or an object; anything at all is JSON."""
    page.open("#/tools/trips.echo")
    page.fill("name", "Garden")
    page.press("Add item")
    page.type("Bed")
    select(page, "contact: kind of value", "Phone")
    page.fill("number", "12")
    page.fill("anything", '[1, {"two": null}]')
    page.fill_last("number", "555")
    page.press("Run")
    assert page.result() == {
        "place": {"name": "Garden", "parts": [{"name": "Bed"}]},
        "number": 12,
        "contact": {"number": "555"},
        "anything": [1, {"two": None}],
    }


def test_every_digit_of_a_number_is_kept(page: Explorer) -> None:
    """JavaScript's own numbers would be off by one."""
    page.open("#/tools/trips.echo")
    page.fill("name", "Garden")
    page.fill("number", str(BEYOND_JAVASCRIPT))
    page.press("Run")
    assert page.result()["number"] == BEYOND_JAVASCRIPT


def test_what_is_wrong_is_told_at_its_field(page: Explorer) -> None:
    page.open("#/tools/trips.book")
    page.press("Add item")
    page.type("Ada")
    page.fill("age", "200")
    page.press("Run")
    page.wait_for(".outcome .status.bad")
    assert page.texts(".field.wrong:not(:has(.wrong)) > .error") == ["is required", "must be at most 130"]
    assert page.driver.switch_to.active_element == page.control("start")
    assert page.control("age").get_attribute("aria-invalid") == "true"
    set_value(page, "start", "2026-04-05")
    page.fill("age", "36")
    page.press("Run")
    assert page.result()["guests"] == [{"name": "Ada", "age": 36, "vegetarian": False}]
    assert page.texts(".error") == []


def test_arguments_can_be_written_as_json(page: Explorer) -> None:
    page.open("#/tools/trips.echo")
    page.fill("name", "Garden")
    page.press("Edit as JSON")
    area = page.wait_for("textarea.whole")
    assert json.loads(area.get_attribute("value") or "") == {"place": {"name": "Garden"}}
    area.clear()
    area.send_keys('{"place": {"name": "Shed"')
    page.press("Run")
    page.wait_for(".form .error", "This is not JSON")
    area.send_keys("}}")
    page.press("Run")
    assert page.result() == {"place": {"name": "Shed"}}
    page.press("Edit as a form")
    assert page.control("name").get_attribute("value") == "Shed"


def test_json_that_the_form_has_no_place_for_stays_json(page: Explorer) -> None:
    page.open("#/tools/trips.echo")
    page.press("Edit as JSON")
    area = page.wait_for("textarea.whole")
    area.clear()
    area.send_keys('{"plaec": 1}')
    page.press("Edit as a form")
    page.wait_for(".form .error", "The form has no place for some of this")
    assert area.get_attribute("value") == '{"plaec": 1}'


def test_a_tool_that_may_destroy_is_run_after_a_question(page: Explorer) -> None:
    """By MCP's default: unless it says that it only reads, or that it destroys nothing."""
    page.open("#/tools/trips.unsaid")
    page.press("Run")
    page.wait_for("dialog", "Run trips.unsaid?")
    page.type(Keys.ESCAPE)
    page.wait_until("!document.querySelector('dialog')")
    assert page.texts(".outcome") == []
    page.press("Run")
    page.press("Run it", "dialog")
    page.wait_for(".outcome .status.good")


def test_every_kind_of_content_is_shown(page: Explorer) -> None:
    page.open("#/tools/shows.everything")
    page.press("Run")
    assert page.result()["id"] == BEYOND_JAVASCRIPT
    page.press("Content", ".outcome")
    page.wait_until("document.querySelector('.blocks img').naturalWidth === 1")
    page.wait_until("document.querySelector('.blocks audio').duration > 0")
    links = [link.get_attribute("href") for link in page.driver.find_elements(By.CSS_SELECTOR, ".blocks a")]
    assert links == ["https://site.example/report.pdf", f"{page.url}/mcp/explorer#/resources/javascript%3Aalert(1)"]


def test_a_list_of_objects_is_a_table(page: Explorer) -> None:
    page.open("#/tools/shows.hotels")
    page.press("Run")
    page.wait_for(".outcome table")
    assert page.texts(".outcome th") == ["id", "name", "stars", "pool", "near", "address", "praise", "manager"]
    first = page.texts(".outcome tbody tr:first-child td")
    assert first[:5] == ["1", "Hotel <i>1</i>", "null", "false", "sea, station"]
    assert first[5:7] == ['{"street": "Long Lane", "number": 1}', "Quiet rooms."]
    page.press("JSON", ".outcome")
    page.wait_for(".outcome pre", "Hotel <i>1</i>")


def test_facts_beside_a_list_of_objects_are_above_the_table(page: Explorer) -> None:
    page.open("#/tools/shows.page")
    page.press("Run")
    page.wait_for(".outcome table")
    assert page.texts(".outcome tbody td") == ["1", "", "2", "Sea View"]
    assert page.texts(".outcome .facts dt") == ["total", "next"]
    assert page.texts(".outcome .facts dd") == ["9", "null"]
    assert page.result() == {"items": [{"id": 1}, {"id": 2, "name": "Sea View"}], "total": 9, "next": None}


@pytest.mark.parametrize("count", [3, 60], ids=["short", "long"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_wide_table_scrolls_within_itself(page: Explorer, size: tuple[int, int], count: int) -> None:
    page.open("#/tools/shows.hotels", size=size, touch=size == PHONE)
    page.fill("count", str(count))
    page.press("Run")
    table = page.wait_for(".outcome .scrolls")
    inside, across = page.driver.execute_script(
        "return [arguments[0].scrollWidth - arguments[0].clientWidth, document.documentElement.scrollWidth]", table
    )
    assert (inside > 100, across) == (True, size[0])


def test_what_is_long_is_cut_and_can_be_seen_whole(page: Explorer) -> None:
    page.open("#/tools/shows.letter")
    page.fill("lines", "500")
    page.press("Run")
    page.press("Show all 500 lines", ".outcome")
    assert page.wait_for(".outcome pre").text.endswith("\nLine 500")
    page.press("Show less", ".outcome")
    assert 10 < len(page.wait_for(".outcome pre").text.splitlines()) < 100
    page.press_link("List hotels")
    page.fill("count", "200")
    page.press("Run")
    page.press("Show all 200 rows", ".outcome")
    assert len(page.driver.find_elements(By.CSS_SELECTOR, ".outcome tbody tr")) == 200
    page.press("Show all", ".outcome")
    assert "Quiet rooms. " * 49 in page.texts(".outcome tbody tr:nth-child(2) td:nth-child(7)")[0]


def test_a_result_can_be_copied_and_collapsed(page: Explorer) -> None:
    allow_clipboard(page)
    page.open("#/tools/shows.hotels")
    page.press("Run")
    page.wait_for(".outcome table")
    page.press("Copy", ".outcome")
    page.wait_for(".outcome .copy", "Copied")
    assert [hotel["id"] for hotel in json.loads(clipboard(page))] == [1, 2, 3]
    page.press("Reply", ".outcome")
    page.press("Copy", ".outcome")
    page.wait_until("navigator.clipboard.readText().then(text => text.includes('structuredContent'))")
    page.press("Collapse", ".outcome")
    assert page.texts(".outcome pre, .outcome .tab") == []
    page.press("Expand", ".outcome")
    page.wait_for(".outcome pre", "structuredContent")


def test_nothing_from_the_server_is_taken_for_html(page: Explorer) -> None:
    page.open("#/tools/hostile")
    page.press("Run")
    page.wait_for(".outcome .status.good")
    page.press_link("Every kind of content")
    page.press("Run")
    page.wait_for(".outcome .status.good")
    page.press_link("shows.failure")
    page.press("Run")
    page.wait_for(".failure", "The <i>agency</i> is closed")
    assert "broken" not in page.driver.title
    assert page.driver.find_elements(By.CSS_SELECTOR, "main img, main b, main i, main script") == []


def test_an_argument_that_travels_in_a_header_does(page: Explorer) -> None:
    page.open("#/tools/trips.route")
    page.fill("region", "Zürich")
    page.press("Run")
    assert page.result() == ["Zürich", 1]
    assert "Mcp-Param-Region: =?base64?WsO8cmljaA==?=" in page.snippet("MCP")


def test_a_server_that_does_not_answer_is_told(page: Explorer) -> None:
    page.open("#/tools/shows.everything")
    page.command("Network.enable")
    page.command("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    try:
        page.press("Run")
        page.wait_for(".failure", "The server did not answer")
    finally:
        page.command(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )


# On the way


def test_progress_is_shown_while_a_tool_runs(page: Explorer, server: Server) -> None:
    page.open("#/tools/jobs.pack")
    page.fill("suitcase", "blue")
    page.press("Run")
    page.wait_for(".progress .status", "3 of 4")
    assert page.driver.execute_script("return document.querySelector('progress').value") == 3
    assert page.texts(".messages li") == ["Shirts", "info: The suitcase is small", "Shoes <b>and</b> socks"]
    tell(server, "jobs.go_on", "blue")
    page.wait_for(".outcome .status.good")
    assert page.texts(".outcome pre") == ["packed"]


def test_a_flood_of_messages_costs_a_layout_per_frame_and_not_per_message(page: Explorer, server: Server) -> None:
    lines = 20_000  # a megabyte
    page.open("#/tools/jobs.recite")
    page.fill("poem", "long")
    page.fill("lines", str(lines))
    before = layouts(page)
    page.press("Run")
    page.wait_for(".progress .status", f"{lines} of {lines}")
    assert layouts(page) - before < lines / 10
    assert page.driver.execute_script("return document.querySelector('progress').value") == lines
    shown = page.texts(".messages li")
    assert shown[-1] == f"Line {lines} of a poem that takes no end"
    assert page.texts(".left-out") == [f"{lines - len(shown):,} earlier messages are left out"]
    assert len(shown) <= 200
    tell(server, "jobs.go_on", "long")
    page.wait_for(".outcome .status.good")


def test_a_running_tool_can_be_cancelled(page: Explorer, server: Server) -> None:
    page.open("#/tools/jobs.pack")
    page.fill("suitcase", "red")
    page.press("Run")
    page.wait_for(".progress .status", "3 of 4")
    page.tab_to("Cancel")
    page.type(Keys.ENTER)
    page.wait_for(".outcome .status", "Cancelled after")
    page.wait_until("document.activeElement.innerText === 'Run'")
    assert tell(server, "jobs.was_cancelled", "red") is True


def test_a_tool_that_asks_back_is_answered_in_a_form(page: Explorer) -> None:
    page.open("#/tools/asks.seat")
    page.press("Run")
    page.wait_for(".question", "Where do you want to sit?")
    page.fill("row", "7")
    page.fill("seat", "aisle")
    page.press("Send", ".question")
    page.wait_until("document.activeElement.className === 'status good'")
    assert page.result() == {"action": "accept", "content": {"row": 7, "seat": "aisle"}}


def test_a_question_can_be_declined_or_left_alone(page: Explorer) -> None:
    page.open("#/tools/asks.seat")
    page.press("Run")
    page.press("Decline", ".question")
    assert page.result() == {"action": "decline", "content": None}
    for place in (".question", ".try"):
        page.press("Run")
        page.wait_for(".question")
        page.press("Cancel", place)
        page.wait_for(".outcome .status", "Cancelled")


def test_a_tool_that_wants_a_page_opened_shows_where(page: Explorer) -> None:
    page.open("#/tools/asks.page")
    page.press("Run")
    page.wait_for(".question strong", "pay.example")
    assert page.wait_for(".question a").get_attribute("href") == "https://pay.example/now"
    page.press("Done, go on", ".question")
    page.wait_for(".outcome pre", "accept")


def test_a_destructive_tool_that_the_server_asks_about_is_asked_about_once(page: Explorer) -> None:
    """By its ``confirm=``, which names what is at stake; the page leaves out its own question."""
    page.open("#/tools/asks.first")
    page.fill("place", "Rome")
    page.press("Run")
    page.wait_for(".question", 'Really go to "Rome"?')
    assert page.texts(".badge") == ["Destructive", "Asks first"]
    page.press("Accept", ".question")
    page.wait_for(".outcome pre", "gone to Rome")


# Prompts and resources


def test_a_prompt_is_filled_in_and_shown(page: Explorer) -> None:
    page.open("#/prompts/letters.thank")
    page.fill("name", "Ad")
    page.wait_until("[...document.querySelectorAll('datalist option')].map(e => e.value).join() === 'Ada,Adele'")
    page.fill("name", "Ada")
    page.press("Get")
    page.wait_for(".outcome .status.good")
    assert page.texts(".message") == ["user\nThank Ada in a warm tone.", "assistant\nGladly."]
    assert send(page.snippet("MCP"))["result"]["messages"][0]["content"]["text"] == "Thank Ada in a warm tone."


def test_what_is_wrong_with_a_prompt_is_told(page: Explorer) -> None:
    page.open("#/prompts/letters.thank")
    page.press("Get")
    page.wait_for(".field.wrong .error", "is required")


def test_resources_are_read(page: Explorer) -> None:
    page.open(f"#/resources/{quote('agency://motto', safe='')}")
    page.wait_for("h1", "Our motto")
    page.press("Get")
    page.wait_for(".outcome pre", "Go <b>far</b>.")
    page.press_link("stamp")
    page.wait_for("h1", "stamp")
    page.press("Get")
    page.wait_until("document.querySelector('.outcome img')?.naturalWidth === 1")


def test_a_template_of_resources_is_filled_in(page: Explorer) -> None:
    page.open()
    page.press_link("A trip")
    page.fill("id", "a/b ü")
    page.press("Get")
    page.wait_for(".outcome .status.good")
    assert json.loads(page.wait_for(".outcome pre").text) == {"id": "a/b ü"}
    assert json.loads(shell(page.snippet("curl")))["result"]["contents"][0]["uri"] == "agency://trips/a%2Fb%20%C3%BC"


# Signing in


def test_a_wrong_password_says_so_and_a_right_one_shows_more(page: Explorer) -> None:
    page.open()
    page.sign_in("admin", "wrong")
    page.wait_for("dialog .error", "Wrong user name or password")
    page.fill("Password", "admin")
    page.press("Sign in", "dialog")
    page.wait_for(".who", "Signed in as admin")
    page.wait_for("nav", "Cancel a trip")
    page.press("Sign out")
    page.wait_until("!document.querySelector('nav').innerText.includes('Cancel a trip')")


def test_a_token_signs_in(page: Explorer) -> None:
    page.open()
    page.press("Sign in", ".bar")
    page.driver.find_element(By.XPATH, "//dialog//label[contains(., 'Token')]").click()
    page.fill("Token", "admin-token")
    page.press("Sign in", "dialog")
    page.wait_for("nav", "Cancel a trip")


def test_a_token_in_a_header_of_its_own_signs_in(page: Explorer) -> None:
    keyed = Explorer(page.driver, f"{page.url}/keyed")
    keyed.open()
    keyed.press("Sign in", "main")
    keyed.fill("Token", "key")
    keyed.press("Sign in", "dialog")
    keyed.wait_for("nav", "keyed")


def test_what_is_filled_in_survives_a_sign_in_and_is_gone_with_a_sign_out(page: Explorer) -> None:
    page.open("#/tools/trips.route")
    page.fill("region", "north")
    page.sign_in("reader", "reader")
    page.wait_for(".who", "Signed in as reader")
    assert page.control("region").get_attribute("value") == "north"
    assert "-u 'reader'" in page.snippet("curl")
    page.press("Sign out")
    page.wait_until("document.querySelector('main input')?.value === ''")


def test_a_sign_in_that_no_page_can_do_is_told(page: Explorer) -> None:
    digest = Explorer(page.driver, f"{page.url}/digest")
    digest.open()
    digest.wait_for(".who", "Sign-in by Digest is not possible on this page")
    assert "Sign in" not in digest.texts("main button")


def test_where_everything_is_closed_it_begins_with_a_sign_in(page: Explorer) -> None:
    closed = Explorer(page.driver, f"{page.url}/closed")
    closed.open()
    closed.wait_for("h1", "Sign in to begin")
    closed.press("Sign in", "main")
    closed.fill("User name", "reader")
    closed.fill("Password", "reader")
    closed.press("Sign in", "dialog")
    closed.wait_for("nav", "secret")


def test_secrets_are_in_memory_only(page: Explorer) -> None:
    page.open("#/tools/trips.route")
    page.press("Sign in", ".bar")
    page.driver.find_element(By.XPATH, "//dialog//label[contains(., 'Token')]").click()
    page.fill("Token", "admin-token")
    page.press("Sign in", "dialog")
    page.wait_for(".who", "Signed in with a token")
    shown = [page.snippet(tab) for tab in ("curl", "JSON-RPC", "MCP", "Python")]
    kept = page.driver.execute_script(
        "return [document.cookie, location.href, document.documentElement.outerHTML,"
        " JSON.stringify(localStorage), JSON.stringify(sessionStorage), JSON.stringify(history.state)]"
    )
    assert "admin-token" not in "".join([*shown, *kept])
    page.driver.refresh()
    page.wait_for("#sign-in")


# The same call elsewhere


def test_the_same_call_works_everywhere_it_is_pasted(page: Explorer) -> None:
    page.open("#/tools/trips.echo")
    place = {"name": 'Ada\'s "shed" $HOME `id` \\ Žižkov'}
    page.fill("name", place["name"])
    page.fill("number", "7")
    expected = {"place": place, "number": 7}
    assert json.loads(shell(page.snippet("curl")))["result"] == expected
    assert send(page.snippet("JSON-RPC"))["result"] == expected
    assert send(page.snippet("MCP"))["result"]["structuredContent"] == expected
    assert python(page.snippet("Python")) == f"{expected}\n"


def test_the_reader_is_asked_for_the_password(page: Explorer) -> None:
    page.open("#/tools/trips.cancel")
    page.sign_in("admin", "admin")
    page.fill("id", "12345678-1234-1234-1234-123456789abc")
    assert json.loads(shell(page.snippet("curl"), answering="admin\n")) == {"result": True}
    assert python(page.snippet("Python"), answering="admin\n").endswith("True\n")


def test_the_same_call_can_be_copied(page: Explorer) -> None:
    allow_clipboard(page)
    page.open("#/tools/trips.route")
    page.fill("region", "north")
    page.press("Copy", ".same")
    page.wait_for(".same .copy", "Copied")
    copied = clipboard(page)
    assert copied == page.snippet("curl")
    assert json.loads(shell(copied)) == {"result": ["north", 1]}


# For everyone


def test_light_and_dark_follow_the_readers_system(page: Explorer) -> None:
    page.open(scheme="light")
    assert not is_dark(page)
    page.open(scheme="dark")
    assert is_dark(page)


def test_a_theme_that_was_chosen_is_remembered_until_the_system_is_chosen_again(page: Explorer) -> None:
    page.open(scheme="light")
    page.choose_theme("Dark")
    assert is_dark(page)
    page.open(scheme="light")
    assert is_dark(page)
    page.choose_theme("Light")
    page.open(scheme="dark")
    assert not is_dark(page)
    page.choose_theme("As the system")
    assert is_dark(page)
    page.open(scheme="light")
    assert not is_dark(page)
    assert page.driver.execute_script("return Object.keys(localStorage)") == []


def test_the_theme_is_there_before_the_page_is(page: Explorer) -> None:
    """So nothing is drawn in other colours first."""
    script = """
        window.seen = [];
        new MutationObserver(() => document.body && window.seen.push(document.documentElement.dataset.theme))
          .observe(document, {childList: true, subtree: true});
    """
    page.open()
    page.choose_theme("Dark")
    added = page.command("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        page.open()
        assert page.driver.execute_script("return window.seen[0]") == "dark"
    finally:
        page.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
        page.choose_theme("As the system")


def test_a_browser_that_keeps_nothing_can_change_the_theme(page: Explorer) -> None:
    """Where cookies are blocked, the mere mention of localStorage raises."""
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})"
    added = page.command("Page.addScriptToEvaluateOnNewDocument", source=refuse)
    try:
        page.open()
        page.choose_theme("Dark")
        assert is_dark(page)
    finally:
        page.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


@pytest.mark.parametrize(("size", "beside"), [(DESKTOP, {"NAV"}), (PHONE, set())], ids=["desktop", "phone"])
def test_the_page_scrolls_and_nothing_in_it_but_the_list(
    page: Explorer, size: tuple[int, int], beside: set[str]
) -> None:
    page.open(size=size, touch=size == PHONE)
    assert scrolling(page) <= {"HTML"} | beside
    for address, fields in [("trips.book", {}), ("shows.hotels", {"count": "200"}), ("shows.letter", {"lines": "200"})]:
        page.open(f"#/tools/{address}", size=size, touch=size == PHONE)
        for name, value in fields.items():
            page.fill(name, value)
        page.press("Run")
        page.wait_for(".outcome .status")
        assert scrolling(page) == {"HTML"} | beside, address
        for more in page.driver.find_elements(By.CSS_SELECTOR, ".more"):
            page.driver.execute_script("arguments[0].click()", more)
        assert scrolling(page) == {"HTML"} | beside, address


def test_a_page_with_little_on_it_does_not_scroll(page: Explorer) -> None:
    page.open("#/tools/trips.unsaid", size=(1440, 2400))
    assert scrolling(page) == set()


@pytest.mark.parametrize("address", ["", "#/start", "#/tools/trips.book", "#/tools/shows.everything"])
def test_a_phone_needs_no_scrolling_sideways(page: Explorer, address: str) -> None:
    page.open(address, size=PHONE, touch=True)
    if address.startswith("#/tools"):
        page.press("Run")
        page.wait_for(".outcome .status")
    width, inner = page.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert (width, inner) == (PHONE[0], PHONE[0])


def test_on_a_phone_the_list_and_a_tool_are_pages_of_their_own(page: Explorer) -> None:
    page.open(size=PHONE, touch=True)
    page.press_link("Book a trip")
    page.wait_for("h1", "Book a trip")
    assert page.texts("nav .title") == []
    page.press_link("← Everything")
    page.wait_for("nav .title", "Book a trip")
    page.wait_until("document.activeElement.innerText.startsWith('Book a trip')")
    assert page.texts("main h1") == []


def test_the_keyboard_is_enough(page: Explorer) -> None:
    page.open()
    page.type("/", "route", Keys.ARROW_DOWN, Keys.ENTER)
    page.wait_for("h1", "trips.route")
    page.wait_until("document.activeElement.tagName === 'H1'")
    page.tab_to("region")
    page.type("north")
    page.tab_to("seats")
    page.type("3", Keys.CONTROL + Keys.ENTER)
    assert page.result() == ["north", 3]
    page.tab_to("Run")
    page.type(Keys.ENTER)
    page.wait_for(".outcome .status.good")
    assert page.driver.switch_to.active_element.text == "Run"
    page.tab_to("Result")
    page.type(Keys.ARROW_RIGHT)
    page.wait_for(".outcome pre", "structuredContent")


def test_the_keyboard_reaches_the_theme_and_what_can_be_done_with_a_result(page: Explorer) -> None:
    page.open("#/tools/shows.hotels")
    page.tab_to("As the system")
    page.type(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert is_dark(page)
    page.type(Keys.ARROW_RIGHT)
    assert not is_dark(page)
    page.tab_to("count")
    page.type("60", Keys.CONTROL + Keys.ENTER)
    page.wait_for(".outcome table")
    page.tab_to("Show all 60 rows")
    page.type(Keys.ENTER)
    page.wait_until("document.querySelectorAll('.outcome tbody tr').length === 60")
    assert page.driver.switch_to.active_element.text == "Show less"
    page.driver.execute_script("document.querySelector('.run').focus()")
    page.tab_to("Collapse")
    page.type(Keys.ENTER)
    assert page.driver.switch_to.active_element.text == "Expand"
    assert page.texts(".outcome table") == []


def test_a_screen_reader_hears_how_a_run_ended(page: Explorer) -> None:
    page.open("#/tools/shows.failure")
    page.press("Run")
    page.wait_until("document.querySelector('#announcer').textContent === 'The <i>agency</i> is closed'")


def is_dark(page: Explorer) -> bool:
    colour = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    assert not 150 < brightness < 600
    return brightness < 150


def opened(page: Explorer, scheme: str) -> Iterator[str]:
    """The states of the page that people meet."""
    page.open(scheme=scheme)
    yield "the start"
    page.press("Sign in", ".bar")
    page.fill("User name", "admin")
    page.press("Sign in", "dialog")
    page.wait_for("dialog .error")
    yield "a sign-in that failed"
    page.open("#/tools/trips.book", scheme=scheme)
    page.press("Add item")
    page.press("Run")
    page.wait_for(".outcome .status.bad")
    yield "a form with problems"
    page.open("#/tools/trips.echo", scheme=scheme)
    select(page, "contact: kind of value", "Phone")
    page.press("Edit as JSON")
    yield "a form as JSON"
    page.open("#/tools/shows.everything", scheme=scheme)
    page.press("Run")
    page.press("Content", ".outcome")
    yield "a result"
    page.open("#/tools/shows.hotels", scheme=scheme)
    page.fill("count", "60")
    page.press("Run")
    page.wait_for(".outcome table")
    yield "a table"
    page.open("#/tools/jobs.pack", scheme=scheme)
    page.fill("suitcase", scheme)
    page.press("Run")
    page.wait_for(".messages li", "Shirts")
    yield "a tool that runs"
    page.open("#/tools/trips.unsaid", scheme=scheme)
    page.press("Run")
    page.wait_for("dialog")
    yield "a question before running"
    page.open("#/tools/trips.book", scheme=scheme, size=PHONE, touch=True)
    yield "a phone"
    page.open("#/start", scheme=scheme, size=PHONE, touch=True)
    yield "the start on a phone"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(page: Explorer, scheme: str) -> None:
    found = [(state, *violation) for state in opened(page, scheme) for violation in page.violations()]
    assert found == []


def allow_clipboard(page: Explorer) -> None:
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    page.command("Browser.grantPermissions", origin=page.url, permissions=permissions)


def clipboard(page: Explorer) -> str:
    copied: str = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    return copied


def scrolling(page: Explorer) -> set[str]:
    """What can be scrolled up and down."""
    script = """
        const isPage = e => e === document.documentElement;
        const canScroll = e => isPage(e) || /auto|scroll/.test(getComputedStyle(e).overflowY);
        const height = e => isPage(e) ? innerHeight : e.clientHeight + 1;
        const shown = [...document.querySelectorAll("*")].filter(e => e.checkVisibility());
        return shown.filter(e => canScroll(e) && e.scrollHeight > height(e)).map(e => e.tagName);
    """
    return set(page.driver.execute_script(script))


def layouts(page: Explorer) -> float:
    """How often the browser has computed the layout of the page."""
    page.command("Performance.enable")
    metrics = page.command("Performance.getMetrics")["metrics"]
    [count] = [metric["value"] for metric in metrics if metric["name"] == "LayoutCount"]
    return float(count)


def tell(server: Server, method: str, suitcase: str) -> Any:
    asked = {"jsonrpc": "2.0", "method": method, "params": [suitcase], "id": 1}
    return server.request("/jsonrpc", data=asked).json()["result"]


def body_of(snippet: str) -> Any:
    return json.loads(snippet.partition("\n\n")[2])


def shell(command: str, answering: str = "") -> str:
    need("curl")
    # In a session of its own there is no terminal, so that what asks for a password reads it from here.
    done = subprocess.run(
        ["sh", "-c", command], input=answering, capture_output=True, text=True, check=True, start_new_session=True
    )
    return done.stdout


def python(program: str, answering: str = "") -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=answering, capture_output=True, text=True, check=True, start_new_session=True)
    return done.stdout


def send(snippet: str) -> Any:
    """Send a request that is written as in HTTP."""
    head, _, body = snippet.partition("\n\n")
    first, *lines = head.splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    asked = urllib.request.Request(first.removeprefix("POST "), body.encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as response:
        return json.load(response)


def select(page: Explorer, label: str, text: str) -> None:
    page.wait_for(f"select[aria-label='{label}']").send_keys(text)


def set_value(page: Explorer, name: str, value: str) -> None:
    """Fill in what has a picker of its own, whatever the language of the browser."""
    page.driver.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))",
        page.control(name),
        value,
    )
