"""Which tools the site has: asked page by page, remembered for a while, and looked at again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from .endpoints import Endpoints, find_endpoints
from .replies import read_json
from .settings import Settings
from .site import Message, Site, SiteFailure
from .tools import RemoteTool, read_tool

MAX_PAGES = 1000
MAX_TOOLS = 10_000
"""Beyond these a list is taken for one without an end."""

RETRY_AFTER = 10.0
"""After how many seconds to ask a site again whose list could not be had, while there is an older one."""

logger = logging.getLogger(__name__)

Tools = dict[str, RemoteTool]


class Catalogue:
    """The tools of the site, by name, in the order of its list.

    :param on_change: Called when they are others than before.
    """

    def __init__(self, site: Site, settings: Settings, on_change: Callable[[], None]) -> None:
        self._site = site
        self._settings = settings
        self._on_change = on_change
        self._lock = threading.Lock()
        self._endpoints: Endpoints | None = None
        self._tools: Tools | None = None
        self._good_until = 0.0
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="mcp-bridge-watch", daemon=True)

    @property
    def seconds_left(self) -> float:
        """For how long what is known is taken for true."""
        return max(0.0, self._good_until - time.monotonic())

    def look(self) -> tuple[Tools, Endpoints]:
        """Return the tools and where to call them, asking the site when that is due.

        :raises SiteFailure: when it was never known, and cannot be had now.
        """
        with self._lock:
            if self._tools is None or self._endpoints is None:
                changed = False
                endpoints, tools = self._ask()
            elif self.seconds_left:
                return self._tools, self._endpoints
            else:
                try:
                    endpoints, tools = self._ask()
                except SiteFailure as failure:
                    logger.warning("the tools may have changed: %s", failure.message)
                    self._good_until = time.monotonic() + min(RETRY_AFTER, self._settings.lifetime)
                    return self._tools, self._endpoints
                # The order counts too: it is what people see.
                changed = list(tools.items()) != list(self._tools.items())
            self._endpoints, self._tools = endpoints, tools
            self._good_until = time.monotonic() + self._settings.lifetime
        if changed:
            logger.info("the tools have changed")
            self._on_change()
        return tools, endpoints

    def watch(self) -> None:
        """Look now, and again whenever that is due, in a thread of its own."""
        self._watcher.start()

    def close(self) -> None:
        """Watch no longer, and wait until nothing is under way."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join()

    def _watch(self) -> None:
        try:
            tools, _ = self.look()
            logger.info("%d tools of %s", len(tools), self._settings.url)
        except SiteFailure as failure:
            logger.warning("%s", failure.message)
        while not self._closed.wait(self.seconds_left or RETRY_AFTER):
            try:
                self.look()
            except SiteFailure:
                pass  # whoever wants to see the tools is told

    def _ask(self) -> tuple[Endpoints, Tools]:
        endpoints = find_endpoints(self._site, self._settings, self._closed.wait)
        tools: Tools = {}
        cursor: str | None = None
        seen = set()
        for _ in range(MAX_PAGES):
            url = endpoints.list if cursor is None else f"{endpoints.list}?cursor={quote(cursor, safe='')}"
            page = read_json(self._site.send(Message(url, is_read=True), self._closed.wait))
            items = page.get("tools") if isinstance(page, Mapping) else None
            if not isinstance(items, list):
                raise SiteFailure(f"The site has no list of tools at {endpoints.list}")
            for tool in _readable(items):
                tools.setdefault(tool.name, tool)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return endpoints, tools
            if cursor in seen or len(tools) > MAX_TOOLS:
                break
            seen.add(cursor)
        raise SiteFailure("The list of the site's tools has no end")


def _readable(items: list[Any]) -> list[RemoteTool]:
    tools = [tool for item in items if (tool := read_tool(item)) is not None]
    if len(tools) < len(items):
        logger.warning("%d entries of the list cannot be read as tools", len(items) - len(tools))
    return tools
