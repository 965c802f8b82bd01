"""The bridge: an MCP server that lists and calls the tools of a remote site, for clients of every protocol version."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..call import Result
from ..envelope import RpcRequest, notification
from ..errors import InvalidRequest, MalformedParams, MethodNotFound, Overloaded, RpcError, UnknownTool
from ..mcp import protocol
from ..mcp.sessions import Session, negotiate
from ..mcp.versions import describe_tool, tool_failure, tool_result
from ..stdio import Client, Exchange
from ..version import __version__
from .remote_tools import RemoteTool, ToolList, fetch_list
from .site import Site, SiteFailure

TOOLS_CHANGED = "notifications/tools/list_changed"
CAPABILITIES = {"tools": {"listChanged": True}}
MAX_SUBSCRIPTIONS = 8
"""Maximum open subscriptions of a client; each one holds a thread."""

RETRY_AFTER = 10.0
"""Seconds, at most, until a list that failed is requested again."""

logger = logging.getLogger(__name__)


class Bridge:
    """Answers MCP requests with the tools of a site. Implements the `Server` protocol of the stdio loop."""

    def __init__(self, site: Site) -> None:
        self._tools = CachedTools(site, self._announce_change)
        self._identity = {"name": urlsplit(site.url).netloc, "version": __version__}
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._subscriptions: dict[Exchange, dict[str, Any] | None] = {}  # with what to send when the tools change

    def connect(self, client: Client) -> None:
        self._client = client
        self._tools.watch()

    def close(self) -> None:
        """Send no more requests to the site."""
        self._tools.close()

    def initialize(self, message: RpcRequest) -> tuple[Session, Any]:
        session = negotiate(message)
        result = {"protocolVersion": session.version, "capabilities": CAPABILITIES, "serverInfo": self._identity}
        return session, result

    def answer(self, exchange: Exchange) -> Any:
        params = exchange.message.params
        if not isinstance(params, dict):
            raise InvalidRequest("params must be an object")
        if exchange.session is not None:
            return self._handle(exchange, exchange.session.version, params)
        version = protocol.checked_meta(params)[protocol.PROTOCOL_VERSION]
        protocol.require_modern(version)
        result = self._handle(exchange, version, params)
        own_meta = {**result.get("_meta", {}), protocol.SERVER_INFO: self._identity}
        return {"resultType": "complete", **result, "_meta": own_meta}

    def _handle(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        modern = version == protocol.MODERN
        match exchange.message.method:
            case "tools/list":
                return {"tools": self._list_tools(version, params), **(self._cache_hints() if modern else {})}
            case "tools/call":
                return self._call_tool(exchange, version, params)
            case protocol.DISCOVER if modern:
                return {"supportedVersions": [version], "capabilities": CAPABILITIES, **self._cache_hints()}
            case protocol.LISTEN if modern:
                return self._listen(exchange, params)
            case method:
                raise MethodNotFound(method)

    def _list_tools(self, version: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        if params.get("cursor") is not None:
            raise MalformedParams("Invalid cursor: all tools are on one page")
        tools = self._tools.get().tools
        return [describe_tool({**tool.descriptor, "name": name}, version) for name, tool in tools.items()]

    def _call_tool(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str):
            raise MalformedParams("params.name must be the name of a tool")
        if not isinstance(arguments, Mapping):
            raise MalformedParams("params.arguments must be an object")

        def cancelled(seconds: float) -> bool:
            exchange.wait(seconds)
            return exchange.cancellation.requested

        start, outcome = time.monotonic(), "failed"
        try:
            known = self._tools.get()
            tool = known.find(name)
            value = known.call(tool, arguments, cancelled)
            outcome = "ok"
            return tool_result(_make_result(value, tool), version)
        except UnknownTool:
            outcome = "unknown tool"
            raise
        except RpcError as error:
            return tool_failure(error)
        finally:
            facts = {"tool": name[:200], "outcome": outcome, "ms": round((time.monotonic() - start) * 1000)}
            logger.info("%(tool)r %(outcome)s, %(ms)d ms", facts, extra=facts)

    def _listen(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise MalformedParams("params.notifications must be an object")
        agreed = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        meta = {"_meta": {protocol.SUBSCRIPTION_ID: exchange.message.id}}
        acknowledged = notification("notifications/subscriptions/acknowledged", {**meta, "notifications": agreed})
        with self._lock:  # the acknowledgement must be the first notification
            if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
                raise Overloaded()
            exchange.send(acknowledged)
            self._subscriptions[exchange] = notification(TOOLS_CHANGED, meta) if agreed else None
        exchange.wait()
        with self._lock:
            del self._subscriptions[exchange]
        return meta

    def _announce_change(self) -> None:
        if self._client is not None and self._client.is_initialized:
            self._client.send(notification(TOOLS_CHANGED))
        with self._lock:
            for exchange, changed in self._subscriptions.items():
                if changed is not None:
                    exchange.send(changed)

    def _cache_hints(self) -> dict[str, Any]:
        """Build ``ttlMs`` and ``cacheScope``: private, because the list depends on the bridge's credentials."""
        return {"ttlMs": int(self._tools.seconds_left * 1000), "cacheScope": "private"}


class CachedTools:
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
        self._closed = threading.Event()

    @property
    def seconds_left(self) -> float:
        """Seconds until the list is fetched again."""
        return max(0.0, self._fresh_until - time.monotonic())

    def get(self) -> ToolList:
        """Return the cached list; fetch it if missing.

        :raises SiteFailure: if it is missing and cannot be fetched.
        """
        return self._list or self._fetch(None)

    def watch(self) -> None:
        """Start the thread that fetches the list now, and again whenever its lifetime is over."""
        threading.Thread(target=self._watch, name="mcp-bridge-watch", daemon=True).start()

    def close(self) -> None:
        """End the thread, when the request in progress has ended."""
        self._closed.set()

    def _watch(self) -> None:
        warned = None
        while not self._closed.wait(self.seconds_left):
            before = self._list
            try:
                now = self._fetch(before)
            except SiteFailure as failure:
                if failure.message != warned and not self._closed.is_set():  # a site that is down would fill the log
                    logger.warning("cannot list the tools: %s", failure.message, extra={"reason": failure.message})
                warned = failure.message
                continue
            except Exception:  # nothing that a site sends may end this thread
                logger.exception("unexpected failure while listing the tools", extra={"site": self._site.url})
                continue
            warned = None
            # The order counts: clients show it.
            if before is not None and list(now.tools.items()) != list(before.tools.items()):
                logger.info("the tools have changed", extra={"site": self._site.url})
                self._on_change()

    def _fetch(self, known: ToolList | None) -> ToolList:
        """Fetch the list and store it, unless another thread has replaced the ``known`` one meanwhile."""
        with self._fetching:
            if self._list is not None and self._list is not known:
                return self._list
            lifetime = min(RETRY_AFTER, self._site.lifetime)
            try:
                fetched = fetch_list(self._site, self._closed.wait)
                lifetime = self._site.lifetime
            finally:
                self._fresh_until = time.monotonic() + lifetime
            if known is None:
                facts = {"tools": len(fetched.tools), "site": self._site.url}
                logger.info("%(tools)d tools of %(site)s", facts, extra=facts)
            self._list = fetched
            return fetched


def _make_result(value: Any, tool: RemoteTool) -> Result:
    schema = tool.descriptor.get("outputSchema")
    # PHP serialises an empty object as a list.
    is_empty_object = value == [] and schema is not None and schema.get("type") == "object"
    return Result({} if is_empty_object else value, schema=schema)
