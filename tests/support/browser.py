"""A real browser for tests: headless Chromium, and the words in which tests talk about the explorer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.servers import ROOT, need, need_made

PATIENCE = 60
"""Seconds until something that should appear on the page is given up; never waited for in vain on a green run."""

CHANGED_MEANWHILE = (
    StaleElementReferenceException,
    ElementClickInterceptedException,
    ElementNotInteractableException,
)
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
AXE = ROOT / "tests/explorer/node_modules/axe-core/axe.min.js"
DESKTOP, PHONE = (1440, 960), (390, 844)

TEXT = "(e => e.innerText || e.textContent)"
"""JavaScript: the text of an element. ``innerText`` alone is empty before the browser has laid out a group of the list,
which ``content-visibility: auto`` puts off until the first frame, or until the group is scrolled to."""


@contextmanager
def chromium(folder: Path) -> Iterator[Chrome]:
    """Run a browser with a profile of its own."""
    options = ChromeOptions()
    options.binary_location = need("chromium")
    for option in (*OPTIONS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Given the driver, Selenium looks for none on the internet.
    service = ChromeService(executable_path=need("chromedriver"), log_output=str(folder / "chromedriver.log"))
    driver = Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(folder / "profile", ignore_errors=True)


@dataclass(frozen=True)
class Explorer:
    """The explorer of a server, in a browser."""

    driver: Chrome
    url: str

    def open(
        self, address: str = "", *, size: tuple[int, int] = DESKTOP, scheme: str = "light", touch: bool = False
    ) -> None:
        """Open the explorer, or what is at ``#/tools/...`` in it, and wait until the list is there."""
        self.show(f"/mcp/explorer{address}", size=size, scheme=scheme, touch=touch)
        self.wait_until("document.querySelector('main h1')")

    def show(self, path: str, *, size: tuple[int, int] = DESKTOP, scheme: str = "light", touch: bool = False) -> None:
        """Open a page of the server."""
        width, height = size
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch
        )
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        # By way of another page: from one address to another within a page nothing would be loaded.
        self.driver.get("about:blank")
        self.driver.get(self.url + path)

    def command(self, name: str, **params: Any) -> Any:
        """Tell the browser what a page could not."""
        return self.driver.execute_cdp_cmd(name, params)

    def wait_for(self, selector: str, text: str = "") -> WebElement:
        """Wait until an element is shown, with this text in it."""

        def look(driver: Chrome) -> WebElement | None:
            shown = [found for found in driver.find_elements(By.CSS_SELECTOR, selector) if found.is_displayed()]
            return next((found for found in shown if text in found.text), None)

        found: WebElement = self._wait(look, f"{selector!r} with {text!r}")
        return found

    def wait_until(self, script: str, *args: Any) -> Any:
        """Wait until a script returns something that is true."""
        return self._wait(lambda driver: driver.execute_script(f"return ({script})", *args), script)

    def _wait(self, look: Any, what: str) -> Any:
        wait = WebDriverWait(self.driver, PATIENCE, poll_frequency=0.02, ignored_exceptions=CHANGED_MEANWHILE)
        return wait.until(look, f"there is no {what}")

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that are shown."""
        script = f"return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).map({TEXT})"
        found: list[str] = self.driver.execute_script(script, selector)
        return found

    def control(self, name: str) -> WebElement:
        """The first input with this label."""
        return self._labelled(name)

    def _labelled(self, name: str, *, last: bool = False) -> WebElement:
        script = """
            const labels = [...document.querySelectorAll("label[for]")].filter(
              label => label.checkVisibility() && label.textContent === arguments[0]);
            return document.getElementById(labels.at(arguments[1] ? -1 : 0)?.htmlFor);
        """
        found: WebElement = self._wait(lambda driver: driver.execute_script(script, name, last), f"input {name!r}")
        return found

    def fill(self, name: str, text: str) -> None:
        control = self.control(name)
        if control.tag_name != "select":
            control.clear()
        control.send_keys(text)

    def fill_last(self, name: str, text: str) -> None:
        """Fill in the last of several inputs with the same label."""
        self._labelled(name, last=True).send_keys(text)

    def fill_search(self, text: str) -> None:
        search = self.wait_for("#search")
        search.clear()
        search.send_keys(text)

    def press_link(self, text: str) -> None:
        """Follow the first link that begins with this text."""
        script = (
            f"return [...document.links].find(e => {TEXT}(e).startsWith(arguments[0]) && e.checkVisibility()) ?? null"
        )
        self._click(f"link {text!r}", script, text)

    def press_summary(self, text: str) -> None:
        self.wait_for("summary", text).click()

    def press(self, text: str, within: str = "body") -> None:
        """Press the first button with this text."""
        script = """
            const all = [...document.querySelectorAll(arguments[1] + " button")];
            const ready = all.filter(e => e.checkVisibility() && !e.disabled && !e.ariaDisabled);
            return ready.find(e => e.innerText === arguments[0]) ?? null;
        """
        self._click(f"button {text!r}", script, text, within)

    def _click(self, what: str, script: str, *args: Any) -> None:
        """Click on what a script finds, and try again where the page has just changed."""

        def find_and_click(driver: Chrome) -> bool:
            found = driver.execute_script(script, *args)
            if found is None:
                return False
            # From below the bar, which the driver does not know to cover it.
            driver.execute_script("arguments[0].scrollIntoView({block: 'nearest'})", found)
            found.click()
            return True

        self._wait(find_and_click, what)

    def type(self, *keys: str) -> None:
        """Type into whatever has the focus."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def tab_to(self, text: str) -> None:
        """Press the tabulator until the focus is on what is called so."""
        name = "(e => e.ariaLabel ?? (e.labels?.[0] ?? e).innerText)(document.activeElement)"
        for _ in range(60):
            self.type(Keys.TAB)
            if self.driver.execute_script(f"return {name}") == text:
                return
        raise AssertionError(f"the tabulator does not get to {text!r}")

    def sign_in(self, username: str, password: str) -> None:
        self.press("Sign in", ".bar")
        self.fill("User name", username)
        self.fill("Password", password)
        self.press("Sign in", "dialog")

    def choose_theme(self, name: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, f"#theme [aria-label='{name}']").click()

    def snippet(self, tab: str) -> str:
        """The same call in one of its forms, also if it is long."""
        self.press(tab, ".same")
        self._show_all(".same")
        return self.wait_for(".same pre").text

    def _show_all(self, within: str) -> None:
        if self.texts(f"{within} .more"):
            self.wait_for(f"{within} .more").click()

    def result(self) -> Any:
        """The structured result of the last run, also if it is shown as a table at first."""
        self.wait_for(".outcome .status.good")
        if "Table" in self.texts(".outcome .tab"):
            self.press("JSON", ".outcome")
        self._show_all(".outcome")
        return json.loads(self.wait_for(".outcome pre").text)

    def violations(self) -> list[tuple[str, Any]]:
        """The serious ones of the rules of accessibility that axe-core finds in what is shown."""
        need_made(AXE.parents[1] / ".installed", "clients")
        self.driver.execute_script(AXE.read_text())
        report = self.driver.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[0])")
        serious = [found for found in report["violations"] if found["impact"] in ("serious", "critical")]
        return [(found["id"], [node["target"] for node in found["nodes"]]) for found in serious]

    def complaints(self) -> list[str]:
        """What the browser wrote to its console, such as violations of our policy; 401 and its like aside."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if "Failed to load resource" not in entry["message"]]
