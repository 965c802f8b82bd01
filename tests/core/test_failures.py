"""What callers get of exceptions that Flask people raise, on every face, and what the log and error trackers get."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import marshmallow
import pydantic
import pytest
from flask import Flask, Response, abort, got_request_exception, jsonify, redirect
from flask_httpauth import HTTPBasicAuth
from flask_login import LoginManager, login_required
from werkzeug.exceptions import BadRequest, Conflict, HTTPException, NotFound

from flask_jsonrpc_mcp import Call, McpBlueprint, RpcError
from flask_jsonrpc_mcp.testing import McpTestClient
from tests.conftest import Site, asking, basic, make_auth
from tests.support import faces


def raising(error: BaseException, rpc: McpBlueprint | None = None) -> Site:
    """A site whose tool ``fail`` raises this."""
    rpc = rpc or McpBlueprint()

    @rpc.tool(read_only=True)
    def fail() -> None:
        raise error

    return Site(rpc)


def rest(site: Site) -> tuple[int, Any]:
    response = site.invoke("fail", {})
    return response.status_code, response.get_json()["error"]


def rpc_error(site: Site) -> tuple[int, Any]:
    response = site.rpc_post(asking("fail"))
    return response.status_code, response.get_json()["error"]


def text_for_models(site: Site) -> str:
    reply = faces.mcp_modern("fail", {}).send(site.client)
    assert reply.status_code == 200
    result = reply.get_json()["result"]
    assert result["isError"] is True
    text: str = result["content"][0]["text"]
    return text


# RpcError


def test_an_rpc_error_can_choose_its_status_and_slug() -> None:
    site = raising(RpcError("Shelf 3 is full", status=409, slug="shelf_full", data={"shelf": 3}))
    assert rest(site) == (409, {"code": "shelf_full", "message": "Shelf 3 is full", "data": {"shelf": 3}})
    expected = {"code": -32000, "message": "Shelf 3 is full", "data": {"status": 409, "shelf": 3}}
    assert rpc_error(site) == (200, expected)
    assert text_for_models(site) == "Shelf 3 is full"


def test_the_slug_is_made_from_the_status() -> None:
    assert rest(raising(RpcError("full", status=409))) == (409, {"code": "conflict", "message": "full"})


def test_data_that_is_not_an_object_is_left_as_it_is() -> None:
    assert rpc_error(raising(RpcError("full", status=409, data=[1])))[1]["data"] == [1]


def test_without_a_status_nothing_changes() -> None:
    site = raising(RpcError("full"))
    assert rest(site) == (500, {"code": "execution_error", "message": "Tool execution failed: full"})
    assert rpc_error(site) == (200, {"code": -32000, "message": "full"})


def test_a_status_that_does_not_exist_raises_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="999 is not a valid HTTPStatus"):
        RpcError("full", status=999)


# What a view would raise


@pytest.mark.parametrize(
    ("error", "status", "slug", "text"),
    [
        (NotFound("No such shelf"), 404, "not_found", "No such shelf"),
        (NotFound(), 404, "not_found", "Not Found"),
        (Conflict("Already lent"), 409, "conflict", "Already lent"),
        (BadRequest("Which one?\nThe <b>red</b> one?"), 400, "bad_request", "Which one? The <b>red</b> one?"),
    ],
)
def test_an_abort_is_an_expected_failure(error: HTTPException, status: int, slug: str, text: str) -> None:
    site = raising(error)
    assert rest(site) == (status, {"code": slug, "message": text})
    assert rpc_error(site) == (200, {"code": -32000, "message": text, "data": {"status": status}})
    assert text_for_models(site) == text


def test_an_abort_with_a_response_has_the_status_of_the_response() -> None:
    with pytest.raises(HTTPException) as raised:
        abort(Response("gone", 410))
    assert rest(raising(raised.value))[0] == 410


def test_a_validation_error_of_marshmallow_lists_every_problem() -> None:
    messages = {"title": ["Too long."], "tags": {0: ["Unknown."]}, "_schema": ["Do not fit."]}
    site = raising(marshmallow.ValidationError(messages))
    expected = [
        {"path": "/title", "message": "Too long."},
        {"path": "/tags/0", "message": "Unknown."},
        {"path": "", "message": "Do not fit."},
    ]
    assert rest(site) == (
        400,
        {
            "code": "invalid_arguments",
            "message": "Invalid arguments: /title: Too long.; /tags/0: Unknown.; Do not fit.",
            "errors": expected,
        },
    )
    assert rpc_error(site)[1] == {"code": -32602, "message": "Invalid params", "data": {"errors": expected}}
    assert "/tags/0: Unknown." in text_for_models(site)


def test_a_validation_error_of_pydantic_lists_every_problem() -> None:
    model = pydantic.create_model("Book", title=(str, ...), year=(int, ...))
    with pytest.raises(pydantic.ValidationError) as raised:
        model.model_validate({"year": "secret"})
    status, error = rest(raising(raised.value))
    assert (status, error["code"]) == (400, "invalid_arguments")
    assert [problem["path"] for problem in error["errors"]] == ["/title", "/year"]
    assert "secret" not in str(error)


# Sending an anonymous caller away


def make_login(app: Flask, view: str | None) -> None:
    manager = LoginManager(app)
    manager.login_view = view
    manager.user_loader(lambda user_id: None)


def needing_login(kind: str) -> Site:
    auth = HTTPBasicAuth(realm="Library")
    auth.verify_password(lambda username, password: None)
    rpc = McpBlueprint(auth=auth)
    site = Site(rpc, SECRET_KEY="key")
    if kind == "abort":
        rpc.tool("fail", read_only=True)(lambda: abort(401))
    elif kind == "Flask-HTTPAuth":
        rpc.tool("fail", read_only=True)(auth.login_required(lambda: "in"))
    else:
        make_login(site.app, "login" if kind == "Flask-Login with a login page" else None)
        site.app.add_url_rule("/login", "login", lambda: "sign in here")
        rpc.tool("fail", read_only=True)(login_required(lambda: "in"))
    return site


@pytest.mark.parametrize("kind", ["abort", "Flask-HTTPAuth", "Flask-Login", "Flask-Login with a login page"])
@pytest.mark.parametrize("face", [faces.rest, faces.jsonrpc, faces.mcp_modern, faces.own_url])
def test_an_anonymous_caller_is_asked_to_sign_in(kind: str, face: faces.Face) -> None:
    response = face("fail", {}).send(needing_login(kind).client)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == 'Basic realm="Library"'
    assert response.is_json


def test_a_redirect_of_a_signed_in_caller_is_an_unexpected_failure(caplog: pytest.LogCaptureFixture) -> None:
    rpc = McpBlueprint(auth=make_auth())
    rpc.tool("fail")(lambda: redirect("/elsewhere"))
    response = Site(rpc).invoke("fail", {}, headers=basic("writer"))
    assert (response.status_code, response.get_json()["error"]["code"]) == (500, "execution_error")
    assert "'fail' returned a text/html response with status 302; return the value itself" in caplog.text


# Responses as results


def test_the_json_of_a_response_is_the_result(site: Site) -> None:
    site.rpc.tool("jsonify")(lambda: jsonify(books=3))
    site.rpc.tool("with a status".replace(" ", "-"))(lambda: (jsonify([1, 2]), 201))
    site.rpc.tool("dumped")(lambda: Response('"text"', mimetype="application/problem+json"))
    assert site.invoke("jsonify", {}).get_json() == {"result": {"books": 3}}
    assert site.invoke("with-a-status", {}).get_json() == {"result": [1, 2]}
    assert site.invoke("dumped", {}).get_json() == {"result": "text"}


def test_a_response_with_a_status_of_the_client_is_an_expected_failure(site: Site) -> None:
    site.rpc.tool("fail")(lambda: (jsonify(error="No such book"), 404))
    assert rest(site) == (404, {"code": "not_found", "message": 'NOT FOUND: {"error":"No such book"}'})


def test_tuples_without_a_response_are_results(site: Site) -> None:
    site.rpc.tool("pair")(lambda: ("a", 404))
    site.rpc.tool("empty")(lambda: ())
    assert site.invoke("pair", {}).get_json() == {"result": ["a", 404]}
    assert site.invoke("empty", {}).get_json() == {"result": []}


# errorhandler


class Missing(LookupError):
    """An error of the app."""


class MissingBook(Missing):
    """A more specific one."""


def test_an_error_handler_answers_with_a_text_a_status_or_an_error() -> None:
    rpc = McpBlueprint()
    rpc.errorhandler(ValueError)(lambda error: f"Bad value: {error}")
    rpc.errorhandler(Missing)(lambda error: (f"Missing: {error}", 404))
    rpc.errorhandler(KeyError)(lambda error: RpcError("No key", code=-32099, status=410))
    site = Site(rpc)
    for name, error in {"value": ValueError("x"), "missing": MissingBook("Emma"), "key": KeyError("k")}.items():

        def fail(error: Exception = error) -> None:
            raise error

        rpc.add_tool(fail, name, params={"properties": {}})
    assert site.invoke("value", {}).get_json()["error"]["message"] == "Tool execution failed: Bad value: x"
    missing = site.invoke("missing", {})
    assert (missing.status_code, missing.get_json()) == (
        404,
        {"error": {"code": "not_found", "message": "Missing: Emma"}},
    )
    assert site.rpc_post(asking("key")).get_json()["error"] == {
        "code": -32099,
        "message": "No key",
        "data": {"status": 410},
    }


def test_the_handler_of_the_most_specific_class_is_called() -> None:
    rpc = McpBlueprint()
    rpc.errorhandler(Exception)(lambda error: ("anything", 400))
    rpc.errorhandler(MissingBook)(lambda error: ("book", 404))
    rpc.errorhandler(Missing)(lambda error: ("missing", 410))
    assert rest(raising(MissingBook(), rpc)) == (404, {"code": "not_found", "message": "book"})


def test_a_handler_can_be_registered_for_the_status_of_abort() -> None:
    rpc = McpBlueprint()

    @rpc.errorhandler(404)
    async def not_found(error: NotFound) -> tuple[str, int]:
        return f"Nothing: {error.description}", 404

    assert rest(raising(NotFound("shelf"), rpc)) == (404, {"code": "not_found", "message": "Nothing: shelf"})


def test_a_handler_that_raises_an_error_without_a_form_in_json_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    rpc = McpBlueprint()

    @rpc.errorhandler(Missing)
    def missing(error: Missing) -> None:
        raise RpcError("Missing", data=object())

    site = raising(Missing(), rpc)
    rpc.add_tool(lambda: "fine", "fine")
    failed, fine = site.rpc_post([asking("fail", id=1), asking("fine", id=2)]).get_json()
    assert (failed["id"], failed["error"]["code"]) == (1, -32603)
    assert (fine["id"], fine["result"]) == (2, "fine")


def test_a_handler_that_raises_an_rpc_error_is_answered_with_it() -> None:
    rpc = McpBlueprint()

    @rpc.errorhandler(Missing)
    def missing(error: Missing) -> None:
        raise RpcError("raised", status=404)

    assert rest(raising(Missing(), rpc)) == (404, {"code": "not_found", "message": "raised"})


@pytest.mark.parametrize("answer", [None, 404, ("text",), (404, "text"), {"text": 1}])
def test_a_handler_with_a_wrong_answer_is_an_unexpected_failure(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    rpc = McpBlueprint()

    @rpc.errorhandler(Missing)
    def missing(error: Missing) -> Any:
        return answer

    assert rest(raising(Missing(), rpc))[0] == 500
    assert "missing() must return an RpcError, a text or (text, status)" in caplog.text


def test_rpc_errors_and_error_handlers_of_the_app_are_left_alone() -> None:
    rpc = McpBlueprint()
    rpc.errorhandler(Exception)(lambda error: ("handled", 400))
    assert rest(raising(RpcError("mine"), rpc))[1]["message"] == "Tool execution failed: mine"
    site = raising(Missing())
    site.app.register_error_handler(Missing, lambda error: "<h1>HTML</h1>")
    assert rest(site)[1]["code"] == "execution_error"


@pytest.mark.parametrize("wrong", [999, 200, "404", KeyboardInterrupt, None])
def test_what_cannot_be_handled_raises_at_registration(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"abort\(\) raises|errorhandler takes"):
        McpBlueprint().errorhandler(wrong)(lambda error: "")


# What stays inside


def test_debug_mode_shows_type_and_text_of_an_unexpected_failure() -> None:
    site = raising(KeyError("no such key"))
    assert "KeyError" not in text_for_models(site)
    site.app.debug = True
    assert text_for_models(site).endswith(": KeyError: 'no such key'")
    assert "KeyError" in rest(site)[1]["message"]


def test_the_log_names_tool_function_and_caller(caplog: pytest.LogCaptureFixture) -> None:
    rpc = McpBlueprint(auth=make_auth())

    @rpc.tool("books.lend")
    def lend_book() -> None:
        raise KeyError("no such key")

    site = Site(rpc)
    with caplog.at_level(logging.INFO):
        site.invoke("books.lend", {}, headers=basic("writer"))
    failure, call = caplog.records[-2:]
    function = "test_the_log_names_tool_function_and_caller.<locals>.lend_book()"
    fields = ("tool", "face", "caller", "function", "id")
    assert [vars(failure)[field] for field in fields[:4]] == ["books.lend", "rest", "writer", function]
    assert failure.getMessage() == (
        f"unexpected failure in 'books.lend', function={function} caller='writer' id={vars(failure)['id']}"
    )
    assert isinstance(failure.exc_info, tuple)
    assert failure.exc_info[0] is KeyError
    assert [vars(call)[field] for field in ("tool", "face", "caller", "outcome", "id")] == [
        "books.lend",
        "rest",
        "writer",
        "execution_error",
        vars(failure)["id"],
    ]
    assert vars(call)["ms"] >= 0


def test_error_trackers_hear_of_unexpected_failures_only() -> None:
    heard = []
    site = raising(KeyError("bug"))
    site.rpc.tool("expected")(lambda: abort(404))

    def listen(sender: Flask, exception: BaseException, **rest: Any) -> None:
        heard.append(exception)

    with got_request_exception.connected_to(listen, site.app):
        site.invoke("expected", {})
        site.invoke("fail", {})
    assert [type(error) for error in heard] == [KeyError]


# around


def recording(rpc: McpBlueprint, name: str, seen: list[str]) -> None:
    @rpc.around
    def hook(call: Call) -> Iterator[None]:
        seen.append(f"{name} before {call.name}")
        try:
            yield
        except Exception as error:
            seen.append(f"{name} sees {type(error).__name__}")
            raise
        seen.append(f"{name} after")


def test_functions_around_a_call_nest_in_the_order_of_registration(site: Site) -> None:
    seen: list[str] = []
    recording(site.rpc, "outer", seen)
    recording(site.rpc, "inner", seen)
    site.rpc.tool("work")(lambda: seen.append("work"))
    assert site.invoke("work", {}).status_code == 200
    assert seen == ["outer before work", "inner before work", "work", "inner after", "outer after"]


def test_they_see_the_exception_of_the_method() -> None:
    seen: list[str] = []
    rpc = McpBlueprint()
    recording(rpc, "hook", seen)
    assert rest(raising(KeyError("x"), rpc))[0] == 500
    assert seen == ["hook before fail", "hook sees KeyError"]


def test_they_see_a_result_that_breaks_its_schema(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    rpc = McpBlueprint()
    recording(rpc, "hook", seen)

    @rpc.tool("fail")
    def lie() -> int:
        return "text"  # type: ignore[return-value]

    assert rest(Site(rpc))[0] == 500
    assert seen == ["hook before fail", "hook sees ResultError"]
    assert "must be of type integer" in caplog.text


def test_they_do_not_run_for_arguments_that_are_refused(site: Site) -> None:
    seen: list[str] = []
    recording(site.rpc, "hook", seen)
    site.rpc.tool("work")(lambda: None)
    assert site.invoke("work", {"unknown": 1}).status_code == 400
    assert seen == []


def test_a_function_may_return_a_context_manager(site: Site) -> None:
    seen = []

    @contextmanager
    def manager() -> Iterator[None]:
        seen.append("before")
        yield
        seen.append("after")

    site.rpc.around(lambda call: manager())
    site.rpc.tool("work")(lambda: seen.append("work"))
    site.invoke("work", {})
    assert seen == ["before", "work", "after"]


def test_they_run_in_the_thread_of_the_method(site: Site) -> None:
    import threading

    threads = []

    @site.rpc.around
    def hook(call: Call) -> Iterator[None]:
        threads.append(threading.get_ident())
        yield
        threads.append(threading.get_ident())

    site.rpc.tool("work", timeout=30)(lambda: threads.append(threading.get_ident()))
    site.invoke("work", {})
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_they_run_around_generators_prompts_and_resources(site: Site) -> None:
    seen: list[str] = []
    recording(site.rpc, "hook", seen)

    @site.rpc.tool
    def count() -> Iterator[int]:
        seen.append("counting")
        yield 1

    @site.rpc.prompt
    def review() -> str:
        return "review"

    @site.rpc.resource("books://all")
    def books() -> str:
        return "books"

    client = McpTestClient(site.app)
    client.call("count")
    client.get_prompt("review")
    client.read_resource("books://all")
    assert seen == [
        *("hook before count", "counting", "hook after"),
        *("hook before review", "hook after"),
        *("hook before books://all", "hook after"),
    ]


def test_a_function_that_swallows_the_exception_does_not_make_it_a_success() -> None:
    rpc = McpBlueprint()

    @rpc.around
    def swallow(call: Call) -> Iterator[None]:
        try:
            yield
        except KeyError:
            pass

    assert rest(raising(KeyError("x"), rpc))[0] == 500


def test_a_function_that_refuses_keeps_the_method_from_running(site: Site) -> None:
    ran = []

    @site.rpc.around
    def closed(call: Call) -> Iterator[None]:
        raise RpcError("Closed on Sundays", status=403)
        yield

    site.rpc.tool("fail")(lambda: ran.append(True))
    assert rest(site) == (403, {"code": "forbidden", "message": "Closed on Sundays"})
    assert ran == []


def test_async_functions_around_are_refused() -> None:
    async def hook(call: Call) -> None: ...

    with pytest.raises(TypeError, match=r"hook\(\): a function around methods must not be async"):
        McpBlueprint().around(hook)
