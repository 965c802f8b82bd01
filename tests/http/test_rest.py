"""The REST face: exact codes, texts, order of checks and headers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from flask import Response, request

from flask_jsonrpc_mcp import McpBlueprint, RpcError
from tests.conftest import Site, basic

INVOKE = "/mcp/tools/invoke"


@pytest.fixture
def adder(site: Site) -> Site:
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        if a == 13:
            raise RpcError("unlucky")
        return a + b

    site.tool(add)
    return site


def error(response: Any) -> tuple[int, str, str]:
    assert response.content_type == "application/json"
    body = response.get_json()
    return response.status_code, body["error"]["code"], body["error"]["message"]


def test_invoke_returns_the_result(adder: Site) -> None:
    response = adder.invoke("add", {"a": 2, "b": 3})
    assert response.status_code == 200
    assert response.data == b'{"result":5}'
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in response.headers


def test_describe_always_has_both_schemas(adder: Site) -> None:
    adder.tool(lambda: None, name="undeclared")
    assert adder.describe("add").get_json()["tool"]["outputSchema"] == {"type": "integer"}
    described = adder.describe("undeclared").get_json()
    assert described == {
        "tool": {
            "name": "undeclared",
            "description": "undeclared",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
            "outputSchema": {},
        }
    }


MISSING_NAME = (400, "missing_parameter", 'Required parameter "name" is missing or invalid')
MISSING_ARGUMENTS = (400, "missing_parameter", 'Required parameter "arguments" is missing or invalid')
INVALID_JSON = (400, "invalid_json", "Request body must be valid JSON")


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"{invalid json}", INVALID_JSON),
        (b"", INVALID_JSON),
        (b'{"name": "add", "name": "add", "arguments": {}}', INVALID_JSON),
        (b'{"name": "add", "arguments": {"a": NaN}}', INVALID_JSON),
        (b"[" * 100_000, INVALID_JSON),
        (b"[]", MISSING_NAME),
        (b"5", MISSING_NAME),
        (b"null", MISSING_NAME),
        (b'"add"', MISSING_NAME),
        (b"{}", MISSING_NAME),
        (b'{"arguments": {}}', MISSING_NAME),
        (b'{"name": 5, "arguments": {}}', MISSING_NAME),
        (b'{"name": null, "arguments": {}}', MISSING_NAME),
        (b'{"name": "", "arguments": {}}', MISSING_NAME),
        (b'{"name": ["add"], "arguments": null}', MISSING_NAME),
        (b'{"name": "add"}', MISSING_ARGUMENTS),
        (b'{"name": "add", "arguments": null}', MISSING_ARGUMENTS),
        (b'{"name": "add", "arguments": "a"}', MISSING_ARGUMENTS),
        (b'{"name": "add", "arguments": [1]}', MISSING_ARGUMENTS),
        (b'{"name": "add", "arguments": false}', MISSING_ARGUMENTS),
        (b'{"name": "nope", "arguments": 5}', MISSING_ARGUMENTS),
        (b'{"name": "nope", "arguments": {"x": 1}}', (404, "tool_not_found", "Tool 'nope' not found or access denied")),
    ],
    ids=lambda part: str(part)[:50],
)
def test_checks_come_in_their_order(adder: Site, body: bytes, answer: tuple[int, str, str]) -> None:
    response = adder.client.post(INVOKE, data=body, content_type="application/json")
    assert error(response) == answer
    assert response.headers["Cache-Control"] == "no-store"


def test_an_empty_list_of_arguments_is_none_at_all(site: Site) -> None:
    """PHP clients cannot tell an empty object from an empty list."""
    site.tool(lambda: "ran", name="f")
    assert site.invoke("f", []).get_json() == {"result": "ran"}


def test_members_of_the_body_we_do_not_know_are_ignored(adder: Site) -> None:
    response = adder.client.post(INVOKE, json={"name": "add", "arguments": {"a": 1}, "_meta": {}})
    assert response.get_json() == {"result": 2}


def test_every_problem_of_the_arguments_is_listed(adder: Site) -> None:
    response = adder.invoke("add", {"b": "x", "c": 1})
    assert response.status_code == 400
    problems = [
        {"path": "/b", "message": "must be of type integer, not string"},
        {"path": "/a", "message": "is required"},
        {"path": "/c", "message": "is not expected here"},
    ]
    assert response.get_json() == {
        "error": {
            "code": "invalid_arguments",
            "message": "Invalid arguments: /b: must be of type integer, not string;"
            " /a: is required; /c: is not expected here",
            "errors": problems,
        }
    }


def test_a_failing_method_is_an_execution_error(adder: Site) -> None:
    assert error(adder.invoke("add", {"a": 13})) == (500, "execution_error", "Tool execution failed: unlucky")


@pytest.mark.parametrize("query", ["cursor=\xe9", "cursor=%E9", "x=\xff"], ids=ascii)
@pytest.mark.parametrize("path", ["/mcp/tools/list", "/mcp/tools/describe"])
def test_a_query_string_that_is_no_utf_8_is_400(adder: Site, path: str, query: str) -> None:
    """A server hands over the bytes as they came, also those that a URL cannot have."""
    response = adder.client.get(path, environ_overrides={"QUERY_STRING": query})
    assert error(response) == (400, "invalid_request", "The query string must be UTF-8 and percent-encoded")


@pytest.mark.parametrize("query", ["", "?name=", "?nome=add"])
def test_describe_needs_a_name(adder: Site, query: str) -> None:
    assert error(adder.client.get("/mcp/tools/describe" + query)) == MISSING_NAME


def test_describe_of_an_unknown_tool(adder: Site) -> None:
    assert error(adder.describe("nope")) == (404, "tool_not_found", "Tool 'nope' not found or access denied")


def test_a_long_name_is_cut_in_the_answer(adder: Site) -> None:
    assert len(adder.invoke("x" * 100_000, {}).data) < 1024


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data"],
)
def test_a_body_that_is_not_labelled_as_json_runs_nothing(site: Site, content_type: str | None) -> None:
    """A form on any web page can send these types with the browser's cached credentials."""
    ran: list[int] = []
    site.tool(lambda: ran.append(1), name="f")
    response = site.client.post(INVOKE, data=b'{"name": "f", "arguments": {}}', content_type=content_type)
    assert error(response)[:2] == (415, "unsupported_media_type")
    assert ran == []


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_the_label_may_have_parameters_and_any_case(adder: Site, content_type: str) -> None:
    response = adder.client.post(INVOKE, data=b'{"name": "add", "arguments": {"a": 1}}', content_type=content_type)
    assert response.get_json() == {"result": 2}


def big(size: int) -> bytes:
    return b'{"name": "add", "arguments": {"a": 1}, "x": "' + b"x" * size + b'"}'


def test_a_body_over_four_megabytes_is_refused(adder: Site) -> None:
    response = adder.client.post(INVOKE, data=big(4 * 1024 * 1024), content_type="application/json")
    assert error(response)[:2] == (413, "body_too_large")
    assert adder.client.post(INVOKE, data=big(1024 * 1024), content_type="application/json").status_code == 200


def test_the_apps_own_body_limit_comes_first() -> None:
    site = Site(McpBlueprint(), MAX_CONTENT_LENGTH=100)
    response = site.client.post(INVOKE, data=big(200), content_type="application/json")
    assert error(response)[:2] == (413, "body_too_large")


def test_a_limit_that_the_app_sets_for_one_request_holds(adder: Site) -> None:
    @adder.app.before_request
    def limit() -> None:
        request.max_content_length = 100

    assert adder.client.post(INVOKE, data=big(200), content_type="application/json").status_code == 413
    assert adder.client.post(INVOKE, data=big(10), content_type="application/json").status_code == 200


def test_whoever_looks_at_the_request_after_us_finds_its_body(site: Site) -> None:
    seen = []

    @site.app.after_request
    def look(response: Response) -> Response:
        seen.append(request.get_data())
        return response

    site.tool(lambda: request.get_json()["why"], name="look")
    body = b'{"name": "look", "arguments": {}, "why": "curious"}'
    assert site.client.post(INVOKE, data=body, content_type="application/json").get_json() == {"result": "curious"}
    assert seen == [body]


def test_what_the_app_makes_of_an_answer_goes_out(adder: Site) -> None:
    @adder.app.after_request
    def change(response: Response) -> Response:
        response.set_cookie("seen", "yes")
        if request.args.get("say") == "nothing":
            response.status_code = 204
        else:
            response.set_data(b"longer than what we have said ourselves")
        return response

    said = adder.client.post(INVOKE, json={"name": "add", "arguments": {"a": 1}})
    assert (said.status_code, said.data) == (200, b"longer than what we have said ourselves")
    assert said.headers["Content-Length"] == str(len(said.data))
    assert said.headers["Set-Cookie"] == "seen=yes; Path=/"
    unsaid = adder.client.post(f"{INVOKE}?say=nothing", json={"name": "add", "arguments": {"a": 1}})
    assert (unsaid.status_code, unsaid.data) == (204, b"")
    assert "Content-Length" not in unsaid.headers


class OnceStream(io.BytesIO):
    """The stream of a server on which a second read would wait for ever."""

    def read(self, size: int | None = -1) -> bytes:
        assert self.tell() == 0
        return super().read(size)


def test_what_the_app_has_read_before_us_is_not_read_again(adder: Site) -> None:
    @adder.app.before_request
    def look() -> None:
        request.get_data()

    body = b'{"name": "add", "arguments": {"a": 1}}'
    response = adder.client.post(
        INVOKE,
        content_type="application/json",
        environ_overrides={"wsgi.input": OnceStream(body), "CONTENT_LENGTH": str(len(body))},
    )
    assert response.get_json() == {"result": 2}


class TricklingStream(io.BytesIO):
    """A stream that gives less than it is asked for, as raw ones may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 10))


class EndlessStream(io.RawIOBase):
    """A chunked body without an end, which counts what was read of it."""

    given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = b" " * len(buffer)
        self.given += len(buffer)
        return len(buffer)


def test_no_more_of_a_chunked_body_is_read_than_allowed(adder: Site) -> None:
    stream = EndlessStream()
    chunked = {"wsgi.input": stream, "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    response = adder.client.post(INVOKE, content_type="application/json", environ_overrides=chunked)
    assert error(response)[:2] == (413, "body_too_large")
    assert 0 < stream.given <= 4 * 1024 * 1024 + 1


def test_a_body_that_comes_in_pieces_is_read_to_its_end(adder: Site) -> None:
    body = b'{"name": "add", "arguments": {"a": 1}}'
    response = adder.client.post(
        INVOKE,
        content_type="application/json",
        environ_overrides={"wsgi.input": TricklingStream(body), "CONTENT_LENGTH": str(len(body))},
    )
    assert response.get_json() == {"result": 2}


def test_a_body_that_ends_too_early_is_a_400(adder: Site) -> None:
    response = adder.client.post(
        INVOKE,
        content_type="application/json",
        environ_overrides={"wsgi.input": io.BytesIO(b'{"name": "add"}'), "CONTENT_LENGTH": "100"},
    )
    assert error(response) == (400, "unreadable_body", "The request body could not be read")


def test_a_length_that_is_no_number_is_a_400(adder: Site) -> None:
    response = adder.client.post(
        INVOKE,
        content_type="application/json",
        environ_overrides={
            "wsgi.input": io.BytesIO(b'{"name": "add", "arguments": {"a": 1}}'),
            "wsgi.input_terminated": True,
            "CONTENT_LENGTH": "²",
        },
    )
    assert error(response) == (400, "unreadable_body", "The request body could not be read")


class BrokenStream:
    """What an HTTP server hands over when the client's framing is wrong."""

    def read(self, size: int = -1) -> bytes:
        raise OSError("Invalid chunk size: secret")

    readline = readinto = read


def test_a_body_the_server_cannot_read_is_a_400(adder: Site) -> None:
    response = adder.client.post(
        INVOKE,
        content_type="application/json",
        environ_overrides={"wsgi.input": BrokenStream(), "wsgi.input_terminated": True},
    )
    assert error(response) == (400, "unreadable_body", "The request body could not be read")


@pytest.mark.parametrize(
    ("path", "verb", "allowed"),
    [
        ("/mcp/tools/list", "POST", "GET, HEAD, OPTIONS"),
        ("/mcp/tools/describe", "DELETE", "GET, HEAD, OPTIONS"),
        ("/mcp/tools/invoke", "GET", "OPTIONS, POST"),
        ("/mcp/tools/invoke", "HEAD", "OPTIONS, POST"),
        ("/mcp/tools/invoke", "PROPFIND", "OPTIONS, POST"),
        ("/mcp/server-card", "PUT", "GET, HEAD, OPTIONS"),
        ("/.well-known/mcp.json", "POST", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_verb_is_405_with_allow(adder: Site, path: str, verb: str, allowed: str) -> None:
    response = adder.client.open(path, method=verb)
    assert response.status_code == 405
    assert response.headers["Allow"] == allowed
    if verb != "HEAD":
        assert error(response)[:2] == (405, "method_not_allowed")


def test_options_tells_what_is_allowed(adder: Site) -> None:
    response = adder.client.options(INVOKE)
    assert (response.status_code, response.headers["Allow"]) == (204, "OPTIONS, POST")


@pytest.mark.parametrize("verb", ["GET", "POST", "PATCH", "BREW", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp/nothing", "/mcp/tools/a/b", "/mcp/list/"])
def test_a_path_below_ours_with_nothing_behind_it_is_404_in_json(adder: Site, path: str, verb: str) -> None:
    response = adder.client.open(path, method=verb)
    assert error(response) == (404, "not_found", "Nothing is served at this path")


@pytest.mark.parametrize("path", ["/mcp/tools/list/", "/.well-known/mcp.json/"])
def test_a_trailing_slash_answers_without_a_redirect(adder: Site, path: str) -> None:
    assert adder.client.get(path).status_code == 200
    assert adder.client.post("/mcp/tools/invoke/", json={"name": "add", "arguments": {"a": 1}}).status_code == 200


def test_the_apps_own_error_pages_do_not_replace_our_answers(adder: Site) -> None:
    for code in (400, 401, 404, 405, 413, 415, 500):
        adder.app.register_error_handler(code, lambda error: ("<html>", 418))
    adder.app.register_error_handler(Exception, lambda error: ("<html>", 418))
    adder.tool(lambda: 1 / 0, name="broken")
    statuses = [
        adder.client.get("/mcp/tools/describe").status_code,
        adder.describe("nope").status_code,
        adder.client.post("/mcp/tools/list").status_code,
        adder.client.post(INVOKE, data=big(5_000_000), content_type="application/json").status_code,
        adder.client.post(INVOKE, data=b"").status_code,
        adder.invoke("broken", {}).status_code,
        adder.client.get("/mcp/nothing").status_code,
    ]
    assert statuses == [400, 404, 405, 413, 415, 500, 404]
    assert adder.client.get("/elsewhere").status_code == 418


@pytest.mark.parametrize("path", ["/mcp/tools/list", "/mcp/tools/describe?name=public", "/mcp/server-card"])
def test_lists_and_descriptions_can_be_kept(guarded_site: Site, path: str) -> None:
    for headers, scope in (({}, "public"), (basic("reader"), "private")):
        response = guarded_site.client.get(path, headers=headers)
        assert response.headers["Cache-Control"] == f"{scope}, no-cache"
        assert response.headers["Vary"] == "Authorization, Origin"
        again = guarded_site.client.get(path, headers={**headers, "If-None-Match": response.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == response.headers["ETag"]


def test_callers_with_other_tools_have_another_etag(guarded_site: Site) -> None:
    etags = {guarded_site.list_tools(headers=h).headers["ETag"] for h in ({}, basic("writer"), basic("admin"))}
    assert len(etags) == 3


def test_the_age_of_a_list_is_a_setting() -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_LIST_MAX_AGE=60)
    assert site.list_tools().headers["Cache-Control"] == "public, max-age=60"


def test_head_is_get_without_the_body(adder: Site) -> None:
    response = adder.client.head("/mcp/tools/list")
    assert (response.status_code, response.data) == (200, b"")
    assert response.headers["ETag"] == adder.list_tools().headers["ETag"]
