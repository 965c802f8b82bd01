"""The sample site: what its callers see and do, in process and under gunicorn with its own configuration."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonrpclib
import pytest
from flask import Flask
from sqlalchemy import select, update
from werkzeug.security import check_password_hash

from sample_app import create_app
from sample_app.db import current_engine, transaction
from sample_app.models import Article, User, digest_of
from sample_app.rpc import rpc
from sample_app.seed import seed, warn_about_demo_users
from tests.conftest import Site, asking, basic
from tests.http.test_openrpc import check
from tests.support.servers import ROOT, Server, gunicorn

PUBLIC = {
    "articles.list",
    "articles.get",
    "articles.search",
    "articles.to_markdown",
    "articles.export",
    "articles.report",
    "articles.word_counts",
    "content_types.list",
    "site.health",
}
FOR_EDITORS = {"articles.create", "articles.import", "articles.update"}
FOR_ADMINS = {"articles.delete", "content_types.create", "cache.rebuild"}

ADMIN, EDITOR = basic("admin"), basic("editor")


@contextmanager
def new_site(folder: Path, **settings: Any) -> Iterator[Flask]:
    """Make a site with a database of its own, and close the database in the end."""
    app = create_app({"DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}", "SECRET_KEY": "key" * 16, **settings})
    assert seed(app) is True
    yield app
    with app.app_context():
        current_engine().dispose()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    with new_site(tmp_path, TESTING=True) as app:
        yield app


@pytest.fixture
def garden(app: Flask) -> Site:
    return Site(rpc, app)


def result(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.get_json()["result"]


def test_anonymous_callers_editors_and_admins_see_different_tools(garden: Site) -> None:
    assert set(garden.names()) == PUBLIC
    assert set(garden.names(headers=EDITOR)) == PUBLIC | FOR_EDITORS
    assert set(garden.names(headers=ADMIN)) == PUBLIC | FOR_EDITORS | FOR_ADMINS


def test_every_tool_is_described_for_people_and_models(garden: Site) -> None:
    for tool in garden.list_tools(headers=ADMIN).get_json()["tools"]:
        assert tool["title"]
        assert tool["description"].endswith(".")
        assert "outputSchema" in tool
        assert tool["annotations"]


def test_the_start_page_has_the_demo_users_and_leads_to_everything(garden: Site) -> None:
    page = garden.client.get("/")
    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")
    assert "demo-editor-token" in page.text
    links = re.findall(r'href="(/[^"]*)"', page.text)
    assert links == ["/static/start.css", "/mcp/explorer", "/mcp/tools/list"]
    for link in links:
        with garden.client.get(link) as linked:
            assert linked.status_code == 200


def test_the_start_page_of_a_site_for_others_has_no_demo_users(tmp_path: Path) -> None:
    with new_site(tmp_path) as app:
        text = app.test_client().get("/").text
    assert "Demo users" not in text
    assert "demo-" not in text
    assert "claude mcp add --transport http garden http://localhost/mcp</pre>" in text


def test_an_article_from_its_creation_to_its_end(garden: Site) -> None:
    created = result(garden.invoke("articles.create", {"title": "Bees", "body": "They are back."}, headers=EDITOR))
    assert (created["author"], created["type"], created["word_count"]) == ("editor", "news", 3)
    change = {"id": created["id"], "body": "They have left again."}
    assert result(garden.invoke("articles.update", change, headers=EDITOR))["word_count"] == 4
    assert result(garden.invoke("articles.get", {"id": created["id"]}))["title"] == "Bees"
    assert "# Bees" in result(garden.invoke("articles.to_markdown", {"id": created["id"]}))
    [match] = result(garden.invoke("articles.search", {"query": "left again"}))["matches"]
    assert match["id"] == created["id"]
    assert garden.invoke("articles.delete", {"id": created["id"]}, headers=EDITOR).status_code == 404
    assert result(garden.invoke("articles.delete", {"id": created["id"]}, headers=ADMIN)) is True
    gone = garden.invoke("articles.get", {"id": created["id"]})
    assert gone.get_json() == {"error": {"code": "not_found", "message": f"Article {created['id']} does not exist"}}


def test_articles_come_in_pages(garden: Site) -> None:
    seen, offset = [], 0
    while offset is not None:
        page = result(garden.invoke("articles.list", {"limit": 5, "offset": offset}))
        seen += [article["id"] for article in page["items"]]
        offset = page["next_offset"]
    assert len(seen) == len(set(seen)) == page["total"] >= 12
    [only] = {article["type"] for article in result(garden.invoke("articles.list", {"type": "recipe"}))["items"]}
    assert only == "recipe"


def test_async_and_generator_methods(garden: Site) -> None:
    assert result(garden.invoke("site.health", {}))["status"] == "ok"
    assert {row["type"] for row in result(garden.invoke("articles.word_counts", {}))} == {"news", "guide", "recipe"}
    assert result(garden.invoke("articles.export", {"type": "guide"})).count("\n# ") >= 1


def test_cache_rebuild_repairs_what_went_wrong(garden: Site) -> None:
    with garden.app.app_context(), transaction() as session:
        session.execute(update(Article).values(word_count=0))
    assert sum(row["words"] for row in result(garden.invoke("articles.word_counts", {}))) == 0
    assert result(garden.invoke("cache.rebuild", {}, headers=ADMIN)) is True
    assert sum(row["words"] for row in result(garden.invoke("articles.word_counts", {}))) > 100


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("articles.create", {"title": "x", "type": "poem"}, 404),
        ("content_types.create", {"name": "news", "label": "News"}, 409),
        ("articles.get", {"id": 999}, 404),
    ],
)
def test_expected_failures_say_what_is_wrong(garden: Site, name: str, arguments: Any, status: int) -> None:
    response = garden.invoke(name, arguments, headers=ADMIN)
    assert response.status_code == status
    assert "exist" in response.get_json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("articles.create", {"title": ""}),
        ("articles.create", {"title": "two\nlines"}),
        ("articles.create", {"title": "x", "body": "\0"}),
        ("articles.get", {"id": 10**12}),
        ("articles.search", {"query": "x"}),
        ("content_types.create", {"name": "Not A Name", "label": "x"}),
    ],
)
def test_values_no_database_could_hold_are_the_callers_mistake(garden: Site, name: str, arguments: Any) -> None:
    assert garden.invoke(name, arguments, headers=ADMIN).status_code == 400


def test_bearer_tokens(garden: Site) -> None:
    token = {"Authorization": "Bearer demo-editor-token"}
    assert set(garden.names(headers=token)) == PUBLIC | FOR_EDITORS
    response = garden.list_tools(headers={"Authorization": "Bearer wrong"})
    assert response.status_code == 401
    assert len(response.headers.getlist("WWW-Authenticate")) == 2


def test_an_unknown_user_and_a_wrong_password_cost_the_same_work(garden: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def count(password_hash: str, password: str) -> bool:
        checked.append(password_hash.split("$")[0])
        return check_password_hash(password_hash, password)

    monkeypatch.setattr("sample_app.auth.check_password", count)
    unknown = garden.list_tools(headers=basic("nobody", "x"))
    wrong = garden.list_tools(headers=basic("admin", "x"))
    assert unknown.status_code == wrong.status_code == 401
    assert unknown.data == wrong.data
    assert checked == [checked[0]] * 2


def test_a_site_is_seeded_once(app: Flask) -> None:
    assert seed(app) is False


TOKEN = {"Authorization": "Bearer demo-admin-token"}


@pytest.mark.parametrize("headers", [ADMIN, TOKEN], ids=["password", "token"])
def test_demo_users_cannot_sign_in_outside_development(
    headers: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with new_site(tmp_path) as app:
        for _ in range(2):
            assert app.test_client().get("/mcp/tools/list", headers=headers).status_code == 401
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith("demo user 'admin' was refused")
    assert "FLASK_ALLOW_DEMO_USERS=true" in warning


@pytest.mark.parametrize(("allowed", "status"), [(True, 200), (False, 401), ("no", 401), ("false", 401)])
def test_a_setting_lets_demo_users_in(allowed: Any, status: int, tmp_path: Path, caplog: Any) -> None:
    with new_site(tmp_path, ALLOW_DEMO_USERS=allowed) as app:
        warn_about_demo_users(app)
        warned = "SECURITY: ALLOW_DEMO_USERS is set" in caplog.text
        for headers in (ADMIN, TOKEN):
            assert app.test_client().get("/mcp/tools/list", headers=headers).status_code == status
    assert warned is (status == 200)


def test_a_demo_user_with_secrets_of_its_own_can_sign_in(tmp_path: Path) -> None:
    with new_site(tmp_path) as app:
        with app.app_context(), transaction() as session:
            user = session.scalars(select(User).where(User.username == "admin")).one()
            user.set_password("correct horse")
            user.token_digest = digest_of("a-long-random-token")
        for headers in (basic("admin", "correct horse"), {"Authorization": "Bearer a-long-random-token"}):
            assert app.test_client().get("/mcp/tools/list", headers=headers).status_code == 200
        assert app.test_client().get("/mcp/tools/list", headers=ADMIN).status_code == 401


def modes_in(folder: Path) -> dict[str, str]:
    return {file.name: oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_the_database_is_for_its_user_alone(tmp_path: Path) -> None:
    private = dict.fromkeys(["site.sqlite3", "site.sqlite3-shm", "site.sqlite3-wal"], "0o600")
    with new_site(tmp_path, TESTING=True) as app:
        assert modes_in(tmp_path) == private
        for file in tmp_path.iterdir():
            file.chmod(0o666)
        again = create_app({"DATABASE_URL": app.config["DATABASE_URL"], "SECRET_KEY": "key" * 16, "TESTING": True})
        assert Site(rpc, again).invoke("articles.create", {"title": "Hello"}, headers=ADMIN).status_code == 200
        assert modes_in(tmp_path) == private
        with again.app_context():
            current_engine().dispose()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("site")
    env = {"DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}", "SECRET_KEY": "key" * 16, "SITE_ENV": "development"}
    with gunicorn("wsgi:app", folder, "--config", "sample_app/gunicorn_conf.py", env=env) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "data", "headers", "status", "code"),
    [
        ("/mcp/tools/list", None, ADMIN, 200, None),
        ("/mcp/tools/describe?name=articles.create", None, ADMIN, 200, None),
        ("/mcp/tools/invoke", {"name": "cache.rebuild", "arguments": {}}, ADMIN, 200, None),
        ("/mcp/tools/invoke", {"name": "nope", "arguments": {}}, ADMIN, 404, "tool_not_found"),
        ("/mcp/tools/invoke", {"arguments": {}}, ADMIN, 400, "missing_parameter"),
        ("/mcp/tools/invoke", {"name": "cache.rebuild"}, ADMIN, 400, "missing_parameter"),
        ("/mcp/tools/invoke", {"name": "articles.get", "arguments": {"id": 999}}, ADMIN, 404, "not_found"),
        ("/mcp/tools/list", None, basic("admin", "wrong"), 401, "unauthorized"),
        ("/mcp/tools/list?cursor=!!!", None, ADMIN, 400, "invalid_cursor"),
        ("/mcp/tools/list?cursor=NTA", None, ADMIN, 200, None),
        ("/mcp/tools/list?cursor=NTA=", None, ADMIN, 200, None),
    ],
)
def test_under_gunicorn(
    server: Server, path: str, data: Any, headers: dict[str, str], status: int, code: str | None
) -> None:
    reply = server.request(path, data=data, headers=headers)
    assert reply.status == status
    assert reply.json().get("error", {}).get("code") == code
    assert ("WWW-Authenticate" in reply.headers) == (status == 401)


def test_a_json_rpc_client_from_pypi(server: Server) -> None:
    """jsonrpclib-pelix, which labels its bodies as application/json-rpc."""
    with jsonrpclib.ServerProxy(f"http://editor:editor@127.0.0.1:{server.port}/jsonrpc") as site:
        assert site.articles.list(limit=2)["total"] >= 12
        assert site.articles.to_markdown(1).startswith("# ")
        assert site.site.version() == "1.0.0"
        batch = jsonrpclib.MultiCall(site)
        batch.articles.get(1)
        batch.content_types.list()
        article, types = batch()
        assert (article["id"], len(types)) == (1, 3)
        with pytest.raises(jsonrpclib.ProtocolError) as caught:
            site.articles.get(999)
        assert caught.value.args[0][:2] == (-32000, "Article 999 does not exist")
        with pytest.raises(jsonrpclib.ProtocolError) as caught:
            site.cache.rebuild()
        assert caught.value.args[0][:2] == (-32601, "Method not found")


def test_the_openrpc_document(garden: Site) -> None:
    document = garden.rpc_post(asking("rpc.discover"), headers=ADMIN).get_json()["result"]
    check(document)
    names = {method["name"] for method in document["methods"]}
    assert names == PUBLIC | FOR_EDITORS | FOR_ADMINS | {"site.version"}


def test_gunicorn_says_where_the_site_is_and_what_to_try(server: Server) -> None:
    server.request("/mcp/tools/list")
    log = server.log.read_text()
    assert f"The sample site is at {server.url}" in log
    assert log.count("curl ") == 3


def test_in_production_gunicorn_shows_nothing_that_would_be_refused(tmp_path: Path) -> None:
    env = {"DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}", "SECRET_KEY": "key" * 16, "SITE_ENV": "production"}
    with gunicorn("wsgi:app", tmp_path, "--config", "sample_app/gunicorn_conf.py", env=env) as running:
        assert running.request("/mcp/tools/list", headers=ADMIN).status == 401
        [shown] = re.findall(r"curl -H .*\n.*", running.log.read_text())
        shown = subprocess.run(["bash", "-ec", shown], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown)["result"]["id"] == 1
    assert modes_in(tmp_path)["site.sqlite3"] == "0o600"


@pytest.mark.parametrize(("options", "env"), [([], "development"), (["HOST=0.0.0.0"], "production")])
def test_make_serve_is_development_only_on_this_machine(options: list[str], env: str) -> None:
    ran = subprocess.run(["make", "-n", "serve", *options], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"SITE_ENV='{env}'" in ran.stdout


def test_workers_write_at_the_same_time(server: Server) -> None:
    def create(number: int) -> int:
        token = {"Authorization": "Bearer demo-admin-token"}
        reply = server.invoke("articles.create", {"title": f"Article {number}"}, token)
        assert reply.status == 200
        return int(reply.json()["result"]["id"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(24)))) == 24
