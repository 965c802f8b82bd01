"""Running a method: everything that can go wrong in it, and what the caller, the log and the app see of it."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask, current_app, g, request
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import Call, McpBlueprint, RpcError, method_called
from tests.conftest import Site, asking, basic, make_auth
from tests.support.misbehaviour import MISBEHAVING, raising

GENERIC = re.compile(r"Tool execution failed: Internal error, see the server log for id [0-9a-f]{12}")


def failure(response: TestResponse) -> str:
    assert response.status_code == 500
    assert response.content_type == "application/json"
    error = response.get_json()["error"]
    assert list(error) == ["code", "message"]
    assert error["code"] == "execution_error"
    return str(error["message"])


@pytest.mark.parametrize("name", MISBEHAVING)
def test_the_unexpected_is_logged_in_full_and_told_as_an_id(
    site: Site, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    site.tool(MISBEHAVING[name], name=name)
    response = site.invoke(name, {})
    message = failure(response)
    assert GENERIC.fullmatch(message)
    assert b"secret" not in response.data
    assert b"Error" not in response.data
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert message[-12:] in record.getMessage()
    assert record.exc_info
    site.tool(lambda: "fine", name="afterwards")
    assert site.invoke("afterwards", {}).get_json() == {"result": "fine"}


def test_an_rpc_error_reaches_the_caller(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.tool(raising(RpcError("Article 7 does not exist", data={"id": 7})), name="get")
    response = site.invoke("get", {})
    assert response.status_code == 500
    assert response.get_json() == {
        "error": {
            "code": "execution_error",
            "message": "Tool execution failed: Article 7 does not exist",
            "data": {"id": 7},
        }
    }
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_the_text_of_an_rpc_error_is_one_line_and_not_too_long(site: Site) -> None:
    site.tool(raising(RpcError("first\nsecond\x1b\x9b[31m " + "x" * 2000)), name="get")
    message = site.invoke("get", {}).get_json()["error"]["message"]
    assert message.startswith("Tool execution failed: first second [31m xxx")
    assert len(message) <= 1000 + len("Tool execution failed: ")
    assert message.endswith("…")


def test_an_rpc_error_has_a_text_by_default() -> None:
    assert str(RpcError()) == "Server error"
    assert RpcError("x", code=-32050).code == -32050


def test_an_rpc_error_with_data_that_is_no_json_is_unexpected(site: Site) -> None:
    site.tool(raising(RpcError("x", data=object())), name="get")
    assert GENERIC.fullmatch(failure(site.invoke("get", {})))


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}, {"error": "just data"}, {"isError": True}])
def test_empty_and_error_looking_results_are_results(site: Site, result: Any) -> None:
    site.tool(lambda: result, name="f")
    response = site.invoke("f", {})
    assert response.status_code == 200
    assert response.get_json() == {"result": result}


def test_async_functions_are_methods(site: Site) -> None:
    async def double(a: int) -> int:
        await asyncio.sleep(0)
        return a * 2

    async def fail() -> None:
        raise RpcError("later")

    site.tool(double)
    site.tool(fail)
    assert site.invoke("double", {"a": 2}).get_json() == {"result": 4}
    assert failure(site.invoke("fail", {})) == "Tool execution failed: later"


def test_a_function_that_returns_a_coroutine_is_awaited(site: Site) -> None:
    async def double(a: int) -> int:
        return a * 2

    site.tool(lambda a: double(a), name="f", params={"properties": {"a": {}}, "required": ["a"]})
    assert site.invoke("f", {"a": 2}).get_json() == {"result": 4}


def test_generators_are_buffered(site: Site) -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2)

    def words() -> Iterator[str]:
        yield "a"
        yield "b"

    async def later() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0)
        yield 2

    def undeclared():  # type: ignore[no-untyped-def]
        yield from ("a", "b")

    def mixed():  # type: ignore[no-untyped-def]
        yield from ("a", 1)

    def nothing():  # type: ignore[no-untyped-def]
        yield from ()

    def no_words() -> Iterator[str]:
        yield from ()

    results = {
        numbers: [1, 2],
        words: "ab",
        later: [1, 2],
        undeclared: "ab",
        mixed: ["a", 1],
        nothing: [],
        no_words: "",
    }
    for func, result in results.items():
        site.tool(func)
        assert site.invoke(func.__name__, {}).get_json() == {"result": result}


def test_strings_of_a_generator_stay_a_list_where_a_list_is_declared(site: Site) -> None:
    def words():  # type: ignore[no-untyped-def]
        yield from ("a", "b")

    site.tool(words, output={"type": "array"})
    assert site.invoke("words", {}).get_json() == {"result": ["a", "b"]}


def test_a_generator_that_fails_half_way_is_a_failure(site: Site) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise RpcError("no more")

    site.tool(numbers)
    assert failure(site.invoke("numbers", {})) == "Tool execution failed: no more"


def test_a_method_runs_in_the_request_as_a_view_does() -> None:
    auth = make_auth()
    site = Site(McpBlueprint(auth=auth))
    ended = []

    @site.app.before_request
    def before() -> None:
        g.database = "session"

    @site.app.teardown_request
    def teardown(error: BaseException | None) -> None:
        ended.append(g.database)

    @site.app.after_request
    def after(response: Any) -> Any:
        response.headers["X-App"] = "yes"
        return response

    def look() -> list[Any]:
        return [g.database, request.path, auth.current_user(), current_app.name, len(ended)]

    site.tool(look)
    response = site.invoke("look", {}, headers=basic("writer"))
    assert response.get_json() == {"result": ["session", "/mcp/tools/invoke", "writer", "site", 0]}
    assert response.headers["X-App"] == "yes"
    assert ended == ["session"]


@dataclass
class Heard:
    sender: Flask
    call: Call
    method: Any
    outcome: str
    duration: float
    error: RpcError | None


def test_a_signal_tells_of_every_call() -> None:
    site = Site(McpBlueprint(auth=make_auth()))

    def fine(a: int) -> int:
        return a

    site.tool(fine)
    site.tool(raising(ValueError("x")), name="broken")
    heard: list[Heard] = []

    def listen(sender: Flask, **facts: Any) -> None:
        heard.append(Heard(sender, **facts))

    with method_called.connected_to(listen, site.app):
        site.invoke("fine", {"a": 1}, headers=basic("writer"))
        site.invoke("fine", {"a": "x"}, headers=basic("writer"))
        site.invoke("broken", {}, headers=basic("writer"))
        site.invoke("absent", {}, headers=basic("writer"))
    assert [(h.outcome, h.call.name, h.call.caller.name, h.call.face) for h in heard] == [
        ("ok", "fine", "writer", "rest"),
        ("invalid_arguments", "fine", "writer", "rest"),
        ("execution_error", "broken", "writer", "rest"),
        ("tool_not_found", "absent", "writer", "rest"),
    ]
    assert [h.method and h.method.name for h in heard] == ["fine", "fine", "broken", None]
    assert all(h.sender is site.app and h.duration > 0 for h in heard)
    assert [h.error is None for h in heard] == [True, False, False, False]


def test_a_listener_that_fails_does_not_change_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(McpBlueprint())
    site.tool(lambda: "done", name="f")

    def listen(sender: Flask, **facts: Any) -> None:
        raise RuntimeError("the audit is down")

    with method_called.connected_to(listen, site.app):
        assert site.invoke("f", {}).get_json() == {"result": "done"}
    assert "unexpected failure" in caplog.text


class Forgetful(RpcError):
    def __init__(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Forgetful(), "Server error"),
        (RpcError(ValueError("bad")), "bad"),  # type: ignore[arg-type]
        (RpcError("file \udcff missing"), "file ? missing"),
    ],
    ids=repr,
)
def test_an_rpc_error_in_any_state_is_answered(site: Site, error: RpcError, message: str) -> None:
    site.tool(raising(error), name="f")
    assert failure(site.invoke("f", {})) == f"Tool execution failed: {message}"


class Hostile(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any: ...

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        sys.exit(3)


def with_message(message: Any) -> RpcError:
    error = RpcError("x")
    error.message = message
    return error


BAD_CODES: list[Any] = ["E1", True, float("nan"), object()]


@pytest.mark.parametrize(
    "error",
    [RpcError("x", data=Hostile()), *(RpcError("x", code=code) for code in BAD_CODES)],
    ids=lambda e: repr(e.code),
)
def test_an_rpc_error_that_cannot_be_told_is_unexpected(site: Site, error: RpcError) -> None:
    site.tool(raising(error), name="f")
    assert GENERIC.fullmatch(failure(site.invoke("f", {})))
    assert site.rpc_post(asking("f")).get_json()["error"]["code"] == -32603


@pytest.mark.parametrize("message", [b"x", None, "\ud800", "x" * 100_000, "a\nb"], ids=repr)
def test_a_message_that_was_changed_is_still_one_line(site: Site, message: Any) -> None:
    site.tool(raising(with_message(message)), name="f")
    told = site.rpc_post(asking("f")).get_json()["error"]["message"]
    assert 0 < len(told) <= 1000
    assert "\n" not in told


def test_one_log_line_per_call_that_nobody_can_forge(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(McpBlueprint(auth=make_auth()))
    site.tool(
        lambda password: "result-text", name="login", params={"properties": {"password": {}}, "required": ["password"]}
    )
    caplog.set_level(logging.INFO, site.app.logger.name)
    site.invoke("login", {"password": "argument-text"}, headers=basic("writer"))
    site.invoke("x\nFAKE \r\x0b\x85\u2028\x1b[31m" + "y" * 5000, {}, headers=basic("writer"))
    lines = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(
        r"call face=rest name='login' caller='writer' outcome=ok ms=[0-9.]+ id=[0-9a-f]{12}",
        lines[0],
    )
    assert len(lines) == 2
    assert len(lines[1].splitlines()) == 1
    assert "\x1b" not in lines[1]
    assert len(lines[1]) < 1024
    assert "argument-text" not in str(lines)
    assert "result-text" not in str(lines)
