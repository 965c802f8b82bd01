"""Tasks of callers with access tokens: what a token may read, and whether a worker still runs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, session

from flask_jsonrpc_mcp import McpBlueprint, current_call
from flask_jsonrpc_mcp.mcp import tasks_extension
from flask_jsonrpc_mcp.oauth import OAuthServer
from flask_jsonrpc_mcp.tasks import run, running, tasks_of
from tests.mcp.test_subscriptions import Listening, acknowledged
from tests.oauth_server import conftest as oauth_server
from tests.support.mcp_messages import error
from tests.support.tokens import bearer
from tests.support.waiting import until
from tests.tasks.conftest import CAPABILITIES, TaskClient
from tests.telemetry.test_audit import Kept

READ, WRITE = "articles:read", "articles:write"


class User(dict[str, Any]):
    """An account, as Flask-Login has them."""

    is_active = True


class Site(oauth_server.Site):
    """A site that is its own authorization server, with tools for tasks. The test is the worker.

    :param loaded: The accounts for workers.
    """

    def __init__(self, folder: Path) -> None:
        self.users, self.loaded = {"ada": User(id="ada")}, {"ada": User(id="ada")}
        self.oauth = OAuthServer(scopes=oauth_server.SCOPES, grants=oauth_server.file_grants(folder))
        self.oauth.signed_in(lambda: session.get("user"))
        self.oauth.user_loader(self.users.get)
        self.audit = Kept()
        self.rpc = McpBlueprint(auth=self.oauth.resource, audit=self.audit)
        self.rpc.user_loader(self.loaded.get)
        self.exported: list[str] = []
        self.rpc.tool("export", scopes=[WRITE], task=True)(self._export)
        self.rpc.tool("count", task=True)(lambda: 3)
        self.app = Flask("site")
        self.app.config.update(
            SECRET_KEY=oauth_server.KEY,
            JSONRPC_MCP_PUBLIC_URL=oauth_server.PUBLIC_URL,
            JSONRPC_MCP_TASKS_DATABASE=f"sqlite:///{folder}/tasks.db",
            JSONRPC_MCP_TASK_THREADS=0,
            JSONRPC_MCP_PAGE_SIZE=2,
            JSONRPC_MCP_SUBSCRIPTIONS=True,
            JSONRPC_MCP_MAILBOX=folder / "mail",
        )
        self.app.register_blueprint(self.oauth)
        self.app.register_blueprint(self.rpc)
        self.app.add_url_rule("/login", "login", lambda: "log in here")
        self.browser = self.app.test_client()
        self.http = self.client = self.app.test_client(use_cookies=False)

    def _export(self, drafts: bool = False) -> str:
        if drafts and not current_call.elicit("Export drafts?", {"yes": bool}, key="sure").accepted:
            return "nothing"
        self.exported.append(current_call.caller.name)
        return "all articles"

    def headers(self, scope: str) -> dict[str, str]:
        """Sign in as ada, and return the headers of the client."""
        return bearer(self.sign_in(scope=scope)["access_token"])

    def work(self, task_id: str) -> None:
        with self.app.app_context():
            run(task_id)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(running, "TICK", 0.02)
    monkeypatch.setattr(running, "IDLE_FOR", 0.0)
    site = Site(tmp_path)
    yield site
    until(lambda: all(thread.name != "mcp-task-keeper" for thread in threading.enumerate()))
    tasks_of(site.app).records.close()


@pytest.fixture
def broad(site: Site) -> TaskClient:
    return TaskClient(site.http, site.headers(f"{READ} {WRITE}"))


@pytest.fixture
def narrow(site: Site) -> TaskClient:
    return TaskClient(site.http, site.headers(READ))


def test_a_token_without_the_scopes_of_a_task_cannot_see_it(site: Site, broad: TaskClient, narrow: TaskClient) -> None:
    task_id = broad.start("export", drafts=True)
    site.work(task_id)
    assert broad.get(task_id)["status"] == "input_required"
    sure = {"sure": {"action": "accept", "content": {"yes": True}}}
    url = f"/mcp/tasks/{task_id}"
    assert error(narrow.task("get", task_id)) == error(narrow.task("get", "no such task"))
    assert error(narrow.task("update", task_id, inputResponses=sure)) == error(narrow.task("get", "no such task"))
    assert error(narrow.task("cancel", task_id)) == error(narrow.task("get", "no such task"))
    for method in ("GET", "DELETE"):
        assert site.http.open(url, method=method, headers=narrow.headers).status_code == 404
    assert broad.get(task_id)["status"] == "input_required"
    broad.answer(task_id, **sure)
    site.work(task_id)
    assert (broad.get(task_id)["status"], site.exported) == ("completed", ["ada"])


def test_a_token_with_more_scopes_sees_the_tasks_of_one_with_less(broad: TaskClient, narrow: TaskClient) -> None:
    task_id = narrow.start("count")
    assert broad.get(task_id)["status"] == narrow.get(task_id)["status"] == "working"


def test_a_list_has_the_tasks_that_the_scopes_allow(site: Site, broad: TaskClient, narrow: TaskClient) -> None:
    visible = [narrow.start("count")]
    hidden = [broad.start("export") for _ in range(3)]
    visible.append(narrow.start("count"))

    def listed(client: TaskClient) -> list[str]:
        ids, cursor = [], ""
        while cursor is not None:
            page = site.http.get("/mcp/tasks" + cursor, headers=client.headers).get_json()
            ids += [each["id"] for each in page["tasks"]]
            cursor = page["nextCursor"] and f"?cursor={page['nextCursor']}"
        return ids

    assert sorted(listed(narrow)) == sorted(visible)
    assert sorted(listed(broad)) == sorted(visible + hidden)


def test_a_token_listens_to_tasks_that_its_scopes_allow(
    site: Site, broad: TaskClient, narrow: TaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_extension, "LOOK_EVERY", 0.02)
    ids = [broad.start("export"), narrow.start("count")]
    with Listening(site, {"taskIds": ids}, headers=narrow.headers, capabilities=CAPABILITIES) as stream:  # type: ignore[arg-type]
        assert stream.next() == acknowledged({"taskIds": ids[1:]})


def test_a_worker_runs_nothing_for_a_grant_that_was_revoked(site: Site, broad: TaskClient) -> None:
    task_id = broad.start("export")
    with site.app.app_context():
        site.oauth.revoke_user("ada")
    site.work(task_id)
    assert site.exported == []
    again = TaskClient(site.http, site.headers(f"{READ} {WRITE}"))
    ended = again.get(task_id)
    assert (ended["status"], ended["error"]) == ("failed", {"code": -32602, "message": "Unknown tool: export"})
    task_id = again.start("export")
    site.work(task_id)
    assert (again.get(task_id)["status"], site.exported) == ("completed", ["ada"])


@pytest.mark.parametrize("accounts", ["users", "loaded"])
def test_a_worker_runs_nothing_for_an_account_that_was_closed(site: Site, broad: TaskClient, accounts: str) -> None:
    task_id = broad.start("export")
    getattr(site, accounts)["ada"].is_active = False
    site.work(task_id)
    assert (site.exported, tasks_of(site.app).records.get(task_id).state) == ([], "failed")  # type: ignore[union-attr]


def test_nothing_of_an_access_token_is_stored(site: Site, broad: TaskClient) -> None:
    stored = repr(tasks_of(site.app).records.get(broad.start("export")))
    token = broad.headers["Authorization"].removeprefix("Bearer ")
    assert not [part for part in (token, *token.split(".")) if part in stored]


def test_the_audit_of_a_run_in_a_worker_has_the_client_of_the_token(site: Site) -> None:
    client_id = site.client_id(client_name="Exporter")
    token = site.sign_in(scope=WRITE, client_id=client_id)["access_token"]
    site.work(TaskClient(site.http, bearer(token)).start("export"))
    record = site.audit.take()
    assert (record["tool"], record["caller"], record["client_id"]) == ("export", "ada", client_id)
