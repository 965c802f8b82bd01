"""List the tools of the site, and call them over HTTP.

A site may respond with anything: the HTML of a proxy, nothing, the response to another call. Each is a `SiteFailure` of
that one list or call.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from ..config import NO_DOTS
from ..envelope import VERSION
from ..errors import InvalidParams, MethodNotFound, RpcError, UnknownTool
from ..method import HINTS
from ..problems import Problem, one_line
from ..registry import alias_of
from ..schema.walk import inline_references
from ..strict_json import write
from .site import MAX_RESPONSE, Cancelled, Site, SiteFailure, SiteResponse

LIST_PATH = "/mcp/tools/list"
JSONRPC_PATH = "/jsonrpc"
INVOKE_PATH = "/mcp/tools/invoke"
WELL_KNOWN_PATH = "/.well-known/mcp.json"

MAX_PAGES = 1000
MAX_TIMEOUTS = 5
"""The whole list may take this many times as long as one request."""

MAX_TOOLS = 10_000
MAX_TOOL = 256 * 1024
"""Maximum bytes of a tool as JSON, before and after references are inlined; `MAX_RESPONSE` for all together."""

MAX_NAME = 256
MAX_URL = 2000
"""Maximum characters of a URL; some proxies refuse longer ones."""

CONSTANT_ID = "flask-jsonrpc-mcp"
"""The id of every call by GET. With a new id each time, equal calls would have different URLs for caches."""

# Schema keywords whose value is an object. PHP serialises an empty one as a list.
_OBJECT_KEYWORDS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteTool:
    """A tool of the site.

    :param descriptor: The tool as MCP 2026-07-28 lists it.
    :param scopes: The scopes that a token needs; ``None`` if the tool needs no credentials.
    """

    name: str
    descriptor: dict[str, Any]
    read_only: bool
    scopes: frozenset[str] | None


@dataclass(frozen=True)
class ToolList:
    """The tools of the site in its order, by the names that clients see, and the URL that calls them."""

    site: Site
    tools: dict[str, RemoteTool]
    call_url: str

    def find(self, name: str) -> RemoteTool:
        """Find a tool by the name that clients see, or by the site's own.

        :raises UnknownTool: if there is none.
        """
        by_own_name = (tool for tool in self.tools.values() if tool.name == name)
        tool = self.tools.get(name) or next(by_own_name, None)
        if tool is None:
            raise UnknownTool(name, sign_in=False)
        return tool

    def call(self, tool: RemoteTool, arguments: Mapping[str, Any], cancelled: Cancelled) -> Any:
        """Call a tool, by GET if it is read-only and ``site.method`` allows that, and return its result.

        :raises UnknownTool: if the site does not know the tool.
        :raises RpcError: if the arguments are invalid, the tool fails, or the site does.
        """
        _check_scopes(tool, self.site)
        send = partial(self.site.send, is_read=tool.read_only, cancelled=cancelled)
        url = self.call_url.replace("{name}", quote(tool.name, safe=""))
        if url.endswith(INVOKE_PATH):
            return _parse_invoked(send(url, {"name": tool.name, "arguments": arguments}), tool)
        if tool.read_only and self.site.method == "GET":
            query = f"{url}?query={quote(write(_rpc_request(tool, arguments, CONSTANT_ID)))}"
            if len(query) <= MAX_URL:
                response = send(query)
                if response.status not in (405, 414):
                    return _parse_rpc_response(response, CONSTANT_ID, tool)
                reason = f"the status of GET was {response.status}"
            else:
                reason = f"its URL would have {len(query)} characters"
            facts = {"tool": tool.name, "reason": reason}
            logger.info("calling %(tool)r by POST, because %(reason)s", facts, extra=facts)
        unique_id = str(uuid.uuid4())
        return _parse_rpc_response(send(url, _rpc_request(tool, arguments, unique_id)), unique_id, tool)


def fetch_list(site: Site, cancelled: Cancelled) -> ToolList:
    """Fetch all pages of the list.

    :raises SiteFailure: if there is no list, or it is too long.
    """
    list_url, call_url = _find_endpoints(site, cancelled)
    tools: dict[str, RemoteTool] = {}
    skipped = total = 0
    for number, item in enumerate(_fetch_items(site, list_url, cancelled)):
        tool = _parse_tool(item) if len(write(item)) <= MAX_TOOL else None
        size = 0 if tool is None else len(write(tool.descriptor))
        if tool is None or size > MAX_TOOL:
            skipped += 1
        else:
            total += size
            tools.setdefault(tool.name, tool)
        if number >= MAX_TOOLS or total > MAX_RESPONSE:
            raise SiteFailure(f"The site lists more than {MAX_TOOLS} tools or {MAX_RESPONSE} bytes")
    if skipped:
        text = "skipped %d entries of the list that are not tools, or too large"
        logger.warning(text, skipped, extra={"skipped": skipped})
    return ToolList(site, _by_shown_name(tools.values(), site.tool_name_style), call_url)


def _fetch_items(site: Site, list_url: str, cancelled: Cancelled) -> Iterator[Any]:
    """Yield the entries of all pages of the list."""
    deadline = time.monotonic() + MAX_TIMEOUTS * site.timeout
    cursor: str | None = None
    seen = set()
    for _ in range(MAX_PAGES):
        url = list_url if cursor is None else f"{list_url}?cursor={quote(cursor, safe='')}"
        response = site.send(url, is_read=True, cancelled=cancelled)
        response.require_success()
        page = response.json()
        items, cursor = _member(page, "tools", list), _member(page, "nextCursor", str)
        if items is None:
            raise SiteFailure(f"The site has no list of tools at {list_url}")
        yield from items
        if not cursor:
            return
        if cursor in seen:
            raise SiteFailure("The list of tools repeats a cursor")
        if time.monotonic() > deadline:
            raise SiteFailure("The list of tools took too long")
        seen.add(cursor)
    raise SiteFailure(f"The list of tools has more than {MAX_PAGES} pages")


def _find_endpoints(site: Site, cancelled: Cancelled) -> tuple[str, str]:
    """Find the URLs that list and call tools: from ``endpoint`` or ``/.well-known/mcp.json``, else the default ones."""
    default = site.url + LIST_PATH, site.url + (site.endpoint or JSONRPC_PATH)
    if site.endpoint is not None:
        return default
    response = site.send(site.url + WELL_KNOWN_PATH, is_read=True, cancelled=cancelled)
    try:
        response.require_success()
        document = response.json()
    except SiteFailure:
        return default  # few sites have this document, and some respond with an HTML page
    servers = _member(document, "servers", list) or []
    found = [urls for server in servers if (urls := _parse_endpoints(server)) is not None]
    own = [urls for urls in found if all(map(site.is_same_origin, urls))]
    if len(own) < len(found):
        text = "ignored the endpoints of other sites in %s"
        logger.warning(text, WELL_KNOWN_PATH, extra={"path": WELL_KNOWN_PATH})
    at_this_url = [urls for urls in own if urls[0] == default[0]]
    return [*at_this_url, *own, default][0]


def _parse_endpoints(server: Any) -> tuple[str, str] | None:
    urls = _member(server, "endpoints", dict)
    list_url, *call_urls = (_member(urls, role, str) for role in ("list", "jsonrpc", "tool", "invoke"))
    call_url = next(filter(None, call_urls), None)
    return None if list_url is None or call_url is None else (list_url, call_url)


def _parse_tool(item: Any) -> RemoteTool | None:
    """Parse an entry of the list; ``None`` if no client could use it."""
    name, title = _member(item, "name", str), _member(item, "title", str)
    if not name or len(name) > MAX_NAME or not name.isprintable():
        return None
    descriptor: dict[str, Any] = {"name": name}
    if title is not None:
        descriptor["title"] = title
    descriptor["description"] = str(item.get("description") or title or name)
    # Clients refuse a tool whose input schema is not of an object.
    schema = {"type": "object", "properties": {}} | _repair(_member(item, "inputSchema", dict) or {})
    descriptor["inputSchema"] = inline_references(schema | {"type": "object"})
    if output := _member(item, "outputSchema", dict):
        descriptor["outputSchema"] = inline_references(_repair(output))
    annotations = _member(item, "annotations", dict) or {}
    descriptor["annotations"] = {key: value for key, value in annotations.items() if _is_valid_hint(key, value)}
    return RemoteTool(name, descriptor, annotations.get("readOnlyHint") is True, _parse_scopes(annotations))


def _is_valid_hint(key: str, value: Any) -> bool:
    """Return whether an annotation has its type in MCP: clients refuse a whole list for one wrong type."""
    return isinstance(value, bool) if key in HINTS else isinstance(value, str) if key == "title" else True


def _parse_scopes(annotations: dict[str, Any]) -> frozenset[str] | None:
    """Parse what Drupal adds, such as ``{"auth": {"scopes": ["content:write"], "level": "required"}}``."""
    auth = _member(annotations, "auth", dict) or {}
    scopes = frozenset(map(str, _member(auth, "scopes", list) or ()))
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
    shown = {tool.name if counts[alias_of(tool.name)] > 1 else alias_of(tool.name): tool for tool in tools}
    kept = [name for name in shown if "." in name]
    if kept:
        first = ", ".join(map(repr, kept[:10])) + (", ..." if len(kept) > 10 else "")
        text = "these names keep their dots, because they would not be unique without: %s"
        logger.warning(text, first, extra={"names": first})
    return shown


def _check_scopes(tool: RemoteTool, site: Site) -> None:
    """Check that the bridge has the credentials and scopes that a tool needs, as far as they are known."""
    if tool.scopes is None:
        return
    needed = f"{tool.name} needs a sign-in" + (f" with the scopes {_join(tool.scopes)}" if tool.scopes else "")
    if site.authorization is None:
        raise SiteFailure(f"{needed}: set MCP_BRIDGE_TOKEN, or MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD")
    if site.scopes is not None and not tool.scopes <= site.scopes:
        raise SiteFailure(
            f"{needed}; the token of the bridge lacks {_join(tool.scopes - site.scopes)}"
            f" (MCP_BRIDGE_SCOPES has {_join(site.scopes) or 'none'})"
        )


def _join(scopes: Iterable[str]) -> str:
    return ", ".join(sorted(scopes))


def _rpc_request(tool: RemoteTool, arguments: Mapping[str, Any], id: str) -> dict[str, Any]:
    params = {"params": arguments} if arguments else {}  # Drupal reads an empty object as a list
    return {"jsonrpc": VERSION, "method": tool.name, **params, "id": id}


def _parse_rpc_response(response: SiteResponse, id: str, tool: RemoteTool) -> Any:
    """Return the result of a JSON-RPC response, or raise its error."""
    body = _parse_body(response)
    # JSON-RPC 2.0, section 5: the id of an error is null if the server could not read the id of the request.
    has_id = body.get("id") == id or ("error" in body and body.get("id") is None)
    if not has_id or body.get("jsonrpc") != VERSION or ("result" in body) == ("error" in body):
        response.require_success()
        raise SiteFailure("The site answered with something that is not the JSON-RPC 2.0 response to this call")
    if "result" in body:
        return body["result"]
    error = body["error"]
    code, message = _member(error, "code", int), _member(error, "message", str) or "The tool failed"
    if code is None:
        raise SiteFailure("The site answered with an invalid error object")
    reason = _member(error, "data", str)  # of Drupal
    details = error.get("data") if code == InvalidParams.code else None
    raise _tool_error(tool, code, f"{message}: {reason}" if reason else message, details)


def _parse_invoked(response: SiteResponse, tool: RemoteTool) -> Any:
    """Return the result of a response of ``/mcp/tools/invoke``, or raise its error."""
    body = _parse_body(response)
    if response.status == 200 and "result" in body:
        return body["result"]
    error = body.get("error")
    message = _member(error, "message", str)
    if message is None:
        response.require_success()
        raise SiteFailure("The site answered without a result")
    raise _tool_error(tool, _member(error, "code", str), message, error)


def _tool_error(tool: RemoteTool, code: int | str | None, message: str, details: Any) -> RpcError:
    """Convert the error object of a site; its ``details`` may list wrong arguments."""
    if code in (MethodNotFound.code, MethodNotFound.slug):
        return UnknownTool(tool.name, sign_in=False)
    problems = [
        Problem(one_line(_member(error, "path", str) or ""), one_line(problem))
        for error in _member(details, "errors", list) or ()
        if (problem := _member(error, "message", str)) is not None
    ]
    return InvalidParams(problems) if problems else RpcError(message)


def _parse_body(response: SiteResponse) -> dict[str, Any]:
    """Parse the body of a response; empty if it is not an object.

    :raises SiteFailure: if it is not a response to the call, or the handle of a task.
    """
    if response.status == 401 or response.lacks_scope or 300 <= response.status < 400:
        response.require_success()
    if response.status == 202 and "Location" in response.headers:
        place = one_line(response.headers["Location"], 200)
        raise SiteFailure(f"The tool runs as a task of the site; the bridge cannot wait for its result, at {place}")
    try:
        body = response.json()
    except SiteFailure:
        response.require_success()  # explains more than a body that is not JSON
        raise
    return body if isinstance(body, dict) else {}


def _member(value: Any, name: str, kind: type[T]) -> T | None:
    """Return a member of an object; ``None`` if it is missing or of another type, or if there is no object."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, kind) else None
