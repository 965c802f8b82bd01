"""List the site's tools, keep the list up to date, and find the endpoints that call them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..config import NO_DOTS
from ..registry import alias_of
from ..tool import HINTS
from .site import Cancelled, Site, SiteFailure, check_status, parse_json

LIST_PATH = "/mcp/tools/list"
JSONRPC_PATH = "/jsonrpc"
INVOKE_PATH = "/mcp/tools/invoke"
WELL_KNOWN_PATH = "/.well-known/mcp.json"

MAX_PAGES = 1000
MAX_TOOLS = 10_000
MAX_NAME = 256

RETRY_AFTER = 10.0
"""Seconds, at most, until a list that failed is requested again."""

# Schema keywords whose value is an object. PHP serialises an empty one as a list.
_OBJECT_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteSchema:
    schema: dict[str, Any]


@dataclass(frozen=True)
class RemoteTool:
    """A tool of the site, in the shape that MCP descriptions are made from.

    :param scopes: The scopes that a token needs; ``None`` if the tool needs no credentials.
    """

    name: str
    descriptor: dict[str, Any]
    params: RemoteSchema
    output: RemoteSchema | None
    read_only: bool
    scopes: frozenset[str] | None


@dataclass(frozen=True)
class Endpoints:
    """The URLs that list and call tools.

    :param call: A JSON-RPC endpoint, one with ``{name}`` in it for each tool, or ``/mcp/tools/invoke``.
    """

    list: str
    call: str

    @property
    def is_jsonrpc(self) -> bool:
        return not self.call.endswith(INVOKE_PATH)

    def url_of(self, tool: RemoteTool) -> str:
        return self.call.replace("{name}", quote(tool.name, safe=""))


@dataclass(frozen=True)
class ToolList:
    """The tools of the site in its order, and its endpoints.

    :param tools: By the site's names.
    :param shown: By the names that clients see.
    """

    tools: dict[str, RemoteTool]
    shown: dict[str, RemoteTool]
    endpoints: Endpoints

    def find(self, name: str) -> RemoteTool | None:
        """Find a tool by either of its names."""
        return self.shown.get(name) or self.tools.get(name)


class RemoteTools:
    """Caches the list of tools, and polls the site for changes in a thread.

    Once there is a list, clients get it at once, also while a new one is being fetched.

    :param on_change: Called when the list has changed.
    """

    def __init__(self, site: Site, on_change: Callable[[], None]) -> None:
        self._site = site
        self._on_change = on_change
        self._fetching = threading.Lock()
        self._list: ToolList | None = None
        self._fresh_until = 0.0
        self._warning: str | None = None
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="mcp-bridge-watch", daemon=True)

    @property
    def seconds_left(self) -> float:
        """Seconds until the list is fetched again."""
        return max(0.0, self._fresh_until - time.monotonic())

    def get(self) -> ToolList:
        """Return the cached list; fetch it if missing.

        :raises SiteFailure: if it is missing and cannot be fetched.
        """
        cached = self._list
        if cached is None:
            with self._fetching:
                cached = self._list or self._fetch()
        return cached

    def watch(self) -> None:
        """Start the thread that fetches the list now, and again whenever its lifetime is over."""
        self._watcher.start()

    def close(self) -> None:
        """Let the thread end; it does so at once when the site is closed too."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(self.seconds_left):
            try:
                self._refresh()
                self._warning = None
            except SiteFailure as failure:
                # A site that is down would fill the log, and closing cancels the request in progress.
                if failure.message != self._warning and not self._closed.is_set():
                    logger.warning("cannot list the tools: %s", failure.message)
                self._warning = failure.message
            except Exception:  # nothing that a site sends may end this thread
                logger.exception("unexpected failure while listing the tools")

    def _refresh(self) -> None:
        with self._fetching:
            if self.seconds_left:  # a call has fetched the list meanwhile
                return
            before, now = self._list, self._fetch()
        # The order counts: clients show it.
        if before is not None and list(now.tools.items()) != list(before.tools.items()):
            logger.info("the tools have changed")
            self._on_change()

    def _fetch(self) -> ToolList:
        """Fetch the list and store it; the caller holds the lock."""
        options = self._site.options
        lifetime = min(RETRY_AFTER, options.lifetime)
        try:
            fetched = _fetch_list(self._site, self._closed.wait)
            lifetime = options.lifetime
        finally:
            self._fresh_until = time.monotonic() + lifetime
        if self._list is None:
            logger.info("%d tools of %s", len(fetched.tools), options.url)
        self._list = fetched
        return fetched


def _fetch_list(site: Site, cancelled: Cancelled) -> ToolList:
    endpoints = _find_endpoints(site, cancelled)
    tools: dict[str, RemoteTool] = {}
    cursor: str | None = None
    seen = set()
    for _ in range(MAX_PAGES):
        url = endpoints.list if cursor is None else f"{endpoints.list}?cursor={quote(cursor, safe='')}"
        response = site.send(url, is_read=True, cancelled=cancelled)
        check_status(response)
        page = parse_json(response)
        items = page.get("tools") if isinstance(page, Mapping) else None
        if not isinstance(items, list):
            raise SiteFailure(f"The site has no list of tools at {endpoints.list}")
        parsed = [tool for item in items if (tool := _parse_tool(item)) is not None]
        if len(parsed) < len(items):
            logger.warning("skipped %d entries of the list that are not tools", len(items) - len(parsed))
        for tool in parsed:
            tools.setdefault(tool.name, tool)
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return ToolList(tools, _by_shown_name(tools.values(), site.options.tool_name_style), endpoints)
        if cursor in seen or len(tools) > MAX_TOOLS:
            break
        seen.add(cursor)
    raise SiteFailure("The list of the site's tools has no end")


def _find_endpoints(site: Site, cancelled: Cancelled) -> Endpoints:
    """Find the endpoints: from the options, from ``/.well-known/mcp.json``, or the default ones."""
    options = site.options
    if options.endpoint is not None:
        return Endpoints(options.url + LIST_PATH, options.url + options.endpoint)
    default = Endpoints(options.url + LIST_PATH, options.url + JSONRPC_PATH)
    response = site.send(options.url + WELL_KNOWN_PATH, is_read=True, cancelled=cancelled)
    try:
        check_status(response)
        document = parse_json(response)
    except SiteFailure:
        return default  # few sites have this document, and some respond with an HTML page
    servers = document.get("servers") if isinstance(document, Mapping) else None
    parsed = [_parse_endpoints(server) for server in servers] if isinstance(servers, list) else []
    found = [endpoints for endpoints in parsed if endpoints is not None]
    own = [each for each in found if options.is_same_origin(each.list) and options.is_same_origin(each.call)]
    if len(own) < len(found):
        logger.warning("ignored the endpoints of other sites in %s", WELL_KNOWN_PATH)
    at_this_url = [endpoints for endpoints in own if endpoints.list == default.list]
    return [*at_this_url, *own, default][0]


def _parse_endpoints(server: Any) -> Endpoints | None:
    urls = server.get("endpoints") if isinstance(server, Mapping) else None
    if not isinstance(urls, Mapping) or not isinstance(urls.get("list"), str):
        return None
    call = next((urls[role] for role in ("jsonrpc", "tool", "invoke") if isinstance(urls.get(role), str)), None)
    return None if call is None else Endpoints(urls["list"], call)


def _parse_tool(item: Any) -> RemoteTool | None:
    """Parse an entry of the list; ``None`` if no client could use it."""
    if not isinstance(item, Mapping):
        return None
    name, schema, output = item.get("name"), item.get("inputSchema"), item.get("outputSchema")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        return None
    annotations = item.get("annotations")
    annotations = dict(annotations) if isinstance(annotations, Mapping) else {}
    descriptor: dict[str, Any] = {"name": name}
    if isinstance(item.get("title"), str):
        descriptor["title"] = item["title"]
    descriptor["description"] = str(item.get("description") or item.get("title") or name)
    if annotations:
        descriptor["annotations"] = {key: value for key, value in annotations.items() if _is_valid_hint(key, value)}
    members = _repair(schema) if isinstance(schema, Mapping) else {}
    return RemoteTool(
        name,
        descriptor,
        # Clients refuse a tool whose input schema is not of an object.
        RemoteSchema({"type": "object", "properties": {}} | members | {"type": "object"}),
        RemoteSchema(_repair(output)) if isinstance(output, Mapping) and output else None,
        annotations.get("readOnlyHint") is True,
        _parse_scopes(annotations.get("auth")),
    )


def _is_valid_hint(key: str, value: Any) -> bool:
    """Return whether an annotation has its type in MCP: clients refuse a whole list for one wrong type."""
    return isinstance(value, bool) if key in HINTS else isinstance(value, str) if key == "title" else True


def _parse_scopes(auth: Any) -> frozenset[str] | None:
    """Parse the annotation of Drupal's tools, such as ``{"scopes": ["content:write"], "level": "required"}``."""
    if not isinstance(auth, Mapping):
        return None
    scopes = auth.get("scopes")
    scopes = frozenset(map(str, scopes)) if isinstance(scopes, list) else frozenset()
    level = auth.get("level", "required" if scopes else "none")
    return scopes if level == "required" else None


def _repair(schema: Any) -> Any:
    """Replace the empty lists that PHP writes for empty objects."""
    if isinstance(schema, list):
        return [_repair(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: {} if key in _OBJECT_KEYWORDS and value == [] else _repair(value) for key, value in schema.items()}


def _by_shown_name(tools: Collection[RemoteTool], style: str) -> dict[str, RemoteTool]:
    """Map the names that clients see to tools; with ``no-dots``, a name keeps its dots if it would not be unique."""
    if style != NO_DOTS:
        return {tool.name: tool for tool in tools}
    counts = Counter(alias_of(tool.name) for tool in tools)
    shown = {}
    for tool in tools:
        alias = alias_of(tool.name)
        is_shared = counts[alias] > 1
        if is_shared and alias != tool.name:
            logger.warning("%r keeps its dots, because another tool would also be named %r", tool.name, alias)
        shown[tool.name if is_shared else alias] = tool
    return shown
