"""The MCP endpoint: ``POST /mcp`` for clients of both eras, told apart by how their request begins."""

from __future__ import annotations

from typing import Any

from flask import Response as HttpResponse

from ...access import Caller
from ...core import Core
from ...envelope import Response
from ...errors import RpcError
from ...mcp import opening, protocol
from ..requests import read_json_body
from ..routes import Route
from .exchanges import respond
from .legacy import serve_legacy
from .mirrored_headers import MirroredHeaders
from .modern import serve_modern


def post(core: Core, caller: Caller) -> HttpResponse:
    payload, headers = read_json_body(), MirroredHeaders()
    serve = serve_modern if is_modern(payload, headers) else serve_legacy
    return serve(core, caller, payload, headers)


def spell_error(error: RpcError) -> HttpResponse:
    """Answer what failed before there was a request to answer: in both eras an error without an id."""
    return respond(Response(None, error=error), lambda reply: error.status)


def is_modern(payload: Any, headers: MirroredHeaders) -> bool:
    """Tell the era of a client: a modern one names its version with every request."""
    if headers.version is not None and headers.version not in protocol.LEGACY:
        return True
    return opening.is_modern(payload)


ROUTES = (Route("/mcp", "mcp", {"POST": post}, spell_error),)
