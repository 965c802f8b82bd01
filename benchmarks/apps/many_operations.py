"""``BENCH_OPERATIONS`` endpoints with an OpenAPI document; with ``BENCH_TOOLS_FROM`` their operations are tools.

``document`` is what makes them tools: a dict, so that everything happens at import. Without it this is the bare app.
"""

from __future__ import annotations

import os
from typing import Any

from flask import Flask

app = Flask(__name__)
app.secret_key = "benchmark"  # noqa: S105 (nothing to hide)

BOOK = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "pages": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "author": {"$ref": "#/components/schemas/Author"},
    },
    "required": ["title"],
}
AUTHOR = {"type": "object", "properties": {"name": {"type": "string"}, "born": {"type": "string", "format": "date"}}}


def make_operation(number: int) -> dict[str, Any]:
    return {
        "operationId": f"save_{number}",
        "summary": f"Save book {number}",
        "tags": ["books"],
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Book"}}}},
    }


paths = {}
for number in range(int(os.environ["BENCH_OPERATIONS"])):
    app.add_url_rule(f"/books{number}/<int:id>", f"save_{number}", lambda **values: values, methods=["PUT"])
    paths[f"/books{number}/{{id}}"] = {"put": make_operation(number)}

if "BENCH_TOOLS_FROM" in os.environ:
    from flask_jsonrpc_mcp import McpBlueprint

    document = {"openapi": "3.0.3", "paths": paths, "components": {"schemas": {"Book": BOOK, "Author": AUTHOR}}}
    rpc = McpBlueprint()
    rpc.add_openapi(document, include=["tag:books"])
    app.register_blueprint(rpc)
