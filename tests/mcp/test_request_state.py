"""The state that a client of 2026-07-28 sends back with its answers: signed, and good for one request of one caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from itsdangerous import TimestampSigner

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from flask_jsonrpc_mcp.mcp.sessions import signer
from tests.conftest import Site, asking, basic, make_app, make_auth
from tests.support.answering import DECLINE, EVERYTHING, accept, questions_of
from tests.support.mcp_messages import ModernClient, error, result

BELONGS = "params.requestState belongs to another request"
ALTERED = "params.requestState was altered or has expired; send the request anew"


def ask(item: str = "", count: int = 0) -> str:
    return current_call.elicit("Sure?", key="sure").action


@pytest.fixture
def site() -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
    site.tool(ask)
    site.tool(ask, name="other")
    site.rpc.add_prompt("ask", ask)
    return site


def client_for(site: Site, caller: str | None = None) -> ModernClient:
    return ModernClient(site.client, basic(caller) if caller else {}, EVERYTHING)


def again(client: ModernClient, state: Any, name: str = "ask", arguments: Any = None, **more: Any) -> Any:
    params = {"name": name, "arguments": arguments or {}, "requestState": state, **more}
    if "inputResponses" not in params:
        params["inputResponses"] = {"sure": accept()}
    return client.post("tools/call", params)


def value(response: Any) -> Any:
    return result(response)["structuredContent"]


def test_what_is_asked_comes_with_a_state(site: Site) -> None:
    client = client_for(site)
    needed = questions_of(client, "ask")
    assert set(needed) == {"resultType", "inputRequests", "requestState", "_meta"}
    assert needed["inputRequests"] == {
        "sure": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "Sure?",
                "requestedSchema": {"type": "object", "properties": {}},
            },
        }
    }
    assert value(again(client, needed["requestState"])) == "accept"


def test_a_request_may_be_spelled_in_another_order(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask", {"item": "a", "count": 1})["requestState"]
    assert value(again(client, state, arguments={"count": 1, "item": "a"}, _meta={"more": 1})) == "accept"


@pytest.mark.parametrize("position", [0, 1, "middle", "first dot", "timestamp", "second dot", "signature", -1])
# Far from what was there: the last letter of base64 has bits that nobody reads.
@pytest.mark.parametrize("change", [lambda c: "z" if c < "a" else "A", lambda c: "", lambda c: c + "A", lambda c: "é"])
def test_no_byte_of_a_state_can_be_changed(site: Site, position: Any, change: Callable[[str], str]) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    last = state.rindex(".")
    place = {
        "middle": len(state) // 2,
        "first dot": state.rindex(".", 0, last),
        "timestamp": last - 2,
        "second dot": last,
        "signature": last + 3,
    }.get(position, position)
    place %= len(state)
    altered = state[:place] + change(state[place]) + state[place + 1 :]
    assert altered != state
    assert error(again(client, altered)) == (400, -32602, ALTERED)


@pytest.mark.parametrize("state", ["", ".", "..", "a.b.c", "x" * 10_000, 7, 1.5, True, False, [], ["a"], {}, {"a": 1}])
def test_what_is_no_state_is_refused(site: Site, state: Any) -> None:
    assert error(again(client_for(site), state)) == (400, -32602, ALTERED)


def test_null_is_no_state_at_all(site: Site) -> None:
    assert value(again(client_for(site), None)) == "accept"


def test_a_state_is_good_for_one_request_only(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask", {"item": "a"})["requestState"]
    assert error(again(client, state, "other", {"item": "a"})) == (400, -32602, BELONGS)
    assert error(again(client, state, "absent", {"item": "a"})) == (400, -32602, BELONGS)
    for arguments in ({"item": "b"}, {}, {"item": "a", "count": 0}):
        assert error(again(client, state, "ask", arguments)) == (400, -32602, BELONGS)
    prompt = {"name": "ask", "arguments": {"item": "a"}, "requestState": state}
    assert error(client.post("prompts/get", prompt)) == (400, -32602, BELONGS)
    assert value(again(client, state, "ask", {"item": "a"})) == "accept"


def test_a_state_is_good_for_one_caller_only(site: Site) -> None:
    callers = [None, "reader", "writer"]
    states = {caller: questions_of(client_for(site, caller), "ask")["requestState"] for caller in callers}
    for caller in callers:
        for owner, state in states.items():
            response = again(client_for(site, caller), state)
            if caller == owner:
                assert value(response) == "accept"
            else:
                assert error(response) == (400, -32602, BELONGS)


def test_a_state_is_good_for_one_blueprint_only() -> None:
    one, two = McpBlueprint("one", url_prefix="/one"), McpBlueprint("two", url_prefix="/two")
    for rpc in (one, two):
        rpc.add_method("ask", mcp_tool(ask) if rpc is one else ask)
    client = make_app(one, two, SECRET_KEY="key").test_client()
    first, second = (ModernClient(client, capabilities=EVERYTHING, path=f"/{name}/mcp") for name in ("one", "two"))
    state = questions_of(first, "ask")["requestState"]
    assert error(again(second, state)) == (400, -32602, BELONGS)
    assert value(again(first, state)) == "accept"


def test_a_state_and_a_session_belong_to_the_url_they_were_given_at() -> None:
    rpc = McpBlueprint(url_prefix="/<tenant>")
    rpc.url_value_preprocessor(lambda endpoint, values: (values or {}).pop("tenant", None))
    rpc.add_method("ask", mcp_tool(ask))
    client = make_app(rpc, SECRET_KEY="key").test_client()
    first, second = (ModernClient(client, capabilities=EVERYTHING, path=f"/{name}/mcp") for name in ("one", "two"))
    state = questions_of(first, "ask")["requestState"]
    assert error(again(second, state)) == (400, -32602, BELONGS)
    assert value(again(first, state)) == "accept"
    opening = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    session = client.post("/one/mcp", json=asking("initialize", opening)).headers["Mcp-Session-Id"]
    statuses = [
        client.post(path, json=asking("ping"), headers={"Mcp-Session-Id": session}).status_code
        for path in ("/one/mcp", "/one/mcp/", "/two/mcp")
    ]
    assert statuses == [200, 200, 404]


def test_a_state_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_ANSWER_TIMEOUT=60)
    site.tool(ask)
    client = client_for(site)
    now = 1_800_000_000
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda self: now)
    monkeypatch.setattr("flask_jsonrpc_mcp.mcp.sessions.time.time", lambda: now)
    state = questions_of(client, "ask")["requestState"]
    now += 60
    assert value(again(client, state)) == "accept"
    now += 1
    assert error(again(client, state)) == (400, -32602, ALTERED)
    now -= 61 + 60  # signed by a machine whose clock is a minute ahead
    assert value(again(client, state)) == "accept"
    now -= 1
    assert error(again(client, state)) == (400, -32602, ALTERED)


def test_a_state_outlives_a_change_of_keys(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    site.app.config.update(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["older", "key"])
    assert value(again(client, state)) == "accept"
    newer = questions_of(client, "ask")["requestState"]
    site.app.config["SECRET_KEY_FALLBACKS"] = None
    assert error(again(client, state)) == (400, -32602, ALTERED)
    assert value(again(client, newer)) == "accept"
    site.app.config["SECRET_KEY"] = "another"
    assert error(again(client, newer)) == (400, -32602, ALTERED)


def test_without_a_key_no_state_is_believed(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    site.app.config["SECRET_KEY"] = None
    assert error(again(client, state)) == (400, -32602, ALTERED)


def test_what_is_signed_for_something_else_is_no_state(site: Site) -> None:
    """A session's id is signed with the same key."""
    token = signer(site.app, "flask-jsonrpc-mcp.session").dumps(["", "", "mcp", {"sure": ""}, {}])
    assert error(again(client_for(site), token)) == (400, -32602, ALTERED)


def test_an_answer_that_was_not_asked_for_is_not_looked_at(site: Site) -> None:
    """With a state it is certain what was asked."""

    def two() -> str:
        return current_call.elicit("A?", key="a").action + current_call.elicit("B?", key="b").action

    site.tool(two)
    client = client_for(site)
    state = questions_of(client, "two")["requestState"]
    both = {"a": accept(), "b": accept()}
    second = result(again(client, state, "two", inputResponses=both))
    assert list(second["inputRequests"]) == ["b"]
    third = again(client, second["requestState"], "two", inputResponses={"a": DECLINE, "b": DECLINE})
    assert value(third) == "acceptdecline"


def test_answers_without_a_state_are_taken_for_what_they_are(site: Site) -> None:
    """A client may know what it will be asked. What must not be forged is asked with ``confirm=``."""
    client = client_for(site)
    params = {"name": "ask", "arguments": {}, "inputResponses": {"sure": DECLINE, "unknown": 7}}
    assert value(client.post("tools/call", params)) == "decline"
    params["inputResponses"] = {"sure": "nonsense"}
    assert result(client.post("tools/call", params))["resultType"] == "input_required"


@pytest.mark.parametrize("responses", [7, "x", [], [accept()], True])
def test_responses_that_are_none_are_refused(site: Site, responses: Any) -> None:
    params = {"name": "ask", "arguments": {}, "inputResponses": responses}
    assert error(client_for(site).post("tools/call", params)) == (
        400,
        -32602,
        "params.inputResponses must be an object",
    )


def test_a_state_without_answers_asks_again(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    for responses in ({}, None, {"other": accept()}):
        assert result(again(client, state, inputResponses=responses))["resultType"] == "input_required"


def test_a_client_that_can_no_longer_be_asked_is_told(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    client.capabilities = {}
    assert error(again(client, state))[:2] == (400, -32021)


def test_lists_know_no_state(site: Site) -> None:
    params = {"requestState": "nonsense", "inputResponses": 7}
    assert "tools" in result(client_for(site).post("tools/list", params))


def test_the_arguments_are_checked_before_anything_is_asked(site: Site) -> None:
    response = client_for(site).call("ask", {"count": "x"})
    assert result(response)["isError"] is True


def test_a_failure_after_an_answer_is_told_like_any_other(site: Site) -> None:
    def fail() -> None:
        current_call.elicit("Sure?", key="sure")
        raise RpcError("too late")

    site.tool(fail)
    client = client_for(site)
    failed = result(again(client, questions_of(client, "fail")["requestState"], "fail"))
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "too late")
