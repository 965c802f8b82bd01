"""Values and errors as HTTP responses."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from flask import Response, request
from werkzeug.datastructures import Headers

from ..access import Caller
from ..catalogue import Page
from ..core import Core
from ..errors import InvalidParams, RpcError, VerbNotAllowed
from ..strict_json import to_plain, write

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

JSON = "application/json"


class JsonResponse(Response):
    """A response whose headers go out as they are."""

    def get_wsgi_headers(self, environ: WSGIEnvironment) -> Headers:
        # Werkzeug copies them all, to mend a Location or what must not be sent with other statuses.
        return self.headers if self.status_code == 200 else super().get_wsgi_headers(environ)


def json_response(value: Any, status: int = 200) -> Response:
    """Answer with a plain value, or with JSON already spelled, not to be stored by anyone."""
    headers = Headers()
    headers.add("Cache-Control", "no-store")
    return JsonResponse(value if isinstance(value, bytes) else write(value), status, headers, content_type=JSON)


def error_response(value: Any, error: RpcError, status: int) -> Response:
    """Answer with an error that a face has spelled, as a value or as JSON already."""
    response = json_response(value, status)
    if isinstance(error, VerbNotAllowed):
        response.headers["Allow"] = error.allowed
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def spell_error(error: RpcError, message: str | None = None) -> Response:
    """Answer with ``{"error": {"code", "message"}}``, and with every problem of the arguments."""
    body: dict[str, Any] = {"code": error.slug, "message": error.message if message is None else message}
    if isinstance(error, InvalidParams):
        body.update(error.data)
    elif error.data is not None:
        body["data"] = to_plain(error.data)
    return error_response({"error": body}, error, error.status)


def no_content(status: int = 204) -> Response:
    """Answer that there is nothing to say."""
    response = Response(status=status, headers={"Cache-Control": "no-store"})
    del response.headers["Content-Type"]
    return response


def make_page(body: bytes) -> Page:
    """Make a page of a body, with the ETag that follows from it."""
    return Page(body, hashlib.blake2b(body, digest_size=12).hexdigest())


def page_response(page: Page, core: Core, caller: Caller, max_age: int, *, mimetype: str = JSON) -> Response:
    """Answer with a page that may be kept, or with 304 when the client has it already."""
    response = Response(page.body, mimetype=mimetype)
    response.set_etag(page.etag)
    scope = "public" if core.authenticator.is_shareable(caller) else "private"
    freshness = f"max-age={max_age}" if max_age else "no-cache"
    response.headers["Cache-Control"] = f"{scope}, {freshness}"
    response.headers["Vary"] = ", ".join([*core.authenticator.credential_headers, "Origin"])
    response.make_conditional(request)
    return response
