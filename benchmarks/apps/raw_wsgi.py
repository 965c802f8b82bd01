"""The least that a WSGI app can do: read JSON, write JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.apps.rows import make_rows

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], object]

ROWS = make_rows()


def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    arguments = asked["params"]["arguments"]
    result = {"sum": arguments["a"] + arguments["b"]}
    return _answer({"jsonrpc": "2.0", "id": asked["id"], "result": result}, start_response)


def rows(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Write a thousand rows: what their JSON costs by itself."""
    return _answer(ROWS, start_response)


def _answer(value: Any, start_response: StartResponse) -> Iterable[bytes]:
    body = json.dumps(value).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
