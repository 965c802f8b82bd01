"""Whatever a method raises or returns, each face gives its generic answer, nothing leaks, and the next call works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps.misbehaving_app import every, misbehaving
from tests.conftest import Site, asking
from tests.support.faces import (
    Face,
    batch,
    jsonrpc,
    jsonrpc_get,
    mcp_legacy,
    mcp_modern,
    notification,
    own_url,
    own_url_get,
    rest,
)
from tests.support.mcp_messages import SERVER_INFO
from tests.support.misbehaviour import MISBEHAVING
from tests.support.servers import Server, gunicorn

INTERNAL = "Internal error, see the server log for id ID"
RPC_FAILURE = {"jsonrpc": "2.0", "error": {"code": -32603, "message": INTERNAL}, "id": 1}
FAILED_TOOL = {"content": [{"type": "text", "text": INTERNAL}], "isError": True}
IDENTITY = {SERVER_INFO: {"name": "site", "version": "0.0.0"}}

REST_FAILURE = {"error": {"code": "execution_error", "message": f"Tool execution failed: {INTERNAL}"}}
MODERN_RESULT = {"resultType": "complete", **FAILED_TOOL, "_meta": IDENTITY}

FACES: dict[Face, tuple[int, Any]] = {
    rest: (500, REST_FAILURE),
    jsonrpc: (200, RPC_FAILURE),
    jsonrpc_get: (200, RPC_FAILURE),
    batch: (200, [RPC_FAILURE]),
    own_url: (200, RPC_FAILURE),
    own_url_get: (200, RPC_FAILURE),
    mcp_modern: (200, {"jsonrpc": "2.0", "result": MODERN_RESULT, "id": 1}),
    mcp_legacy: (200, {"jsonrpc": "2.0", "result": FAILED_TOOL, "id": 1}),
}
"""The status and the whole body with which each face answers a method that misbehaves."""

ENDS_THE_PROCESS = ["exit", "exit-4", "interrupt", "generator-exit", "base", "memory", "recursion"]


def without_id(body: Any) -> Any:
    """Replace the one part of an answer that is new every time."""
    if isinstance(body, str):
        return re.sub(r"\b[0-9a-f]{12}$", "ID", body)
    if isinstance(body, list):
        return [without_id(item) for item in body]
    return {name: without_id(value) for name, value in body.items()} if isinstance(body, dict) else body


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(misbehaving, every)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
@pytest.mark.parametrize("name", MISBEHAVING)
def test_every_face_gives_its_generic_answer(site: Site, face: Face, name: str) -> None:
    response = face(name, {}).send(site.client)
    assert (response.status_code, without_id(response.get_json())) == FACES[face]
    assert b"fine" in face("fine", {}).send(site.client).data


@pytest.mark.parametrize("name", MISBEHAVING)
def test_the_others_of_a_batch_are_answered(site: Site, name: str) -> None:
    names = ["fine", name, "fine"]
    replies = site.rpc_post([asking(asked, id=number) for number, asked in enumerate(names)]).get_json()
    assert [reply.get("result") for reply in replies] == ["fine", None, "fine"]
    assert [reply["id"] for reply in replies] == [0, 1, 2]


@pytest.mark.parametrize("name", MISBEHAVING)
def test_a_notification_that_fails_is_silent_and_logged(
    site: Site, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = notification(name, {}).send(site.client)
    assert (response.status_code, response.data) == (204, b"")
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with gunicorn("tests.apps.misbehaving_app:every", tmp_path_factory.mktemp("misbehaving")) as running:
        yield running


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
@pytest.mark.parametrize("name", ENDS_THE_PROCESS)
def test_no_face_lets_a_method_end_its_worker(server: Server, face: Face, name: str) -> None:
    for _ in range(2):
        asked = face(name, {})
        reply = server.request(asked.path, data=asked.payload, headers=asked.headers)
        assert (reply.status, without_id(reply.json())) == FACES[face]
    assert server.invoke("fine", {}).json() == {"result": "fine"}
    assert server.log.read_text().count("Booting worker") <= 2  # no worker was ever replaced
