"""Reading what a client sent: its body as strict JSON, within limits."""

from __future__ import annotations

from collections.abc import Collection
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from .. import strict_json
from ..current import this_request
from ..errors import (
    BodyTooLarge,
    InvalidRequest,
    MissingParameter,
    ParseError,
    RpcError,
    UnreadableBody,
    UnsupportedMediaType,
)
from ..settings import MAX_BODY, setting

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


def read_json_body(mimetypes: Collection[str] = ("application/json",)) -> Any:
    """Read the body of the current request.

    :param mimetypes: How it may be labelled.
    :raises UnsupportedMediaType: unless it is labelled so: a form on any page can send the other types.
    :raises BodyTooLarge: at once for a declared length, while reading for a chunked body.
    :raises UnreadableBody: when the HTTP server cannot read it.
    :raises ParseError: when it is not strict JSON.
    """
    request = this_request()
    environ = request.environ
    # Most clients send the bare label; what has parameters must be read.
    if environ.get("CONTENT_TYPE") not in mimetypes and request.mimetype not in mimetypes:
        raise UnsupportedMediaType()
    limit = request.max_content_length or MAX_BODY
    declared = environ.get("CONTENT_LENGTH", "")
    try:
        # Most bodies say how long they are, and nobody has looked at them yet.
        if declared.isdecimal() and "HTTP_TRANSFER_ENCODING" not in environ and "stream" not in vars(request):
            body = _read_declared(environ, int(declared), limit)
        else:
            body = _read_any(request, limit)
    except RpcError:
        raise
    except Exception as error:  # each HTTP server has exceptions of its own for bad framing
        raise UnreadableBody() from error
    return strict_json.read(body, max_depth=setting("MAX_DEPTH"))


def _read_declared(environ: WSGIEnvironment, length: int, limit: int) -> bytes:
    """Read a body straight from the server: as much as was declared, and no more."""
    if length > limit:
        raise BodyTooLarge()
    stream, parts, missing = environ["wsgi.input"], [], length
    while missing:
        part = stream.read(missing)  # which may give less than it was asked for
        if not part:
            raise UnreadableBody()  # the client went away
        parts.append(part)
        missing -= len(part)
    body = b"".join(parts)
    environ["wsgi.input"] = BytesIO(body)  # for whoever looks at the request after us
    return body


def _read_any(request: Request, limit: int) -> bytes:
    # One more than the limit: werkzeug stops reading a chunked body there, and says nothing.
    request.max_content_length = limit + 1
    try:
        body = request.get_data()
    except RequestEntityTooLarge as error:
        raise BodyTooLarge() from error
    if len(body) > limit:
        raise BodyTooLarge()
    if request.content_length not in (None, len(body)):
        raise UnreadableBody()  # gunicorn hands over what it got when the client goes away
    return body


def read_query() -> dict[str, list[str]]:
    """Read the query string of the current request.

    :raises InvalidRequest: when it is not UTF-8.
    """
    try:
        # Not request.args, which fails on bytes that are no UTF-8, or puts a replacement character in their place.
        return parse_qs(this_request().query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise InvalidRequest("The query string must be UTF-8 and percent-encoded") from error


def read_json_query(name: str = "query") -> Any:
    """Read a parameter of the current request's query string.

    :raises MissingParameter: unless it is there exactly once.
    :raises ParseError: when it is not strict JSON.
    """
    try:
        values = read_query().get(name, [])
    except InvalidRequest as error:
        raise ParseError() from error
    if len(values) != 1:
        raise MissingParameter(name)
    return strict_json.read(values[0], max_depth=setting("MAX_DEPTH"))
