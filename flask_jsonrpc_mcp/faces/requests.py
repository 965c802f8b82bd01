"""Reading what a client sent: its body as strict JSON, within limits."""

from __future__ import annotations

from typing import Any

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from .. import strict_json
from ..errors import BodyTooLarge, UnreadableBody, UnsupportedMediaType
from ..settings import MAX_BODY, setting


def read_json_body() -> Any:
    """Read the body of the current request.

    :raises UnsupportedMediaType: unless it is labelled as JSON: a form on any page can send the other types.
    :raises BodyTooLarge: at once for a declared length, while reading for a chunked body.
    :raises UnreadableBody: when the HTTP server cannot read it.
    :raises ParseError: when it is not strict JSON.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMediaType()
    limit = request.max_content_length = request.max_content_length or MAX_BODY
    try:
        body = request.get_data()
    except RequestEntityTooLarge as error:
        raise BodyTooLarge() from error
    except Exception as error:  # each HTTP server has exceptions of its own for bad framing
        raise UnreadableBody() from error
    if request.content_length is None and len(body) >= limit:
        raise BodyTooLarge()  # werkzeug stops reading a chunked body at the limit, and says nothing
    return strict_json.read(body, max_depth=setting("MAX_DEPTH"))
