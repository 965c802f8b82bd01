"""One call, many faces: the same calls through each of them agree in value, or in kind of failure."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

import pytest

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from tests.conftest import Site, asking, basic, make_auth
from tests.support import faces
from tests.support.mcp_messages import LegacyClient, ModernClient

Outcome = tuple[str, Any]


@pytest.fixture(scope="module")
def site() -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
    read = mcp_tool(annotations={"readOnlyHint": True})

    @site.rpc.method("repeat")
    @read
    def repeat(
        text: Annotated[str, {"maxLength": 5}], times: int = 2, day: datetime.date | None = None
    ) -> dict[str, Any]:
        return {"text": text * times, "day": day, "zero": 0}

    @site.rpc.method("fail")
    @read
    def fail() -> None:
        raise RpcError("it failed", code=-32099)

    @site.rpc.method("break")
    @read
    def break_() -> int:
        return 1 // 0

    @site.rpc.method("lie")
    @read
    def lie() -> int:
        return "text"  # type: ignore[return-value]

    @site.rpc.method("nothing")
    @read
    def nothing() -> None: ...

    @site.rpc.method("report")
    @read
    def report() -> Iterator[int]:
        current_call.progress(0.5, 1, "half")
        current_call.log("info", {"done": 0.5})
        yield 1
        yield 2

    @site.rpc.method("ask")
    @read
    def ask() -> str:
        return current_call.elicit("Sure?").action

    @site.rpc.method("sure")
    @mcp_tool(confirm="Sure?", confirm_required=False, annotations={"readOnlyHint": True})
    def sure() -> str:
        return "unasked"

    @site.rpc.method("hidden", access=["write", "administer"])
    @read
    def hidden() -> str:
        return "seen"

    return site


def by_rest(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    response = site.invoke(name, arguments, headers=headers)
    body = response.get_json()
    if response.status_code == 200:
        return "ok", body["result"]
    slug, message = body["error"]["code"], body["error"]["message"].removeprefix("Tool execution failed: ")
    if slug == "invalid_arguments":
        return "invalid", body["error"]["errors"]
    if slug == "execution_error":
        return ("broken", None) if message.startswith("Internal error") else ("failed", message)
    return {
        "tool_not_found": ("absent", None),
        "unauthorized": ("sign in", None),
        "missing_capability": ("cannot ask", body["error"]["message"]),
    }[slug]


def spoken(response: Any) -> Outcome:
    """What a JSON-RPC reply says."""
    body = response.get_json()
    if "result" in body:
        assert response.status_code == 200
        return "ok", body["result"]
    error = body["error"]
    if error["code"] == -32601:
        return ("sign in" if response.status_code == 401 else "absent"), None
    if error["code"] == -32602:
        return "invalid", error["data"]["errors"]
    if error["code"] == -32021:
        return "cannot ask", error["message"]
    return ("broken", None) if error["code"] == -32603 else ("failed", error["message"])


def by_jsonrpc_post(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    return spoken(site.rpc_post(asking(name, arguments), headers=headers))


def by_jsonrpc_get(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    return spoken(site.rpc_get(asking(name, arguments), headers=headers))


def by_own_url_post(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    return spoken(site.rpc_post(asking(name, arguments), f"/mcp/tools/{name}", headers=headers))


def by_own_url_get(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    return spoken(site.rpc_get(asking(name, arguments), f"/mcp/tools/{name}", headers=headers))


def in_mcp(client: ModernClient | LegacyClient, name: str, arguments: Any) -> Outcome:
    """What an MCP reply says; problems and failures are texts that a model reads."""
    response = client.call(name, arguments)
    body = response.get_json()
    if "error" in body:
        if body["error"]["code"] == -32021:
            return "cannot ask", body["error"]["message"]
        assert body["error"]["code"] == -32602
        return ("sign in" if response.status_code == 401 else "absent"), None
    result = body["result"]
    if not result["isError"]:
        value = result["structuredContent"]
        wrapped = isinstance(client, LegacyClient) and isinstance(value, dict) and set(value) == {"result"}
        return "ok", value["result"] if wrapped else value
    text = result["content"][0]["text"]
    if text.startswith("Invalid arguments: "):
        problems = [problem.split(": ", 1) for problem in text.removeprefix("Invalid arguments: ").split("; ")]
        return "invalid", [{"path": path, "message": message} for path, message in problems]
    return ("broken", None) if text.startswith("Internal error") else ("failed", text)


def by_mcp_modern(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    return in_mcp(ModernClient(site.client, headers), name, arguments)


def by_mcp_legacy(site: Site, name: str, arguments: Any, headers: dict[str, str]) -> Outcome:
    return in_mcp(LegacyClient(site.client, headers=headers), name, arguments)


FACES: list[Callable[[Site, str, Any, dict[str, str]], Outcome]] = [
    by_rest,
    by_jsonrpc_post,
    by_jsonrpc_get,
    by_own_url_post,
    by_own_url_get,
    by_mcp_modern,
    by_mcp_legacy,
]

CALLS: list[tuple[str, Any, str | None, Outcome]] = [
    ("repeat", {"text": "ab"}, None, ("ok", {"text": "abab", "day": None, "zero": 0})),
    ("repeat", {"text": "é", "times": 3.0}, "writer", ("ok", {"text": "ééé", "day": None, "zero": 0})),
    ("repeat", {"text": "a", "day": "2026-01-02"}, None, ("ok", {"text": "aa", "day": "2026-01-02", "zero": 0})),
    ("repeat", {}, None, ("invalid", [{"path": "/text", "message": "is required"}])),
    (
        "repeat",
        {"text": "abcdef", "times": "x", "more": 1},
        "admin",
        (
            "invalid",
            [
                {"path": "/text", "message": "must have at most 5 characters"},
                {"path": "/times", "message": "must be of type integer, not string"},
                {"path": "/more", "message": "is not expected here"},
            ],
        ),
    ),
    ("fail", {}, None, ("failed", "it failed")),
    ("break", {}, None, ("broken", None)),
    ("lie", {}, None, ("broken", None)),
    ("nothing", {}, None, ("ok", None)),
    ("report", {}, None, ("ok", [1, 2])),
    ("ask", {}, None, ("cannot ask", "This needs an MCP client with the capability elicitation")),
    ("sure", {}, None, ("ok", "unasked")),
    ("hidden", {}, None, ("sign in", None)),
    ("hidden", {"x": 1}, "writer", ("absent", None)),
    ("hidden", {}, "admin", ("ok", "seen")),
    ("absent", {}, None, ("sign in", None)),
    ("absent", {}, "admin", ("absent", None)),
]


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
@pytest.mark.parametrize(("name", "arguments", "caller", "outcome"), CALLS)
def test_faces_agree(site: Site, face: Any, name: str, arguments: Any, caller: str | None, outcome: Outcome) -> None:
    assert face(site, name, arguments, basic(caller) if caller else {}) == outcome


GETTING = [faces.jsonrpc_get, faces.own_url_get]
ONE_ENVELOPE = [faces.jsonrpc, faces.own_url, faces.mcp_modern, faces.mcp_legacy]
POSTING = [faces.rest, faces.batch, *ONE_ENVELOPE]


@pytest.fixture
def echo() -> Site:
    """A site that serves older MCP clients without sessions."""
    site = Site(McpBlueprint())

    @site.rpc.tool(read_only=True)
    def echo(value: Any = None) -> Any:
        return value

    return site


def send(site: Site, asked: faces.Asked, body: bytes, content_type: str = "application/json") -> Any:
    return site.client.post(asked.path, data=body, headers=dict(asked.headers), content_type=content_type)


@pytest.mark.parametrize("face", POSTING + GETTING)
@pytest.mark.parametrize(
    "value",
    [b"NaN", b"-Infinity", b"1e999", b'{"a": 1, "a": 2}', b'"\\ud800"', b'"\xff"', b"[" * 64 + b"]" * 64],
    ids=["NaN", "Infinity", "out of range", "duplicate members", "unpaired surrogate", "not UTF-8", "too deep"],
)
def test_no_face_reads_what_is_not_strict_json(echo: Site, face: faces.Face, value: bytes) -> None:
    asked = face("echo", {"value": "VALUE"})
    if asked.payload is None:
        response = echo.client.get(asked.path.replace(quote('"VALUE"'), quote(value)))
    else:
        response = send(echo, asked, json.dumps(asked.payload).encode().replace(b'"VALUE"', value))
    assert response.status_code == 400
    assert response.get_json()["error"]["code"] == ("invalid_json" if face is faces.rest else -32700)


@pytest.mark.parametrize("face", POSTING)
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_no_face_reads_a_body_that_is_not_labelled_as_json(echo: Site, face: faces.Face, content_type: str) -> None:
    asked = face("echo", {})
    assert send(echo, asked, json.dumps(asked.payload).encode(), content_type).status_code == 415


@pytest.mark.parametrize("face", POSTING)
def test_no_face_reads_more_than_four_mebibytes(echo: Site, face: faces.Face) -> None:
    asked = face("echo", {})
    largest = json.dumps(asked.payload).encode().ljust(4 * 1024 * 1024)
    assert [send(echo, asked, body).status_code for body in (largest, largest + b" ")] == [200, 413]


@pytest.mark.parametrize("face", ONE_ENVELOPE)
@pytest.mark.parametrize("id", ["x" * 1001, 10**1000], ids=["characters", "digits"])
def test_a_very_long_id_is_a_400(echo: Site, face: faces.Face, id: Any) -> None:
    asked = face("echo", {})
    assert send(echo, asked, json.dumps({**asked.payload, "id": id}).encode()).status_code == 400


@pytest.mark.parametrize("face", POSTING + GETTING)
def test_no_response_to_a_call_may_be_stored(echo: Site, face: faces.Face) -> None:
    response = face("echo", {"value": 7}).send(echo.client)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
