"""MCP over Streamable HTTP: ``POST /mcp`` for clients of both eras, with plain responses and event streams.

Clients from before 2026-07-28 have a session, but the server stores none: ``Mcp-Session-Id`` is a signed token with the
negotiated version, the client's capabilities and its owner, so every worker of every machine can verify it. It does not
authenticate: each request is authenticated by itself, and must have the same caller.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from flask import Flask, Request, Response, current_app, request
from itsdangerous import BadData, URLSafeTimedSerializer

from ..ask import Answers, InputNeeded, Question
from ..auth import Caller
from ..call import MCP, METHOD, Cancellation, log_unexpected, new_id
from ..envelope import Handler, RpcRequest, RpcResponse, answer_one, is_response, read_request
from ..errors import InvalidRequest, NoMailbox, RpcError, ServerFault, SessionMissing, SessionNotFound, Unauthorized
from ..http.io import error_response, json_response, no_content, read_json_body
from ..http.jsonrpc import answer_batch
from ..http.routes import Route, preprocess_request
from ..problems import MAX_QUOTED, one_line
from ..registry import Registry
from . import elicitation, methods, protocol, server, subscriptions
from .protocol import RequestContext
from .sessions import ClientReplies, Session, SessionLogLevel, negotiate
from .streams import EVENTS, Backlog, EventStream, buffered_response, reply_event, stream_response_class
from .subscriptions import Subscription

SESSION_HEADER = "Mcp-Session-Id"

_SESSION_SALT = "flask-jsonrpc-mcp.session"
_WARNED = "jsonrpc_mcp_warned_of_no_secret_key"


def post(request: Request, registry: Registry, caller: Caller) -> Response:
    payload = read_json_body(request)
    # Plain methods run here in the view; what they report waits in the backlog for the response.
    backlog = Backlog() if EVENTS in request.headers.get("Accept", "") else None
    named_version = protocol.read_header(request.headers, protocol.VERSION_HEADER)
    context = RequestContext.new(
        current_app._get_current_object(),  # type: ignore[attr-defined]
        registry,
        caller,
        mount=partial(_mount, request),
        headers=request.headers,
        named_version=named_version,
        send=None if backlog is None else backlog.add,
    )
    serve = _serve_modern if protocol.is_modern(payload, named_version) else _serve_legacy
    return serve(payload, context, backlog)


def _mount(request: Request) -> str:
    """Return the blueprint and its URL, because a url_prefix or subdomain may have variables, such as a tenant."""
    rule: Any = request.url_rule
    # Without a subdomain the app serves all hosts alike, and a proxy may change them. /mcp and /mcp/ are the same.
    host = request.host.lower() if rule.subdomain or rule.host else ""
    return f"{request.blueprint} {host}{request.script_root}{request.path.rstrip('/')}"


def mcp_error(error: RpcError) -> Response:
    """Respond with an error without an id, because no JSON-RPC request was read."""
    return error_response(RpcResponse(None, error=error).to_bytes(omit_null_id=True), error, error.status)


ROUTES = (Route("/mcp", "mcp", {"POST": post}, mcp_error, page="explorer"),)


def _serve_modern(payload: Any, context: RequestContext, backlog: Backlog | None) -> Response:
    if isinstance(payload, dict) and payload.get("method") == protocol.LISTEN:
        return _stream(partial(_answer, payload, _handle_modern), context, without_events=_listen_response)
    if backlog is not None and server.is_streamed(payload, context):
        return _stream(partial(_answer, payload, _handle_modern), context)
    return _with_backlog(payload, _answer(payload, _handle_modern, context), backlog, context)


def _handle_modern(message: RpcRequest, context: RequestContext, stream: EventStream | None = None) -> Any:
    if not message.wants_reply:
        return None  # 2026-07-28 has no notifications from clients over HTTP; one that comes is ignored
    result = server.handle(message, context)
    if isinstance(result, Subscription) and stream is not None:
        return _listen(result, message.id, stream)
    return result


def _serve_legacy(payload: Any, context: RequestContext, backlog: Backlog | None) -> Response:
    if isinstance(payload, dict) and payload.get("method") == protocol.INITIALIZE:
        return _initialize(payload, context)
    session, session_id = _read_session(context)
    replies = ClientReplies(context.app, session_id, session.version)
    request_id = payload.get("id") if isinstance(payload, dict) else None
    context = context._replace(
        version=session.version,
        # Without an event stream the client cannot be asked.
        capabilities=frozenset() if backlog is None else session.capabilities,
        log_level=SessionLogLevel(replies=replies),
        cancellation=Cancellation(lambda: replies.is_cancelled(request_id)),
    )
    if isinstance(payload, list):
        return _serve_batch(payload, context, replies)
    if is_response(payload):
        replies.deliver(payload)
        return no_content(202)
    if backlog is not None and server.is_streamed(payload, context):
        return _stream(partial(_answer_asking, payload, replies, None), context)
    try:
        reply = _answer(payload, _handle_legacy, context, replies)
    except InputNeeded as needed:
        # The question goes out on a stream, and the method runs again there.
        return _stream(partial(_answer_asking, payload, replies, needed), context, backlog)
    return _with_backlog(payload, reply, backlog, context)


def _answer_asking(
    payload: Any, replies: ClientReplies, needed: InputNeeded | None, context: RequestContext, stream: EventStream
) -> RpcResponse | None:
    """Answer a request on an event stream. When its method asks, wait for the answers, and run it again with them.

    :param needed: What it has asked before the stream began.
    """

    def ask(questions: Mapping[str, Question]) -> dict[str, Any]:
        try:
            stream.require_live()
        except RpcError as error:
            return dict.fromkeys(questions, error)
        return replies.ask(questions, stream.send, stream.is_cancelled)

    def handle(message: RpcRequest, context: RequestContext, needed: InputNeeded | None) -> Any:
        def run(answers: Answers) -> Any:
            return _handle_legacy(message, context._replace(answers=answers), replies)

        return elicitation.run_asking(run, ask, needed, around=context.registry.around_questions)

    return _answer(payload, handle, context, needed)


def _handle_legacy(message: RpcRequest, context: RequestContext, replies: ClientReplies) -> Any:
    if message.wants_reply:
        return server.handle(message, context)
    if message.method == protocol.CANCELLED and isinstance(message.params, dict):
        replies.cancel(message.params.get("requestId"))
    return None


def _initialize(payload: Any, context: RequestContext) -> Response:
    reply = _answer(payload, server.initialize, context)
    if reply is None:
        reply = RpcResponse(None, error=InvalidRequest("initialize needs an id"))
    response = _json_response(protocol.LEGACY[0], reply)
    if reply.error is None and _has_sessions(context.app):
        session = negotiate(read_request(payload))
        owner = [context.caller.principal, context.mount()]
        content = [session.version, sorted(session.capabilities), *owner, secrets.token_hex(8)]
        response.headers[SESSION_HEADER] = protocol.signer(context.app, _SESSION_SALT).dumps(content)
    return response


def _has_sessions(app: Flask) -> bool:
    """Whether the app can sign session ids. Without a key clients are served without sessions, as MCP allows."""
    if app.secret_key:
        return True
    if _WARNED not in app.extensions:
        app.extensions[_WARNED] = True
        app.logger.warning(
            "SECRET_KEY is not set: MCP clients from before 2026-07-28 get no session, and methods cannot ask them"
            " anything. Set the same SECRET_KEY for all workers",
            extra={"setting": "SECRET_KEY"},
        )
    return False


def _read_session(context: RequestContext) -> tuple[Session, str]:
    """Return what was negotiated with this client, and the id of its session.

    If the app cannot sign: the version in the header, no capabilities, and an empty id.

    :raises SessionMissing: if the request has no session id.
    :raises SessionNotFound: if the id was altered, has expired, or is another caller's.
    """
    if not _has_sessions(context.app):
        return Session(context.named_version or protocol.WITH_BATCHES, frozenset()), ""
    session_id = None if context.headers is None else context.headers.get(SESSION_HEADER)
    if session_id is None:
        raise SessionMissing()
    try:
        session, owner, issued = _load_session(session_id, protocol.signer(context.app, _SESSION_SALT))
        protocol.check_age(issued, context.setting("SESSION_MAX_AGE"))
    except (BadData, TypeError, ValueError) as error:  # the last two for the format of another release
        raise SessionNotFound() from error
    if owner != (context.caller.principal, context.mount()):
        raise SessionNotFound()
    return session, session_id


# Cached, because a client sends the same id with every request.
@functools.lru_cache(maxsize=1024)
def _load_session(token: str, serializer: URLSafeTimedSerializer) -> tuple[Session, tuple[str, str], int]:
    (version, capabilities, principal, mount, _), issued = serializer.loads(token, return_timestamp=True)
    return Session(version, frozenset(capabilities)), (principal, mount), int(issued.timestamp())


def _serve_batch(payload: list[Any], context: RequestContext, replies: ClientReplies) -> Response:
    if context.version != protocol.WITH_BATCHES:
        raise InvalidRequest("This protocol version has no batches")

    def answer(item: Any, handle: Handler) -> RpcResponse | None:
        if not is_response(item):
            return _answer(item, lambda message, _: handle(message), context)
        with suppress(NoMailbox):  # the log has it; the other items must be answered
            replies.deliver(item)
        return None

    def handle(message: RpcRequest) -> Any:
        cancellation = Cancellation(lambda: replies.is_cancelled(message.id))
        own = context._replace(capabilities=frozenset(), send=None, cancellation=cancellation)
        return _handle_legacy(message, own, replies)

    body = answer_batch(payload, handle, answer, omit_null_id=True)
    return no_content(202) if body is None else json_response(body)


def _stream(
    answer: Callable[[RequestContext, EventStream], RpcResponse | None],
    context: RequestContext,
    backlog: Backlog | None = None,
    without_events: Callable[[str, RpcResponse | None], Response] | None = None,
) -> Response:
    """Respond with an event stream that runs the request.

    :param backlog: Messages of an earlier run, which are sent first.
    :param without_events: Builds the response if there are no events; by default `_json_response`.
    """

    def run(stream: EventStream) -> RpcResponse | None:
        for data in backlog.take() if backlog is not None else ():
            stream.send_event(data)
        return answer(context._replace(send=stream.send), stream)

    make_response = stream_response_class(context.app.response_class)  # type: ignore[arg-type] # a class is hashable
    return make_response(run, partial(without_events or _json_response, context.version), context.cancellation)


def _listen(subscription: Subscription, id: Any, stream: EventStream) -> dict[str, Any]:
    """Send notifications of changes until the client leaves or the server stops."""

    def send(message: dict[str, Any]) -> None:
        stream.require_live()
        stream.send(message)

    def wait() -> None:
        stream.keep_alive()
        time.sleep(subscriptions.POLL_EVERY)

    return subscription.run(id, send, wait, partial(_identify_again, subscription.context))


def _identify_again(context: RequestContext) -> Caller:
    """Authenticate the current request again.

    In a new app context, because the current ``g`` may have a user, or a database session with one.

    :raises Unauthorized: if the app does not admit the caller any more.
    """
    again = context.app.request_context({**request.environ})
    with context.app.app_context(), again:
        if preprocess_request(context.app, again) is not None:
            raise Unauthorized()
        return context.registry.auth.admit(request, is_mcp=True)


def _with_backlog(
    payload: Any, reply: RpcResponse | None, backlog: Backlog | None, context: RequestContext
) -> Response:
    """Respond in plain JSON, or with events if the method has reported something."""
    if backlog is not None and context.cancellation.by_client:
        return buffered_response(backlog.take())  # a client that has cancelled expects no reply
    if reply is None or backlog is None or not backlog.events:
        return _json_response(context.version, reply)
    if payload["method"] == "tools/call":
        _suggest_streaming(payload["params"]["name"], context)
    return buffered_response([*backlog.take(), reply_event(reply)])


def _suggest_streaming(name: str, context: RequestContext) -> None:
    """Log once per tool that its reports could be sent while it runs."""
    if methods.is_streaming(context, METHOD, name):
        return
    if name not in context.registry.warned:
        context.registry.warned.add(name)
        context.app.logger.warning(
            "the progress and log messages of %r reach its client with the result;"
            " register it with streams=True to send them while it runs",
            name,
            extra={"tool": name, "face": MCP, "caller": one_line(context.caller.name, MAX_QUOTED)},
        )


def _answer(payload: Any, handle: Callable[..., Any], context: RequestContext, *more: Any) -> RpcResponse | None:
    """Answer one request. An unexpected exception outside of the method becomes an error with the request's id."""
    for hook in context.registry.around_requests:
        handle = partial(hook, handle)
    try:
        return answer_one(payload, handle, context, *more)
    except InputNeeded:
        raise
    except BaseException as error:
        fault = ServerFault(new_id())
        log_unexpected(error, fault.error_id)
        return RpcResponse(payload["id"], error=fault) if "id" in payload else None


def _json_response(version: str, reply: RpcResponse | None) -> Response:
    """Respond in plain JSON. Since 2026-07-28 a 4xx error has its own HTTP status, any other its ``rpc_status``."""
    if reply is None:
        return no_content(202)
    body, error = reply.to_bytes(omit_null_id=True), reply.error
    if error is None:
        return json_response(body)
    has_own_status = version == protocol.MODERN and error.status < 500
    return error_response(body, error, error.status if has_own_status else error.rpc_status)


def _listen_response(version: str, reply: RpcResponse | None) -> Response:
    response = _json_response(version, reply)
    if response.status_code == 503:
        response.status_code = 200  # after a 503 some clients send no more requests
    return response
