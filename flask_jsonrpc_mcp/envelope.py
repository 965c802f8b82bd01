"""JSON-RPC 2.0: parse requests and notifications, and build their responses. Uses neither Flask nor MCP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InvalidRequest, RpcError
from .strict_json import write

VERSION = "2.0"
MAX_BATCH = 100
MAX_ID = 1000
"""Maximum characters or digits of an id. Every error repeats it."""

_MAX_NUMBER = 10**MAX_ID

Params = Mapping[str, Any] | Sequence[Any]
Id = str | int | float | None


@dataclass(slots=True)
class RpcRequest:
    """A well-formed request.

    :param wants_reply: False for a notification.
    """

    method: str
    params: Params
    id: Id = None
    wants_reply: bool = True


@dataclass(slots=True)
class RpcResponse:
    """The response to one request: a result, or an error."""

    id: Id
    result: Any = None
    error: RpcError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the response object of JSON-RPC 2.0, section 5."""
        if self.error is None:
            return {"jsonrpc": VERSION, "result": self.result, "id": self.id}
        error: dict[str, Any] = {"code": self.error.code, "message": self.error.rpc_message or self.error.message}
        if self.error.rpc_data is not None:
            error["data"] = self.error.rpc_data
        return {"jsonrpc": VERSION, "error": error, "id": self.id}

    def to_bytes(self, *, omit_null_id: bool = False) -> bytes:
        """Serialise the response.

        :param omit_null_id: Leave out a null id, as MCP demands; JSON-RPC sends it.
        """
        if isinstance(self.result, Prepared):
            return b'{"jsonrpc":"2.0","result":' + self.result.body + b',"id":' + write(self.id) + b"}"
        response = self.to_json()
        if omit_null_id and self.id is None:
            del response["id"]
        return write(response)


@dataclass(frozen=True)
class Prepared:
    """A result that is serialised already."""

    body: bytes


Handler = Callable[[RpcRequest], Any]
"""Runs one request and returns its result, or raises `RpcError`."""


def answer_one(item: Any, handler: Callable[..., Any], *context: Any) -> RpcResponse | None:
    """Run one request; ``None`` for a notification, whether it failed or not.

    :param handler: Called with the request and ``context``; returns the result, or raises `RpcError`.
    """
    try:
        request = read_request(item)
    except InvalidRequest as error:
        return RpcResponse(readable_id(item), error=error)
    try:
        result = handler(request, *context)
    except RpcError as error:
        return RpcResponse(request.id, error=error) if request.wants_reply else None
    return RpcResponse(request.id, result) if request.wants_reply else None


def read_request(item: Any) -> RpcRequest:
    """Parse one request.

    :raises InvalidRequest: if it is malformed.
    """
    if not isinstance(item, dict) or item.get("jsonrpc") != VERSION:
        raise InvalidRequest()
    method, params, request_id = item.get("method"), item.get("params", {}), item.get("id")
    if not isinstance(method, str) or not isinstance(params, (dict, list)) or not is_id(request_id):
        raise InvalidRequest()
    return RpcRequest(method, params, request_id, "id" in item)


def notification(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build a notification."""
    message: dict[str, Any] = {"jsonrpc": VERSION, "method": method}
    return message if params is None else {**message, "params": params}


def is_response(item: Any) -> bool:
    """Whether a message is a response rather than a request."""
    return isinstance(item, dict) and "method" not in item and ("result" in item or "error" in item) and "id" in item


def readable_id(item: Any) -> Id:
    """Return the id of a malformed request if it is valid, else null (JSON-RPC 2.0, section 5)."""
    value = item.get("id") if isinstance(item, dict) else None
    return value if is_id(value) else None


def is_id(value: Any) -> bool:
    """Whether a value can be the id of a request, null included."""
    if isinstance(value, str):
        return len(value) <= MAX_ID
    if isinstance(value, bool):
        return False  # a subclass of int in Python
    return value is None or (isinstance(value, (int, float)) and abs(value) < _MAX_NUMBER)
