"""Which tools the site has: asked page by page, remembered for a while, and looked at again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .endpoints import Endpoints, find_endpoints
from .replies import read_json
from .settings import Settings
from .site import Message, Site, SiteFailure
from .tools import RemoteTool, by_shown_name, read_tool

MAX_PAGES = 1000
MAX_TOOLS = 10_000
"""Beyond these a list is taken for one without an end."""

RETRY_AFTER = 10.0
"""After how many seconds at most to ask a site again whose list could not be had."""

CLOSING = 1.0
"""For how many seconds to wait at the end for a list that has been asked for."""

logger = logging.getLogger(__name__)

Tools = dict[str, RemoteTool]


@dataclass(frozen=True)
class Known:
    """What the site was last seen to have: its tools, in the order of its list, and where to call them.

    :param tools: By the names that the site gives them.
    :param shown: By the names that clients see.
    """

    tools: Tools
    shown: Tools
    endpoints: Endpoints

    def find(self, name: str) -> RemoteTool | None:
        """Find a tool by either of its names."""
        return self.shown.get(name) or self.tools.get(name)


class Catalogue:
    """The tools of the site. Once they are known nobody waits for them any more, while they are looked at again.

    :param on_change: Called when they are others than before.
    """

    def __init__(self, site: Site, settings: Settings, on_change: Callable[[], None]) -> None:
        self._site = site
        self._settings = settings
        self._on_change = on_change
        self._asking = threading.Lock()
        self._known: Known | None = None
        self._good_until = 0.0
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="mcp-bridge-watch", daemon=True)

    @property
    def seconds_left(self) -> float:
        """For how long what is known is taken for true."""
        return max(0.0, self._good_until - time.monotonic())

    def look(self) -> Known:
        """Return what was last seen. Only when that is nothing, the site is asked.

        :raises SiteFailure: when nothing is known, and cannot be had now.
        """
        known = self._known
        if known is None:
            with self._asking:
                known = self._known or self._learn()
        return known

    def watch(self) -> None:
        """Look now, and again whenever that is due, in a thread of its own."""
        self._watcher.start()

    def close(self) -> None:
        """Watch no longer, and wait a moment for what is under way."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join(CLOSING)

    def _watch(self) -> None:
        try:
            logger.info("%d tools of %s", len(self.look().tools), self._settings.url)
        except SiteFailure as failure:
            self._warn("%s", failure)
        while not self._closed.wait(self.seconds_left):
            if not self.seconds_left:  # a call may have been the first to learn of the tools meanwhile
                self._look_again()

    def _look_again(self) -> None:
        before = self._known
        try:
            with self._asking:
                now = self._learn()
        except SiteFailure as failure:
            # While nothing is known, whoever wants to see the tools is told.
            if before is not None:
                self._warn("the tools may have changed: %s", failure)
            return
        # The order counts too: it is what people see.
        if before is not None and list(now.tools.items()) != list(before.tools.items()):
            logger.info("the tools have changed")
            self._on_change()

    def _warn(self, text: str, failure: SiteFailure) -> None:
        if not self._closed.is_set():  # else it was us who gave up
            logger.warning(text, failure.message)

    def _learn(self) -> Known:
        try:
            self._known = self._ask()
        except SiteFailure:
            self._good_until = time.monotonic() + min(RETRY_AFTER, self._settings.lifetime)
            raise
        self._good_until = time.monotonic() + self._settings.lifetime
        return self._known

    def _ask(self) -> Known:
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
                return Known(tools, by_shown_name(tools.values(), self._settings.tool_name_style), endpoints)
            if cursor in seen or len(tools) > MAX_TOOLS:
                break
            seen.add(cursor)
        raise SiteFailure("The list of the site's tools has no end")


def _readable(items: list[Any]) -> list[RemoteTool]:
    tools = [tool for item in items if (tool := read_tool(item)) is not None]
    if len(tools) < len(items):
        logger.warning("%d entries of the list cannot be read as tools", len(items) - len(tools))
    return tools
