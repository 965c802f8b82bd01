"""The REST and JSON-RPC faces, as a client speaks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import MethodNotFound
from ..openrpc import DISCOVER
from .answers import Answers
from .failures import read_failure
from .results import Failure, Result, text_block
from .wire import Reply, Wire

_BLOCK_TYPES = {"text", "image", "audio", "resource_link", "resource"}


class Face(Protocol):
    """What every face can do."""

    def call(self, name: str, arguments: Any, answers: Answers, listen: bool) -> Result: ...

    def list_tools(self) -> list[dict[str, Any]]: ...

    def describe(self, name: str) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Rest:
    """``/mcp/tools/list``, ``describe`` and ``invoke``."""

    wire: Wire

    def call(self, name: str, arguments: Any, answers: Answers, listen: bool) -> Result:
        reply = self.wire.send("invoke_tool", json={"name": name, "arguments": arguments})
        return self._result(name, arguments, reply, "result")

    def list_tools(self) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = []
        query: dict[str, str] = {}
        while True:
            page = self._result("list", query, self.wire.send("list_tools", query=query), None).value
            tools += page["tools"]
            if page["nextCursor"] is None:
                return tools
            query = {"cursor": page["nextCursor"]}

    def describe(self, name: str) -> dict[str, Any]:
        reply = self.wire.send("describe_tool", query={"name": name})
        described: dict[str, Any] = self._result(name, None, reply, "tool").value
        return described

    def _result(self, name: str, arguments: Any, reply: Reply, member: str | None) -> Result:
        if reply.status == 200:
            value = reply.body if member is None else reply.body[member]
            return plain_result(name, arguments, "rest", reply, value)
        return failed_result(name, arguments, "rest", reply, read_failure(reply, self.wire))


@dataclass(frozen=True)
class JsonRpc:
    """``POST /jsonrpc``."""

    wire: Wire

    def call(self, name: str, arguments: Any, answers: Answers, listen: bool) -> Result:
        payload = {"jsonrpc": "2.0", "method": name, "params": arguments, "id": 1}
        reply = self.wire.send("jsonrpc", json=payload)
        if isinstance(reply.body, dict) and "result" in reply.body:
            return plain_result(name, arguments, "jsonrpc", reply, reply.body["result"])
        return failed_result(name, arguments, "jsonrpc", reply, read_failure(reply, self.wire))

    def list_tools(self) -> list[dict[str, Any]]:
        methods: list[dict[str, Any]] = self.call(DISCOVER, {}, None, False).value["methods"]
        return methods

    def describe(self, name: str) -> dict[str, Any]:
        return find_described(self.list_tools(), name)


def plain_result(name: str, arguments: Any, face: str, reply: Reply, value: Any) -> Result:
    """What a face without content blocks gave; a method that returns nothing else has them as its value."""
    is_content = isinstance(value, list) and value and all(_is_block(item) for item in value)
    content = value if is_content else [text_block(value)]
    return Result(name, arguments, face, reply.status, reply.headers, reply.body, content, outcome=value)


def failed_result(name: str, arguments: Any, face: str, reply: Reply, failure: Failure) -> Result:
    return Result(name, arguments, face, reply.status, reply.headers, reply.body, outcome=failure)


def find_described(described: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Find one by name.

    :raises AssertionError: when it is not there.
    """
    found = next((item for item in described if item["name"] == name), None)
    if found is None:
        seen = ", ".join(item["name"] for item in described) or "nothing at all"
        raise AssertionError(f"{MethodNotFound(name).message}; this caller sees {seen}")
    return found


def _is_block(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in _BLOCK_TYPES
