"""The bridge: an MCP server that lists and calls the tools of a remote site, for clients of every protocol version."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..call import Result
from ..envelope import RpcRequest
from ..errors import InvalidRequest, MalformedParams, MethodNotFound, Overloaded, RpcError, UnknownTool
from ..mcp import protocol
from ..mcp.protocol import LISTEN
from ..mcp.sessions import Session, negotiate
from ..mcp.versions import describe_tool, tool_failure, tool_result
from ..stdio import Client, Exchange
from ..version import __version__
from .options import Options
from .remote_calls import call_tool
from .remote_tools import RemoteTool, RemoteTools
from .site import Site

TOOLS_CHANGED = "notifications/tools/list_changed"
CAPABILITIES = {"tools": {"listChanged": True}}
MAX_SUBSCRIPTIONS = 8
"""Maximum open subscriptions of a client; each one holds a thread."""

logger = logging.getLogger(__name__)

Handler = Callable[[Exchange, str, Mapping[str, Any]], dict[str, Any]]


class Bridge:
    """Answers MCP requests with the tools of a site. Implements the `Server` protocol of the stdio loop."""

    def __init__(self, options: Options) -> None:
        self._site = Site(options)
        self._tools = RemoteTools(self._site, self._announce_change)
        self._identity = {"name": options.host, "version": __version__}
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._subscriptions: list[Exchange] = []
        self._legacy_methods: dict[str, Handler] = {"tools/list": self._list_tools, "tools/call": self._call_tool}
        self._modern_methods: dict[str, Handler] = {
            **self._legacy_methods,
            protocol.DISCOVER: self._discover,
            LISTEN: self._listen,
        }

    def connect(self, client: Client) -> None:
        self._client = client
        self._tools.watch()

    def close(self) -> None:
        """Cancel all requests to the site, and close its connections."""
        self._tools.close()
        self._site.close()

    def initialize(self, message: RpcRequest) -> tuple[Session, Any]:
        session = negotiate(message)
        result = {
            "protocolVersion": session.version,
            "capabilities": CAPABILITIES,
            "serverInfo": self._identity,
        }
        return session, result

    def answer(self, exchange: Exchange) -> Any:
        params = exchange.message.params
        if not isinstance(params, Mapping):
            raise InvalidRequest("params must be an object")
        if exchange.session is not None:
            return _find(self._legacy_methods, exchange.message)(exchange, exchange.session.version, params)
        version = protocol.checked_meta(params)[protocol.PROTOCOL_VERSION]
        protocol.require_modern(version)
        result = _find(self._modern_methods, exchange.message)(exchange, version, params)
        own_meta = {**result.get("_meta", {}), protocol.SERVER_INFO: self._identity}
        return {"resultType": "complete", **result, "_meta": own_meta}

    def _discover(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"supportedVersions": [protocol.MODERN], "capabilities": CAPABILITIES, **self._cache_hints()}

    def _list_tools(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("cursor") is not None:
            raise MalformedParams("Invalid cursor: all tools are on one page")
        shown = self._tools.get().shown
        result = {"tools": [{**describe_tool(tool, version), "name": name} for name, tool in shown.items()]}
        return {**result, **self._cache_hints()} if version == protocol.MODERN else result

    def _call_tool(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str):
            raise MalformedParams("params.name must be the name of a tool")
        if not isinstance(arguments, Mapping):
            raise MalformedParams("params.arguments must be an object")

        def cancelled(seconds: float) -> bool:
            exchange.wait(seconds)
            return exchange.is_cancelled  # a client that has closed its end may still read the result

        start, outcome = time.monotonic(), "failed"
        try:
            known = self._tools.get()
            tool = known.find(name)
            if tool is None:
                raise UnknownTool(name, sign_in=False)
            value = call_tool(self._site, known.endpoints, tool, arguments, cancelled)
            outcome = "ok"
            return tool_result(_make_result(value, tool), version)
        except UnknownTool:
            outcome = "unknown tool"
            raise
        except RpcError as error:
            return tool_failure(error)
        finally:
            logger.info("%r %s, %d ms", name[:200], outcome, (time.monotonic() - start) * 1000)

    def _listen(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise MalformedParams("params.notifications must be an object")
        agreed = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        meta = {protocol.SUBSCRIPTION_ID: exchange.message.id}
        with self._lock:  # the acknowledgement must be the first notification
            if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
                raise Overloaded()
            exchange.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": agreed})
            self._subscriptions.append(exchange)
        exchange.wait()
        with self._lock:
            self._subscriptions.remove(exchange)
        return {"_meta": meta}

    def _announce_change(self) -> None:
        if self._client is not None and self._client.is_initialized:
            self._client.notify(TOOLS_CHANGED)
        with self._lock:
            for exchange in self._subscriptions:
                exchange.notify(TOOLS_CHANGED, {"_meta": {protocol.SUBSCRIPTION_ID: exchange.message.id}})

    def _cache_hints(self) -> dict[str, Any]:
        """Build ``ttlMs`` and ``cacheScope``: private, because the list depends on the bridge's credentials."""
        return {"ttlMs": int(self._tools.seconds_left * 1000), "cacheScope": "private"}


def _find(methods: Mapping[str, Handler], message: RpcRequest) -> Handler:
    handler = methods.get(message.method)
    if handler is None:
        raise MethodNotFound(message.method)
    return handler


def _make_result(value: Any, tool: RemoteTool) -> Result:
    if tool.output is None:
        return Result(value)
    # PHP serialises an empty object as a list.
    is_empty_object = value == [] and tool.output.schema.get("type") == "object"
    return Result({} if is_empty_object else value, schema=tool.output.schema)
