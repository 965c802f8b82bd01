"""The doctor: every kind of problem it knows, found in an app that has it, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from flask import Flask, Response, abort, g, redirect, request
from flask_caching import Cache
from flask_cors import CORS
from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth, MultiAuth
from flask_login import LoginManager, login_required
from flask_talisman import Talisman
from flask_wtf import CSRFProtect
from marshmallow import Schema, fields, validate
from prometheus_client import CollectorRegistry
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jsonrpc_mcp import SIGNED_IN, McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.doctor import CHECKS, Finding, examine
from flask_jsonrpc_mcp.oauth import FileGrants, OAuthResource, OAuthServer
from flask_jsonrpc_mcp.sign_in import AppBuilderAuth, FlaskLoginAuth, FlaskSecurityAuth
from flask_jsonrpc_mcp.telemetry.metrics import Prometheus
from tests.conftest import make_app, make_auth
from tests.deploy.test_sample_app import new_site
from tests.support.issuer import Issuer, issuing
from tests.support.servers import free_port

GOOD = {"readOnlyHint": True}


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


def bad_app() -> Flask:
    """An app with one of everything."""
    rpc = McpBlueprint(auth=make_auth())
    rpc.add_method("trees.grow", mcp_tool(grow), streams=True)
    rpc.add_method("n" * 65, mcp_tool(annotations=GOOD)(lambda: 1), description="A long name.")
    rpc.add_method("undescribed", mcp_tool(annotations=GOOD)(lambda: 1))
    rpc.add_method(
        "either", mcp_tool(annotations=GOOD)(lambda **either: 1), params={"oneOf": [{"required": ["a"]}, {}]}
    )
    rpc.add_method("wordy", mcp_tool(annotations=GOOD)(lambda: 1), description="word " * 2_000)
    rpc.add_method("drop_all", mcp_tool(annotations={**GOOD, "destructiveHint": True})(lambda: 1))
    rpc.add_method("articleUpdate", mcp_tool(annotations=GOOD)(lambda: 1))
    rpc.add_method("find", mcp_tool(lambda code="": 1), params={"properties": {"code": {"pattern": "^a+b$"}}})
    return make_app(
        rpc,
        JSONRPC_MCP_PAGE_SIZE=5,
        JSONRPC_MCP_GET_METHODS="all",
        JSONRPC_MCP_DEMO_USERS=["admin"],
        PREFERRED_URL_SCHEME="https",
        TESTING=False,
    )


def test_apps_with_every_problem_get_every_finding() -> None:
    apps = [bad_app(), app_with(look, access=["look"]), cached_app(), walled_app(lambda: "no")]
    apps += [csrf_app(csrf_exempt=False), talisman_app(), cors_app(), metrics_app()]
    apps += [app_with(look, auth=FlaskLoginAuth(), config={"JSONRPC_MCP_TASKWAIT": 50})]

    @mcp_tool
    def forgotten() -> None: ...

    with issuing() as issuer:
        found = [finding for app in [*apps, *oauth_apps(issuer), *oauth_server_apps()] for finding in examine(app)]
    about = {(finding.slug, finding.tool) for finding in found}
    # The others are in test_task_checks.py and test_cli_openapi.py.
    own = {slug for slug in CHECKS if not slug.startswith("task-")} - {"no-endpoint", "tools-huge"}
    assert {slug for slug, _ in about} == own
    McpBlueprint().method(forgotten)
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
        ("schema-pattern", "find"),
        ("granian-streams", None),
    }
    assert all(finding.severity in ("error", "warning", "info") and finding.why and finding.fix for finding in found)


def oauth_server_apps() -> list[Flask]:
    """Without the server; and with one that knows no login page, gets no session cookie and cannot store anything."""
    missing, broken = OAuthServer(scopes={"a": "A"}), OAuthServer(scopes={"a": "A"}, grants=FileGrants("/dev/null/x"))
    apps = [make_app(McpBlueprint(auth=oauth.resource), SECRET_KEY="x" * 32) for oauth in (missing, broken)]
    apps[1].config["SESSION_COOKIE_SAMESITE"] = "Strict"
    apps[1].register_blueprint(broken)
    return apps


def oauth_apps(issuer: Issuer) -> list[Flask]:
    """An app without a public URL and with two issuers, one of which nobody runs, and one whose URL is not its own."""
    nobody = f"http://127.0.0.1:{free_port()}"
    elsewhere = {"JSONRPC_MCP_PUBLIC_URL": issuer.url}
    return [
        app_with(look, auth=OAuthResource([issuer.url, nobody])),
        app_with(look, auth=OAuthResource(issuer.url), config=elsewhere),
    ]


def csrf_app(**options: Any) -> Flask:
    app = make_app(McpBlueprint(**options), SECRET_KEY="key")
    CSRFProtect(app)
    return app


def talisman_app(**options: Any) -> Flask:
    app = make_app(McpBlueprint(), SECRET_KEY="key")
    Talisman(app, **options)
    return app


def walled_app(wall: Callable[[], Any], **config: Any) -> Flask:
    app = make_app(McpBlueprint(), SECRET_KEY="key", **config)
    app.before_request(wall)
    return app


def cors_app(config: Any = None, **options: Any) -> Flask:
    app = make_app(McpBlueprint(), SECRET_KEY="key", **(config or {}))
    CORS(app, **options)
    return app


def metrics_app(access: Any = ("read metrics",), **options: Any) -> Flask:
    metrics = Prometheus(access=access, registry=CollectorRegistry())
    return make_app(McpBlueprint(telemetry=[metrics], **options), SECRET_KEY="key")


def cached_app() -> Flask:
    rpc, cache = McpBlueprint(), Cache(config={"CACHE_TYPE": "SimpleCache"})
    rpc.add_tool(cache.cached()(lambda: 1), "first", description="The first.")
    rpc.add_tool(cache.cached()(lambda: 2), "second", description="The second.")
    rpc.add_tool(cache.memoize()(lambda: 3), "third", description="The third.")
    app = make_app(rpc, SECRET_KEY="key")
    cache.init_app(app)
    return app


class TestRequests:
    """What the app's own functions do to requests for our routes."""

    PATHS = "/mcp, /jsonrpc, /mcp/tools/list, /mcp/tools/invoke"

    def test_csrf_protection_of_our_routes_is_found(self) -> None:
        [finding] = examine(csrf_app(csrf_exempt=False))
        assert (finding.slug, finding.severity, finding.blueprint) == ("csrf", "error", "mcp")
        assert finding.why.startswith("CSRFProtect answers /mcp, /jsonrpc, /mcp/tools/invoke with 400 BAD REQUEST")
        assert "csrf.exempt(rpc)" in finding.fix
        assert examine(csrf_app()) == []

    @pytest.mark.parametrize(
        ("answer", "seen"),
        [
            (lambda: redirect(f"/login?next={request.path}"), "302 FOUND, Location: /login"),
            (lambda: "<h1>Sign in</h1>", "200 OK"),
            (lambda: abort(401), "401 UNAUTHORIZED"),
        ],
    )
    def test_a_login_wall_is_found_and_mended_by_the_line_that_the_fix_has(
        self, answer: Callable[[], Any], seen: str
    ) -> None:
        [finding] = examine(walled_app(answer))
        assert (finding.slug, finding.severity) == ("before-request", "warning")
        assert finding.why == (
            f"a before_request function of the app answers {self.PATHS} with {seen} in place of the blueprint"
        )
        assert 'if request.blueprint == "mcp": return None' in finding.fix
        assert examine(walled_app(lambda: None if request.blueprint == "mcp" else answer())) == []

    def test_a_login_wall_of_flask_login_is_found(self) -> None:
        manager = LoginManager()
        manager.user_loader(lambda user_id: None)

        @login_required
        def wall() -> None:
            """Let only users in."""

        app = walled_app(wall)
        manager.init_app(app)
        assert "401 UNAUTHORIZED" in examine(app)[0].why

    def test_only_the_paths_that_the_app_answers_are_named(self) -> None:
        [finding] = examine(walled_app(lambda: "no" if request.path == "/jsonrpc" else None))
        assert "answers /jsonrpc with 200 OK" in finding.why

    @pytest.mark.parametrize("hook", ["before_request", "after_request", "teardown_request"])
    def test_what_fails_without_a_real_request_is_no_finding(self, hook: str) -> None:
        app = make_app(McpBlueprint(), SECRET_KEY="key")
        getattr(app, hook)(lambda *_: g.of_the_server)
        assert examine(app) == []

    def test_what_runs_after_a_request_finds_what_has_run_before(self) -> None:
        app = cors_app()
        app.before_request(lambda: setattr(g, "started", True))
        app.after_request(lambda response: (g.started, response)[1])
        assert slugs(app) == ["cors-origins"]

    def test_a_location_may_have_braces(self) -> None:
        [finding] = examine(walled_app(lambda: Response(status=302, headers={"Location": "/login/{name}"})))
        assert "with 302 FOUND, Location: /login/{name} in" in finding.why

    def test_hosts_that_the_app_trusts_are_no_hindrance(self) -> None:
        config = {"TRUSTED_HOSTS": ["localhost"], "SERVER_NAME": None}
        assert examine(walled_app(lambda: None if request.host == "localhost" else "no", **config)) == []

    def test_a_redirect_of_talisman_to_https_is_found(self) -> None:
        [finding] = examine(talisman_app())
        assert (finding.slug, finding.severity) == ("https-redirect", "warning")
        assert finding.why.startswith(f"requests over http to {self.PATHS} get 302 FOUND to https")
        assert "force_https=False" in finding.fix
        assert examine(talisman_app(force_https=False)) == []

    def test_behind_a_proxy_talisman_is_fine(self) -> None:
        app = talisman_app()
        app.wsgi_app = ProxyFix(app.wsgi_app, x_proto=1)  # type: ignore[method-assign]
        assert "https-redirect" not in slugs(app)

    def test_origins_that_only_flask_cors_allows_are_found(self) -> None:
        [finding] = examine(cors_app())
        assert (finding.slug, finding.severity) == ("cors-origins", "info")
        assert "pages of any origin" in finding.why
        one = {"CORS_ORIGINS": ["https://shop.example"]}
        [finding] = examine(cors_app(one))
        assert "pages of https://shop.example" in finding.why
        assert examine(cors_app({**one, "JSONRPC_MCP_ALLOWED_ORIGINS": ["https://shop.example"]})) == []
        assert examine(cors_app(resources={"/shop/*": {}})) == []

    def test_prefixes_with_variables_are_left_out(self) -> None:
        app = make_app(McpBlueprint(url_prefix="/<tenant>"), SECRET_KEY="key")
        app.before_request(lambda: "no")
        assert examine(app) == []


def test_a_tool_that_is_cached_by_its_url_is_found() -> None:
    app = cached_app()
    assert [(finding.slug, finding.tool) for finding in examine(app)] == [
        ("cached-by-path", "first"),
        ("cached-by-path", "second"),
    ]
    call = {"jsonrpc": "2.0", "id": 1}
    results = [app.test_client().post("/jsonrpc", json={**call, "method": name}).json for name in ("first", "second")]
    assert [result["result"] for result in results if result] == [1, 1]


@pytest.mark.parametrize("with_roles", [False, True])
def test_a_permission_that_no_caller_can_have_is_found(with_roles: bool) -> None:
    auth = HTTPTokenAuth()
    if with_roles:
        auth.get_user_roles(lambda user: ["look"])
    [*found] = slugs(app_with(look, auth=auth, access=["look"]))
    assert found == ([] if with_roles else ["no-permissions"])
    assert slugs(app_with(look, access=["look"])) == ["no-permissions"]


def test_metrics_that_no_caller_can_read_are_found() -> None:
    assert metrics_app().test_client().get("/mcp/metrics").status_code == 404
    [found] = examine(metrics_app())
    assert (found.slug, found.severity) == ("metrics-access", "error")
    assert "/mcp/metrics needs read metrics" in found.why
    assert slugs(metrics_app(auth=HTTPTokenAuth())) == ["metrics-access"]
    assert slugs(metrics_app(auth=make_auth())) == slugs(metrics_app(access=[])) == []


@pytest.mark.parametrize(
    ("auth", "access", "found"),
    [
        (None, [SIGNED_IN], ["no-permissions"]),
        (HTTPTokenAuth(), [SIGNED_IN], []),
        (HTTPTokenAuth(), [SIGNED_IN, "look"], ["no-permissions"]),
        (lambda: None, [SIGNED_IN], []),
        (FlaskLoginAuth(), ["look"], ["no-permissions"]),
        (FlaskSecurityAuth(), ["look"], []),
        ([HTTPTokenAuth(), AppBuilderAuth()], ["look"], []),
    ],
    ids=str,
)
def test_every_user_has_the_permission_to_be_signed_in(auth: Any, access: list[str], found: list[str]) -> None:
    assert slugs(app_with(look, auth=auth, access=access), tools_only=True) == found


def test_a_good_app_has_no_findings() -> None:
    assert examine(app_with(look)) == []


def test_the_sample_site_has_no_findings(tmp_path: Path) -> None:
    with new_site(tmp_path) as app:
        assert examine(app) == []


def test_an_app_without_a_blueprint_cannot_be_examined() -> None:
    with pytest.raises(LookupError, match="no McpBlueprint"):
        examine(Flask("site"))


def test_a_finding_says_what_it_is_about() -> None:
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
        with pytest.raises(ValueError, match="there is no check 'dots-name' to ignore; the checks are name-dots,"):
            examine(app_with(look), ignore=["dots-name"])

    @pytest.mark.parametrize("setting", ["JSONRPC_MCP_DOCTOR_IGNORE", "JSONRPC_MCP_DEMO_USERS"])
    def test_a_setting_that_is_no_list_raises_at_registration(self, setting: str) -> None:
        with pytest.raises(ValueError, match=f"{setting} must be a list"):
            app_with(look, config={setting: "name-dots"})

    def test_all_but_the_tools(self) -> None:
        """For tests of an app, whose settings are not those of a deployment."""
        found = examine(bad_app(), tools_only=True)
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
        assert slugs(app_with(look, auth=make_auth())) == ["public-write"]
        assert slugs(app_with(look, auth=make_auth(), access=["look"])) == []

    def test_with_a_sign_in_for_everything_no_tool_is_for_all(self) -> None:
        rpc = McpBlueprint(auth=make_auth(), require_auth=True)
        rpc.add_method("look", mcp_tool(look))
        assert slugs(make_app(rpc, SECRET_KEY="key")) == []


class TestProxy:
    @pytest.mark.parametrize(
        "config",
        [
            {"SERVER_NAME": "site.example"},
            {"TRUSTED_HOSTS": [".site.example"]},
            {"JSONRPC_MCP_ALLOWED_HOSTS": ["localhost", "site.example:8000"]},
            {"PREFERRED_URL_SCHEME": "https", "SERVER_NAME": "localhost"},
        ],
    )
    def test_a_public_name_without_proxy_fix_is_found(self, config: Any) -> None:
        app = app_with(look, config=config)
        [finding] = examine(app)
        assert finding.slug == "no-proxy-fix"
        assert finding.why.startswith(next(iter(config)))
        app.wsgi_app = DispatcherMiddleware(ProxyFix(app.wsgi_app))  # type: ignore[method-assign]
        assert examine(app) == []

    def test_a_site_behind_a_proxy_should_name_its_hosts(self) -> None:
        app = app_with(look, config={"PREFERRED_URL_SCHEME": "https"})
        assert slugs(app) == ["no-proxy-fix", "no-host-names"]
        app = app_with(look)
        assert slugs(app) == []
        app.wsgi_app = ProxyFix(app.wsgi_app)  # type: ignore[method-assign]
        [finding] = examine(app)
        assert (finding.slug, finding.severity) == ("no-host-names", "info")
        assert "JSONRPC_MCP_ALLOWED_HOSTS" in finding.fix
        app.config["JSONRPC_MCP_ALLOWED_HOSTS"] = ["site.example"]
        assert slugs(app) == []

    @pytest.mark.parametrize("name", ["localhost:5000", "127.0.0.1", "[::1]:80", "app.localhost"])
    def test_a_name_of_this_machine_needs_none(self, name: str) -> None:
        assert slugs(app_with(look, config={"SERVER_NAME": name})) == []


class TestPatterns:
    def app_with_code(self, schema: Any) -> Flask:
        params = {"properties": {"code": schema}, "$defs": {"code": {"pattern": "a+"}}}
        return app_with(lambda code=None: code, name="find", description="Find it.", params=params)

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "string", "pattern": "^a+b$"},
            {"type": "string", "pattern": "a*"},
            {"type": "string", "pattern": r"[\]+]{2,}"},
            {"type": "array", "items": {"type": "string", "pattern": "a+"}},
            {"properties": {"pattern": {"pattern": "a+"}}},
            {"$ref": "#/$defs/code"},
            {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "a+"}]},
        ],
    )
    def test_a_text_of_any_length_before_a_backtracking_pattern_is_found(self, schema: Any) -> None:
        [finding] = examine(self.app_with_code(schema))
        assert (finding.slug, finding.tool) == ("schema-pattern", "find")
        assert finding.why.startswith("its argument 'code' has a pattern and no maxLength")

    def test_names_of_members_count_too(self) -> None:
        schema: dict[str, Any] = {"patternProperties": {"a+": {}}}
        [finding] = examine(self.app_with_code(schema))
        assert finding.why.startswith("its argument 'code' has a pattern and no maxLength")
        assert slugs(self.app_with_code({**schema, "propertyNames": {"maxLength": 9}})) == []

    @pytest.mark.parametrize("length", [[], [validate.Length(max=9)]], ids=["without", "with a bound"])
    def test_so_do_the_regular_expressions_of_marshmallow(self, length: list[Any]) -> None:
        code = fields.String(validate=[validate.Regexp("a+"), *length])
        inner: dict[str, fields.Field[Any]] = {"codes": fields.List(code), "table": fields.Dict(values=code)}
        nested = Schema.from_dict({"inner": fields.Nested(Schema.from_dict(inner))})
        app = app_with(lambda inner=None: inner, name="find", description="Find it.", params=nested)
        assert slugs(app) == ([] if length else ["schema-pattern"])

    def test_other_arguments_count_too(self) -> None:
        params = {"additionalProperties": {"type": "string", "pattern": "a+"}}
        [finding] = examine(app_with(lambda **words: words, name="find", description="Find it.", params=params))
        assert finding.why.startswith("its inputSchema has a pattern and no maxLength")

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "string", "pattern": "^a+b$", "maxLength": 100},
            {"type": "string", "pattern": r"^[a-z+*]{1,8}\+\*$"},
            {"type": "object", "properties": {"pattern": {"type": "string"}}},
            {"type": "object", "default": {"pattern": "a+"}},
        ],
    )
    def test_a_bound_is_enough(self, schema: Any) -> None:
        assert slugs(self.app_with_code(schema)) == []

    def test_types_of_hints_are_fine(self) -> None:
        def pay(amount: Decimal, code: Annotated[str, {"pattern": "a+", "maxLength": 8}]) -> None:
            """Pay."""

        assert slugs(app_with(pay)) == []


def test_the_doctor_signs_in_with_no_guesses() -> None:
    """Each would be a failed sign-in in the app's own log, and could lock a user out."""
    asked: list[Any] = []
    basic, tokens = HTTPBasicAuth(), HTTPTokenAuth()
    basic.verify_password(lambda *credentials: asked.append(credentials))
    basic.get_password(lambda *credentials: asked.append(credentials))
    tokens.verify_token(lambda *credentials: asked.append(credentials))
    app = app_with(look, auth=MultiAuth(basic, tokens), config={"JSONRPC_MCP_DEMO_USERS": ["admin"], "TESTING": False})
    assert {"demo-users", "public-write"} <= set(slugs(app))
    assert asked == []


def test_a_setting_that_does_not_exist_is_found_with_the_one_that_was_meant() -> None:
    [finding] = examine(app_with(look, config={"JSONRPC_MCP_TASKWAIT": 50}))
    assert (finding.slug, finding.severity) == ("unknown-setting", "warning")
    assert finding.why == "no setting JSONRPC_MCP_... is called TASKWAIT (did you mean TASK_WAIT or TASK_TTL?)"


def test_a_sign_in_with_flask_login_needs_its_login_manager() -> None:
    """Without it, every request to the blueprint is an error 500."""
    app = app_with(look, auth=FlaskLoginAuth(), access=[SIGNED_IN])
    [finding] = examine(app)
    assert (finding.slug, finding.severity, finding.blueprint) == ("no-login-manager", "error", "mcp")
    LoginManager(app).user_loader(lambda user_id: None)
    assert slugs(app) == []


class TestDemoUsers:
    def test_are_named_outside_of_debug_mode(self) -> None:
        app = app_with(look, config={"JSONRPC_MCP_DEMO_USERS": ["ada", "bob"], "TESTING": False})
        [finding] = examine(app)
        assert (finding.slug, finding.severity) == ("demo-users", "warning")
        assert finding.why == "JSONRPC_MCP_DEMO_USERS names ada, bob, whose credentials anyone can read in the source"

    @pytest.mark.parametrize("mode", ["DEBUG", "TESTING"])
    def test_are_fine_while_someone_develops(self, mode: str) -> None:
        config = {"TESTING": False, "JSONRPC_MCP_DEMO_USERS": ["ada"], mode: True}
        assert slugs(app_with(look, config=config)) == []


class TestGranian:
    """It is installed wherever these tests run."""

    def test_methods_that_stream_are_named(self) -> None:
        [finding] = examine(app_with(look, streams=True))
        assert (finding.slug, finding.severity, finding.blueprint) == ("granian-streams", "info", "mcp")
        assert "the events of look arrive with the result" in finding.why

    def test_others_are_fine(self) -> None:
        assert slugs(app_with(look)) == []

    def test_other_servers_can_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("flask_jsonrpc_mcp.doctor_checks.find_spec", lambda name: None)
        assert slugs(app_with(look, streams=True)) == []


def test_a_marked_function_that_belongs_to_no_blueprint_is_found() -> None:
    @mcp_tool
    def forgotten() -> None: ...

    [found] = [found for found in examine(app_with(look)) if found.slug == "unregistered-tool"]
    assert "forgotten() has @mcp_tool and belongs to no blueprint" in found.why
    McpBlueprint().method(forgotten)
    assert "unregistered-tool" not in slugs(app_with(look))
