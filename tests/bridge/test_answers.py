"""Whatever a site may answer."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from typing import Any

import pytest

from tests.support.stdio_client import modern

from .conftest import Bridged, Connect, call, failure, listed, success, text_of
from .drupal_site import DrupalSite, Raw, as_json

BROKEN: list[tuple[str, Raw]] = [
    ("HTML", Raw(200, b"<html>Maintenance</html>", {"Content-Type": "text/html"})),
    ("nothing", Raw(200)),
    ("broken JSON", Raw(200, b'{"jsonrpc": "2.0", "id": ')),
    ("NaN", Raw(200, b'{"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "result": NaN}')),
    ("a list", as_json(200, [1])),
    ("no version", as_json(200, {"id": "flask-jsonrpc-mcp", "result": 1})),
    ("another version", as_json(200, {"jsonrpc": "1.0", "id": "flask-jsonrpc-mcp", "result": 1})),
    ("another id", as_json(200, {"jsonrpc": "2.0", "id": "another", "result": 1})),
    ("no id", as_json(200, {"jsonrpc": "2.0", "result": 1})),
    ("a null id", as_json(200, {"jsonrpc": "2.0", "id": None, "result": 1})),
    ("both", as_json(200, {"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "result": 1, "error": {"code": 1}})),
    ("neither", as_json(200, {"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp"})),
    ("an odd error", as_json(200, {"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "error": "no"})),
    ("too deep", Raw(200, b"[" * 5000)),
    ("401", Raw(401, b"<h1>Unauthorized</h1>", {"WWW-Authenticate": "Basic"})),
    ("403", Raw(403, b"")),
    ("429", Raw(429, b"", {"Retry-After": "7"})),
    ("500", Raw(500, b"<h1>Error</h1>")),
    ("cut short", Raw(200, b"{", {"Content-Length": "100"})),
    ("garbage", Raw(200, b"not gzip", {"Content-Encoding": "gzip"})),
    ("half of gzip", Raw(200, gzip.compress(b"1")[:-1], {"Content-Encoding": "gzip"})),
    ("invalid UTF-8", Raw(200, b'{"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "result": "\xff"}')),
    ("a huge challenge", Raw(401, b"", {"WWW-Authenticate": "Basic " + "x" * 1_000_000})),
    ("an odd status", Raw(999, b"")),
]


@pytest.mark.parametrize("raw", [raw for _, raw in BROKEN], ids=[name for name, _ in BROKEN])
def test_whatever_the_site_answers_is_an_error_of_that_one_call(bridge: Bridged, drupal: DrupalSite, raw: Raw) -> None:
    drupal.raw.extend([raw] * 3)
    result = call(bridge, "node.get", {"id": "7"})
    assert (set(result), result["isError"]) == ({"content", "isError"}, True)
    drupal.raw.clear()
    assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (Raw(401), "The site answered with 401 Unauthorized: check MCP_BRIDGE_USER"),
        (Raw(429, b"", {"Retry-After": "7"}), "The site answered with 429 Too Many Requests; try again in 7 seconds"),
        (Raw(302, b"", {"Location": "https://other.example/login?next=x"}), "redirects to https://other.example (302)"),
        (Raw(302, b"", {"Location": "/login"}), "The site redirects (302), which the bridge does not follow"),
        (Raw(200, b"<p>", {"Content-Type": "text/html"}), "something that is not JSON (text/html)"),
        (Raw(200, b"<p>", {"Content-Type": "\x9b31mred"}), "something that is not JSON ( 31mred)"),
    ],
)
def test_what_went_wrong_is_said(bridge: Bridged, drupal: DrupalSite, raw: Raw, text: str) -> None:
    drupal.raw.append(raw)
    assert text in text_of(call(bridge, "node.create", {"title": "a"}))


@pytest.mark.parametrize(
    "raw",
    [
        Raw(200, b"<html>"),
        as_json(200, {"results": 1}),
        as_json(500, {"error": "no"}),
        Raw(401, b'{"error": {"code": "unauthorized", "message": "Valid credentials are required"}}'),
        Raw(204),
    ],
)
def test_whatever_invoke_answers_is_an_error_of_that_one_call(connect: Connect, drupal: DrupalSite, raw: Raw) -> None:
    bridge = connect(endpoint="/mcp/tools/invoke")
    drupal.raw.append(raw)
    assert call(bridge, "node.create", {"title": "a"})["isError"]
    assert call(bridge, "node.create", {"title": "a"}) == success({"id": 1, "title": "a"})


def test_every_problem_of_the_arguments_is_listed(connect: Connect, drupal: DrupalSite) -> None:
    problems = [{"path": "/limit", "message": "must be at most 100"}, {"path": "/x", "message": "is not expected here"}]
    text = "Invalid arguments: /limit: must be at most 100; /x: is not expected here"

    def refuse(id: Any) -> Raw:
        error = {"code": -32602, "message": "Invalid params", "data": {"errors": problems}}
        return as_json(200, {"jsonrpc": "2.0", "id": id, "error": error})

    drupal.raw.append(refuse("flask-jsonrpc-mcp"))
    assert call(connect(), "node.get", {"x": 1}) == failure(text)
    drupal.raw.append(as_json(400, {"error": {"code": "invalid_arguments", "message": "no", "errors": problems}}))
    assert call(connect(endpoint="/mcp/tools/invoke"), "node.get", {"x": 1}) == failure(text)


def test_an_error_may_be_without_an_id(bridge: Bridged, drupal: DrupalSite) -> None:
    drupal.raw.append(as_json(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}))
    assert call(bridge, "node.create") == failure("Parse error")


def test_a_response_has_at_most_sixteen_mebibytes(bridge: Bridged, drupal: DrupalSite) -> None:
    listed(bridge)
    largest = json.dumps({"jsonrpc": "2.0", "id": "flask-jsonrpc-mcp", "result": 1}).encode().ljust(16 * 1024 * 1024)
    drupal.raw.extend([Raw(200, largest), Raw(200, largest + b" ")])
    assert call(bridge, "node.get", {"id": "7"}) == success(1)
    assert "longer than 16 MiB" in text_of(call(bridge, "node.create"))


@pytest.mark.parametrize("body", [b'{"tools": []}', b" " * 100], ids=["JSON", "no JSON"])
def test_a_response_may_be_compressed_with_gzip(connect: Connect, drupal: DrupalSite, body: bytes) -> None:
    drupal.listed = Raw(200, gzip.compress(body), {"Content-Encoding": "gzip"})
    reply = connect().ask(modern("tools/list"))
    assert ("result" in reply) == (body != b" " * 100)
    assert {seen.headers["Accept-Encoding"] for seen in drupal.seen} == {"gzip"}


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "deflate"])
def test_other_content_encodings_are_refused(bridge: Bridged, drupal: DrupalSite, encoding: str) -> None:
    """Nested encodings multiply: 1.8 kB can decode to 1 GB."""
    drupal.raw.append(Raw(200, gzip.compress(gzip.compress(b"1")), {"Content-Encoding": encoding}))
    assert f"content encoding {encoding!r}" in text_of(call(bridge, "node.create"))


@pytest.mark.parametrize("layers", [1, 2])
def test_decoding_a_response_takes_bounded_memory(bridge: Bridged, drupal: DrupalSite, layers: int) -> None:
    body = b" " * 2**27
    for _ in range(layers):
        body = gzip.compress(body)
    listed(bridge)
    drupal.raw.append(Raw(200, body, {"Content-Encoding": ", ".join(["gzip"] * layers)}))
    tracemalloc.start()
    try:
        result = call(bridge, "node.create")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result["isError"]
    assert peak < 40 * 2**20
