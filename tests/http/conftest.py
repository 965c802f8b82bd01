"""The browser of the explorer's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.support.browser import Explorer
from tests.support.servers import Server


@pytest.fixture
def page(server: Server, driver: Chrome) -> Iterator[Explorer]:
    """The explorer of the module's ``server``. Whatever a test does with it, the browser must find no fault in it."""
    page = Explorer(driver, server.url)
    page.complaints()
    yield page
    assert page.complaints() == []
