"""A request of 2026-07-28 over HTTP."""

from __future__ import annotations

from itertools import chain
from typing import Any

from flask import Response as HttpResponse

from ...access import Caller
from ...calls import Cancellation
from ...core import Core
from ...envelope import Request, Response, answer_one, write_response
from ...errors import RpcError
from ...mcp import modern
from ...mcp.opening import require_id
from ...mcp.session import Send
from ...mcp.subscriptions import Subscription
from ..responses import no_content
from .exchanges import audience, respond, wants_reports
from .mirrored_headers import MirroredHeaders
from .streams import event, event_response, paced, stream


def serve_modern(core: Core, caller: Caller, payload: Any, headers: MirroredHeaders) -> HttpResponse:
    cancellation = Cancellation()

    def work(send: Send | None, cancellation: Cancellation) -> Response | None:
        def call(asked: Request) -> Any:
            require_id(asked)
            if not asked.wants_reply:
                return None  # this version has no notifications over HTTP; one that comes is heard, and that is all
            return modern.answer(core, caller, asked, audience(), cancellation, mirror=headers, send=send)

        return answer_one(payload, call)

    if wants_reports(payload):
        return stream(payload.get("id"), work, _status_of)
    reply = work(None, cancellation)
    if reply is None:
        return no_content(202)
    if isinstance(reply.result, Subscription):
        try:
            return _listen(reply.result, cancellation)
        except RpcError as error:
            # Not 503: clients take that for the end of the server, and ask it nothing more.
            return respond(Response(reply.id, error=error), lambda reply: 200)
    return respond(reply, _status_of)


def _listen(subscription: Subscription, cancellation: Cancellation) -> HttpResponse:
    messages = subscription.messages()
    first = next(messages)  # before the answer begins: too many may be listening already

    def end() -> None:
        cancellation.request()
        messages.close()  # type: ignore[attr-defined]

    # Who is still there in the end is told that it is the end.
    result = event(write_response(Response(subscription.id, subscription.result)))
    return event_response(chain(paced(chain([first], messages)), [result]), end)


def _status_of(reply: Response) -> int:
    """A client's mistake has a status of its own in this version; what fails in a method is a JSON-RPC error."""
    error = reply.error
    if error is None:
        return 200
    return error.status if error.status < 500 else error.rpc_status
