"""``GET /mcp/health``: for probes, which have no credentials and must learn nothing but the state."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.http import health
from flask_jsonrpc_mcp.oauth import OAuthResource
from tests.conftest import Site, make_auth
from tests.support.issuer import issuing
from tests.support.servers import free_port


@pytest.fixture
def each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check with each request."""
    monkeypatch.setattr(health, "CHECK_EVERY", 0.0)


def ready(site: Site) -> tuple[int, str, dict[str, bool]]:
    """The status of the response, and the states in it. Ages are numbers, or null if it was never reached."""
    response = site.client.get("/mcp/health?ready")
    body = response.get_json()
    assert set(body) == {"status", "checks"}
    for check in body["checks"].values():
        assert set(check) == {"ok", "age"}
        assert check["age"] is None or 0 <= check["age"] < 60
    return response.status_code, body["status"], {name: check["ok"] for name, check in body["checks"].items()}


def test_an_app_that_answers_is_alive_whatever_it_needs() -> None:
    """Also where everyone has to sign in, and under the address or the name that a probe uses."""
    rpc = McpBlueprint(auth=make_auth(), require_auth=True)
    redis = f"redis://127.0.0.1:{free_port()}/0"
    site = Site(rpc, JSONRPC_MCP_MAILBOX=redis, JSONRPC_MCP_ALLOWED_HOSTS=["site.example"])
    response = site.client.get("/mcp/health", headers={"Host": "10.1.2.3:8000"})
    assert (response.status_code, response.get_json()) == (200, {"status": "ok"})
    assert response.headers["Cache-Control"] == "no-store"
    assert site.client.head("/mcp/health").status_code == 200
    assert site.client.post("/mcp/health").status_code == 405
    assert site.client.get("/mcp/tools/list", headers={"Host": "10.1.2.3:8000"}).status_code == 403


def test_an_app_is_ready_if_its_mailbox_is_there(site: Site) -> None:
    assert ready(site) == (200, "ok", {"mailbox": True})


@pytest.mark.usefixtures("each_time")
def test_an_app_whose_redis_is_away_is_not_ready_and_does_not_say_where_it_should_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    site = Site(McpBlueprint(), JSONRPC_MCP_MAILBOX=f"redis://127.0.0.1:{port}/0")
    with caplog.at_level(logging.WARNING):
        assert ready(site) == (503, "unavailable", {"mailbox": False})
    text = site.client.get("/mcp/health?ready").text
    assert "127.0.0.1" not in text
    assert str(port) not in text
    assert str(port) in caplog.text
    assert {record.__dict__["check"] for record in caplog.records if "check" in record.__dict__} == {"mailbox"}


@pytest.mark.usefixtures("each_time")
def test_a_mailbox_that_goes_and_comes_back_is_not_ready_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "mailbox"
    site = Site(McpBlueprint(), JSONRPC_MCP_MAILBOX=str(folder))
    assert ready(site) == (200, "ok", {"mailbox": True})
    folder.chmod(0o755)  # then others could read it
    response = site.client.get("/mcp/health?ready")
    assert (response.status_code, response.get_json()["checks"]["mailbox"]["ok"]) == (503, False)
    assert response.get_json()["checks"]["mailbox"]["age"] is not None, "how long ago it was reached"
    folder.chmod(0o700)
    deadline = time.monotonic() + 30
    while ready(site)[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.05)  # the mailbox is not used for a second after a failure
    assert ready(site) == (200, "ok", {"mailbox": True})


@pytest.mark.usefixtures("each_time")
def test_the_storage_of_the_rate_limits_is_checked() -> None:
    for storage, is_ready in (("memory://", True), (f"redis://127.0.0.1:{free_port()}", False)):
        limiter = Limiter(get_remote_address, storage_uri=storage)
        site = Site(McpBlueprint(limiter=limiter))
        limiter.init_app(site.app)
        assert ready(site)[2] == {"mailbox": True, "rate_limits": is_ready}


@pytest.mark.usefixtures("each_time")
def test_the_keys_of_the_authorization_server_must_be_known_and_may_be_some_minutes_old() -> None:
    with issuing() as issuer:
        rpc = McpBlueprint(auth=OAuthResource(issuer.url))
        site = Site(rpc, JSONRPC_MCP_PUBLIC_URL="https://site.example")
        assert ready(site) == (200, "ok", {"mailbox": True, "authorization_server": True})
        requests = issuer.count()
        assert ready(site)[0] == 200
        assert issuer.count() == requests == 1
    assert ready(site)[0] == 200
    away = Site(McpBlueprint(auth=OAuthResource(issuer.url)), JSONRPC_MCP_PUBLIC_URL="https://site.example")
    assert ready(away) == (503, "unavailable", {"mailbox": True, "authorization_server": False})
    assert issuer.url not in away.client.get("/mcp/health?ready").text


@pytest.mark.usefixtures("each_time")
def test_an_introspection_endpoint_is_checked_too() -> None:
    def site_of(issuer: Any) -> Site:
        oauth = OAuthResource(issuer.url, introspection=("client", "secret"))
        return Site(McpBlueprint(auth=oauth), JSONRPC_MCP_PUBLIC_URL="https://site.example")

    with issuing() as issuer:
        assert ready(site_of(issuer))[2]["authorization_server"] is True
    assert ready(site_of(issuer))[2]["authorization_server"] is False


def test_many_probes_are_one_check(site: Site) -> None:
    checked: list[None] = []
    site.rpc._registry.readiness["tasks"] = lambda: checked.append(None)
    for _ in range(20):
        assert ready(site)[0] == 200
    assert len(checked) == 1
