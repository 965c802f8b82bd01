"""The state that a client of 2026-07-28 sends back with its answers: signed, and good for one request of one caller."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from itsdangerous import TimestampSigner
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call, mcp_tool
from flask_jsonrpc_mcp.ask import MAX_ANSWERS, MAX_ROUNDS
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, signer
from tests.conftest import PERMISSIONS, Site, asking, basic, make_app, make_auth
from tests.support.answering import DECLINE, EVERYTHING, accept, questions_of
from tests.support.mcp_messages import ModernClient, error, result

BELONGS = "params.requestState belongs to another request"
ALTERED = "params.requestState was altered or has expired; send the request anew"
TOO_LARGE = "the answers of one call have more than 1048576 bytes"
UNREACHABLE = "Not run: this server cannot reach its mailbox, which has its questions; try again"
CLOSED = "params.requestState was answered before or has expired; send the request anew"


def ask(item: str = "", count: int = 0) -> str:
    return current_call.elicit("Sure?", key="sure").action


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key", JSONRPC_MCP_MAILBOX=tmp_path / "mail")
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


def tenants_by_prefix() -> tuple[Flask, list[tuple[str, str]]]:
    rpc = McpBlueprint(url_prefix="/<tenant>")
    return make_app(rpc), [("localhost", f"/{tenant}/mcp") for tenant in ("one", "two")]


def tenants_by_script_root() -> tuple[Flask, list[tuple[str, str]]]:
    app = make_app(McpBlueprint())
    serve: Any = app.wsgi_app
    app.wsgi_app = DispatcherMiddleware(serve, {"/one": serve, "/two": serve})  # type: ignore[method-assign]
    return app, [("localhost", f"/{tenant}/mcp") for tenant in ("one", "two")]


def tenants_by_subdomain() -> tuple[Flask, list[tuple[str, str]]]:
    app = Flask("site", subdomain_matching=True)
    app.config.update(SERVER_NAME="site.example", JSONRPC_MCP_ALLOWED_HOSTS=[".site.example"])
    app.register_blueprint(McpBlueprint(subdomain="<tenant>"))
    return app, [(f"{tenant}.site.example", "/mcp") for tenant in ("one", "two")]


@pytest.mark.parametrize("make", [tenants_by_prefix, tenants_by_script_root, tenants_by_subdomain])
def test_a_state_and_a_session_belong_to_the_url_they_were_given_at(
    make: Callable[[], tuple[Flask, list[tuple[str, str]]]], tmp_path: Path
) -> None:
    app, urls = make()
    app.config.update(SECRET_KEY="key", JSONRPC_MCP_MAILBOX=tmp_path / "mail")
    rpc: Any = app.blueprints["mcp"]
    rpc.add_method("ask", mcp_tool(ask))
    app.url_value_preprocessors.setdefault("mcp", []).append(lambda _, values: (values or {}).pop("tenant", None))
    client = app.test_client()
    first, second = (ModernClient(client, {"Host": host}, EVERYTHING, path=path) for host, path in urls)
    state = questions_of(first, "ask")["requestState"]
    assert error(again(second, state)) == (400, -32602, BELONGS)
    first.path += "/"
    assert value(again(first, state)) == "accept"
    opening = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    session = client.post(urls[0][1], json=asking("initialize", opening), headers={"Host": urls[0][0]}).headers
    statuses = [
        client.post(path, json=asking("ping"), headers={"Host": host, "Mcp-Session-Id": session["Mcp-Session-Id"]})
        for host, path in (urls[0], (urls[0][0], urls[0][1] + "/"), urls[1])
    ]
    assert [response.status_code for response in statuses] == [200, 200, 404]


def test_a_state_is_valid_under_all_names_of_a_site_that_does_not_route_by_them(site: Site) -> None:
    site.app.config["JSONRPC_MCP_ALLOWED_HOSTS"] = ["one.example", "two.example"]
    first, second = (ModernClient(site.client, {"Host": f"{name}.example"}, EVERYTHING) for name in ("one", "two"))
    assert value(again(second, questions_of(first, "ask")["requestState"])) == "accept"


def test_a_state_expires(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.app.config["JSONRPC_MCP_ANSWER_TIMEOUT"] = 60
    client = client_for(site)
    now = 1_800_000_000
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda self: now)
    monkeypatch.setattr("flask_jsonrpc_mcp.mcp.sessions.time.time", lambda: now)
    for offset, is_valid in ((59, True), (61, False), (-60, True), (-61, False)):  # negative: another machine's clock
        now = 1_800_000_000
        state = questions_of(client, "ask")["requestState"]
        now += offset
        if is_valid:
            assert value(again(client, state)) == "accept"
        else:
            assert error(again(client, state)) == (400, -32602, ALTERED)


def test_a_state_is_valid_as_long_as_its_key_and_its_mailbox(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the app's own stays with a new key. The default one, and the place in a Redis, depend on the key."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for folder, outcome in ((tmp_path / "mail", None), (None, CLOSED)):
        site.app.config.update(SECRET_KEY="key", SECRET_KEY_FALLBACKS=None, JSONRPC_MCP_MAILBOX=folder)
        client = client_for(site)
        state, used = (questions_of(client, "ask")["requestState"] for _ in range(2))
        assert value(again(client, used)) == "accept"
        site.app.config.update(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["older", "key"])
        assert error(again(client, used)) == (400, -32602, CLOSED)
        newer = questions_of(client, "ask")["requestState"]
        if outcome is None:
            assert value(again(client, state)) == "accept"
        else:
            assert error(again(client, state)) == (400, -32602, CLOSED)
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
    needed = questions_of(client, "ask")
    for responses in ({}, None, {"other": accept()}):
        needed = result(again(client, needed["requestState"], inputResponses=responses))
        assert needed["resultType"] == "input_required"


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


# One state, one run


@pytest.fixture
def runs(site: Site) -> list[str]:
    """What the runs of ``first_last``, which asks two questions, were told."""
    runs: list[str] = []

    def first_last() -> str:
        names = ""
        runs.append(names)
        for key in ("first", "last"):
            names += current_call.elicit(key, {"name": str}, key=key).content["name"]
            runs.append(names)
        return names

    site.tool(first_last)
    return runs


def name(client: ModernClient, state: Any, **given: str) -> Any:
    return again(client, state, "first_last", inputResponses={key: accept(name=text) for key, text in given.items()})


def test_a_state_is_good_for_one_run(site: Site, runs: list[str]) -> None:
    client = client_for(site)
    first = questions_of(client, "first_last")["requestState"]
    second = result(name(client, first, first="Ada"))["requestState"]
    assert error(name(client, first, first="Eve")) == (400, -32602, CLOSED)
    assert value(name(client, second, last=" Lovelace")) == "Ada Lovelace"
    for state in (first, second):
        assert error(name(client, state, first="Eve", last="Eve")) == (400, -32602, CLOSED)
    assert runs == ["", "", "Ada", "", "Ada", "Ada Lovelace"]


def test_of_many_who_answer_at_once_one_runs_it(site: Site, runs: list[str]) -> None:
    state = result(name(client_for(site), questions_of(client_for(site), "first_last")["requestState"], first="Ada"))
    together = threading.Barrier(8)

    def answer(number: int) -> Any:
        client = ModernClient(site.app.test_client(), capabilities=EVERYTHING)
        together.wait()
        return name(client, state["requestState"], last=str(number)).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(answer, range(8))) == [200] + [400] * 7
    assert len(runs) == 1 + 2 + 3


def test_a_used_state_stays_used_after_a_restart(site: Site) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    assert value(again(client, state)) == "accept"
    app = make_app(site.rpc, SECRET_KEY="key", JSONRPC_MCP_MAILBOX=site.app.config["JSONRPC_MCP_MAILBOX"])
    restarted = ModernClient(app.test_client(), capabilities=EVERYTHING)
    assert error(again(restarted, state)) == (400, -32602, CLOSED)
    assert value(again(restarted, questions_of(client, "ask")["requestState"])) == "accept"


def test_a_flood_of_questions_lets_no_state_run_twice_and_closes_none_of_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.mailbox.MAX_OF_KIND", 10)
    flooding, other, anonymous = client_for(site, "reader"), client_for(site, "writer"), client_for(site)
    waiting = questions_of(other, "ask")["requestState"]
    elsewhere = questions_of(anonymous, "ask")["requestState"]
    used, oldest = (questions_of(flooding, "ask")["requestState"] for _ in range(2))
    assert value(again(flooding, used)) == "accept"
    anonymous.client.environ_base["REMOTE_ADDR"] = "192.0.2.1"
    for _ in range(11):
        for client in (flooding, anonymous):
            latest = questions_of(client, "ask")["requestState"]
    for state in (used, oldest):
        assert error(again(flooding, state)) == (400, -32602, CLOSED)
    assert value(again(other, waiting)) == "accept"
    assert [value(again(anonymous, state)) for state in (elsewhere, latest)] == ["accept", "accept"]


@pytest.mark.parametrize("at", ["first", "second"])
def test_nothing_runs_again_while_the_mailbox_is_out_of_reach(
    site: Site, runs: list[str], at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.mailbox.RETRY_AFTER", 0)
    folder, client = tmp_path / "mail", client_for(site)
    state = questions_of(client, "first_last")["requestState"]
    folder.rename(tmp_path / "away")
    folder.touch()
    if at == "first":
        assert error(client.call("first_last"))[:2] == (200, -32000)
    else:
        assert error(name(client, state, first="Ada")) == (200, -32000, UNREACHABLE)
        assert runs == [""]
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert result(name(client, state, first="Ada"))["resultType"] == "input_required"


def test_a_state_ends_with_the_mailbox_that_would_know_of_its_use(site: Site, tmp_path: Path) -> None:
    client = client_for(site)
    state = questions_of(client, "ask")["requestState"]
    shutil.rmtree(tmp_path / "mail")
    assert error(again(client, state)) == (400, -32602, CLOSED)


def test_a_caller_who_has_lost_a_permission_runs_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.tool(ask, name="guarded", access=["write"])
    client = client_for(site, "writer")
    state = questions_of(client, "guarded")["requestState"]
    monkeypatch.setitem(PERMISSIONS, "writer", [])
    assert error(again(client, state, "guarded")) == (400, -32602, "Unknown tool: guarded")


def test_a_client_is_asked_twenty_times_at_most(site: Site, runs: list[str]) -> None:
    """Answers that do not fit are asked for again; each of these runs belongs to one call that was counted."""
    client = client_for(site)
    needed = questions_of(client, "first_last")
    for _ in range(MAX_ROUNDS):
        response = again(client, needed["requestState"], "first_last", inputResponses={"first": accept(name=7)})
        needed = response.get_json().get("result", needed)
    assert error(response)[1:] == (-32000, "The client was asked 20 times, and its answers did not fit the questions")
    assert runs == [""] * (MAX_ROUNDS + 1)


def test_a_state_cannot_grow_without_bound(site: Site, runs: list[str]) -> None:
    """Compressed it may be small, but the next worker reads all of it."""
    client = client_for(site)
    state = questions_of(client, "first_last")["requestState"]
    assert error(name(client, state, first="x" * MAX_ANSWERS)) == (400, -32602, TOO_LARGE)
    params = {"name": "first_last", "arguments": {}, "inputResponses": {"unasked": "x" * MAX_ANSWERS}}
    assert error(client.post("tools/call", params)) == (400, -32602, TOO_LARGE)
    half = MAX_ANSWERS // 2
    second = result(name(client, state, first="x" * half))["requestState"]
    assert error(name(client, second, last="x" * half)) == (400, -32602, TOO_LARGE)
    assert runs == ["", "", "x" * half]
    assert value(name(client, second, last="x")) == "x" * half + "x"
