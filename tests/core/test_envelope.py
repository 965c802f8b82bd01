"""The JSON-RPC 2.0 engine by itself: no Flask, no MCP, any function that can call a method."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given

from flask_jsonrpc_mcp.envelope import RpcRequest, RpcResponse, answer_one
from flask_jsonrpc_mcp.errors import MethodNotFound, RpcError
from tests.conftest import asking
from tests.core.test_strict_json import JSON_VALUES


def call(asked: RpcRequest) -> Any:
    if asked.method == "echo":
        return asked.params
    if asked.method == "fail":
        raise RpcError("failed", code=-32050, data={"why": 1})
    raise MethodNotFound(asked.method)


def answered(item: Any) -> Any:
    reply = answer_one(item, call)
    return None if reply is None else reply.to_json()


def failure(code: int, message: str, id: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": id}


INVALID = failure(-32600, "Invalid Request")


@pytest.mark.parametrize("id", [0, 1, -1, 2**53 + 1, 10**30, 1.5, "", "a", "1", None])
def test_an_id_comes_back_with_its_value_and_type(id: Any) -> None:
    reply = answered(asking("echo", {"a": 1}, id))
    assert reply == {"jsonrpc": "2.0", "result": {"a": 1}, "id": id}
    assert type(reply["id"]) is type(id)


@pytest.mark.parametrize("id", [True, False, [], {}, ["a"]])
def test_anything_else_is_no_id(id: Any) -> None:
    assert answered(asking("echo", id=id)) == INVALID


@pytest.mark.parametrize(
    "item",
    [
        1,
        "text",
        [],
        None,
        True,
        {},
        {"jsonrpc": "2.0"},
        {"method": "echo"},
        {"jsonrpc": "1.0", "method": "echo"},
        {"jsonrpc": 2.0, "method": "echo"},
        {"jsonrpc": "2.0", "method": 1},
        {"jsonrpc": "2.0", "method": None},
        {"jsonrpc": "2.0", "method": "echo", "params": "text"},
        {"jsonrpc": "2.0", "method": "echo", "params": 1},
        {"jsonrpc": "2.0", "method": "echo", "params": None},
    ],
    ids=repr,
)
def test_what_is_no_request_is_answered_even_without_an_id(item: Any) -> None:
    assert answered(item) == INVALID


def test_an_invalid_request_keeps_the_id_that_can_be_read() -> None:
    assert answered({"jsonrpc": "2.0", "method": 1, "id": 7}) == failure(-32600, "Invalid Request", 7)


def test_a_very_long_id_is_none() -> None:
    """We chose it: an error has the id of its request, and errors are short."""
    for longest in ("x" * 1000, 10**1000 - 1, 1 - 10**1000):
        assert answered(asking("echo", id=longest))["id"] == longest
    for too_long in ("x" * 1001, 10**1000, -(10**1000)):
        assert answered(asking("echo", id=too_long)) == INVALID


def test_params_may_be_missing_named_or_positional() -> None:
    assert [answered(asking("echo", *params))["result"] for params in ([], [[1, 2]], [{"a": 1}])] == [
        {},
        [1, 2],
        {"a": 1},
    ]


def test_a_notification_is_never_answered() -> None:
    for method in ("echo", "fail", "absent"):
        assert answered(asking(method, id=...)) is None


def test_an_application_error_has_its_code_text_and_data() -> None:
    error = {"code": -32050, "message": "failed", "data": {"why": 1}}
    assert answered(asking("fail")) == {"jsonrpc": "2.0", "error": error, "id": 1}


@given(JSON_VALUES)
def test_any_json_is_answered_in_the_right_shape(item: Any) -> None:
    response = answer_one(item, call)
    assert isinstance(response, RpcResponse)
    assert set(response.to_json()) == {"jsonrpc", "error", "id"}


def test_the_engine_knows_neither_flask_nor_mcp() -> None:
    code = (
        "import sys, types; package = types.ModuleType('flask_jsonrpc_mcp'); package.__path__ = ['flask_jsonrpc_mcp'];"
        " sys.modules['flask_jsonrpc_mcp'] = package; import flask_jsonrpc_mcp.envelope;"
        " print([name for name in sys.modules if name.split('.')[0] in ('flask', 'werkzeug', 'marshmallow')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
