"""Convert the response of an endpoint to the result of a tool, or to its failure."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from werkzeug.http import parse_options_header

from ..auth import Caller
from ..content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent, ToolResult
from ..errors import InvalidParams, RpcError, Unauthorized
from ..problems import Problem, pointer, problems_of_messages
from ..strict_json import write
from .api_arguments import as_text
from .endpoint import Reply

HEADERS_META = "flask-jsonrpc-mcp/headers"
"""The key of ``_meta`` for the headers of the response."""

SHOWN_HEADERS = ("ETag", "Link", "Location")
"""The response headers that callers get, besides those that the document declares."""

# Where frameworks have the errors of a validation in their responses, and the names of the parts of a request.
_PROBLEMS = ("errors", "detail", "validation_error", "messages")
_PARTS = frozenset(
    ["json", "json_or_form", "form", "query", "querystring", "path", "files", "body", "headers", "view_args"]
)
_TEXTS = ("message", "detail", "description", "error_description", "error", "msg", "title")
_CODES = frozenset(["code", "status", "status_code", "title", "type", "statusCode", "error"])
_STATUSES = frozenset(HTTPStatus)
_TAG = re.compile(r"<(?:script|style|title|h1)\b.*?</(?:script|style|title|h1)>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def result_of(reply: Reply, caller: Caller, declared_headers: Iterable[str] = ()) -> Any:
    """Return the result of a tool.

    :param declared_headers: The names of headers to pass on.
    :raises RpcError: for a 4xx response, with its text.
    :raises RuntimeError: for a redirect or a 5xx response.
    """
    if reply.status != HTTPStatus.NOT_MODIFIED:
        _check_status(reply, caller)
    names = {name.lower(): name for name in (*declared_headers, *SHOWN_HEADERS)}
    headers = {name: reply.headers[name] for name in names.values() if name in reply.headers}
    value, blocks = _contents(reply)
    if not headers and not blocks:
        return value
    lines = "\n".join(f"{name}: {text}" for name, text in headers.items())
    # A model reads the blocks, so the headers are among them: it sends an ETag back as If-Match.
    content = [*(blocks or [TextContent(as_text(value))]), *([TextContent(lines)] if lines else [])]
    return ToolResult(value, content, {HEADERS_META: headers} if headers else None)


def _contents(reply: Reply) -> tuple[Any, list[ContentBlock]]:
    """Return a value, or else content blocks."""
    if reply.status == HTTPStatus.NOT_MODIFIED:
        return None, [TextContent("Not modified")]
    if not reply.body:
        return None, []
    mimetype, options = parse_options_header(reply.headers.get("Content-Type", ""))
    if _is_json(mimetype):
        try:
            return json.loads(reply.body), []
        except ValueError as error:
            raise RuntimeError(f"{reply.path} answered {mimetype} that cannot be parsed") from error
    if mimetype.startswith("text/"):
        return reply.body.decode(options.get("charset", "utf-8"), "replace"), []
    if mimetype.startswith("image/"):
        return None, [ImageContent(reply.body, mimetype)]
    if mimetype.startswith("audio/"):
        return None, [AudioContent(reply.body, mimetype)]
    return None, [EmbeddedResource(reply.path, reply.body, mimetype or "application/octet-stream")]


def _check_status(reply: Reply, caller: Caller) -> None:
    status = reply.status
    if status < 300:
        return
    if caller.anonymous and (status == 401 or status < 400):
        raise Unauthorized()  # an endpoint that redirects to a login form, too
    if not 400 <= status < 500:
        to = f", a redirect to {reply.headers['Location']}" if "Location" in reply.headers else ""
        raise RuntimeError(f"{reply.path} answered {status} {reply.reason}{to}")
    body = _json_of(reply)
    problems = _problems_in(body) if status in (400, 422) else []
    if problems:
        raise InvalidParams(problems)
    data = None if body is None else {"body": body}
    error = RpcError(_text_of(reply, body), status=status if status in _STATUSES else 400, data=data)
    retry_after = reply.headers.get("Retry-After", "")
    if retry_after.isdecimal():
        error.retry_after = int(retry_after)
    raise error


def _json_of(reply: Reply) -> Any:
    try:
        return json.loads(reply.body) if _is_json(reply.headers.get("Content-Type", "").partition(";")[0]) else None
    except ValueError:
        return None


def _is_json(mimetype: str) -> bool:
    return mimetype.strip().lower().endswith(("/json", "+json"))


def _problems_in(body: Any) -> list[Problem]:
    """Find the problems of a validation, by field as marshmallow has them, or in a list as pydantic has them."""
    found = (
        next((body[name] for name in _PROBLEMS if isinstance(body.get(name), (dict, list))), None)
        if isinstance(body, dict)
        else body
    )
    if isinstance(found, list):
        located = [each for each in found if isinstance(each, Mapping) and isinstance(each.get("loc"), list)]
        return [Problem(pointer("", *each["loc"]), str(each.get("msg", "is invalid"))) for each in located]
    if not isinstance(found, dict) or not found:
        return []
    if _PARTS.issuperset(found):
        parts = [part for part in found.values() if isinstance(part, dict)]
        return [problem for part in parts for problem in problems_of_messages(part)]
    return problems_of_messages(found)


def _text_of(reply: Reply, body: Any) -> str:
    """Return the text of an error: its message if that is all there is, else the whole JSON."""
    if isinstance(body, Mapping):
        text = next((body[name] for name in _TEXTS if isinstance(body.get(name), str) and body[name]), None)
        others = {name for name, value in body.items() if value not in (None, text, [], {})} - _CODES
        if text is not None and not others:
            return str(text)
    if body is not None:
        return f"{reply.reason}: {write(body).decode()}"
    text = reply.body.decode("utf-8", "replace")
    if "html" in reply.headers.get("Content-Type", ""):
        text = html.unescape(_TAG.sub(" ", text))
    return " ".join(text.split()) or reply.reason
