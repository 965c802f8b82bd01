"""The doctor: every kind of problem it knows, found in an app that has it, and none where there is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth, MultiAuth
from werkzeug.middleware.profiler import ProfilerMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.doctor import Finding, examine, sign_in
from flask_jsonrpc_mcp.doctor.examining import SLUGS

from .conftest import make_app, make_auth
from .test_sample_app import new_site

GOOD = {"readOnlyHint": True}


@pytest.fixture(autouse=True)
def _somewhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The doctor reads the gunicorn.conf.py of the current folder and the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("GUNICORN_CMD_ARGS", "WEB_CONCURRENCY"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Tree:
    """A type that contains itself."""

    children: list[Tree]


def grow(tree: Tree) -> None:
    """Let a tree grow."""


def look() -> str:
    """Look at something."""
    return ""


def app_with(func: Any, *, auth: Any = None, mark: Any = None, config: Any = None, **options: Any) -> Flask:
    rpc = McpBlueprint(auth=auth)
    rpc.add_method(options.pop("name", None), mcp_tool(**(mark or {}))(func), **options)
    return make_app(rpc, **{"SECRET_KEY": "key", **(config or {})})


def slugs(app: Flask, **options: Any) -> list[str]:
    return [finding.slug for finding in examine(app, **options)]


def bad_app(folder: Path) -> Flask:
    """An app with one of everything."""
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> str | None:
        if username == "nobody":
            raise ConnectionError("no database")
        return username if username == password == "admin" else None

    rpc = McpBlueprint(auth=auth)
    rpc.add_method("trees.grow", mcp_tool(grow), timeout=5)
    rpc.add_method("n" * 65, mcp_tool(annotations=GOOD)(lambda: 1), description="A long name.")
    rpc.add_method("undescribed", mcp_tool(annotations=GOOD)(lambda: 1))
    rpc.add_method(
        "either", mcp_tool(annotations=GOOD)(lambda **either: 1), params={"oneOf": [{"required": ["a"]}, {}]}
    )
    rpc.add_method("wordy", mcp_tool(annotations=GOOD)(lambda: 1), description="word " * 2_000)
    rpc.add_method("drop_all", mcp_tool(annotations={**GOOD, "destructiveHint": True})(lambda: 1))
    rpc.add_method("articleUpdate", mcp_tool(annotations=GOOD)(lambda: 1))
    (folder / "gunicorn.conf.py").write_text("workers = 1")
    return make_app(rpc, JSONRPC_MCP_PAGE_SIZE=5, JSONRPC_MCP_GET_METHODS="all", SERVER_NAME="site.example")


def test_an_app_with_every_problem_gets_every_finding(tmp_path: Path) -> None:
    found = examine(bad_app(tmp_path))
    about = {(finding.slug, finding.tool) for finding in found}
    assert {slug for slug, _ in about} == set(SLUGS)
    assert about >= {
        ("name-dots", "trees.grow"),
        ("name-long", "n" * 65),
        ("no-description", "undescribed"),
        ("schema-ref", "trees.grow"),
        ("schema-not-plain", "either"),
        ("schema-huge", "wordy"),
        ("read-only-destructive", "drop_all"),
        ("read-only-name", "articleUpdate"),
        ("public-write", "trees.grow"),
        ("public-read", "wordy"),
        ("many-tools", None),
        ("known-password", None),
    }
    assert all(finding.severity in ("error", "warning") and finding.why and finding.fix for finding in found)


def test_a_good_app_has_no_findings() -> None:
    assert examine(app_with(look)) == []


def test_the_sample_site_has_no_findings(tmp_path: Path) -> None:
    with new_site(tmp_path) as app:
        assert examine(app) == []


def test_an_app_without_a_blueprint_cannot_be_examined() -> None:
    with pytest.raises(LookupError, match="no McpBlueprint"):
        examine(Flask("site"))


def test_a_finding_says_what_it_is_about(tmp_path: Path) -> None:
    [finding] = examine(app_with(look, name="a.look"))
    assert isinstance(finding, Finding)
    assert (finding.slug, finding.severity, finding.tool, finding.blueprint) == (
        "name-dots",
        "warning",
        "a.look",
        "mcp",
    )
    assert "TOOL_NAME_STYLE" in finding.fix
    assert finding.to_json() == {
        "slug": "name-dots",
        "severity": "warning",
        "why": finding.why,
        "fix": finding.fix,
        "tool": "a.look",
        "blueprint": "mcp",
    }
    assert str(finding) == f"name-dots (a.look): {finding.why}; {finding.fix}"


class TestIgnoring:
    def test_a_kind_of_finding(self) -> None:
        assert slugs(app_with(look, name="a.look", config={"JSONRPC_MCP_DOCTOR_IGNORE": ["name-dots"]})) == []

    def test_a_finding_about_one_tool(self) -> None:
        app = app_with(look, name="a.look", config={"JSONRPC_MCP_DOCTOR_IGNORE": ["name-dots:a.look"]})
        assert slugs(app) == []
        assert slugs(app_with(look, name="b.look"), ignore=["name-dots:a.look"]) == ["name-dots"]

    def test_what_is_passed_replaces_what_the_setting_says(self) -> None:
        app = app_with(look, name="a.look", config={"JSONRPC_MCP_DOCTOR_IGNORE": ["name-dots"]})
        assert slugs(app, ignore=[]) == ["name-dots"]

    def test_a_misspelled_slug_raises(self) -> None:
        with pytest.raises(ValueError, match="'dots-name' cannot be ignored, because the doctor looks for name-dots,"):
            examine(app_with(look), ignore=["dots-name"])

    def test_a_setting_that_is_no_list_raises_at_registration(self) -> None:
        with pytest.raises(ValueError, match="JSONRPC_MCP_DOCTOR_IGNORE must be a list"):
            app_with(look, config={"JSONRPC_MCP_DOCTOR_IGNORE": "name-dots"})

    def test_a_sign_in_that_is_ignored_is_not_tried(self) -> None:
        asked = []
        auth = HTTPBasicAuth()
        auth.verify_password(lambda username, password: asked.append(username))
        app = app_with(look, auth=auth, access=["look"])
        examine(app, ignore=["known-password", "sign-in-fails"])
        assert asked == []
        examine(app)
        assert asked

    def test_all_but_the_tools(self, tmp_path: Path) -> None:
        """For tests of an app, whose settings are not those of a deployment."""
        found = examine(bad_app(tmp_path), tools_only=True)
        assert found
        assert all(finding.tool for finding in found)


class TestTools:
    def test_dots_are_fine_when_clients_get_names_without(self) -> None:
        assert slugs(app_with(look, name="a.look", config={"JSONRPC_MCP_TOOL_NAME_STYLE": "no-dots"})) == []

    def test_methods_that_are_no_tools_are_not_looked_at(self) -> None:
        rpc = McpBlueprint()
        rpc.add_method("a.look", lambda: 1)
        assert examine(make_app(rpc, SECRET_KEY="key")) == []

    def test_a_reference_that_clients_get_written_out_is_fine(self) -> None:
        schema = {"$defs": {"text": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/text"}}}
        assert slugs(app_with(lambda a="": a, name="t", description="T.", params=schema)) == []

    @pytest.mark.parametrize("name", ["articles_updates", "settings", "math_sum", "mover"])
    def test_names_that_only_sound_like_writing_are_fine(self, name: str) -> None:
        assert slugs(app_with(look, name=name, mark={"annotations": GOOD})) == []

    @pytest.mark.parametrize("name", ["update", "update_article", "articles-update", "articleUpdate", "UPDATEArticle"])
    def test_names_that_promise_a_change_do_not_go_with_read_only(self, name: str) -> None:
        assert slugs(app_with(look, name=name, mark={"annotations": GOOD})) == ["read-only-name"]
        assert slugs(app_with(look, name=name)) == []

    def test_tools_for_all_are_found_where_there_is_a_sign_in(self) -> None:
        assert slugs(app_with(look, auth=make_auth()), ignore=["known-password"]) == ["public-write"]
        assert slugs(app_with(look, auth=make_auth(), access=["look"]), ignore=["known-password"]) == []

    def test_with_a_sign_in_for_everything_no_tool_is_for_all(self) -> None:
        rpc = McpBlueprint(auth=make_auth(), require_auth=True)
        rpc.add_method("look", mcp_tool(look))
        assert slugs(make_app(rpc, SECRET_KEY="key"), ignore=["known-password"]) == []


class TestProxy:
    @pytest.mark.parametrize(
        "config",
        [
            {"SERVER_NAME": "site.example"},
            {"TRUSTED_HOSTS": [".site.example"]},
            {"JSONRPC_MCP_ALLOWED_HOSTS": ["localhost", "site.example:8000"]},
            {"PREFERRED_URL_SCHEME": "https"},
        ],
    )
    def test_a_public_name_without_proxy_fix_is_found(self, config: Any) -> None:
        app = app_with(look, config=config)
        [finding] = examine(app)
        assert finding.slug == "no-proxy-fix"
        assert finding.why.startswith(next(iter(config)))
        app.wsgi_app = ProfilerMiddleware(ProxyFix(app.wsgi_app))  # type: ignore[method-assign]
        assert examine(app) == []

    @pytest.mark.parametrize("name", ["localhost:5000", "127.0.0.1", "[::1]:80", "app.localhost"])
    def test_a_name_of_this_machine_needs_none(self, name: str) -> None:
        assert slugs(app_with(look, config={"SERVER_NAME": name})) == []


class TestSignIn:
    def test_a_password_that_everyone_knows_is_told_once_per_user(self) -> None:
        auth = HTTPBasicAuth()
        auth.verify_password(lambda username, password: username if username == "admin" else None)
        [finding] = examine(app_with(look, auth=auth, access=["look"]))
        assert (finding.slug, finding.severity) == ("known-password", "error")
        assert finding.why == "anyone can sign in as 'admin' with the password 'admin'"

    @pytest.mark.parametrize("options", [{}, {"header": "X-Api-Key"}, {"scheme": "Token"}])
    def test_a_token_that_everyone_knows_is_found(self, options: Any) -> None:
        tokens = HTTPTokenAuth(**options)
        tokens.verify_token(lambda token: "ada" if token == "secret" else None)
        passwords = HTTPBasicAuth()
        passwords.verify_password(lambda username, password: None)
        [finding] = examine(app_with(look, auth=MultiAuth(passwords, tokens), access=["look"]))
        assert finding.why == "anyone can sign in with the token 'secret'"

    def test_a_callback_that_raises_is_found(self) -> None:
        auth = HTTPBasicAuth()

        @auth.verify_password
        def verify(username: str, password: str) -> None:
            raise ConnectionError("no route to the database")

        [finding] = examine(app_with(look, auth=auth, access=["look"]))
        assert finding.slug == "sign-in-fails"
        assert "ConnectionError: no route to the database" in finding.why

    def test_a_callback_that_never_answers_is_found_and_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sign_in, "SECONDS", 0.05)
        answer = threading.Event()
        auth = HTTPBasicAuth()
        auth.verify_password(lambda username, password: answer.wait())
        found = examine(app_with(look, auth=auth, access=["look"]))
        answer.set()
        assert [finding.slug for finding in found] == ["sign-in-fails"]

    def test_trusted_hosts_do_not_stop_the_doctor(self) -> None:
        auth = HTTPBasicAuth()
        auth.verify_password(lambda username, password: username == password == "admin")
        app = app_with(look, auth=auth, access=["look"], config={"TRUSTED_HOSTS": ["localhost"]})
        assert slugs(app) == ["known-password"]


class TestGunicorn:
    """Found from its settings, none of which is run."""

    def slugs_with(self, folder: Path, config: str | None) -> list[str]:
        if config is not None:
            (folder / "gunicorn.conf.py").write_text(config)
        return slugs(app_with(look, timeout=5))

    @pytest.mark.parametrize(
        "config", ["", "workers = 1", "worker_class = 'gthread'; threads = 1", "bind = open('/nowhere')"]
    )
    def test_one_worker_for_one_call_at_a_time_is_found(self, tmp_path: Path, config: str) -> None:
        assert self.slugs_with(tmp_path, config) == ["single-worker"]

    @pytest.mark.parametrize(
        "config",
        [
            None,
            "workers = 2",
            "threads = 4",
            "worker_class = 'gevent'",
            "import os\nworkers = int(os.environ['N'])",
            "workers = 1\nif __debug__:\n    workers = 2",
            "from deployment import *",
            "from deployment import threads",
            "workers =",
        ],
    )
    def test_more_than_one_or_nobody_knows_is_not(self, tmp_path: Path, config: str | None) -> None:
        assert self.slugs_with(tmp_path, config) == []

    @pytest.mark.parametrize(
        ("name", "value", "found"),
        [
            ("WEB_CONCURRENCY", "1", True),
            ("WEB_CONCURRENCY", "3", False),
            ("WEB_CONCURRENCY", "many", False),
            ("GUNICORN_CMD_ARGS", "--bind=:8000 --timeout 5", True),
            ("GUNICORN_CMD_ARGS", "-w 4", False),
            ("GUNICORN_CMD_ARGS", "--threads=4", False),
            ("GUNICORN_CMD_ARGS", "-k gevent", False),
            ("GUNICORN_CMD_ARGS", "--config python:deployment", False),
            ("GUNICORN_CMD_ARGS", "--workers many", False),
            ("GUNICORN_CMD_ARGS", "'", False),
        ],
    )
    def test_the_environment_counts(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, found: bool
    ) -> None:
        monkeypatch.setenv(name, value)
        assert (self.slugs_with(tmp_path, None) == ["single-worker"]) is found

    def test_the_command_line_overrules_the_file_and_the_file_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("WEB_CONCURRENCY", "4")
        assert self.slugs_with(tmp_path, "workers = 1") == ["single-worker"]
        monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers 2")
        assert self.slugs_with(tmp_path, "workers = 1") == []

    def test_another_file_is_read(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "deployment.py").write_text("threads = 8")
        monkeypatch.setenv("GUNICORN_CMD_ARGS", "-c deployment.py")
        assert self.slugs_with(tmp_path, "threads = 1") == []

    def test_tools_that_are_soon_done_do_not_need_more(self, tmp_path: Path) -> None:
        (tmp_path / "gunicorn.conf.py").write_text("workers = 1")
        assert slugs(app_with(look)) == []

    def test_generators_and_tools_that_ask_back_do(self, tmp_path: Path) -> None:
        def count() -> Iterator[int]:
            """Count."""
            yield 1

        (tmp_path / "gunicorn.conf.py").write_text("workers = 1")
        assert slugs(app_with(count)) == ["single-worker"]
        assert slugs(app_with(look, mark={"requires": ["sampling"]})) == ["single-worker"]
        assert slugs(app_with(look, mark={"confirm": "Look?"})) == ["single-worker"]

    def test_tools_that_speak_while_they_run_and_subscriptions_do(self, tmp_path: Path) -> None:
        def work() -> None:
            """Work."""
            current_call.progress(1)

        (tmp_path / "gunicorn.conf.py").write_text("workers = 1")
        assert slugs(app_with(work)) == ["single-worker"]
        assert slugs(app_with(look, config={"JSONRPC_MCP_SUBSCRIPTIONS": True})) == ["single-worker"]
