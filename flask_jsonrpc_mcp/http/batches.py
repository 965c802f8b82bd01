"""Answer JSON-RPC batches, on ``/jsonrpc`` and for MCP clients of 2025-03-26.

A batch holds the thread of its HTTP request for all of its calls. So it has a time and a size, and ends if its client
leaves.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from flask import current_app, request

from ..envelope import Handler, RpcRequest, RpcResponse, answer_one
from ..errors import InvalidRequest, Overloaded

CHECK_CLIENT_AFTER = 1.0
"""After how many seconds a batch checks whether its client has left. A client that closes its sending side at once, but
still reads, gets a short batch complete."""

# A WSGI server does not say that a client has left before it writes, but these have the connection in the environ.
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")


def answer_batch(
    items: list[Any],
    handler: Handler,
    answer: Callable[[Any, Handler], RpcResponse | None] = answer_one,
    *,
    omit_null_id: bool = False,
) -> bytes | None:
    """Answer requests one after the other, and serialise the responses; ``None`` if there are none.

    A request that runs is not interrupted. But once the batch has used up its time or its size, or its client has left,
    the remaining requests do not run, and are answered with an error.

    :param answer: Answers one item with a handler.
    :raises InvalidRequest: if the batch is empty or too long.
    """
    if not 0 < len(items) <= current_app.config["JSONRPC_MCP_MAX_BATCH"]:
        raise InvalidRequest()
    started, size, reason = time.monotonic(), 0, ""
    bodies = []
    for number, item in enumerate(items):
        if not reason and (reason := _reason_to_stop(time.monotonic() - started, size)):
            handler = _refuse_because(reason)
            current_app.logger.warning("batch stopped after %d of %d requests: %s", number, len(items), reason)
        response = answer(item, handler)
        if response is not None:
            bodies.append(response.to_bytes(omit_null_id=omit_null_id))
            size += len(bodies[-1])
    return b"[" + b",".join(bodies) + b"]" if bodies else None


def _reason_to_stop(seconds: float, size: int) -> str:
    max_seconds = current_app.config["JSONRPC_MCP_BATCH_TIMEOUT"]
    max_bytes = current_app.config["JSONRPC_MCP_MAX_BATCH_BYTES"]
    if seconds >= max_seconds:
        return f"the batch has taken more than {max_seconds} seconds"
    if size >= max_bytes:
        return f"the responses of the batch have more than {max_bytes} bytes"
    if seconds >= CHECK_CLIENT_AFTER and _client_has_left():
        return "the client has closed the connection"
    return ""


def _refuse_because(reason: str) -> Handler:
    def refuse(message: RpcRequest) -> NoReturn:
        raise Overloaded(f"Not run: {reason}")

    return refuse


def _client_has_left() -> bool:
    """Return whether the client has closed the connection, as far as the server lets us see."""
    connection = next((request.environ[name] for name in _SOCKETS if name in request.environ), None)
    if connection is None:
        return False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            # The end of the stream is readable, and so are bytes of a next request, which must stay where they are.
            return bool(selector.select(0)) and not connection.recv(1, socket.MSG_PEEK)
    except ValueError:
        return False  # TLS cannot peek
    except OSError:
        return True  # reset
