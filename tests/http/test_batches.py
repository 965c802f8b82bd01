"""Batches, on ``/jsonrpc`` and for MCP clients of 2025-03-26: what one request may take of its server."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flask_jsonrpc_mcp import McpBlueprint, current_call
from tests.conftest import Site, asking
from tests.support.load import PATIENCE
from tests.support.mcp_messages import LegacyClient
from tests.support.servers import served_here

NOT_RUN = -32004
FACES = ["jsonrpc", "mcp"]

both_faces = pytest.mark.parametrize("face", FACES)


class Batches:
    """A site that notes which calls have run, and sends batches of calls to one of its faces."""

    def __init__(self, face: str, **config: Any) -> None:
        self.face = face
        self.ran: list[str] = []
        self.site = Site(McpBlueprint(), SECRET_KEY="key", **config)

        def note(name: str, seconds: float = 0, size: int = 0) -> str:
            self.ran.append(name)
            time.sleep(seconds)
            return name + "." * size

        self.site.tool(note)
        self.mcp = LegacyClient(self.site.client, "2025-03-26")
        self.mcp.initialize()

    def request(self, tool: str, arguments: dict[str, Any], id: Any) -> dict[str, Any]:
        if self.face == "jsonrpc":
            return asking(tool, arguments, id)
        return asking("tools/call", {"name": tool, "arguments": arguments}, id)

    def send(self, *requests: dict[str, Any]) -> Any:
        """Send a batch, and return the responses; ``None`` if there is no body."""
        batch = list(requests)
        response = self.site.rpc_post(batch) if self.face == "jsonrpc" else self.mcp.send(batch)
        assert response.status_code == (200 if response.data else 204 if self.face == "jsonrpc" else 202)
        return response.get_json() if response.data else None

    def results(self, responses: Any) -> dict[Any, Any]:
        """The results by id; those of calls that did not run are the code of their error."""
        return {response["id"]: self._result(response) for response in responses}

    def _result(self, response: Any) -> Any:
        if "error" in response:
            return response["error"]["code"]
        return response["result"] if self.face == "jsonrpc" else response["result"]["content"][0]["text"]


@both_faces
def test_a_batch_that_has_used_up_its_time_runs_no_more_calls(face: str) -> None:
    """The call that runs meanwhile is not cut."""
    batches = Batches(face, JSONRPC_MCP_BATCH_TIMEOUT=1)
    requests = [batches.request("note", {"name": name, "seconds": 1.1}, name) for name in ("a", "b", "c")]
    responses = batches.send(*requests)
    assert batches.results(responses) == {"a": "a", "b": NOT_RUN, "c": NOT_RUN}
    assert responses[1]["error"]["message"] == "Not run: the batch has taken more than 1 seconds"
    assert batches.ran == ["a"]


def test_notifications_after_the_time_of_a_batch_neither_run_nor_are_answered() -> None:
    batches = Batches("jsonrpc", JSONRPC_MCP_BATCH_TIMEOUT=1)
    slow = batches.request("note", {"name": "a", "seconds": 1.1}, ...)
    assert batches.send(slow, batches.request("note", {"name": "b"}, ...)) is None
    assert batches.ran == ["a"]


@both_faces
def test_a_batch_whose_responses_are_large_runs_no_more_calls(face: str) -> None:
    batches = Batches(face, JSONRPC_MCP_MAX_BATCH_BYTES=10_000)
    requests = [batches.request("note", {"name": f"{n}", "size": 1000}, n) for n in range(100)]
    responses = batches.send(*requests)
    assert [response["id"] for response in responses] == list(range(100))
    ran = len(batches.ran)
    assert set(list(batches.results(responses).values())[ran:]) == {NOT_RUN}
    assert "more than 10000 bytes" in responses[-1]["error"]["message"]
    assert 2 < ran <= 10


@both_faces
def test_a_failing_call_leaves_the_others_of_its_batch_alone(face: str) -> None:
    batches = Batches(face)
    requests = [batches.request("note", {"name": name}, number) for number, name in enumerate(["a", 1, "c"])]
    results = batches.results(batches.send(*requests))
    assert (results[0], results[2]) == ("a", "c")
    assert batches.ran == ["a", "c"]


@both_faces
def test_batches_are_limited_without_configuration(face: str) -> None:
    batches = Batches(face)
    request = batches.request("note", {"name": "a", "size": 50_000}, 1)
    assert len(batches.send(*[request] * 100)) == 100
    assert 80 < len(batches.ran) < 85  # 4 MiB have 84 times 50 kB
    batches.ran.clear()
    batch = [request] * 101
    response = batches.site.rpc_post(batch) if face == "jsonrpc" else batches.mcp.send(batch)
    assert (response.status_code, batches.ran) == (400, [])
    assert batches.site.app.config["JSONRPC_MCP_BATCH_TIMEOUT"] == 20


@both_faces
def test_a_batch_that_is_empty_or_too_long_is_one_error(face: str) -> None:
    batches = Batches(face, JSONRPC_MCP_MAX_BATCH=2)
    request = batches.request("note", {"name": "a"}, 1)
    assert len(batches.send(request, request)) == 2
    for batch in ([], [request] * 3):
        response = batches.site.rpc_post(batch) if face == "jsonrpc" else batches.mcp.send(batch)
        error = {"code": -32600, "message": "Invalid Request"}
        expected = {"jsonrpc": "2.0", "error": error, "id": None}
        assert response.status_code == 400
        assert {"id": None, **response.get_json()} == expected
    assert batches.ran == ["a", "a"]


def test_the_log_says_that_a_batch_was_stopped(caplog: pytest.LogCaptureFixture) -> None:
    batches = Batches("jsonrpc", JSONRPC_MCP_MAX_BATCH_BYTES=100)
    batches.send(*(batches.request("note", {"name": "a", "size": 100}, number) for number in (1, 2, ...)))
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert (
        record.getMessage()
        == "batch stopped after 1 of 3 requests: the responses of the batch have more than 100 bytes"
    )


@both_faces
def test_a_client_that_closes_its_side_gets_what_has_run(face: str) -> None:
    """It may have left, so no more calls are run for it. But it may also still read: then it is told."""
    batches = Batches(face)
    requests = [batches.request("note", {"name": f"{n}", "seconds": 1.1}, n) for n in range(5)]
    headers = {"Content-Type": "application/json", "Mcp-Session-Id": batches.mcp.session or ""}
    with served_here(batches.site.app) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("POST", "/jsonrpc" if face == "jsonrpc" else "/mcp", json.dumps(requests), headers)
        connection.sock.shutdown(socket.SHUT_WR)
        responses = json.loads(connection.getresponse().read())
        connection.close()
    assert batches.results(responses) == {0: "0", **dict.fromkeys(range(1, 5), NOT_RUN)}
    assert responses[1]["error"]["message"] == "Not run: the client has closed the connection"
    assert batches.ran == ["0"]


def test_a_client_that_closes_its_side_at_once_gets_a_quick_batch() -> None:
    """As it gets every other response."""
    batches = Batches("jsonrpc")
    requests = [batches.request("note", {"name": f"{n}"}, n) for n in range(5)]
    with served_here(batches.site.app) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("POST", "/jsonrpc", json.dumps(requests), {"Content-Type": "application/json"})
        connection.sock.shutdown(socket.SHUT_WR)
        responses = json.loads(connection.getresponse().read())
        connection.close()
    assert batches.results(responses) == {n: f"{n}" for n in range(5)}


@both_faces
def test_a_call_that_times_out_leaves_the_others_of_its_batch_alone(face: str) -> None:
    batches, go_on = Batches(face), threading.Event()
    batches.site.tool(lambda: go_on.wait(PATIENCE), name="hang", timeout=0.05)
    batches.site.tool(lambda: str(current_call.cancelled), name="cancelled")
    try:
        responses = batches.send(batches.request("hang", {}, 1), batches.request("cancelled", {}, 2))
    finally:
        go_on.set()
    assert batches.results(responses)[2] == "False"


def test_calls_of_a_batch_that_hang_are_limited_as_others_are() -> None:
    batches, go_on, begun = Batches("jsonrpc", JSONRPC_MCP_MAX_OVERDUE=2), threading.Event(), []

    def hang() -> None:
        begun.append(threading.current_thread())
        go_on.wait(PATIENCE)

    batches.site.tool(hang, timeout=0.05)
    try:
        responses = batches.send(*(batches.request("hang", {}, number) for number in range(100)))
    finally:
        go_on.set()
        for thread in begun:
            thread.join(PATIENCE)
    codes = list(batches.results(responses).values())
    assert codes == [-32003] * len(begun) + [-32004] * (100 - len(begun))
    assert len(begun) <= 2


def test_a_generator_in_a_batch_is_answered_with_its_result_alone() -> None:
    """There is no stream for its progress, whatever the client asks for."""
    batches = Batches("mcp")

    def letters() -> Iterator[str]:
        yield from "ab"

    batches.site.tool(letters)
    requests = [batches.request("letters", {}, number) for number in (1, 2, ...)]
    for request in requests:
        request["params"]["_meta"] = {"progressToken": 7}
    assert batches.results(batches.send(*requests)) == {1: "ab", 2: "ab"}


@both_faces
def test_a_notification_that_fails_is_silent_in_a_batch(face: str) -> None:
    batches = Batches(face)
    requests = [batches.request(name, {"name": 1}, ...) for name in ("note", "absent")]
    assert batches.send(*requests) is None
    assert batches.results(batches.send(*requests, batches.request("note", {"name": "a"}, 1))) == {1: "a"}
