"""The bridge as an MCP server: the tools of the site, listed and called for clients of both eras."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..calls import Result
from ..envelope import Request
from ..errors import InvalidRequest, MalformedParams, MethodNotFound, Overloaded, RpcError, UnknownTool
from ..mcp import protocol
from ..mcp.legacy import agree
from ..mcp.modern import COMPLETE
from ..mcp.opening import read_opening, require_version
from ..mcp.sessions import Agreement
from ..mcp.spelling import spell_failure, spell_result, spell_tool
from ..mcp.subscriptions import LISTEN
from ..stdio.client import Client
from ..stdio.exchange import Exchange
from ..version import __version__
from .catalogue import Catalogue
from .invocation import invoke
from .settings import Settings
from .site import Pause, Site
from .tools import RemoteTool

TOOLS_CHANGED = "notifications/tools/list_changed"
CAPABILITIES = {"tools": {"listChanged": True}}
MAX_LISTENERS = 8
"""How many subscriptions a client may have; each holds a thread."""

logger = logging.getLogger(__name__)

Handler = Callable[[Exchange, str, Mapping[str, Any]], dict[str, Any]]


class Bridge:
    """Answers MCP requests by asking a site. A `flask_jsonrpc_mcp.stdio.exchange.Server`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._site = Site(settings)
        self._catalogue = Catalogue(self._site, settings, self._announce)
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._listeners: list[Exchange] = []
        self._both: dict[str, Handler] = {"tools/list": self._list_tools, "tools/call": self._call_tool}
        self._modern: dict[str, Handler] = {
            **self._both,
            protocol.DISCOVER: self._discover,
            LISTEN: self._listen,
        }

    def connect(self, client: Client) -> None:
        self._client = client
        self._catalogue.watch()

    def close(self) -> None:
        """Leave the site."""
        self._catalogue.close()
        self._site.close()

    def initialize(self, request: Request) -> tuple[Agreement, Any]:
        agreement = agree(request)
        return agreement, {
            "protocolVersion": agreement.version,
            "capabilities": CAPABILITIES,
            "serverInfo": self._identity,
        }

    def answer(self, exchange: Exchange) -> Any:
        request = exchange.request
        if exchange.agreement is not None:
            if not isinstance(request.params, Mapping):
                raise InvalidRequest("params must be an object")
            return _handler(self._both, request)(exchange, exchange.agreement.version, request.params)
        opening = read_opening(request)
        require_version(opening.version)
        result = _handler(self._modern, request)(exchange, opening.version, opening.params)
        meta = {**result.get("_meta", {}), protocol.SERVER_INFO: self._identity}
        return {**COMPLETE, **result, "_meta": meta}

    @property
    def _identity(self) -> dict[str, str]:
        return {"name": self._settings.host, "version": __version__}

    def _discover(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"supportedVersions": [protocol.MODERN], "capabilities": CAPABILITIES, **self._caching}

    def _list_tools(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("cursor") is not None:
            raise MalformedParams("Invalid cursor: all tools are on one page")
        shown = self._catalogue.look().shown
        listed = {"tools": [{**spell_tool(tool, version), "name": name} for name, tool in shown.items()]}
        return {**listed, **self._caching} if version == protocol.MODERN else listed

    def _call_tool(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str):
            raise MalformedParams("params.name must be the name of a tool")
        if not isinstance(arguments, Mapping):
            raise MalformedParams("params.arguments must be an object")
        start, outcome = time.monotonic(), "failed"
        try:
            known = self._catalogue.look()
            tool = known.find(name)
            if tool is None:
                raise UnknownTool(name, sign_in=False)
            value = invoke(self._site, self._settings, known.endpoints, tool, arguments, _pause(exchange))
            outcome = "ok"
            return spell_result(_result(value, tool), version)
        except UnknownTool:
            outcome = "unknown tool"
            raise
        except RpcError as error:
            return spell_failure(error)
        finally:
            logger.info("%r %s, %d ms", name[:200], outcome, (time.monotonic() - start) * 1000)

    def _listen(self, exchange: Exchange, version: str, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted = params.get("notifications")
        if not isinstance(wanted, Mapping):
            raise MalformedParams("params.notifications must be an object")
        agreed = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        meta = {protocol.SUBSCRIPTION_ID: exchange.request.id}
        with self._lock:  # the acknowledgement comes first
            if len(self._listeners) >= MAX_LISTENERS:
                raise Overloaded()
            exchange.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": agreed})
            self._listeners.append(exchange)
        exchange.wait()
        with self._lock:
            self._listeners.remove(exchange)
        return {"_meta": meta}

    def _announce(self) -> None:
        if self._client is not None and self._client.is_initialized:
            self._client.notify(TOOLS_CHANGED)
        with self._lock:
            for listener in self._listeners:
                listener.notify(TOOLS_CHANGED, {"_meta": {protocol.SUBSCRIPTION_ID: listener.request.id}})

    @property
    def _caching(self) -> dict[str, Any]:
        """For how long, and for whom, a result is good: the site may show others something else."""
        return {"ttlMs": int(self._catalogue.seconds_left * 1000), "cacheScope": "private"}


def _handler(table: Mapping[str, Handler], request: Request) -> Handler:
    handler = table.get(request.method)
    if handler is None:
        raise MethodNotFound(request.method)
    return handler


def _pause(exchange: Exchange) -> Pause:
    """Let a request wait, and give up when its client has cancelled it; not when it has gone, for it reads the rest."""

    def pause(seconds: float) -> bool:
        exchange.wait(seconds)
        return exchange.is_cancelled

    return pause


def _result(value: Any, tool: RemoteTool) -> Result:
    if tool.output is None:
        return Result(value)
    # PHP's empty list stands for an empty object where an object is declared.
    is_empty_object = value == [] and tool.output.schema.get("type") == "object"
    return Result({} if is_empty_object else value, schema=tool.output.schema)
