"""Tools from an OpenAPI 3 or Swagger 2 document: which operations, their schemas, and where the arguments go."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest
from flask import Flask, request

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.errors import InvalidParams
from flask_jsonrpc_mcp.openapi.api_arguments import read_arguments
from flask_jsonrpc_mcp.openapi.operations import Operation, choose, read_operations
from tests.conftest import Site

OPERATIONS = {
    "/books": {
        "get": {"operationId": "list_books", "tags": ["books"], "summary": "List books"},
        "post": {"operationId": "add_book", "tags": ["books", "staff"]},
    },
    "/shelves/{id}": {
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "get": {"description": "Read\r\na shelf\u200b."},
        "delete": {"operationId": "delete shelf!", "tags": ["staff"]},
        "head": {"operationId": "peek"},
    },
}


def document(paths: Any = OPERATIONS, **members: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "paths": paths, **members}


def names(include: Any) -> list[str]:
    return [operation.id for operation in choose(read_operations(document()), include)]


@pytest.mark.parametrize(
    ("include", "chosen"),
    [
        (["list_books"], ["list_books"]),
        (["*"], ["list_books", "add_book", "get_shelves_id", "delete shelf!"]),
        (["tag:books"], ["list_books", "add_book"]),
        (["tag:staff", "list*"], ["list_books", "add_book", "delete shelf!"]),
        (["GET *"], ["list_books", "get_shelves_id"]),
        (["get *"], ["list_books", "get_shelves_id"]),
        (["* /shelves/*"], ["get_shelves_id", "delete shelf!"]),
        (lambda operation: operation.method == "POST", ["add_book"]),
    ],
)
def test_include_chooses_by_id_tag_path_or_function(include: Any, chosen: list[str]) -> None:
    assert names(include) == chosen


@pytest.mark.parametrize(
    ("include", "error", "message"),
    [
        ("list_books", TypeError, "include must be a list of patterns or a function; write include=['list_books']"),
        ([], ValueError, "include is empty; list patterns such as 'get_*', 'tag:books' or 'GET /books/*'"),
        (["list_bookz"], ValueError, "include: no operation matches 'list_bookz'; did you mean list_books?"),
        (["/books"], ValueError, "include: no operation matches '/books'; did you mean GET /books or POST /books?"),
        (lambda operation: False, ValueError, "include chooses none of the 4 operations of the document"),
    ],
)
def test_a_wrong_include_raises_at_once(include: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        McpBlueprint().add_openapi(document(), include=include)
    assert str(raised.value) == message


@pytest.mark.parametrize("spec", [{}, {"openapi": "1.2"}, [], {"openapi": "3.1.0", "paths": [1]}])
def test_what_is_not_a_document_raises(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"OpenAPI document"):
        McpBlueprint().add_openapi(spec, include=["*"])


def test_a_path_to_a_file_is_not_a_document() -> None:
    with pytest.raises(TypeError, match="not a path; load the file first"):
        McpBlueprint().add_openapi("openapi.json", include=["*"])  # type: ignore[arg-type]


def test_include_is_required() -> None:
    with pytest.raises(TypeError, match="include"):
        McpBlueprint().add_openapi(document())  # type: ignore[call-arg]


def test_names_and_hints_can_be_chosen() -> None:
    rpc = McpBlueprint()
    rpc.add_openapi(
        document(),
        include=["*"],
        name="api",
        annotations=lambda operation: {"openWorldHint": operation.method == "POST"},
    )
    rpc.add_openapi(document(), include=["list_books"], name=lambda operation: f"all-{operation.tags[0]}")
    app = Flask("site")
    app.register_blueprint(rpc)
    site = Site(rpc, app)
    assert site.names() == ["api.list_books", "api.add_book", "api.get_shelves_id", "api.delete_shelf", "all-books"]
    tools = {tool["name"]: tool for tool in site.list_tools().get_json()["tools"]}
    assert tools["api.add_book"]["annotations"] == {"openWorldHint": True}
    assert tools["api.list_books"]["annotations"] == {"openWorldHint": False, "readOnlyHint": True}
    assert tools["api.list_books"]["title"] == "List books"
    assert tools["api.get_shelves_id"]["description"] == "Read\na shelf."
    assert tools["api.add_book"]["description"] == "POST /books"


def test_hints_that_are_given_replace_those_of_the_method() -> None:
    rpc = McpBlueprint()
    rpc.add_openapi(document(), include=["list_books"], annotations={"readOnlyHint": False})
    app = Flask("site")
    app.register_blueprint(rpc)
    [tool] = Site(rpc, app).list_tools().get_json()["tools"]
    assert tool["annotations"] == {"readOnlyHint": False}


def test_a_parameter_of_an_operation_replaces_that_of_its_path() -> None:
    def limit(maximum: int) -> list[dict[str, Any]]:
        return [{"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": maximum}}]

    paths = {"/books": {"parameters": limit(9), "get": {"parameters": limit(99)}, "delete": {}}}
    read_all = [read_arguments(operation) for operation in read_operations(document(paths))]
    assert [arguments.schema["properties"]["limit"]["maximum"] for arguments in read_all] == [99, 9]


def test_all_operations_become_tools_or_none() -> None:
    rpc = McpBlueprint()
    with pytest.raises(ValueError, match="already belongs to"):
        rpc.add_openapi(document(), include=["*"], name=lambda operation: "same")
    rpc.add_openapi(document(), include=["list_books"], name=lambda operation: "same")


def test_an_option_that_does_not_exist_raises() -> None:
    with pytest.raises(TypeError, match="has no option 'acess'; it has access, scopes, timeout, rate_limit"):
        McpBlueprint().add_openapi(document(), include=["*"], acess=["x"])  # type: ignore[call-arg]


def test_a_function_is_called_once_before_the_first_request() -> None:
    calls = []

    def spec() -> Any:
        calls.append(request.path)
        return document()

    rpc = McpBlueprint()
    rpc.add_openapi(spec, include=["list_books"], access=["read"])
    app = Flask("site")
    app.add_url_rule("/books", "books", lambda: [])
    app.register_blueprint(rpc)
    assert calls == []
    site = Site(rpc, app)
    assert site.client.get("/books").status_code == 200
    assert calls == []
    assert [site.names(), site.names()] == [[], []]  # no caller has the permission
    assert calls == ["/mcp/tools/list"]


def read(spec: dict[str, Any], components: Any = None, *, swagger: bool = False) -> Any:
    whole = {"swagger": "2.0", "definitions": components} if swagger else {"openapi": "3.0.3", "components": components}
    return read_arguments(Operation(id="x", method="POST", path="/x", spec=spec, document=whole))


def body(schema: Any, media_type: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {media_type: {"schema": schema}}, **more}}


def test_schemas_of_openapi_3_0_become_json_schema() -> None:
    """References are inlined, unless one of them is recursive."""
    schemas = {
        "Book": {
            "type": "object",
            "title": "Book",
            "required": ["id", "title"],
            "properties": {
                "id": {"type": "integer", "readOnly": True},
                "title": {"type": "string", "nullable": True, "example": "Emma", "x-order": 1},
                "pages": {
                    **{"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    **{"maximum": 9, "exclusiveMaximum": False},
                },
                "code": {"type": "string", "pattern": r"\p{L}+"},
                "author": {"$ref": "#/components/schemas/Author"},
                "next": {"$ref": "#/components/schemas/Node"},
            },
        },
        "Author": {"type": "object", "properties": {"name": {"type": "string"}}},
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
    }
    arguments = read(body({"$ref": "#/components/schemas/Book"}), {"schemas": schemas})
    assert arguments.schema == {
        "type": "object",
        "properties": {
            "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "examples": ["Emma"]},
            "pages": {"type": "integer", "maximum": 9, "exclusiveMinimum": 0},
            "code": {"type": "string"},
            "author": {"$ref": "#/$defs/Author"},
            "next": {"$ref": "#/$defs/Node"},
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {
            "Author": {"type": "object", "properties": {"name": {"type": "string"}}},
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
        },
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer"}},
        {"oneOf": [{"type": "object"}, {"type": "string"}]},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
    ],
)
def test_a_body_that_is_not_a_plain_object_is_one_argument(schema: Any) -> None:
    arguments = read(body(schema, required=True))
    assert arguments.schema["properties"] == {"body": schema}
    assert arguments.schema["required"] == ["body"]


def test_a_member_with_the_name_of_a_parameter_makes_the_body_one_argument() -> None:
    spec = body({"type": "object", "properties": {"id": {"type": "string"}}})
    spec["parameters"] = [{"name": "id", "in": "query", "schema": {"type": "integer"}}]
    assert list(read(spec).schema["properties"]) == ["id", "body"]


@pytest.mark.parametrize(
    ("parameter", "value", "query"),
    [
        ({"schema": {"type": "array"}}, ["a", 1], (("q", "a"), ("q", "1"))),
        ({"schema": {"type": "array"}, "explode": False}, ["a", "b"], (("q", "a,b"),)),
        ({"schema": {"type": "array"}, "style": "pipeDelimited"}, ["a", "b"], (("q", "a|b"),)),
        ({"schema": {"type": "object"}, "style": "deepObject"}, {"a": 1}, (("q[a]", "1"),)),
        ({"schema": {"type": "object"}}, {"a": 1, "b": "x"}, (("a", "1"), ("b", "x"))),
        ({"content": {"application/json": {"schema": {"type": "object"}}}}, {"a": 1}, (("q", '{"a":1}'),)),
        ({"type": "array"}, ["a", "b"], (("q", "a,b"),)),
        ({"type": "array", "collectionFormat": "multi"}, ["a", "b"], (("q", "a"), ("q", "b"))),
        ({"schema": {"type": "boolean"}}, True, (("q", "true"),)),
        ({"schema": {"type": "number", "nullable": True}}, None, ()),
    ],
)
def test_parameters_are_written_in_the_style_of_the_document(parameter: Any, value: Any, query: Any) -> None:
    arguments = read({"parameters": [{"name": "q", "in": "query", **parameter}]})
    assert parse_qsl(arguments.send_to("/x", {"q": value})["query_string"]) == list(query)


def test_names_that_model_apis_refuse_are_changed_and_sent_as_they_were() -> None:
    declared = [{"name": "filter[name]", "in": "query"}, {"name": "filter(name)", "in": "query"}]
    arguments = read({"parameters": declared})
    assert list(arguments.schema["properties"]) == ["filter_name_", "filter_name__"]
    sent = arguments.send_to("/x", {"filter_name_": "a", "filter_name__": "b"})
    assert parse_qsl(sent["query_string"]) == [("filter[name]", "a"), ("filter(name)", "b")]


def test_headers_and_cookies_are_not_arguments_but_preconditions_are() -> None:
    declared = [
        {"name": "If-Match", "in": "header", "schema": {"type": "string"}},
        {"name": "X-Api-Key", "in": "header", "required": True},
        {"name": "session", "in": "cookie"},
    ]
    arguments = read({"parameters": declared})
    assert (list(arguments.schema["properties"]), arguments.left_out) == (["If-Match"], ("X-Api-Key", "session"))
    assert arguments.send_to("/x", {"If-Match": '"1"'})["headers"] == {"If-Match": '"1"'}


def test_forms_and_files_of_swagger_2() -> None:
    declared = [
        {"name": "title", "in": "formData", "type": "string", "required": True},
        {"name": "cover", "in": "formData", "type": "file"},
    ]
    arguments = read({"parameters": declared}, swagger=True)
    assert arguments.schema["required"] == ["title"]
    assert arguments.schema["properties"]["cover"]["required"] == ["content"]
    sent = arguments.send_to("/x", {"title": "Emma", "cover": {"filename": "e.png", "content": "AAE="}})
    for name in ('x"; name="owner', "a\r\nb", "a\\b"):
        with pytest.raises(InvalidParams):
            arguments.send_to("/x", {"title": "Emma", "cover": {"filename": name, "content": "AAE="}})
    assert sent["content_type"] == "multipart/form-data"
    assert (sent["data"]["title"], sent["data"]["cover"].read()) == ("Emma", b"\x00\x01")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (body({}, "application/xml"), "its body is application/xml, which has no JSON form"),
        (body({"$ref": "other.yaml#/Book"}), "the reference 'other.yaml#/Book' cannot be resolved in the document"),
        (body({"type": "string"}, "multipart/form-data"), "its form has no fields in the document"),
    ],
)
def test_an_operation_that_cannot_be_a_tool_raises_with_the_reason(spec: Any, reason: str) -> None:
    paths = {"/x": {"post": {"operationId": "send", **spec}}}
    with pytest.raises(ValueError, match="leave it out of include") as raised:
        McpBlueprint().add_openapi(document(paths), include=["*"])
    assert str(raised.value) == f"operation send (POST /x) cannot be a tool: {reason}; leave it out of include"


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"servers": [{"url": "/v1"}]}, "/v1/books"),
        ({"servers": [{"url": "https://api.example/v1/"}]}, "/v1/books"),
        ({"servers": [{"url": "https://api.example/v1/"}]}, "/books"),
        ({}, "/books"),
    ],
)
def test_the_endpoint_is_found_with_or_without_the_base_path(members: Any, rule: str) -> None:
    rpc = McpBlueprint()
    rpc.add_openapi(document(**members), include=["list_books"])
    app = Flask("site")
    app.add_url_rule(rule, "books", lambda: [request.path])
    app.register_blueprint(rpc)
    assert Site(rpc, app).invoke("list_books", {}).get_json() == {"result": [rule]}


def test_an_endpoint_that_the_app_does_not_have_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    rpc = McpBlueprint()
    rpc.add_openapi(document(), include=["list_books"])
    app = Flask("site")
    app.register_blueprint(rpc)
    assert Site(rpc, app).invoke("list_books", {}).status_code == 500
    assert "the app has no endpoint for GET /books" in caplog.text
