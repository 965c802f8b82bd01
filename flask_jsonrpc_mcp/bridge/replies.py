"""What the site answered: believed only when it is what the protocol says, and told apart from a failure of a tool.

A site may answer anything: the HTML of a proxy, nothing, the reply to another call. Each is an error of that one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..envelope import VERSION
from ..errors import InvalidParams, MethodNotFound, ParseError, Problem, RpcError, UnknownTool, one_line
from ..strict_json import MAX_RESULT_DEPTH, read
from .settings import origin_of
from .site import Answer, SiteFailure

# What is known to wrap an answer: its own object, an error object, a page of tools.
_MAX_DEPTH = MAX_RESULT_DEPTH + 4

_STATUSES = {
    401: "The site wants other credentials (401): check MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD, or MCP_BRIDGE_TOKEN",
    403: "The site denies access (403)",
    404: "The site has nothing at this address (404)",
    405: "The site does not take this HTTP method (405)",
    413: "The site refuses so long a request (413)",
    429: "The site has had too many calls (429)",
}


def read_json(answer: Answer) -> Any:
    """Read a successful answer as JSON.

    :raises SiteFailure: for every other answer.
    """
    _refuse_other_than_success(answer)
    return _read_body(answer)


def read_reply(answer: Answer, id: str, tool: str) -> Any:
    """Read the reply to a JSON-RPC request, and return its result.

    :raises UnknownTool: when the site does not know the method.
    :raises RpcError: for every other failure: of the arguments, of the tool, or of the site.
    """
    if answer.status in (401, *range(300, 400)):
        _refuse_other_than_success(answer)
    try:
        reply = _read_body(answer)
        _check_reply(reply, id)
    except SiteFailure:
        _refuse_other_than_success(answer)  # the status says more than a body that is no reply
        raise
    if "error" in reply:
        raise _read_error(reply["error"], tool)
    return reply["result"]


def read_invocation(answer: Answer, tool: str) -> Any:
    """Read the answer of ``/mcp/tools/invoke``, and return its result.

    :raises UnknownTool, RpcError: as `read_reply` does.
    """
    if answer.status == 200:
        body = _read_body(answer)
        if not isinstance(body, Mapping) or "result" not in body:
            raise SiteFailure("The site answered without a result")
        return body["result"]
    try:
        body = _read_body(answer)
    except SiteFailure:
        body = None
    error = body.get("error") if isinstance(body, Mapping) else None
    if answer.status == 401 or not isinstance(error, Mapping) or not isinstance(error.get("message"), str):
        _refuse_other_than_success(answer)
        raise SiteFailure(f"The site answered with status {answer.status}")
    if error.get("code") == MethodNotFound.slug:
        raise UnknownTool(tool, sign_in=False)
    problems = _read_problems(error.get("errors"))
    raise InvalidParams(problems) if problems else RpcError(error["message"])


def _check_reply(reply: Any, id: str) -> None:
    if not isinstance(reply, Mapping) or reply.get("jsonrpc") != VERSION:
        raise SiteFailure("The site answered with something that is no JSON-RPC 2.0 reply")
    if ("result" in reply) == ("error" in reply):
        raise SiteFailure("The site answered with neither a result nor an error, or with both")
    # Null is for errors in requests whose id the site could not read.
    if reply.get("id", id) != id and not ("error" in reply and reply["id"] is None):
        raise SiteFailure("The site answered another call than the one it was asked")
    if "result" in reply and "id" not in reply:
        raise SiteFailure("The site answered without saying which call")


def _read_error(error: Any, tool: str) -> RpcError:
    if not isinstance(error, Mapping) or not isinstance(error.get("code"), int):
        return SiteFailure("The site answered with an error that cannot be read")
    code, data = error["code"], error.get("data")
    if code == MethodNotFound.code:
        return UnknownTool(tool, sign_in=False)
    problems = _read_problems(data.get("errors")) if isinstance(data, Mapping) else []
    if code == InvalidParams.code and problems:
        return InvalidParams(problems)
    message = str(error.get("message") or "The tool failed")
    # Drupal puts what matters into the data.
    return RpcError(f"{message}: {data}" if isinstance(data, str) and data else message)


def _read_problems(errors: Any) -> list[Problem]:
    return [
        Problem(one_line(str(error.get("path", ""))), one_line(str(error["message"])))
        for error in (errors if isinstance(errors, list) else [])
        if isinstance(error, Mapping) and "message" in error
    ]


def _read_body(answer: Answer) -> Any:
    try:
        return read(answer.body, max_depth=_MAX_DEPTH)
    except ParseError as error:
        kind = one_line(answer.headers.get("Content-Type", "nothing"), 50)
        raise SiteFailure(f"The site answered with something that is not JSON ({kind})") from error


def _refuse_other_than_success(answer: Answer) -> None:
    if 200 <= answer.status < 300:
        return
    if 300 <= answer.status < 400:
        raise SiteFailure(f"The site redirects{_place(answer)} ({answer.status}), which the bridge does not follow")
    told = _STATUSES.get(answer.status, f"The site failed ({answer.status})")
    wait = answer.headers.get("Retry-After", "")
    raise SiteFailure(f"{told}; try again in {wait} seconds" if wait.isdecimal() else told)


def _place(answer: Answer) -> str:
    """Where a redirect leads, without the path: it may hold what is nobody's business."""
    origin = origin_of(answer.headers.get("Location", ""))
    if origin is None:
        return ""
    scheme, host, _ = origin
    return f" to {scheme}://{one_line(host, 100)}"
