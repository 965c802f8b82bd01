"""MCP before 2026-07-28: the handshake, and sessions without a session store."""

from __future__ import annotations

import time
from typing import Any

import pytest
from flask import Flask
from flask_httpauth import HTTPTokenAuth, MultiAuth
from itsdangerous import TimestampSigner

from flask_jsonrpc_mcp import (
    McpBlueprint,
)
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS, signer
from tests.conftest import Site, asking, basic, make_auth
from tests.support.mcp_messages import (
    LegacyClient,
    error,
    result,
)


@pytest.mark.parametrize("version", LEGACY)
def test_the_handshake(shop: Site, version: str) -> None:
    client = LegacyClient(shop.client, version)
    assert result(client.initialize()) == {
        "protocolVersion": version,
        "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "shop", "version": "2.1"},
    }
    assert client.session is not None
    assert client.session.isascii()
    assert client.session.isprintable()
    heard = client.send(asking("notifications/initialized", id=...))
    assert (heard.status_code, heard.data) == (202, b"")
    assert result(client.post("ping")) == {}


@pytest.mark.parametrize("wanted", ["2099-01-01", "1999-01-01", "x", MODERN])
def test_an_unknown_version_gets_our_newest_of_that_era(shop: Site, wanted: str) -> None:
    assert result(LegacyClient(shop.client, wanted).initialize())["protocolVersion"] == LEGACY[0]


@pytest.mark.parametrize("params", [{}, {"protocolVersion": 1}, {"protocolVersion": LEGACY[0]}, []])
def test_a_handshake_that_says_too_little(shop: Site, params: Any) -> None:
    response = shop.client.post("/mcp", json=asking("initialize", params))
    assert error(response)[:2] == (200, -32602)
    assert "Mcp-Session-Id" not in response.headers


def test_a_handshake_needs_an_answer(shop: Site) -> None:
    assert shop.client.post("/mcp", json=asking("initialize", {}, id=...)).status_code == 400


def test_without_a_session_nothing_runs(shop: Site) -> None:
    client = LegacyClient(shop.client, session="unsigned")
    client.session = None
    for payload in (asking("tools/list"), asking("ping"), asking("notifications/initialized", id=...)):
        response = client.send(payload)
        assert response.status_code == 400
        assert "initialize" in response.get_json()["error"]["message"]


def test_an_altered_session_is_not_found(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    token = str(client.session)
    for position in range(0, len(token), 7):
        other = "A" if token[position] != "A" else "B"
        client.session = token[:position] + other + token[position + 1 :]
        assert client.send(asking("ping")).status_code == 404
    for altered in (token[:-1], token + "A", "x", ""):
        client.session = altered
        assert client.send(asking("ping")).status_code == 404
    client.session = token
    assert client.send(asking("ping")).status_code == 200


def test_an_expired_session_is_not_found(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    assert client.send(asking("ping")).status_code == 200
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: 4_000_000_000)
    assert client.send(asking("ping")).status_code == 404


def test_a_session_of_another_release_is_not_found(shop: Site) -> None:
    client = LegacyClient(shop.client, session=signer(shop.app, "flask-jsonrpc-mcp.session").dumps(["2025-11-25"]))
    assert client.send(asking("ping")).status_code == 404


@pytest.mark.parametrize(("ahead", "status"), [(50, 200), (120, 404)])
def test_the_clocks_of_two_machines_may_differ_by_a_minute(
    shop: Site, ahead: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, now = LegacyClient(shop.client), int(time.time())
    with monkeypatch.context() as other_machine:
        other_machine.setattr(TimestampSigner, "get_timestamp", lambda self: now + ahead)
        client.initialize()
    assert client.send(asking("ping")).status_code == status


def test_a_session_belongs_to_its_caller() -> None:
    """Also: signed in against anonymous, and the same name by another scheme."""
    tokens = HTTPTokenAuth("Bearer")
    tokens.verify_token(lambda token: token)
    site = Site(McpBlueprint(auth=MultiAuth(make_auth(), tokens)), SECRET_KEY="key")
    callers = [{}, basic("reader"), basic("writer"), {"Authorization": "Bearer reader"}]
    for owner in callers:
        client = LegacyClient(site.client, headers=dict(owner))
        client.initialize()
        for caller in callers:
            client.headers = dict(caller)
            assert client.send(asking("ping")).status_code == (200 if caller == owner else 404)


def test_a_session_belongs_to_its_blueprint() -> None:
    app = Flask("site")
    app.secret_key = "key"
    rpc = McpBlueprint()
    app.register_blueprint(rpc, url_prefix="/a")
    app.register_blueprint(rpc, name="b", url_prefix="/b")
    params = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    token = app.test_client().post("/a/mcp", json=asking("initialize", params)).headers["Mcp-Session-Id"]
    statuses = [
        app.test_client().post(f"/{name}/mcp", json=asking("ping"), headers={"Mcp-Session-Id": token}).status_code
        for name in ("a", "b")
    ]
    assert statuses == [200, 404]


def test_the_key_of_an_app_need_not_be_a_setting() -> None:
    """Flask's own sessions take it too."""

    class App(Flask):
        secret_key = "key"

    app = App("site")
    app.register_blueprint(McpBlueprint())
    params = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    assert "Mcp-Session-Id" in app.test_client().post("/mcp", json=asking("initialize", params)).headers


def test_a_server_without_a_name_has_that_of_its_app(shop: Site) -> None:
    shop.app.config["JSONRPC_MCP_SERVER_NAME"] = None
    welcomed = LegacyClient(shop.client).initialize().get_json()["result"]
    assert welcomed["serverInfo"]["name"] == shop.app.name


def test_a_session_outlives_a_change_of_the_key(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    shop.app.config.update(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["key"])
    assert client.send(asking("ping")).status_code == 200
    shop.app.config.update(SECRET_KEY_FALLBACKS=[])
    assert client.send(asking("ping")).status_code == 404


def test_a_clients_capabilities_cannot_make_a_session_long(shop: Site) -> None:
    client = LegacyClient(shop.client, capabilities={"sampling": {"x": "y" * 10_000}, "z" * 10_000: {}})
    client.initialize()
    assert len(str(client.session)) < 400


def test_without_a_secret_key_there_are_no_sessions(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(McpBlueprint())
    site.tool(lambda: [1], name="one")
    client = LegacyClient(site.client)
    assert result(client.initialize())["protocolVersion"] == LEGACY[0]
    assert client.session is None
    assert result(client.send(asking("tools/call", {"name": "one"})))["structuredContent"] == {"result": [1]}
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "SECRET_KEY" in warnings[0]


@pytest.mark.parametrize("version", LEGACY)
def test_batches_only_where_the_version_had_them(shop: Site, version: str) -> None:
    client = LegacyClient(shop.client, version)
    client.initialize()
    batch = [asking("ping", id=1), asking("notifications/initialized", id=...), asking("nope", id="b"), 5]
    response = client.send(batch)
    if version != "2025-03-26":
        assert error(response)[:2] == (400, -32600)
        return
    replies = response.get_json()
    assert [(reply.get("id"), reply.get("error", {}).get("code")) for reply in replies] == [
        (1, None),
        ("b", -32601),
        (None, -32600),
    ]
    assert client.send([asking("notifications/initialized", id=...)]).status_code == 202
    assert client.send([]).status_code == 400
    assert client.send([asking("ping")] * 101).status_code == 400


def test_a_header_with_an_unknown_version_is_told_the_known_ones(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    response = client.send(asking("ping"), **{"MCP-Protocol-Version": "2099-01-01"})
    assert error(response)[:2] == (400, -32022)
    assert response.get_json()["error"]["data"]["supported"] == list(VERSIONS)


def test_an_answer_of_the_client_is_heard(shop: Site) -> None:
    client = LegacyClient(shop.client)
    client.initialize()
    assert client.send({"jsonrpc": "2.0", "id": 5, "result": {}}).status_code == 202


def test_two_kinds_of_tokens_are_two_callers() -> None:
    class User:
        id = 1

    bearer, keyed = HTTPTokenAuth("Bearer"), HTTPTokenAuth(header="X-API-Key")
    for auth in (bearer, keyed):
        auth.verify_token(lambda token: User())
    site = Site(McpBlueprint(auth=MultiAuth(bearer, keyed)), SECRET_KEY="key")
    client = LegacyClient(site.client, headers={"Authorization": "Bearer x"})
    client.initialize()
    assert client.send(asking("ping")).status_code == 200
    client.headers = {"X-API-Key": "x"}
    assert client.send(asking("ping")).status_code == 404
