"""Rate limits: so many calls per caller and per tool, counted in one place by all workers."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask_limiter import Limiter

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN
from tests.apps.limited_app import create_app, limiter, rpc
from tests.conftest import Site, asking, basic, make_app
from tests.support.answering import EVERYTHING, Respondent, accept, questions_of
from tests.support.load import PATIENCE, wait_until
from tests.support.mailboxes import redis_url, running_redis
from tests.support.mcp_messages import ModernClient, client_of, result
from tests.support.servers import Server, free_port, gunicorn


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site(rpc, create_app(RATELIMIT_STORAGE_URI="memory://"))
    yield site
    limiter.reset()


def test_a_tool_has_a_limit_per_caller(site: Site) -> None:
    statuses = [site.invoke("rare", {}, headers=basic("writer")).status_code for _ in range(7)]
    assert statuses == [200] * 6 + [429]
    assert site.invoke("rare", {}, headers=basic("reader")).status_code == 200
    assert site.invoke("common", {}, headers=basic("writer")).status_code == 200


def test_a_caller_has_a_limit_over_all_tools(site: Site) -> None:
    statuses = [site.invoke("common", {}, headers=basic("writer")).status_code for _ in range(21)]
    assert statuses == [200] * 20 + [429]
    assert site.invoke("absent", {}, headers=basic("writer")).status_code == 429
    assert site.invoke("common", {}).status_code == 200


def test_a_refusal_says_when_to_try_again(site: Site) -> None:
    for _ in range(6):
        site.invoke("rare", {})
    rest, rpc_reply = site.invoke("rare", {}), site.rpc_post(asking("rare"))
    for response in (rest, rpc_reply):
        assert response.status_code == 429
        assert 0 < int(response.headers["Retry-After"]) <= 3600
        assert response.headers["Cache-Control"] == "no-store"
    assert rest.get_json()["error"]["code"] == "rate_limited"
    assert rpc_reply.get_json()["error"]["code"] == -32005
    for version in ("2026-07-28", "2025-11-25"):
        result = client_of(version, site.client).call("rare").get_json()["result"]
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("Too many calls; try again in ")


def test_each_call_of_a_batch_counts(site: Site) -> None:
    replies = site.rpc_post([asking("rare", id=number) for number in range(8)]).get_json()
    assert Counter("result" in reply for reply in replies) == {True: 6, False: 2}


def test_rpc_discover_counts(site: Site) -> None:
    """It is a call of JSON-RPC, and its document may be large."""
    replies = site.rpc_post([asking("rpc.discover", id=number) for number in range(21)]).get_json()
    assert [reply.get("error", {}).get("code") for reply in replies] == [None] * 20 + [-32005]
    assert site.rpc_post(asking("rpc.discover")).status_code == 429


def test_reading_a_list_does_not_count(site: Site) -> None:
    assert {site.list_tools().status_code for _ in range(30)} == {200}


def test_a_limit_needs_a_limiter() -> None:
    with pytest.raises(ValueError, match=r"pass McpBlueprint\(limiter=\.\.\.\) a Flask-Limiter object"):
        McpBlueprint(rate_limit="5/minute")
    with pytest.raises(ValueError, match="a rate limit needs a limiter"):
        McpBlueprint().add_method("f", lambda: 1, rate_limit="5/minute")
    with pytest.raises(ValueError, match="often"):
        McpBlueprint(limiter=limiter).add_method("f", lambda: 1, rate_limit="often")


def test_counts_that_cannot_be_reached_are_an_error_unless_the_app_says_otherwise() -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}"
    site = Site(rpc, create_app(RATELIMIT_STORAGE_URI=nowhere))
    assert site.invoke("common", {}).status_code == 500
    site.app.config["RATELIMIT_SWALLOW_ERRORS"] = True
    assert site.invoke("common", {}).status_code == 200


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    with running_redis(tmp_path) as server:
        yield server


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Let a server accept connections, and answer nothing."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_counts_in_a_redis_that_hangs_hold_no_call(redis: Server, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(rpc, create_app(RATELIMIT_STORAGE_URI=redis_url(redis)))
    batch = [asking("common", id=number) for number in range(100)]
    assert site.invoke("common", {}).status_code == 200

    def codes() -> set[int | None]:
        return {reply.get("error", {}).get("code") for reply in site.rpc_post(batch).get_json()}

    with ThreadPoolExecutor(1) as pool, stopped(redis):
        assert pool.submit(codes).result(PATIENCE) == {-32603}
        assert "the storage has not answered within 2 seconds" in caplog.text
        site.app.config["RATELIMIT_SWALLOW_ERRORS"] = True
        assert pool.submit(codes).result(PATIENCE) == {None}
    wait_until(lambda: codes() == {None, -32005}, "calls are counted again")


def test_two_workers_share_one_limit_in_redis(redis: Server, tmp_path: Path) -> None:
    env = {**os.environ, "LIMITED_RATELIMIT_STORAGE_URI": redis_url(redis)}
    with gunicorn("tests.apps.limited_app:create_app()", tmp_path, env=env) as server, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: server.invoke("rare", {}, basic("writer")).status, range(16)))
    assert Counter(replies) == {200: 6, 429: 10}


def test_counts_of_blueprints_and_of_methods_are_kept_apart(site: Site) -> None:
    for _ in range(20):
        site.invoke("common", {})
    other = McpBlueprint("other", url_prefix="/other", limiter=limiter, rate_limit="20/hour")
    other.add_method("caller", mcp_tool(lambda: 1), rate_limit="20/hour")
    site.app = create_app(RATELIMIT_STORAGE_URI="memory://")
    site.app.register_blueprint(other)
    body = {"name": "caller", "arguments": {}}
    statuses = [site.app.test_client().post("/other/mcp/tools/invoke", json=body).status_code for _ in range(20)]
    assert statuses == [200] * 20


def test_unknown_tools_count_on_mcp_too(site: Site) -> None:
    client = client_of("2026-07-28", site.client, headers=basic("writer"))
    for _ in range(20):
        client.call("absent")
    assert client.call("absent").get_json()["result"]["isError"] is True


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(("confirm", "first"), [(None, "first"), ("Really?", "first"), (None, "confirm")])
def test_a_call_that_asks_counts_once(confirm: str | None, first: str, version: str) -> None:
    """However often it runs again with an answer: limited to one call, it could else never end."""
    limiter = Limiter(lambda: "anyone", storage_uri="memory://")
    rpc = McpBlueprint(limiter=limiter)

    @rpc.method("ask", rate_limit="1/hour")
    @mcp_tool(confirm=confirm)
    def ask() -> str:
        names = [current_call.elicit(key, {"name": str}, key=key).content["name"] for key in (first, "last")]
        return " ".join(names)

    app = make_app(rpc, SECRET_KEY="key")
    limiter.init_app(app)
    confirming = [accept()] if confirm else []

    def call() -> Any:
        client = client_of(version, app.test_client(), capabilities=EVERYTHING)
        # The first answer to the last question does not fit.
        answers = [*confirming, accept(name="Ada"), accept(name=7), accept(name="Lovelace")]
        return Respondent(client, answers).call("ask")

    assert call() == "Ada Lovelace"
    assert call().startswith("Too many calls")


def test_an_answer_that_is_sent_again_runs_nothing() -> None:
    limiter, runs = Limiter(lambda: "anyone", storage_uri="memory://"), []
    rpc = McpBlueprint(limiter=limiter)

    @rpc.method("ask", rate_limit="1/hour")
    @mcp_tool
    def ask() -> None:
        runs.append("began")
        current_call.elicit("Sure?")
        runs.append("ended")

    app = make_app(rpc, SECRET_KEY="key")
    limiter.init_app(app)
    client = ModernClient(app.test_client(), capabilities=EVERYTHING)
    state = questions_of(client, "ask")["requestState"]
    again = {"name": "ask", "arguments": {}, "requestState": state, "inputResponses": {"question-1": accept()}}
    statuses = [client.post("tools/call", again).status_code for _ in range(50)]
    assert (statuses, runs) == ([200] + [400] * 49, ["began", "began", "ended"])
    forged = {"name": "ask", "arguments": {}, "inputResponses": {"question-1": accept()}}
    assert "Too many calls" in result(client.post("tools/call", forged))["content"][0]["text"]
