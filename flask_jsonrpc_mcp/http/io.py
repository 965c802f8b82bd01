"""Read request bodies and query strings as strict JSON, and build responses."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs

from flask import Request, Response, current_app, request
from werkzeug.exceptions import RequestEntityTooLarge

from .. import strict_json
from ..auth import Caller
from ..call import BRIDGE, BRIDGE_HEADER
from ..config import MAX_BODY
from ..errors import (
    BodyTooLarge,
    InsufficientScope,
    InvalidParams,
    InvalidRequest,
    MissingParameter,
    ParseError,
    RpcError,
    UnreadableBody,
    UnsupportedMediaType,
    VerbNotAllowed,
)
from ..registry import EXTENSION, Page, Registry

JSON = "application/json"


def face_of(request: Request, face: str) -> str:
    """Return the face of a call: the bridge if it sent the request, else the one that the path belongs to."""
    return BRIDGE if BRIDGE_HEADER in request.headers else face


def client_socket(environ: Mapping[str, Any]) -> socket.socket | None:
    """Return the socket of the client, if the server passes it on. gunicorn and werkzeug do."""
    found: socket.socket | None = environ.get("gunicorn.socket") or environ.get("werkzeug.socket")
    return found


def read_json_body(request: Request, mimetypes: Collection[str] = (JSON,)) -> Any:
    """Parse the body of a request.

    :param mimetypes: The accepted values of ``Content-Type``.
    :raises UnsupportedMediaType: for any other; HTML forms of other sites can send some of these.
    :raises BodyTooLarge: for a body larger than the limit, whether its length is declared or not.
    :raises UnreadableBody: if the HTTP server cannot read it.
    :raises ParseError: if it is not strict JSON.
    """
    if request.mimetype not in mimetypes:
        raise UnsupportedMediaType()
    limit = request.max_content_length or MAX_BODY
    try:
        body = _read_declared(request, limit)
        if body is None:
            body = _read_any(request, limit)
    except RpcError:
        raise
    except Exception as error:  # each HTTP server has its own exceptions for invalid framing
        raise UnreadableBody() from error
    return strict_json.read(body, max_depth=current_app.config["JSONRPC_MCP_MAX_DEPTH"])


def _read_declared(request: Request, limit: int) -> bytes | None:
    """Read a body with ``Content-Length`` from ``wsgi.input``, which is three times as fast as werkzeug's stream.

    :returns: ``None`` if the length is not known, or the stream is already in use.
    """
    environ = request.environ
    length = environ.get("CONTENT_LENGTH", "")
    if not length.isdecimal() or "HTTP_TRANSFER_ENCODING" in environ or "stream" in vars(request):
        return None
    if int(length) > limit:
        raise BodyTooLarge()
    stream, parts, missing = environ["wsgi.input"], [], int(length)
    while missing:
        part = stream.read(missing)  # may return less
        if not part:
            raise UnreadableBody()  # the client disconnected
        parts.append(part)
        missing -= len(part)
    body = b"".join(parts)
    environ["wsgi.input"] = BytesIO(body)  # for code that reads the body later
    return body


def _read_any(request: Request, limit: int) -> bytes:
    # One more than the limit: werkzeug truncates a chunked body at its limit without an error.
    request.max_content_length = limit + 1
    try:
        body = request.get_data()
    except RequestEntityTooLarge as error:
        raise BodyTooLarge() from error
    if len(body) > limit:
        raise BodyTooLarge()
    if request.content_length not in (None, len(body)):
        raise UnreadableBody()  # gunicorn returns a part of the body if the client disconnects
    return body


def read_query(request: Request) -> dict[str, list[str]]:
    """Parse the query string of a request.

    :raises InvalidRequest: if it is not UTF-8.
    """
    try:
        # Not request.args, which replaces bytes that are not UTF-8.
        return parse_qs(request.query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise InvalidRequest("The query string must be UTF-8 and percent-encoded") from error


def first_values(request: Request) -> dict[str, str]:
    """Return the first value of each parameter of the query string."""
    return {name: values[0] for name, values in read_query(request).items()}


def read_json_query(request: Request, name: str = "query") -> Any:
    """Parse a parameter of the query string as JSON.

    :raises MissingParameter: unless it is there exactly once.
    :raises ParseError: if it is not strict JSON.
    """
    try:
        values = read_query(request).get(name, [])
    except InvalidRequest as error:
        raise ParseError() from error  # JSON must be UTF-8
    if len(values) != 1:
        raise MissingParameter(name)
    return strict_json.read(values[0], max_depth=current_app.config["JSONRPC_MCP_MAX_DEPTH"])


def json_response(value: Any, status: int = 200) -> Response:
    """Respond with a plain value, or with serialised JSON, and forbid caches to store it."""
    body = value if isinstance(value, bytes) else strict_json.write(value)
    response = Response(body, status, content_type=JSON)
    response.headers.add("Cache-Control", "no-store")
    return response


def error_response(value: Any, error: RpcError, status: int) -> Response:
    """Respond with the body of an error, as a value or serialised, and the headers that belong to it."""
    response = json_response(value, status)
    if isinstance(error, VerbNotAllowed):
        response.headers["Allow"] = error.allowed
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if (status == 401 or isinstance(error, InsufficientScope)) and request.blueprint is not None:
        for challenge in current_app.extensions[EXTENSION][request.blueprint].auth.challenges(error):
            response.headers.add("WWW-Authenticate", challenge)
    return response


def rest_error(error: RpcError, message: str | None = None) -> Response:
    """Respond with ``{"error": {"code", "message"}}``, and with every problem of the arguments."""
    return error_response({"error": rest_error_body(error, message)}, error, error.status)


def rest_error_body(error: RpcError, message: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.slug, "message": error.message if message is None else message}
    if isinstance(error, InvalidParams):
        body.update(error.data)
    elif error.data is not None:
        body["data"] = strict_json.to_plain(error.data)
    return body


def call_error(error: RpcError) -> Response:
    """Respond with the error of a tool."""
    return rest_error(error, call_error_message(error))


def call_error_message(error: RpcError) -> str | None:
    return f"Tool execution failed: {error.message}" if error.slug == RpcError.slug else None


def no_content(status: int = 204) -> Response:
    """Respond without a body."""
    response = Response(status=status, headers={"Cache-Control": "no-store"})
    del response.headers["Content-Type"]
    return response


def make_page(body: bytes) -> Page:
    """Build a page with an ETag of its body."""
    return Page(body, hashlib.blake2b(body, digest_size=12).hexdigest())


def page_response(
    request: Request, page: Page, registry: Registry, caller: Caller, max_age: int, *, mimetype: str = JSON
) -> Response:
    """Respond with a page that caches may store, or with 304 if the client has it."""
    response = Response(page.body, mimetype=mimetype)
    response.set_etag(page.etag)
    is_public = caller.anonymous and registry.auth.permissions_loader is None  # which may look at the request
    scope = "public" if is_public else "private"
    response.headers["Cache-Control"] = f"{scope}, " + (f"max-age={max_age}" if max_age else "no-cache")
    response.headers["Vary"] = ", ".join([*registry.auth.credential_headers, "Origin"])
    response.make_conditional(request)
    return response
