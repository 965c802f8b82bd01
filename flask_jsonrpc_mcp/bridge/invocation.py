"""One call of a tool of the site: by GET where caches may answer, by POST otherwise."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ..envelope import VERSION
from ..strict_json import write
from .endpoints import Endpoints
from .replies import read_invocation, read_reply
from .settings import Settings
from .site import Message, Pause, Site
from .tools import RemoteTool

MAX_URL = 2000
"""The most characters of a URL; some proxies take no longer ones."""

CONSTANT_ID = "flask-jsonrpc-mcp"
"""The id of every GET: with a fresh one each, every URL would be another, and no cache would ever have it."""

logger = logging.getLogger(__name__)


def invoke(
    site: Site,
    settings: Settings,
    endpoints: Endpoints,
    tool: RemoteTool,
    arguments: Mapping[str, Any],
    pause: Pause,
) -> Any:
    """Call a tool, and return its result.

    :raises UnknownTool: when the site does not know it.
    :raises RpcError: when it fails, or the site does.
    """
    tool.check_access(settings)
    url = endpoints.url_of(tool.name)
    if not endpoints.speaks_jsonrpc:
        body = {"name": tool.name, "arguments": arguments}
        return read_invocation(site.send(Message(url, body, is_read=tool.read_only), pause), tool.name)
    if tool.read_only and settings.method == "GET":
        query = f"{url}?query={quote(write(_spell(tool, arguments, CONSTANT_ID)))}"
        if len(query) <= MAX_URL:
            answer = site.send(Message(query, is_read=True), pause)
            if answer.status not in (405, 414):
                return read_reply(answer, CONSTANT_ID, tool.name)
            logger.info("%r by POST, because GET was answered with %d", tool.name, answer.status)
        else:
            logger.info("%r by POST, because its URL would have %d characters", tool.name, len(query))
    fresh_id = str(uuid.uuid4())
    message = Message(url, _spell(tool, arguments, fresh_id), is_read=tool.read_only)
    return read_reply(site.send(message, pause), fresh_id, tool.name)


def _spell(tool: RemoteTool, arguments: Mapping[str, Any], id: str) -> dict[str, Any]:
    request: dict[str, Any] = {"jsonrpc": VERSION, "method": tool.name}
    if arguments:  # Drupal takes an empty object for a list
        request["params"] = arguments
    return {**request, "id": id}
