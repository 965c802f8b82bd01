"""What both eras share of a request over HTTP: how an answer becomes a response, and who wants a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response as HttpResponse

from ...current import this_request
from ...envelope import Response, write_response
from ...mcp import protocol
from ...mcp.modern import NAMED
from ...mcp.reporting import is_progress_token
from ..responses import error_response, json_response

EVENTS = "text/event-stream"


def respond(reply: Response, status_of: Callable[[Response], int]) -> HttpResponse:
    """Answer in plain JSON.

    :param status_of: The status of an answer that is an error.
    """
    body = write_response(reply, omit_null_id=True)
    if reply.error is None:
        return json_response(body)
    return error_response(body, reply.error, status_of(reply))


def accepts_events() -> bool:
    """Whether the client reads event streams."""
    return EVENTS in this_request().environ.get("HTTP_ACCEPT", "")


def wants_reports(payload: Any) -> bool:
    """Whether a client has asked to hear how its request gets on, while it does."""
    if not isinstance(payload, dict):
        return False
    method, params = payload.get("method"), payload.get("params")
    if not isinstance(method, str) or method not in NAMED:
        return False
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        return False
    wants_progress = protocol.PROGRESS_TOKEN in meta and is_progress_token(meta[protocol.PROGRESS_TOKEN])
    return (wants_progress or protocol.LOG_LEVEL in meta) and accepts_events()


def audience() -> str:
    """The blueprint that a client talks to."""
    rule = this_request().url_rule
    return "" if rule is None else rule.endpoint.rpartition(".")[0]
