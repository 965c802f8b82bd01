"""The blueprint in apps with the extensions that Flask apps have: our routes work, and so does the rest of the app."""

from __future__ import annotations

import datetime
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from flask import Flask, Response, abort, request
from flask.json.provider import DefaultJSONProvider
from flask_babel import Babel, lazy_gettext
from flask_httpauth import HTTPBasicAuth
from flask_limiter import Limiter
from flask_sqlalchemy import SQLAlchemy
from flask_talisman import Talisman
from flask_wtf import CSRFProtect
from sqlalchemy import text
from sqlalchemy.pool import QueuePool

from flask_jsonrpc_mcp import McpBlueprint, RpcError
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import Site, asking, make_auth
from tests.support import faces

FACES = [faces.rest, faces.jsonrpc, faces.mcp_modern, faces.own_url]


def make_rpc(**options: Any) -> McpBlueprint:
    rpc = McpBlueprint(**options)
    rpc.tool("greet")(lambda: "hello")
    return rpc


def make_app(rpc: McpBlueprint | None = None) -> Flask:
    app = Flask("host")
    app.secret_key = "key"
    if rpc is not None:
        app.register_blueprint(rpc)
    return app


def assert_served(app: Flask) -> None:
    """Check that every face answers."""
    for face in FACES:
        response = face("greet", {}).send(app.test_client())
        assert (response.status_code, response.is_json) == (200, True), response.data
        assert b"hello" in response.data


# URL rules


def test_our_url_rules_name_their_http_methods() -> None:
    app = make_app(make_rpc())
    methods = {rule.rule: rule.methods for rule in app.url_map.iter_rules()}
    assert methods["/mcp"] == {"POST", "OPTIONS"}
    assert methods["/mcp/tools/list"] == {"GET", "HEAD", "OPTIONS"}
    assert all(methods.values())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/mcp", "OPTIONS, POST"),
        ("/mcp/", "OPTIONS, POST"),
        ("/jsonrpc", "GET, HEAD, OPTIONS, POST"),
        ("/mcp/tools/list", "GET, HEAD, OPTIONS"),
        ("/mcp/tools/invoke", "OPTIONS, POST"),
        ("/mcp/tools/greet", "GET, HEAD, OPTIONS, POST"),
        ("/mcp/explorer", "GET, HEAD, OPTIONS"),
        ("/.well-known/mcp.json", "GET, HEAD, OPTIONS"),
    ],
)
@pytest.mark.parametrize("verb", ["PUT", "DELETE", "PROPFIND", "TRACE"])
def test_another_http_method_is_answered_in_json(path: str, allowed: str, verb: str) -> None:
    response = make_app(make_rpc()).test_client().open(path, method=verb)
    assert (response.status_code, response.headers["Allow"], response.is_json) == (405, allowed, True)


def test_other_routes_of_the_app_keep_their_405() -> None:
    app = make_app(make_rpc())
    app.add_url_rule("/page", "page", lambda: "page")
    response = app.test_client().post("/page")
    assert (response.status_code, response.mimetype) == (405, "text/html")


def test_the_debug_toolbar_shows_pages_of_the_app() -> None:
    from flask_debugtoolbar import DebugToolbarExtension

    app = make_app(make_rpc())
    app.debug = True
    DebugToolbarExtension(app)
    app.add_url_rule("/page", "page", lambda: "<html><body>page</body></html>")
    response = app.test_client().get("/page")
    assert response.status_code == 200
    assert b"flDebug" in response.data
    assert_served(app)


def test_apiflask_makes_its_document() -> None:
    from apiflask import APIFlask

    app = APIFlask("host")
    app.register_blueprint(make_rpc())
    app.get("/page")(lambda: {"page": 1})
    document = app.test_client().get("/openapi.json")
    assert document.status_code == 200
    assert "/page" in document.get_json()["paths"]
    assert_served(app)


def test_flasgger_makes_its_document() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from flasgger import Swagger

    app = make_app(make_rpc())
    Swagger(app)

    @app.get("/page")
    def page() -> str:
        """A page
        ---
        responses:
          200:
            description: The page
        """
        return "page"

    document = app.test_client().get("/apispec_1.json")
    assert document.status_code == 200
    assert list(document.get_json()["paths"]) == ["/page"]
    assert_served(app)


def test_spectree_makes_its_document() -> None:
    from spectree import SpecTree

    app = make_app(make_rpc())
    tree = SpecTree("flask")
    tree.register(app)
    document = app.test_client().get("/apidoc/openapi.json")
    assert document.status_code == 200
    assert_served(app)


def test_credentials_are_checked_only_in_requests_that_the_app_can_limit() -> None:
    """Flask-Limiter counts no request with an HTTP method that the URL rule does not have."""
    checked: list[str] = []
    auth = HTTPBasicAuth()
    auth.verify_password(lambda username, password: checked.append(password))
    app = make_app()
    Limiter(lambda: "anyone", app=app, default_limits=["2/hour"], storage_uri="memory://")
    app.register_blueprint(make_rpc(auth=auth))
    client = app.test_client()
    statuses = [client.put("/mcp/nothing", auth=("ada", "guess")).status_code for _ in range(3)]
    assert (statuses, checked) == ([404] * 3, [])
    statuses = [client.get("/mcp/nothing", auth=("ada", "guess")).status_code for _ in range(3)]
    assert (statuses, checked) == ([401, 401, 429], ["guess"] * 2)


# CSRF protection


def protected_before() -> Flask:
    app = make_app()
    CSRFProtect(app)
    app.register_blueprint(make_rpc())
    return app


def protected_after() -> Flask:
    app = make_app(make_rpc())
    CSRFProtect(app)
    return app


def nested() -> Flask:
    from flask import Blueprint

    app = make_app()
    CSRFProtect(app)
    outer = Blueprint("outer", __name__)
    outer.register_blueprint(make_rpc())
    app.register_blueprint(outer)
    return app


@pytest.mark.parametrize("make", [protected_before, protected_after, nested])
def test_csrf_protection_lets_our_routes_through(make: Callable[[], Flask]) -> None:
    app = make()
    app.add_url_rule("/form", "form", lambda: "form", methods=["POST"])
    assert_served(app)
    assert app.test_client().post("/form").status_code == 400  # everything else is protected


def test_csrf_protection_stays_for_a_route_that_the_app_adds_to_our_blueprint() -> None:
    """It accepts the forms of other sites, and does not check their ``Origin``."""
    rpc = make_rpc()
    rpc.add_url_rule("/form", "form", lambda: "form", methods=["POST"])
    app = make_app(rpc)
    CSRFProtect(app)
    assert_served(app)
    assert app.test_client().post("/form", data={"id": 7}).status_code == 400


def test_csrf_protection_can_be_kept() -> None:
    app = make_app()
    CSRFProtect(app)
    app.register_blueprint(make_rpc(csrf_exempt=False))
    app.register_blueprint(make_rpc(name="other", url_prefix="/other"))  # which is exempt
    response = faces.rest("greet", {}).send(app.test_client())
    assert (response.status_code, response.get_json()["error"]["code"]) == (400, "bad_request")


# Hooks and error handlers of the app


@pytest.mark.parametrize("face", FACES)
def test_what_a_before_request_function_raises_has_the_form_of_the_face(face: faces.Face) -> None:
    app = make_app(make_rpc())
    app.register_error_handler(403, lambda error: ("<h1>No</h1>", 403))
    app.before_request(lambda: abort(403, "Closed on Sundays"))
    response = face("greet", {}).send(app.test_client())
    assert (response.status_code, response.is_json) == (403, True)
    error = response.get_json()["error"]
    assert error["message"] == "Closed on Sundays"
    assert error["code"] == ("forbidden" if face is faces.rest else -32000)


def test_a_before_request_function_that_wants_a_sign_in_gets_our_challenge() -> None:
    app = make_app(make_rpc(auth=make_auth()))
    app.before_request(lambda: abort(401))
    response = faces.mcp_modern("greet", {}).send(app.test_client())
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (
        401,
        'Basic realm="Authentication Required"',
    )


def test_a_before_request_function_that_fails_is_answered_without_its_text() -> None:
    app = make_app(make_rpc())

    @app.before_request
    def fail() -> None:
        raise KeyError("secret")

    response = faces.jsonrpc("greet", {}).send(app.test_client())
    assert response.status_code == 500
    assert response.get_json()["error"] == {
        "code": -32603,
        "message": "Internal Server Error",
        "data": {"status": 500},
    }


def test_limits_of_the_whole_app_answer_in_our_form() -> None:
    app = make_app(make_rpc())
    Limiter(lambda: "everyone", app=app, application_limits=["1/hour"], storage_uri="memory://")
    assert faces.rest("greet", {}).send(app.test_client()).status_code == 200
    refused = faces.rest("greet", {}).send(app.test_client())
    assert (refused.status_code, refused.get_json()["error"]["code"]) == (429, "too_many_requests")
    refused = faces.mcp_modern("greet", {}).send(app.test_client())
    assert (refused.status_code, refused.is_json) == (429, True)


def test_routes_that_the_app_adds_to_the_blueprint_keep_flask_s_errors() -> None:
    rpc = make_rpc()
    rpc.add_url_rule("/own", "own", lambda: abort(404))
    response = make_app(rpc).test_client().get("/own")
    assert (response.status_code, response.mimetype) == (404, "text/html")


def test_a_call_of_an_older_client_works_beside_all_of_them() -> None:
    app = protected_after()
    Limiter(lambda: "everyone", app=app, default_limits=["100/hour"], storage_uri="memory://")
    assert McpTestClient(app, version="2025-06-18").call("greet").value == "hello"
    assert Site(McpBlueprint(), app=app).rpc_post([asking("greet"), asking("greet", id=2)]).status_code == 200


# Texts in several languages


@pytest.fixture
def translated(tmp_path: Path) -> Flask:
    """An app with Flask-Babel and a German catalogue; the locale is that of the request."""
    german = Catalog("de")
    for english, translation in {
        "Greet": "Grüße",
        "Say hello": "Sagt Hallo",
        "Whom": "Wen",
        "Hello": "Hallo",
        "No such person": "Niemand heißt so",
        "Really?": "Wirklich?",
    }.items():
        german.add(english, translation)
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    with (folder / "messages.mo").open("wb") as file:
        write_mo(file, german)

    rpc = McpBlueprint()

    @rpc.tool(title=lazy_gettext("Greet"), description=lazy_gettext("Say hello"))
    def greet(name: Annotated[str, lazy_gettext("Whom")]) -> dict[str, Any]:
        if name == "missing":
            raise RpcError(lazy_gettext("No such person"))
        return {"text": lazy_gettext("Hello"), "all": [lazy_gettext("Hello")]}

    @rpc.tool(confirm=lazy_gettext("Really?"))
    def delete() -> Any:
        return lazy_gettext("Hello")

    @rpc.prompt(title=lazy_gettext("Greet"), description=lazy_gettext("Say hello"))
    def welcome(name: Annotated[str, lazy_gettext("Whom")]) -> Any:
        return lazy_gettext("Hello")

    app = make_app(rpc)
    app.config["BABEL_TRANSLATION_DIRECTORIES"] = str(tmp_path)
    Babel(app, locale_selector=lambda: request.accept_languages.best_match(["en", "de"]))
    return app


def in_language(app: Flask, language: str) -> McpTestClient:
    return McpTestClient(app, headers={"Accept-Language": language})


def test_lazy_texts_are_shown_in_the_language_of_the_request(translated: Flask) -> None:
    for language, title, description, whom in (
        ("de", "Grüße", "Sagt Hallo", "Wen"),
        ("en", "Greet", "Say hello", "Whom"),
    ):
        client = in_language(translated, language)
        for tool in (client.list_tools()[0], client.over("rest").list_tools()[0], client.describe("greet")):
            assert (tool["title"], tool["description"]) == (title, description)
            assert tool["inputSchema"]["properties"]["name"]["description"] == whom
        [prompt] = client.list_prompts()
        assert prompt == {
            "name": "welcome",
            "title": title,
            "description": description,
            "arguments": [{"name": "name", "description": whom, "required": True}],
        }


def test_lazy_texts_are_results_errors_messages_and_questions(translated: Flask) -> None:
    client = in_language(translated, "de")
    for face in ("mcp", "rest", "jsonrpc"):
        assert client.over(face).call("greet", {"name": "Ada"}).value == {"text": "Hallo", "all": ["Hallo"]}
        assert "Niemand heißt so" in client.over(face).call("greet", {"name": "missing"}).error.message
    assert client.get_prompt("welcome", {"name": "Ada"}).text == "Hallo"
    deleted = client.call("delete", answers={"confirm": {}})
    assert deleted.value == "Hallo"
    assert "Wirklich?" in str(deleted.questions)


def test_lists_with_lazy_texts_vary_by_language(translated: Flask) -> None:
    http = translated.test_client()
    for path in ("/mcp/tools/list", "/mcp/tools/describe?name=greet"):
        german = http.get(path, headers={"Accept-Language": "de"})
        english = http.get(path, headers={"Accept-Language": "en"})
        assert "Accept-Language" in german.vary
        assert german.get_etag() != english.get_etag()
    plain = make_app(make_rpc()).test_client().get("/mcp/tools/list")
    assert "Accept-Language" not in plain.vary


# The app's own JSON


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents


class ShopJson(DefaultJSONProvider):
    @staticmethod
    def default(value: Any) -> Any:
        return {"cents": value.cents} if isinstance(value, Money) else DefaultJSONProvider.default(value)


@pytest.mark.parametrize("face", ["rest", "jsonrpc", "mcp"])
def test_what_we_cannot_serialise_is_left_to_the_json_provider_of_the_app(face: str) -> None:
    rpc = McpBlueprint()
    rpc.tool("price")(lambda: {"prices": [Money(5), Money(7)], "day": datetime.date(2026, 1, 2)})
    rpc.tool("unknown")(lambda: object())
    app = make_app(rpc)
    app.json = ShopJson(app)
    client = McpTestClient(app, face)
    assert client.call("price").value == {"prices": [{"cents": 5}, {"cents": 7}], "day": "2026-01-02"}
    assert "Internal error" in client.call("unknown").error.message


# Database sessions


def test_methods_that_exceed_their_timeout_give_their_connections_back(tmp_path: Path) -> None:
    """The session of Flask-SQLAlchemy ends in teardown, which does not wait for a method that goes on."""
    rpc, database = McpBlueprint(), SQLAlchemy()
    go_on, done = threading.Event(), threading.Semaphore(0)

    @rpc.tool(timeout=0.01)
    def slow() -> None:
        database.session.execute(text("SELECT 1"))
        go_on.wait(60)
        database.session.execute(text("SELECT 1"))  # teardown has given the first connection back

    @rpc.tool
    def quick() -> int:
        return int(database.session.execute(text("SELECT 1")).scalar_one())

    app = make_app(rpc)
    app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{tmp_path}/db.sqlite3"
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {
        "poolclass": QueuePool,
        "pool_size": 2,
        "max_overflow": 0,
        "pool_timeout": 5,
        "connect_args": {"check_same_thread": False},
    }
    database.init_app(app)
    app.teardown_appcontext(lambda error: done.release())
    client = McpTestClient(app)
    for _ in range(2):
        assert client.call("slow").error.slug == "timeout"
        assert done.acquire(timeout=30)
    go_on.set()
    for _ in range(2):
        assert done.acquire(timeout=30)  # each of them has its own teardown when it ends
    with app.app_context():
        assert isinstance(database.engine.pool, QueuePool)
        assert database.engine.pool.checkedout() == 0
    assert client.call("quick").value == 1


# Security headers


def overwrite_policy(app: Flask) -> None:
    @app.after_request
    def set_policy(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = "default-src 'self'"
        return response


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("protect", [lambda app: Talisman(app, force_https=False), overwrite_policy])
def test_the_explorer_keeps_its_own_policy(protect: Callable[[Flask], object], order: str) -> None:
    app = make_app()
    if order == "before":
        protect(app)
    app.register_blueprint(make_rpc())
    if order == "after":
        protect(app)
    app.add_url_rule("/page", "page", lambda: "page")
    http = app.test_client()
    policy = http.get("/mcp/explorer").headers.getlist("Content-Security-Policy")
    assert policy == make_app(make_rpc()).test_client().get("/mcp/explorer").headers.getlist("Content-Security-Policy")
    assert "'self'" in http.get("/page").headers["Content-Security-Policy"]


def test_the_explorer_keeps_its_policy_in_an_app_with_a_response_class_of_its_own() -> None:
    class Special(Response):
        default_mimetype = "text/special"

    app = make_app(make_rpc())
    app.response_class = Special
    overwrite_policy(app)
    response = app.test_client().get("/mcp/explorer")
    assert "script-src 'sha256-" in response.headers["Content-Security-Policy"]
    assert response.mimetype == "text/html"
