"""JSON-RPC 2.0: requests, notifications and batches, over any function that can call a method by name.

Knows neither Flask nor MCP. A payload that was read goes in with a ``call``; what comes out is the response, or the
responses of a batch, or ``None`` when there is nothing to say because nothing but notifications came in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .errors import InvalidRequest, RpcError
from .strict_json import write

VERSION = "2.0"
MAX_BATCH = 100
MAX_ID = 1000
"""The most characters of an id. It comes back with every error, and these are short."""

Params = Mapping[str, Any] | Sequence[Any]
Id = str | int | float | None


class Request(NamedTuple):
    """A request that is well-formed.

    :param wants_reply: False for a notification.
    """

    method: str
    params: Params
    id: Id = None
    wants_reply: bool = True


class Response(NamedTuple):
    """The outcome of one request: its result, or its error."""

    id: Id
    result: Any = None
    error: RpcError | None = None

    def to_json(self) -> dict[str, Any]:
        if self.error is None:
            return {"jsonrpc": VERSION, "result": self.result, "id": self.id}
        return {"jsonrpc": VERSION, "error": spell_error(self.error), "id": self.id}


class Prepared(NamedTuple):
    """A result that is JSON already."""

    body: bytes


Call = Callable[[Request], Any]
"""Runs one request and returns its result, or raises `RpcError`."""


def answer(payload: Any, call: Call, *, max_batch: int = MAX_BATCH) -> Response | list[Response] | None:
    """Answer a payload: one request, or a batch of up to ``max_batch`` (0 for no batches at all)."""
    if not isinstance(payload, list):
        return answer_one(payload, call)
    if not payload or len(payload) > max_batch:
        return Response(None, error=InvalidRequest())
    responses = [answer_one(item, call) for item in payload]
    return [response for response in responses if response is not None] or None


def answer_one(item: Any, call: Call) -> Response | None:
    """Answer one request; ``None`` for a notification, however it ended."""
    try:
        request = read_request(item)
    except InvalidRequest as error:
        return Response(readable_id(item), error=error)
    try:
        result = call(request)
    except RpcError as error:
        return Response(request.id, error=error) if request.wants_reply else None
    return Response(request.id, result) if request.wants_reply else None


def read_request(item: Any) -> Request:
    """Read one request.

    :raises InvalidRequest: when it is none.
    """
    if not isinstance(item, dict) or item.get("jsonrpc") != VERSION:
        raise InvalidRequest()
    method, params, request_id = item.get("method"), item.get("params", {}), item.get("id")
    if not isinstance(method, str) or not isinstance(params, (dict, list)):
        raise InvalidRequest()
    if type(request_id) is not int and not _is_id(request_id):
        raise InvalidRequest()
    return Request(method, params, request_id, "id" in item)


def notification(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Spell a notification."""
    spelled: dict[str, Any] = {"jsonrpc": VERSION, "method": method}
    return spelled if params is None else {**spelled, "params": params}


def is_response(item: Any) -> bool:
    """Tell whether something is the answer to a request, rather than one."""
    return isinstance(item, dict) and "method" not in item and ("result" in item or "error" in item) and "id" in item


def write_response(response: Response, *, omit_null_id: bool = False) -> bytes:
    """Spell a response as JSON.

    :param omit_null_id: MCP leaves the id out where JSON-RPC has null.
    """
    if isinstance(response.result, Prepared):
        return b'{"jsonrpc":"2.0","result":' + response.result.body + b',"id":' + write(response.id) + b"}"
    spelled = response.to_json()
    if response.id is None and omit_null_id:
        del spelled["id"]
    return write(spelled)


def spell_error(error: RpcError) -> dict[str, Any]:
    """Spell an error object."""
    spelled = {"code": error.code, "message": error.rpc_message or error.message}
    return spelled if error.data is None else {**spelled, "data": error.data}


def readable_id(item: Any) -> Id:
    """The id of something that is no request: what can be read of it, else null as the specification demands."""
    value = item.get("id") if isinstance(item, dict) else None
    return value if _is_id(value) else None


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    # True is an int in Python, but no number in JSON.
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
