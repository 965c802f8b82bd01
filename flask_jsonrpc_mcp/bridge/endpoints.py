"""Where on the site its tools are listed and called: as the user says, as the site says of itself, or as usual."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .replies import read_json
from .settings import Settings
from .site import Message, Pause, Site, SiteFailure

LIST = "/mcp/tools/list"
JSONRPC = "/jsonrpc"
INVOKE = "/mcp/tools/invoke"
WELL_KNOWN = "/.well-known/mcp.json"
NAME = "{name}"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoints:
    """Two URLs of the site.

    :param call: Of JSON-RPC, for all tools or with ``{name}`` for one, or of ``/mcp/tools/invoke``.
    """

    list: str
    call: str

    @property
    def speaks_jsonrpc(self) -> bool:
        return not self.call.endswith(INVOKE)

    def url_of(self, tool: str) -> str:
        return self.call.replace(NAME, quote(tool, safe=""))


def find_endpoints(site: Site, settings: Settings, pause: Pause) -> Endpoints:
    """Find the endpoints; what a site says of itself is believed as long as it speaks of itself.

    :raises SiteFailure: when the site cannot be reached.
    """
    if settings.endpoint is not None:
        return Endpoints(settings.url + LIST, settings.url + settings.endpoint)
    usual = Endpoints(settings.url + LIST, settings.url + JSONRPC)
    answer = site.send(Message(settings.url + WELL_KNOWN, is_read=True), pause)
    try:
        document = read_json(answer)
    except SiteFailure:
        return usual  # few sites have it, and some answer a page of theirs instead
    told = [_read_endpoints(server) for server in _servers_in(document)]
    known = [endpoints for endpoints in told if endpoints is not None]
    own = [endpoints for endpoints in known if settings.is_ours(endpoints.list) and settings.is_ours(endpoints.call)]
    if len(own) < len(known):
        logger.warning("what %s says about other sites is ignored", WELL_KNOWN)
    if any(endpoints.list == usual.list for endpoints in own):
        return next(endpoints for endpoints in own if endpoints.list == usual.list)
    return own[0] if own else usual


def _servers_in(document: Any) -> list[Any]:
    servers = document.get("servers") if isinstance(document, Mapping) else None
    return servers if isinstance(servers, list) else []


def _read_endpoints(server: Any) -> Endpoints | None:
    urls = server.get("endpoints") if isinstance(server, Mapping) else None
    if not isinstance(urls, Mapping) or not isinstance(urls.get("list"), str):
        return None
    call = next((urls[role] for role in ("jsonrpc", "tool", "invoke") if isinstance(urls.get(role), str)), None)
    return None if call is None else Endpoints(urls["list"], call)
