"""A tool that calls an endpoint of the app: the inner request is one of the caller, and no other endpoint's."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from flask import Flask, Response, abort, g, jsonify, redirect, request, session
from flask.views import MethodView
from flask_wtf import CSRFProtect
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.cli import mcp
from tests.conftest import Site, asking, basic, make_auth
from tests.support.mcp_messages import ModernClient

TITLE = {"properties": {"title": {"type": "string"}}, "required": ["title"]}


@pytest.fixture
def app() -> Flask:
    app = Flask("library")
    app.config.update(SECRET_KEY="key")

    @app.get("/books/<id>")
    def get_book(id: str) -> Any:
        """Read a book."""
        return {"id": id, "query": request.args.to_dict(flat=False)}

    @app.get("/books/<id>/secret")
    def secret(id: str) -> str:
        return "secret"

    @app.get("/books/")
    def list_books() -> str:
        return "all of them"

    @app.post("/books")
    def add_book() -> Any:
        return {"added": request.json, "by": request.headers.get("Authorization", "")}

    return app


def site_with(app: Flask, *views: tuple[str, str], auth: Any = None, **options: Any) -> Site:
    rpc = McpBlueprint(auth=auth)
    for name, endpoint in views:
        rpc.add_view(name, endpoint, **options)
    app.register_blueprint(rpc)
    return Site(rpc, app)


def test_a_view_is_a_tool_with_the_variables_of_its_path(app: Flask) -> None:
    @app.put("/shelves/<int:number>/<uuid:id>/<any(red, blue):colour>/<path:rest>")
    def shelve(number: int, id: str, colour: str, rest: str) -> str:
        """Put a book on a shelf."""
        return f"{number} {colour} {rest}"

    site = site_with(app, ("shelve", "shelve"))
    book = "8f8b9c9e-3a44-4b11-9d55-0a3f0f6a8f11"
    assert site.describe("shelve").get_json()["tool"] == {
        "name": "shelve",
        "description": "Put a book on a shelf.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "number": {"type": "integer", "minimum": 0},
                "id": {"type": "string", "format": "uuid"},
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "rest": {"type": "string"},
            },
            "required": ["number", "id", "colour", "rest"],
            "additionalProperties": False,
        },
        "outputSchema": {},
        "annotations": {"destructiveHint": True, "idempotentHint": True},
    }
    response = site.invoke("shelve", {"number": 3, "id": book, "colour": "red", "rest": "a/b"})
    assert response.get_json() == {"result": "3 red a/b"}


def test_other_arguments_go_into_the_query_string_or_the_body(app: Flask) -> None:
    rpc = McpBlueprint()
    rpc.add_view("get", "get_book", params={"properties": {"tags": {"type": "array"}, "new": {"type": "boolean"}}})
    rpc.add_view("add", "add_book", params=TITLE, description="Add a book")
    app.register_blueprint(rpc)
    site = Site(rpc, app)
    found = site.invoke("get", {"id": "é&1", "tags": ["a", 2], "new": True}).get_json()["result"]
    assert found == {"id": "é&1", "query": {"tags": ["a", "2"], "new": ["true"]}}
    assert site.invoke("add", {"title": "Emma"}).get_json()["result"]["added"] == {"title": "Emma"}


def test_arguments_of_delete_go_into_the_query_string(app: Flask) -> None:
    app.add_url_rule("/old", "clear", lambda: dict(request.args), methods=["DELETE"])
    site = site_with(app, ("clear", "clear"), params=TITLE)
    assert site.invoke("clear", {"title": "Emma"}).get_json() == {"result": {"title": "Emma"}}


def test_params_may_have_definitions(app: Flask) -> None:
    tree = {"properties": {"child": {"$ref": "#/$defs/Tree"}}, "additionalProperties": False}
    params = {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}}
    site = site_with(app, ("add", "add_book"), params=params)
    sent: dict[str, Any] = {"tree": {"child": {"child": {}}}}
    assert site.invoke("add", sent).get_json()["result"]["added"] == sent
    assert site.invoke("add", {"tree": {"child": {"other": 1}}}).status_code == 400


def test_a_class_based_view_needs_the_http_method(app: Flask) -> None:
    class Shelf(MethodView):
        def get(self, number: int) -> str:
            """Read a shelf."""
            return f"shelf {number}"

        def delete(self, number: int) -> str:
            return "gone"

    app.add_url_rule("/shelf/<int:number>", view_func=Shelf.as_view("shelf"))
    rpc = McpBlueprint()
    rpc.add_view("shelf", "shelf", method="get")
    app.register_blueprint(rpc)
    site = Site(rpc, app)
    assert site.describe("shelf").get_json()["tool"]["description"] == "Read a shelf."
    assert site.invoke("shelf", {"number": 2}).get_json() == {"result": "shelf 2"}


def test_a_view_is_named_by_its_endpoint(app: Flask) -> None:
    with pytest.raises(TypeError, match=r"books\.get: give the name of an endpoint, as for url_for, not <function"):
        McpBlueprint().add_view("books.get", app.view_functions["get_book"])  # type: ignore[arg-type]


def test_responses_of_endpoints_cannot_be_cached(app: Flask) -> None:
    """The endpoint may sign in someone whom the blueprint takes to be anonymous."""
    refused = "max_age= is not possible, because the endpoint may sign callers in"
    with pytest.raises(ValueError, match=refused):
        McpBlueprint().add_view("books.get", "get_book", max_age=60)
    with pytest.raises(ValueError, match=refused):
        McpBlueprint().add_openapi({"openapi": "3.1.0"}, include=["*"], max_age=60)  # type: ignore[call-arg]


def test_probes_do_not_depend_on_tools_that_cannot_be_made(app: Flask) -> None:
    site = site_with(app, ("tool", "get_bok"))
    assert site.client.get("/mcp/health").get_json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("endpoint", "options", "message", "finding"),
    [
        ("get_bok", {}, "add_view: the app has no endpoint 'get_bok' (did you mean get_book?)", "no-endpoint"),
        ("xyz", {}, "add_view: the app has no endpoint 'xyz' (flask routes lists them)", "no-endpoint"),
        (
            "get_book",
            {"method": "POST"},
            "add_view: endpoint 'get_book' does not take POST (it takes GET)",
            "no-endpoint",
        ),
        ("both", {}, "add_view: endpoint 'both' takes DELETE, GET; choose one with method=", None),
    ],
)
def test_a_mistake_names_the_endpoint_and_breaks_nothing_else(
    app: Flask, endpoint: str, options: Any, message: str, finding: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The doctor still makes its other checks if an endpoint is missing; what it cannot load at all ends it."""
    app.add_url_rule("/both", "both", lambda: "", methods=["GET", "DELETE"])
    app.config["PREFERRED_URL_SCHEME"] = "https"
    site = site_with(app, ("tool", endpoint), **options)
    for _ in range(2):
        caplog.clear()
        assert site.list_tools().status_code == 500
        assert message in caplog.text
    assert site.client.get("/books/1").status_code == 200
    doctor = app.test_cli_runner().invoke(mcp, ["doctor"])
    if finding is None:
        assert (doctor.exit_code, message in " ".join(doctor.output.split())) == (2, True)
        return
    found = {each["slug"]: each for each in json.loads(doctor.output)}
    assert (doctor.exit_code, found[finding]["blueprint"]) == (1, "mcp")
    assert found[finding]["why"] == f"{message}, so every request to this blueprint fails"
    assert "no-proxy-fix" in found


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tool", {"params": 5}, "tool: params must be a JSON Schema dict, a marshmallow schema or a pydantic model"),
        ("tool", {"params": {"type": "array"}}, "tool: params must describe an object"),
        ("tool", {"method": "FETCH"}, "tool: method must be one of GET, POST, PUT, PATCH, DELETE, not 'FETCH'"),
        ("a tool", {}, "'a tool' cannot be a method's name"),
    ],
)
def test_what_is_wrong_for_any_endpoint_raises_at_once(name: str, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        McpBlueprint().add_view(name, "get_book", **options)


@pytest.mark.parametrize("id", ["1/secret", "", "1//", "../books/1/secret", "/"])
def test_no_argument_leads_to_another_endpoint(app: Flask, id: str) -> None:
    site = site_with(app, ("get", "get_book"))
    response = site.invoke("get", {"id": id})
    assert (response.status_code, response.get_json()["error"]["message"]) == (
        400,
        "Invalid arguments: do not fit into the path /books/{id}",
    )


@pytest.mark.parametrize("id", ["..", "1?x=2", "1#top", "%2F", "a b", "{id}", "<id>", "é"])
def test_an_argument_reaches_the_endpoint_as_it_is(app: Flask, id: str) -> None:
    site = site_with(app, ("get", "get_book"))
    assert site.invoke("get", {"id": id}).get_json() == {"result": {"id": id, "query": {}}}


@pytest.mark.parametrize("order", [["slug", "id"], ["id", "slug"]])
def test_rules_of_one_shape_lead_each_to_their_own_endpoint(order: list[str]) -> None:
    app = Flask("library")
    rules = {"slug": "/books/<slug>", "id": "/books/<int:id>"}
    for name in order:
        app.add_url_rule(rules[name], name, lambda name=name, **given: {"endpoint": name, **given})
    site = site_with(app, ("by_slug", "slug"), ("by_id", "id"))
    assert site.invoke("by_slug", {"slug": "emma"}).get_json() == {"result": {"endpoint": "slug", "slug": "emma"}}
    assert site.invoke("by_id", {"id": 7}).get_json() == {"result": {"endpoint": "id", "id": 7}}
    refused = site.invoke("by_slug", {"slug": "7"})
    assert refused.status_code == 400
    assert refused.get_json()["error"]["message"] == "Invalid arguments: do not fit into the path /books/{slug}"


def test_all_rules_of_one_shape_may_be_of_the_endpoint(app: Flask) -> None:
    def find(key: str | int) -> Any:
        return {"key": key}

    app.add_url_rule("/find/<key>", "find", find)
    app.add_url_rule("/find/<int:key>", "find", find)
    app.add_url_rule("/find/<key>/raw", "find", find)
    site = site_with(app, ("find", "find"))
    assert site.client.get("/mcp/tools/find?key=emma").get_json() == {"result": {"key": "emma"}}
    assert site.client.get("/mcp/tools/find?key=7").get_json() == {"result": {"key": 7}}
    assert site.client.get("/mcp/tools/find?key=7/raw").status_code == 400


def test_a_rule_of_another_subdomain_is_another_endpoint() -> None:
    app = Flask("library", subdomain_matching=True)
    app.config["SERVER_NAME"] = "site.localhost"
    app.add_url_rule("/of/<name>", "admin", lambda name: f"admin {name}", subdomain="admin")
    app.add_url_rule("/of/<name>", "user", lambda name: f"user {name}")
    rpc = McpBlueprint()
    rpc.add_view("admin", "admin")
    rpc.add_view("user", "user")
    app.register_blueprint(rpc)
    app.register_blueprint(rpc, name="admin_mcp", subdomain="admin")
    replies = {
        (name, host): app.test_client().post(f"/mcp/tools/{name}", json={"name": "x"}, base_url=f"http://{host}/")
        for name in ("admin", "user")
        for host in ("site.localhost", "admin.site.localhost")
    }
    assert {key: (reply.status_code, reply.get_json().get("result")) for key, reply in replies.items()} == {
        ("admin", "site.localhost"): (400, None),
        ("admin", "admin.site.localhost"): (200, "admin x"),
        ("user", "site.localhost"): (200, "user x"),
        ("user", "admin.site.localhost"): (400, None),
    }


def document_of(path: str, type: str) -> dict[str, Any]:
    """A document with one operation ``book``, which has one variable."""
    name = path.partition("{")[2].rstrip("}")
    parameter = {"name": name, "in": "path", "required": True, "schema": {"type": type}}
    return {"openapi": "3.1.0", "paths": {path: {"get": {"operationId": "book", "parameters": [parameter]}}}}


@pytest.mark.parametrize(
    ("path", "value", "endpoint"),
    [
        ("/books/{slug}", "emma", "slug"),
        ("/books/{slug}", "7", None),
        ("/books/{id}", "7", "id"),
        ("/books/{id}", "emma", None),
        ("/shelves/{key}", "7", "shelf_id"),
        ("/shelves/{key}", "new", "shelf_slug"),
        ("/pages/{number}", "7", "page"),
    ],
)
def test_an_operation_runs_the_endpoint_whose_path_it_has(path: str, value: str, endpoint: str | None) -> None:
    """A document that names the variables differently is clear only if one endpoint has a path of this shape."""
    app = Flask("library")
    rules = {"slug": "/books/<slug>", "id": "/books/<int:id>", "page": "/pages/<int:id>"}
    rules.update({"shelf_id": "/shelves/<int:key>", "shelf_slug": "/shelves/<key>"})
    for name, rule in rules.items():
        app.add_url_rule(rule, name, lambda name=name, **given: name)
    rpc = McpBlueprint()
    rpc.add_openapi(document_of(path, "string"), include=["book"])
    app.register_blueprint(rpc)
    name = path.partition("{")[2].rstrip("}")
    reply = Site(rpc, app).invoke("book", {name: value})
    assert (reply.status_code, reply.get_json().get("result")) == (200 if endpoint else 400, endpoint)


def test_the_doctor_finds_an_operation_that_may_be_of_several_endpoints() -> None:
    app = Flask("library")
    app.add_url_rule("/books/<slug>", "by_slug", lambda slug: "by slug")
    app.add_url_rule("/books/<int:id>", "by_id", lambda **given: "by id")
    rpc = McpBlueprint()
    rpc.add_openapi(document_of("/books/{key}", "string"), include=["book"])
    app.register_blueprint(rpc)
    assert Site(rpc, app).invoke("book", {"key": "7"}).status_code == 500
    found = " ".join(app.test_cli_runner().invoke(mcp, ["doctor"]).output.split())
    assert "GET /books/{key} may be by_slug or by_id" in found


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("float:x", 5, 5.0),
        ("float:x", 1e-7, 1e-7),
        ("float:x", 1.5e300, 1.5e300),
        ("float(signed=True):x", -0.5, -0.5),
        ("float(max=2):x", 3, None),
        ("float:x", -1, None),
        ("int:x", 5.0, 5),
        ("int(fixed_digits=3):x", 7, 7),
        ("int(signed=True):x", -3, -3),
        ("int(min=5):x", 4, None),
        ("int(max=5):x", 6, None),
        ("int:x", -3, None),
        ("string(length=2):x", "ab", "ab"),
        ("string(length=2):x", "abc", None),
        ("any(about, 'x,y', \"q r\"):x", "x,y", "x,y"),
        ("any(about, 'x,y', \"q r\"):x", "q r", "q r"),
        ("any(about, 'x,y', \"q r\"):x", "x", None),
    ],
)
def test_the_converter_decides_which_values_a_variable_has(
    app: Flask, variable: str, value: Any, expected: Any
) -> None:
    app.add_url_rule(f"/convert/<{variable}>", "convert", lambda x: jsonify(x))
    reply = site_with(app, ("convert", "convert")).invoke("convert", {"x": value})
    assert (reply.status_code, reply.get_json().get("result")) == (400 if expected is None else 200, expected)


@pytest.mark.parametrize(
    ("variable", "schema"),
    [
        ("int(signed=True):x", {"type": "integer"}),
        ("int(min=2, max=5):x", {"type": "integer", "minimum": 2, "maximum": 5}),
        ("float:x", {"type": "number", "minimum": 0}),
        ("any('x,y', z):x", {"type": "string", "enum": ["x,y", "z"]}),
        ("string(length=2):x", {"type": "string"}),
    ],
)
def test_the_converter_describes_a_variable_without_a_hint(app: Flask, variable: str, schema: Any) -> None:
    app.add_url_rule(f"/convert/<{variable}>", "convert", lambda x: jsonify(x))
    tool = site_with(app, ("convert", "convert")).describe("convert").get_json()["tool"]
    assert tool["inputSchema"]["properties"] == {"x": schema}


@pytest.mark.parametrize(("value", "expected"), [(5, 5.0), (0.5, 0.5)])
def test_an_operation_takes_whole_numbers_for_a_float(app: Flask, value: float, expected: float) -> None:
    """JavaScript writes 5.0 as 5, which ``<float:x>`` does not match."""
    app.add_url_rule("/weigh/<float:x>", "weigh", lambda x: jsonify(x))
    rpc = McpBlueprint()
    rpc.add_openapi(document_of("/weigh/{kilos}", "number"), include=["book"])
    app.register_blueprint(rpc)
    assert Site(rpc, app).invoke("book", {"kilos": value}).get_json() == {"result": expected}


def test_an_app_that_a_middleware_mounts_is_not_the_endpoint(app: Flask) -> None:
    app.add_url_rule("/<page>", "show", lambda page: f"page {page}")
    mounted = Response("metrics of the mounted app")
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/metrics": mounted})  # type: ignore[method-assign]
    site = site_with(app, ("show", "show"))
    assert site.invoke("show", {"page": "home"}).get_json() == {"result": "page home"}
    response = site.invoke("show", {"page": "metrics"})
    assert response.status_code == 400
    assert response.get_json()["error"]["message"] == "Invalid arguments: do not fit into the path /{page}"


def test_a_middleware_that_refuses_a_path_refuses_the_tool_too(app: Flask) -> None:
    inner = app.wsgi_app

    def guard(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"].startswith("/books"):
            return Response("Not for you", 403)(environ, start_response)
        return inner(environ, start_response)

    app.wsgi_app = guard  # type: ignore[method-assign]
    response = site_with(app, ("get", "get_book")).invoke("get", {"id": "1"})
    assert (response.status_code, response.get_json()["error"]["message"]) == (403, "Not for you")


def test_the_endpoint_gets_the_headers_of_the_caller_but_those_about_the_outer_request(app: Flask) -> None:
    @app.get("/headers")
    def headers() -> Any:
        return {**request.headers, "remote": request.remote_addr}

    site = site_with(app, ("headers", "headers"))
    found = site.invoke(
        "headers",
        {},
        headers={
            "Authorization": "Bearer token",
            "X-Api-Key": "key",
            "Accept-Language": "de",
            "Traceparent": "00-1-2-01",
            "If-None-Match": '"x"',
            "X-Http-Method-Override": "DELETE",
            "Mcp-Session-Id": "session",
        },
    ).get_json()["result"]
    assert found == {
        "Accept": "application/json, */*;q=0.5",
        "Accept-Language": "de",
        "Authorization": "Bearer token",
        "Host": "localhost",
        "Traceparent": "00-1-2-01",
        "User-Agent": found["User-Agent"],
        "X-Api-Key": "key",
        "remote": "127.0.0.1",
    }


def test_the_inner_request_has_the_address_of_the_outer_one(app: Flask) -> None:
    app.add_url_rule("/url", "url", lambda: request.url)
    site = site_with(app, ("url", "url"))
    reply = site.client.post("/mcp/tools/url", json={}, base_url="https://localhost:8443/")
    assert reply.get_json() == {"result": "https://localhost:8443/url"}


def test_the_trace_of_an_mcp_client_is_passed_on(app: Flask) -> None:
    app.add_url_rule("/trace", "trace", lambda: request.headers.get("Traceparent", "none"))
    site = site_with(app, ("trace", "trace"))
    params = {"name": "trace", "arguments": {}, "_meta": {"traceparent": "00-a-b-01"}}
    result = ModernClient(site.client).post("tools/call", params).get_json()["result"]
    assert result["content"][0]["text"] == "00-a-b-01"
    for wrong in ("00-a\nb", "00-\u00e9", "0" * 8193):
        params = {"name": "trace", "arguments": {}, "_meta": {"traceparent": wrong}}
        result = ModernClient(site.client).post("tools/call", params).get_json()["result"]
        assert result["content"][0]["text"] == "none", "no HTTP header could be that"


def test_the_inner_request_has_its_own_g_and_teardown_and_the_same_thread(app: Flask) -> None:
    seen: list[Any] = []

    @app.before_request
    def remember() -> None:
        seen.append(("before", request.path, hasattr(g, "mark"), threading.get_ident()))
        g.mark = request.path

    @app.teardown_appcontext
    def forget(error: BaseException | None) -> None:
        seen.append(("after", g.mark))

    site = site_with(app, ("get", "get_book"))
    assert site.invoke("get", {"id": "1"}).status_code == 200
    thread = threading.get_ident()
    assert seen == [
        ("before", "/mcp/tools/invoke", False, thread),
        ("before", "/books/1", False, thread),
        ("after", "/books/1"),
        ("after", "/mcp/tools/invoke"),
    ]


def test_decorators_of_the_endpoint_decide_who_may_call_it(app: Flask) -> None:
    auth = make_auth()
    app.add_url_rule("/write", "write", auth.login_required(role="write")(lambda: auth.current_user()))
    site = site_with(app, ("write", "write"), auth=auth)
    assert site.invoke("write", {}).status_code == 401
    assert site.invoke("write", {}, headers=basic("reader")).get_json()["error"]["code"] == "forbidden"
    assert site.invoke("write", {}, headers=basic("writer")).get_json() == {"result": "writer"}


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (lambda: abort(404, "No such shelf"), 404, {"code": "not_found", "message": "No such shelf"}),
        (lambda: abort(403), 403, {"code": "forbidden"}),
        (lambda: ({"message": "Taken", "code": 409}, 409), 409, {"code": "conflict", "message": "Taken"}),
        (
            lambda: ({"message": "Taken", "by": "ada"}, 409),
            409,
            {
                "message": 'CONFLICT: {"by":"ada","message":"Taken"}',
                "data": {"body": {"by": "ada", "message": "Taken"}},
            },
        ),
        (lambda: ("plain text", 418), 418, {"code": "i_m_a_teapot", "message": "plain text"}),
        (
            lambda: ({"errors": {"json": {"pages": ["is low"], "title": ["is short", "is rude"]}}}, 422),
            400,
            {"message": "Invalid arguments: /pages: is low; /title: is short; /title: is rude"},
        ),
        (
            lambda: ([{"loc": ["pages"], "msg": "is low", "type": "x"}], 422),
            400,
            {"errors": [{"path": "/pages", "message": "is low"}]},
        ),
        (lambda: ("", 499), 400, {"code": "bad_request"}),
    ],
)
def test_a_4xx_response_is_an_expected_failure_with_its_text(app: Flask, answer: Any, status: int, error: Any) -> None:
    app.add_url_rule("/fail", "fail", answer)
    site = site_with(app, ("fail", "fail"))
    response = site.invoke("fail", {})
    found = response.get_json()["error"]
    assert response.status_code == status
    assert {member: found[member] for member in error} == error


def test_a_limit_says_when_to_try_again(app: Flask) -> None:
    app.add_url_rule("/busy", "busy", lambda: ("Slow down", 429, {"Retry-After": "7"}))
    response = site_with(app, ("busy", "busy")).invoke("busy", {})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")


@pytest.mark.parametrize("answer", [lambda: redirect("/login"), lambda: ("down", 503), lambda: 1 / 0])
def test_a_redirect_or_a_fault_is_an_unexpected_failure(app: Flask, answer: Any) -> None:
    app.add_url_rule("/broken", "broken", answer)
    site = site_with(app, ("broken", "broken"), auth=make_auth())
    response = site.invoke("broken", {}, headers=basic("reader"))
    assert (response.status_code, response.get_json()["error"]["code"]) == (500, "execution_error")
    assert "Internal error" in response.get_json()["error"]["message"]


def test_an_endpoint_that_sends_an_anonymous_caller_to_a_login_form_is_a_401(app: Flask) -> None:
    app.add_url_rule("/mine", "mine", lambda: redirect("/login"))
    response = site_with(app, ("mine", "mine"), auth=make_auth()).invoke("mine", {})
    assert (response.status_code, "WWW-Authenticate" in response.headers) == (401, True)


def test_a_response_that_is_too_large_is_not_read_to_its_end(app: Flask) -> None:
    sent: list[int] = []

    def forever() -> Any:
        while len(sent) < 1000:
            sent.append(1)
            yield b"x" * 1_000_000

    app.add_url_rule("/forever", "forever", lambda: Response(forever(), mimetype="text/plain"))
    response = site_with(app, ("forever", "forever")).invoke("forever", {})
    assert response.get_json()["error"]["message"] == "The response has more than 4194304 bytes"
    assert len(sent) < 10


def test_files_texts_and_nothing_become_content(app: Flask) -> None:
    app.add_url_rule("/csv", "csv", lambda: Response("a,b", mimetype="text/csv"))
    app.add_url_rule("/zip", "zip", lambda: Response(b"PK", mimetype="application/zip"))
    app.add_url_rule("/gone", "gone", lambda: ("", 204))
    site = site_with(app, ("csv", "csv"), ("zip", "zip"), ("gone", "gone"))
    assert site.invoke("csv", {}).get_json() == {"result": "a,b"}
    block = {"type": "resource", "resource": {"uri": "/zip", "mimeType": "application/zip", "blob": "UEs="}}
    assert site.invoke("zip", {}).get_json() == {"result": [block]}
    assert site.invoke("gone", {}).get_json() == {"result": None}


def test_headers_that_matter_are_in_the_result(app: Flask) -> None:
    @app.get("/moon")
    def moon() -> Any:
        response = jsonify("full")
        response.set_etag("m1")
        response.headers.update({"Link": "</sun>; rel=next", "X-Phase": "4", "X-Other": "no"})
        return response.make_conditional(request)

    rpc = McpBlueprint()
    parameters = [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}]
    responses = {"200": {"headers": {"X-Phase": {"schema": {"type": "integer"}}}}}
    paths = {"/moon": {"get": {"operationId": "moon", "parameters": parameters, "responses": responses}}}
    rpc.add_openapi({"openapi": "3.1.0", "paths": paths}, include=["moon"])
    app.register_blueprint(rpc)
    client = ModernClient(Site(rpc, app).client)
    read = client.call("moon").get_json()["result"]
    shown = 'X-Phase: 4\nETag: "m1"\nLink: </sun>; rel=next'
    assert [block["text"] for block in read["content"]] == ["full", shown]
    assert read["structuredContent"] == "full"
    again = client.call("moon", {"If-None-Match": '"m1"'}).get_json()["result"]
    assert [block["text"] for block in again["content"]] == ["Not modified", shown]
    wrong = client.call("moon", {"If-None-Match": "a\r\nb"}).get_json()["result"]
    assert wrong["content"][0]["text"] == "Invalid arguments: /If-None-Match: must be printable ASCII"


def test_an_inner_request_cannot_call_such_a_tool_again(app: Flask) -> None:
    rpc = McpBlueprint()
    rpc.add_view("get", "get_book")
    rpc.add_view("call", "mcp.call_tool", method="POST", params={"properties": {"id": {"type": "string"}}})
    app.register_blueprint(rpc)
    response = Site(rpc, app).invoke("call", {"name": "get", "id": "1"})
    assert response.status_code == 400
    assert "A tool of this kind cannot call itself through an endpoint" in response.get_json()["error"]["message"]


def test_a_protected_form_gets_a_csrf_token_only_for_callers_that_were_checked(app: Flask) -> None:
    CSRFProtect(app)
    app.add_url_rule("/who", "who", lambda: {"user": session.get("user")}, methods=["POST"])

    @app.get("/login")
    def login() -> str:
        session["user"] = "ada"
        return ""

    site = site_with(app, ("who", "who"))
    assert site.client.post("/who").status_code == 400  # the endpoint itself stays protected
    assert site.invoke("who", {}).get_json() == {"result": {"user": None}}
    site.client.get("/login")
    same, other = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}
    assert site.invoke("who", {}, headers=same).get_json() == {"result": {"user": "ada"}}
    assert site.invoke("who", {}, headers=other).get_json() == {"result": {"user": None}}


def test_cookies_go_back_only_to_pages_of_this_site(app: Flask) -> None:
    @app.get("/count")
    def count() -> Any:
        session["count"] = session.get("count", 0) + 1
        return jsonify(session["count"])

    site = site_with(app, ("count", "count"))
    same = {"Sec-Fetch-Site": "same-origin"}
    assert [site.invoke("count", {}, headers=same).get_json()["result"] for _ in range(3)] == [1, 2, 3]
    other = site.invoke("count", {}, headers={"Sec-Fetch-Site": "cross-site"})
    assert (other.get_json()["result"], "Set-Cookie" in other.headers) == (1, False)


def test_all_faces_call_the_endpoint(app: Flask) -> None:
    site = site_with(app, ("get", "get_book"))
    expected = {"id": "7", "query": {}}
    assert site.client.get("/mcp/tools/get?id=7").get_json() == {"result": expected}
    assert site.rpc_post(asking("get", {"id": "7"})).get_json()["result"] == expected
