"""What everything is compared with: a Flask route that does ``get_json`` and ``jsonify``, same key, same body."""

from __future__ import annotations

from flask import Flask, Response, jsonify, request

app = Flask(__name__)
app.secret_key = "benchmark"  # noqa: S105 (nothing to hide)


@app.post("/mcp")
def mcp() -> Response:
    asked = request.get_json()
    arguments = asked["params"]["arguments"]
    return jsonify(jsonrpc="2.0", id=asked["id"], result={"sum": arguments["a"] + arguments["b"]})


@app.post("/jsonrpc")
def jsonrpc() -> Response:
    asked = request.get_json()
    arguments = asked["params"]
    return jsonify(jsonrpc="2.0", id=asked["id"], result={"sum": arguments["a"] + arguments["b"]})


@app.post("/mcp/tools/invoke")
def invoke() -> Response:
    arguments = request.get_json()["arguments"]
    return jsonify(result={"sum": arguments["a"] + arguments["b"]})
