"""A thousand hostile requests on each face: never a 5xx, never HTML, nothing of our inside, and the app goes on.

``make fuzz`` sends many more, from another seed each time.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Annotated, Any
from urllib.parse import quote, unquote

import pytest
from flask_httpauth import MultiAuth
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from tests.conftest import Site, asking, make_auth, make_token_auth
from tests.support.hostile import REMOTE, Answer, Attacker, Sent, exchange, get, post
from tests.support.hostile_values import HEADERS
from tests.support.mcp_messages import LegacyClient, ModernClient, modern_headers, modern_meta
from tests.support.servers import Server, gunicorn

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 1000)
SEED = int(os.environ.get("FUZZ_SEED") or 0)

HEADER_NAMES = sorted(set(HEADERS) - {"Host"})
MAX_ERROR = 16 * 1024
# The others are pages of the REST face, also those below /mcp/ where there is nothing.
RPC_PATHS = re.compile(r"/jsonrpc/?|/mcp/?")
# These take plain arguments too, and answer in the format of the request.
TOOL_PATHS = re.compile(r"/mcp/tools/(?!(list|describe|invoke)/?$)[^/]+/?", re.DOTALL)
# What an answer would have of our inside: tracebacks, paths, names of exceptions, and what we say of our own faults.
INSIDE = re.compile(rb'Traceback|File "|site-packages|\.py\b|[A-Z][a-z]\w+(Error|Exception)\b|Internal error')


def make_site() -> Site:
    auth = MultiAuth(make_auth(), make_token_auth())
    site = Site(McpBlueprint(auth=auth), SECRET_KEY="key", JSONRPC_MCP_ANSWER_TIMEOUT=24 * 60 * 60)
    read = mcp_tool(annotations={"readOnlyHint": True})

    @site.rpc.method("add")
    @read
    def add(
        a: int,
        b: Annotated[float, {"multipleOf": 0.1, "minimum": -1e9}] = 0,
        word: Annotated[str, {"maxLength": 9, "pattern": "^[a-z]*$"}] = "",
        tags: Annotated[list[str], {"uniqueItems": True, "maxItems": 50}] = (),  # type: ignore[assignment]
        day: datetime.date | None = None,
        table: dict[str, dict[str, int]] | None = None,
        region: Annotated[str, {"x-mcp-header": "Region"}] = "",
    ) -> int:
        return a

    @site.rpc.method("echo", max_age=60)
    @read
    def echo(value: Any) -> Any:
        return value

    site.rpc.add_method("hidden", read(lambda: "seen"), access=["write", "administer"])
    _declare_what_is_no_method(site.rpc)
    return site


def _declare_what_is_no_method(rpc: McpBlueprint) -> None:
    @rpc.prompt
    def summary(a: int, tags: list[str] | None = None, day: datetime.date | None = None) -> str:
        return f"{a} {tags} {day}"

    @rpc.resource("items://{a}/{+path}")
    def item(a: int, path: str) -> dict[str, Any]:
        return {"a": a, "path": path}

    @rpc.completer("summary", "a")
    def numbers(value: str, day: str = "") -> list[str]:
        return [value, day]

    @rpc.method
    @mcp_tool
    def ask(a: Any) -> Any:
        current_call.elicit("Really?")
        return current_call.elicit("How many?", {"n": int, "day": datetime.date | None}).content["n"]

    rpc.add_prompt("hidden", lambda: "seen", access=["write", "administer"])
    rpc.add_resource("hidden://x", lambda: "seen", name="hidden", access=["write", "administer"])


SITE = make_site()

CALL = {"a": 1, "b": 0.5, "word": "x", "tags": ["x", "y"], "day": "2026-01-02", "table": {"x": {"y": 1}}}


def modern(method: str, **params: Any) -> Sent:
    headers = {name.replace("-", "_"): value for name, value in modern_headers(method, params).items()}
    return post("/mcp", asking(method, {**params, "_meta": modern_meta(elicitation={})}), **headers)


PROMPT = {"name": "summary", "arguments": {"a": "1", "tags": '["x"]', "day": "2026-01-02"}}
RESOURCE = {"uri": "items://1/x%20y/z"}
COMPLETION = {
    "ref": {"type": "ref/prompt", "name": "summary"},
    "argument": {"name": "a", "value": "1"},
    "context": {"arguments": {"day": "2026-01-02"}},
}


def answered() -> Sent:
    """A request that is sent again for the last time, with all that its tool has asked for."""
    params: dict[str, Any] = {"name": "ask", "arguments": {"a": {"x": [1]}}}
    for answer in ({}, {"n": 5}):
        asked = ModernClient(SITE.client, capabilities={"elicitation": {}}).post("tools/call", params).get_json()
        responses = {key: {"action": "accept", "content": answer} for key in asked["result"]["inputRequests"]}
        params = {**params, "inputResponses": responses, "requestState": asked["result"]["requestState"]}
    return modern("tools/call", **params)


def legacy() -> list[Sent]:
    sent = []
    for version in LEGACY:
        client = LegacyClient(SITE.client, version)
        client.initialize()
        headers = {"Mcp_Session_Id": str(client.session), "MCP_Protocol_Version": version}
        params = {"protocolVersion": version, "capabilities": {"sampling": {}}, "clientInfo": {"name": "x"}}
        sent += [
            post("/mcp", asking("initialize", params)),
            post("/mcp", asking("ping"), **headers),
            post("/mcp", asking("tools/list", {"cursor": "NTA="}), **headers),
            post("/mcp", asking("tools/call", {"name": "add", "arguments": CALL}), **headers),
            post(
                "/mcp", [asking("tools/call", {"name": "echo", "arguments": {"value": [1]}}), asking("ping")], **headers
            ),
            post("/mcp", asking("notifications/initialized", {}, id=...), **headers),
            post("/mcp", asking("prompts/get", PROMPT), **headers),
            post("/mcp", asking("resources/read", RESOURCE), **headers),
            post("/mcp", asking("completion/complete", COMPLETION), **headers),
        ]
    return sent


def calls(path: str, name: str) -> list[Sent]:
    asked = asking(name, CALL if name == "add" else {"value": {"x": [1, "y"]}})
    return [post(path, asked), get(path, query=json.dumps(asked)), post(path, {**asked, "params": [1]})]


FACES: dict[str, list[Sent]] = {
    "REST": [
        get("/mcp/tools/list"),
        get("/mcp/tools/list", cursor="NTA="),
        get("/mcp/tools/describe", name="add"),
        get("/mcp/server-card"),
        post("/mcp/tools/invoke", {"name": "add", "arguments": CALL}),
        post("/mcp/tools/invoke", {"name": "echo", "arguments": {"value": {"x": [1, "y"]}}}),
    ],
    "JSON-RPC": [
        *calls("/jsonrpc", "add"),
        *calls("/jsonrpc", "echo"),
        post("/jsonrpc", [asking("add", CALL), asking("echo", [1], id=...), asking("hidden")]),
        get("/jsonrpc", query=json.dumps(asking("rpc.discover"))),
    ],
    "tool URL": [
        *calls("/mcp/tools/add", "add"),
        *calls("/mcp/tools/echo", "echo"),
        *calls("/mcp/tools/hidden", "hidden"),
        post("/mcp/tools/add", CALL),
        get("/mcp/tools/add", a="1", tags="x", table="{}"),
    ],
    "MCP modern": [
        modern("tools/call", name="add", arguments={**CALL, "region": "eu"}).having("Mcp-Param-Region", "eu"),
        modern("tools/call", name="echo", arguments={"value": {"x": [1, "y"]}}),
        modern("tools/list", cursor="NTA="),
        modern("server/discover"),
        modern("prompts/get", **PROMPT),
        modern("resources/read", **RESOURCE),
        modern("completion/complete", **COMPLETION),
        answered(),
        modern("resources/templates/list", cursor="MQ=="),
    ],
    "MCP legacy": legacy(),
    "well-known": [get("/.well-known/mcp.json"), get("/.well-known/mcp.json", query="x")],
}


def is_rpc(body: Any) -> bool:
    if isinstance(body, list):
        return bool(body) and all(isinstance(item, dict) and is_rpc(item) for item in body)
    outcome = set(body) - {"jsonrpc", "id"}
    return body["jsonrpc"] == "2.0" and (
        outcome == {"result"} or (outcome == {"error"} and is_rpc_error(body["error"]))
    )


def is_rpc_error(error: Any) -> bool:
    return (
        isinstance(error["code"], int)
        and isinstance(error["message"], str)
        and set(error) <= {"code", "message", "data"}
    )


def is_rest(body: Any) -> bool:
    if "error" not in body:
        return isinstance(body, dict) and "jsonrpc" not in body
    error = body["error"]
    shape = {"code", "message", "errors", "data"}
    return set(body) == {"error"} and set(error) <= shape and isinstance(error["code"], str) and bool(error["message"])


def is_failure(body: Any) -> bool:
    if not isinstance(body, dict):
        return False
    result = body.get("result")
    return "error" in body or (isinstance(result, dict) and result.get("isError") is True)


def check(sent: Sent, answer: Answer) -> None:
    """Everything that must be true of every answer, whatever was asked."""
    assert answer.status < 500
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers
    assert not INSIDE.search(answer.body)
    assert not INSIDE.search(str(answer.headers).encode())
    if answer.status in (202, 204, 304) or sent.verb == "HEAD":
        assert answer.body == b""
        return
    assert answer.headers["Content-Type"] in ("application/json", "application/mcp-server-card+json")
    body = json.loads(answer.body, parse_constant=pytest.fail)
    path = unquote(sent.path)
    by_rpc = "jsonrpc" in body if TOOL_PATHS.fullmatch(path) else RPC_PATHS.fullmatch(path)
    assert is_rpc(body) if by_rpc else is_rest(body)
    assert is_failure(body) or answer.status == 200
    if is_failure(body) or answer.status >= 400:
        assert len(answer.body) < MAX_ERROR
        assert answer.headers["Cache-Control"] == "no-store"


def send(sent: Sent) -> Answer:
    answer = sent.to(SITE.app)
    try:
        check(sent, answer)
    except BaseException as error:
        raise AssertionError(f"{sent}\nwas answered with\n{answer}") from error
    return answer


@pytest.mark.parametrize("face", FACES)
def test_damaged_requests(face: str) -> None:
    for sent in FACES[face]:
        send(sent)  # uses up the requestState, which is good for one run
    before = [send(sent) for sent in FACES[face]]
    attacker = Attacker(FACES[face], SEED, free_path=face in ("REST", "tool URL"))
    statuses = {send(attacker.attack()).status for _ in range(EXAMPLES)}
    assert {200, 403, 405} <= statuses  # some got through, some did not
    assert [send(sent).body for sent in FACES[face]] == [answer.body for answer in before]


@pytest.mark.parametrize("face", FACES)
def test_every_hostile_header(face: str) -> None:
    for sent, (name, values) in product(FACES[face][:6], HEADERS.items()):
        for value in values:
            send(sent.having(name, value))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
HEADER_VALUES = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=30)
BUDGET = settings(
    max_examples=max(EXAMPLES // 10, 10),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("face", [face for face in FACES if face != "well-known"])
def test_any_json_anywhere(face: str) -> None:
    """Any value in the place of any member of a request, and any request in any place."""

    @seed(SEED)
    @BUDGET
    @given(st.sampled_from([sent for sent in FACES[face] if sent.body]), st.data())
    def attack(sent: Sent, data: st.DataObject) -> None:
        asked = json.loads(sent.body)
        members = [*asked, ""] if isinstance(asked, dict) else range(len(asked))
        asked[data.draw(st.sampled_from(members))] = data.draw(JSON_VALUES)
        send(replace(sent, body=json.dumps(asked).encode()))
        send(replace(sent, body=json.dumps(data.draw(JSON_VALUES)).encode()))
        send(replace(sent, verb="GET", query="query=" + quote(json.dumps(asked)), body=b""))

    attack()


@pytest.mark.parametrize("face", FACES)
def test_any_text_in_any_header(face: str) -> None:
    @seed(SEED)
    @BUDGET
    @given(st.sampled_from(FACES[face]), st.sampled_from(HEADER_NAMES), HEADER_VALUES)
    def attack(sent: Sent, name: str, value: str) -> None:
        send(sent.having(name, value))

    attack()


@seed(SEED)
@BUDGET
@given(st.text(max_size=30) | st.integers().map(lambda number: b64encode(str(number).encode()).decode()))
def test_any_cursor(cursor: str) -> None:
    send(get("/mcp/tools/list", cursor=cursor))
    send(modern("tools/list", cursor=cursor))


def test_a_host_that_cannot_be_decoded() -> None:
    """werkzeug fails on it wherever it makes a URL of it."""
    for face in FACES.values():
        for sent in face:
            send(replace(sent.having("Host", "xn--a"), peer=REMOTE))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with gunicorn("tests.apps.steady_app:app", tmp_path_factory.mktemp("hostile")) as running:
        yield running


def test_bytes_that_are_hardly_http(server: Server) -> None:
    """What is no HTTP is answered by gunicorn itself, in HTML or not at all; the rest by us."""
    rng = random.Random(SEED)
    attackers = [Attacker(seeds, SEED) for seeds in FACES.values()]
    statuses = set()
    for _ in range(max(300, EXAMPLES // 10)):
        raw = rng.choice(attackers).attack_framing()
        answer = exchange(server.port, raw)
        for status in re.findall(rb"^HTTP/1\.1 (\d{3})", answer, re.MULTILINE):
            statuses.add(int(status))
        assert not INSIDE.search(answer), raw
    assert {200, 400, 405} <= statuses
    # gunicorn has two of its own for what it cannot do: a transfer coding, a version.
    assert not {status for status in statuses if status >= 500} - {501, 505}, statuses
    assert server.invoke("echo", {"number": 7}).json()["result"][0] == 7
    log = server.log.read_text()
    assert "Traceback" not in log
    assert log.count("Booting worker") == 2
