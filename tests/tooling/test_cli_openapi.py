"""``flask mcp openapi`` and ``flask mcp tools-from``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.doctor import examine

SPEC: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Books", "version": "1"},
    "paths": {
        "/books": {
            "get": {
                "operationId": "list_books",
                "summary": "List books",
                "parameters": [{"name": "X-Trace", "in": "header"}],
            },
            "post": {
                "operationId": "add_book",
                "requestBody": {"content": {"application/xml": {}}},
            },
        },
        "/shelves": {"get": {"operationId": "list_shelves"}},
    },
}


@pytest.fixture
def app() -> Flask:
    app = Flask("library")
    app.add_url_rule("/books", "books", lambda: [], methods=["GET", "POST"])
    app.add_url_rule("/openapi.json", "spec", lambda: SPEC)
    rpc = McpBlueprint()
    rpc.add_openapi(SPEC, include=["list_*"])
    app.register_blueprint(rpc)
    return app


def run(app: Flask, *command: str) -> Result:
    return app.test_cli_runner().invoke(mcp, command)


def test_openapi_prints_the_document(app: Flask) -> None:
    document = json.loads(run(app, "openapi").output)
    assert document == app.test_client().get("/mcp/openapi.json").get_json()


def test_openapi_says_what_to_install(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.http.rest.find_spec", lambda name: None)
    ended = run(app, "openapi")
    assert (ended.exit_code, "install flask-jsonrpc-mcp[openapi]" in ended.output) == (2, True)


def test_tools_from_shows_tools_with_their_size_and_what_is_left_out(app: Flask) -> None:
    found = json.loads(run(app, "tools-from", "/openapi.json", "--include", "*_books", "--include", "add_*").output)
    [tool] = found["tools"]
    described = app.test_client().get("/mcp/tools/describe?name=list_books").get_json()["tool"]
    members = ("name", "title", "description", "inputSchema")
    size = len(json.dumps({name: described[name] for name in members}, separators=(",", ":")))
    assert tool == {
        "name": "list_books",
        "operation": "GET /books",
        "hints": ["read_only"],
        "bytes": size,
        "left_out_parameters": ["X-Trace"],
    }
    assert found["left_out"] == [
        {"operation": "add_book (POST /books)", "reason": "its body is application/xml, which has no JSON form"},
        {"operation": "list_shelves (GET /shelves)", "reason": "not included"},
    ]


def test_tools_from_reads_files_and_finds_missing_endpoints(app: Flask, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(SPEC), encoding="utf-8")
    ended = run(app, "tools-from", str(file), "--include", "GET *", "--name", "api", "--no-json-output")
    assert "api.list_books" in ended.output
    assert "about" in ended.output
    assert "the app has no endpoint for GET /shelves" in " ".join(ended.output.split())
    yaml = tmp_path / "spec.yaml"
    yaml.write_text('{"openapi": "3.1.0", paths: {/books: {get: {operationId: list}}}}', encoding="utf-8")
    assert json.loads(run(app, "tools-from", str(yaml)).output)["left_out"][0]["operation"] == "list (GET /books)"


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("missing.json", [], "missing.json"),
        ("/missing", [], "the app answers 404 NOT FOUND; flask routes lists its paths"),
        ("/mcp/explorer", [], "the app answers text/html, not JSON"),
        ("/books", [], "this is not an OpenAPI document"),
        ("/openapi.json", ["--include", "nothing"], "No operation matches 'nothing'"),
    ],
)
def test_a_mistake_is_explained(app: Flask, spec: str, options: list[str], message: str) -> None:
    ended = run(app, "tools-from", spec, *options)
    assert (ended.exit_code, message in ended.output) == (2, True)


def test_the_doctor_finds_a_missing_endpoint_and_counts_what_a_model_reads(app: Flask) -> None:
    found = {(finding.slug, finding.tool): finding for finding in examine(app)}
    assert ("no-endpoint", "list_shelves") in found
    assert ("no-endpoint", "list_books") not in found
    assert ("tools-huge", None) not in found
    assert "the app has no endpoint for GET /shelves" in run(app, "doctor").output
    rpc = McpBlueprint("large", url_prefix="/large")
    paths = {f"/books{number}": {"get": {"description": "word " * 500}} for number in range(50)}
    rpc.add_openapi({**SPEC, "paths": paths}, include=["*"])
    app.register_blueprint(rpc)
    [huge] = [finding for finding in examine(app) if finding.slug == "tools-huge"]
    assert (huge.blueprint, huge.why.endswith("of 50 tools before each conversation")) == ("large", True)
