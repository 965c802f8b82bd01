"""Call a tool of the site over HTTP, and validate the response.

A site may respond with anything: the HTML of a proxy, nothing, the response to another call. Each is an error of that
one call.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ..envelope import VERSION
from ..errors import InvalidParams, MethodNotFound, Problem, RpcError, UnknownTool, one_line
from ..strict_json import write
from .options import Options
from .remote_tools import Endpoints, RemoteTool
from .site import Cancelled, Site, SiteFailure, SiteResponse, check_status, parse_json

MAX_URL = 2000
"""Maximum characters of a URL; some proxies refuse longer ones."""

CONSTANT_ID = "flask-jsonrpc-mcp"
"""The id of every call by GET: a new id each time would give each call a URL of its own, which no cache has."""

logger = logging.getLogger(__name__)


def call_tool(
    site: Site, endpoints: Endpoints, tool: RemoteTool, arguments: Mapping[str, Any], cancelled: Cancelled
) -> Any:
    """Call a tool, by GET if it is read-only and the options allow that, and return its result.

    :raises UnknownTool: if the site does not know the tool.
    :raises RpcError: if the arguments are invalid, the tool fails, or the site does.
    """
    check_scopes(tool, site.options)
    url = endpoints.url_of(tool)
    if not endpoints.is_jsonrpc:
        body = {"name": tool.name, "arguments": arguments}
        return _parse_invoked(site.send(url, body, is_read=tool.read_only, cancelled=cancelled), tool)
    if tool.read_only and site.options.method == "GET":
        query = f"{url}?query={quote(write(_rpc_request(tool, arguments, CONSTANT_ID)))}"
        if len(query) <= MAX_URL:
            response = site.send(query, is_read=True, cancelled=cancelled)
            if response.status not in (405, 414):
                return _parse_rpc_response(response, CONSTANT_ID, tool)
            logger.info("calling %r by POST, because the status of GET was %d", tool.name, response.status)
        else:
            logger.info("calling %r by POST, because its URL would have %d characters", tool.name, len(query))
    unique_id = str(uuid.uuid4())
    body = _rpc_request(tool, arguments, unique_id)
    response = site.send(url, body, is_read=tool.read_only, cancelled=cancelled)
    return _parse_rpc_response(response, unique_id, tool)


def check_scopes(tool: RemoteTool, options: Options) -> None:
    """Check that the bridge has the credentials and scopes that a tool needs, as far as they are known.

    :raises SiteFailure: if some are missing.
    """
    if tool.scopes is None:
        return
    needed = f" with the scopes {_join(tool.scopes)}" if tool.scopes else ""
    if options.authorization is None:
        raise SiteFailure(
            f"{tool.name} needs a sign-in{needed}: set MCP_BRIDGE_TOKEN, or MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD"
        )
    missing = tool.scopes - options.scopes if options.scopes is not None else ()
    if missing:
        raise SiteFailure(
            f"{tool.name} needs a sign-in{needed}; the token of the bridge lacks {_join(missing)}"
            f" (MCP_BRIDGE_SCOPES has {_join(options.scopes or ()) or 'none'})"
        )


def _join(scopes: Any) -> str:
    return ", ".join(sorted(scopes))


def _rpc_request(tool: RemoteTool, arguments: Mapping[str, Any], id: str) -> dict[str, Any]:
    params = {"params": arguments} if arguments else {}  # Drupal reads an empty object as a list
    return {"jsonrpc": VERSION, "method": tool.name, **params, "id": id}


def _parse_rpc_response(response: SiteResponse, id: str, tool: RemoteTool) -> Any:
    """Return the result of a JSON-RPC response, or raise its error."""
    body = _parse_body(response)
    if not _is_response_to(id, body):
        check_status(response)
        raise SiteFailure("The site answered with something that is not the JSON-RPC 2.0 response to this call")
    if "error" in body:
        raise _parse_rpc_error(body["error"], tool)
    return body["result"]


def _parse_body(response: SiteResponse) -> Any:
    if response.status == 401 or 300 <= response.status < 400:
        check_status(response)
    try:
        return parse_json(response)
    except SiteFailure:
        check_status(response)  # explains more than a body that is not JSON
        raise


def _is_response_to(id: str, body: Any) -> bool:
    if not isinstance(body, Mapping) or body.get("jsonrpc") != VERSION or ("result" in body) == ("error" in body):
        return False
    # JSON-RPC 2.0, section 5: the id of an error is null if the server could not read the id of the request.
    return body.get("id") == id or ("error" in body and body.get("id") is None)


def _parse_rpc_error(error: Any, tool: RemoteTool) -> RpcError:
    if not isinstance(error, Mapping) or not isinstance(error.get("code"), int):
        return SiteFailure("The site answered with an invalid error object")
    code, data = error["code"], error.get("data")
    if code == MethodNotFound.code:
        return UnknownTool(tool.name, sign_in=False)
    problems = _parse_problems(data.get("errors")) if isinstance(data, Mapping) else []
    if code == InvalidParams.code and problems:
        return InvalidParams(problems)
    message = str(error.get("message") or "The tool failed")
    # Drupal puts the reason into the data.
    return RpcError(f"{message}: {data}" if isinstance(data, str) and data else message)


def _parse_invoked(response: SiteResponse, tool: RemoteTool) -> Any:
    """Return the result of a response of ``/mcp/tools/invoke``, or raise its error."""
    body = _parse_body(response)
    if response.status == 200 and isinstance(body, Mapping) and "result" in body:
        return body["result"]
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping) or not isinstance(error.get("message"), str):
        check_status(response)
        raise SiteFailure("The site answered without a result")
    if error.get("code") == MethodNotFound.slug:
        raise UnknownTool(tool.name, sign_in=False)
    problems = _parse_problems(error.get("errors"))
    raise InvalidParams(problems) if problems else RpcError(error["message"])


def _parse_problems(errors: Any) -> list[Problem]:
    return [
        Problem(one_line(str(error.get("path", ""))), one_line(str(error["message"])))
        for error in (errors if isinstance(errors, list) else [])
        if isinstance(error, Mapping) and "message" in error
    ]
