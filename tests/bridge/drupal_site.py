"""A stand-in for a Drupal site with jsonrpc_mcp, written from what its documentation says, and told to misbehave.

``/mcp/tools/list`` in pages, ``/jsonrpc`` and one URL per tool by GET and POST, ``/mcp/tools/invoke`` by POST. PHP
writes an empty object as a list, and reads one like that; ids are strings; failures have status 400 or 500 and a
JSON-RPC body.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import listen

READS = {"readOnlyHint": True}


@dataclass(frozen=True)
class Seen:
    """A request as the site saw it."""

    verb: str
    path: str
    headers: dict[str, str]
    asked: Any = None


@dataclass(frozen=True)
class Raw:
    """A response to send whatever the request is; without a status the connection just closes."""

    status: int | None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trickle(Raw):
    """A response that never completes: `start`, and then `part` every 50 ms, for 10 seconds.

    :param below_tls: Write to the socket itself, which breaks an encrypted connection.
    """

    status: int | None = None
    start: bytes = b""
    part: bytes = b""
    below_tls: bool = False


@dataclass
class Tool:
    run: Callable[[dict[str, Any]], Any]
    described: dict[str, Any]


class Failed(Exception):
    """A JSON-RPC error, and the status that Drupal gives it."""

    def __init__(self, status: int, code: int, message: str, data: Any = None) -> None:
        self.status = status
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class DrupalSite:
    """The site. What it saw is in ``seen``; what it should answer to the next calls is in ``raw``."""

    def __init__(self, listener: socket.socket | None = None, certificate: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.raw: deque[Raw] = deque()
        self.page_size = 2
        self.listed: Any = None  # what the list is instead of the tools
        self.listing: Callable[[], None] = lambda: None  # what is done before the list is answered
        self.get_is_allowed = True
        self.hangs_up = False  # whether a connection that was used before is of no use any more
        self.client_left = threading.Event()  # set when a client closes its connection during a `Trickle`
        self.stopped = threading.Event()
        self.tools: dict[str, Tool] = {}
        self.tool("cache.rebuild", lambda params: True, output={"type": "boolean"}, annotations={"category": "system"})
        self.tool("node.get", self._get, properties={"id": {"type": "string"}}, annotations=READS)
        self.tool("node.create", self._create, properties={"title": {"type": "string"}}, required=["title"])
        self.tool("node.types", lambda params: [], output={"type": "object", "properties": []}, annotations=READS)
        self.tool("node.crash", self._crash)
        self._server = _QuietServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self._server.socket.close()
        listener = listener or listen()
        self._scheme = "http" if certificate is None else "https"
        self._server.socket = listener if certificate is None else certificate.wrap_socket(listener, server_side=True)
        self._server.server_address = self._server.socket.getsockname()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> DrupalSite:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self._server.server_address[1]}"

    @property
    def calls(self) -> list[Seen]:
        """What was seen besides discovery."""
        return [seen for seen in self.seen if seen.asked is not None]

    def tool(
        self,
        name: str,
        run: Callable[[dict[str, Any]], Any],
        *,
        properties: Any = None,
        required: list[str] | None = None,
        output: Any = None,
        annotations: Any = None,
    ) -> None:
        schema = {"type": "object", "properties": properties or []} | ({"required": required} if required else {})
        described = {"name": name, "description": f"Does {name}.", "inputSchema": schema}
        described |= {"annotations": annotations or []} | ({} if output is None else {"outputSchema": output})
        self.tools[name] = Tool(run, described)

    def respond(self, seen: Seen) -> Raw:
        path = urlsplit(seen.path).path
        if path == "/mcp/tools/list":
            return self._list(seen)
        if seen.asked is None:
            return Raw(404, b"<!DOCTYPE html><h1>Page not found</h1>", {"Content-Type": "text/html; charset=UTF-8"})
        if self.raw:
            return self.raw.popleft()
        if seen.verb == "GET" and not self.get_is_allowed:
            return Raw(405, b"<h1>Method Not Allowed</h1>", {"Content-Type": "text/html", "Allow": "POST"})
        if path == "/mcp/tools/invoke":
            return self._invoke(seen.asked)
        try:
            tool, params = self._read(seen.asked)
            if path not in ("/jsonrpc", f"/mcp/tools/{seen.asked['method']}"):
                raise Failed(404, -32601, "Method not found")
            return reply(200, seen.asked, result=tool.run(params))
        except Failed as failed:
            return reply(failed.status, seen.asked, error=failed.error)

    def _list(self, seen: Seen) -> Raw:
        self.listing()
        if self.listed is not None:
            return self.listed if isinstance(self.listed, Raw) else as_json(200, self.listed)
        [cursor] = parse_qs(urlsplit(seen.path).query).get("cursor", [""])
        start = int(base64.b64decode(cursor)) if cursor else 0
        end = start + self.page_size
        tools = [tool.described for tool in self.tools.values()]
        following = base64.b64encode(str(end).encode()).decode() if end < len(tools) else None
        return as_json(200, {"tools": tools[start:end], "nextCursor": following})

    def _read(self, asked: Any) -> tuple[Tool, dict[str, Any]]:
        if asked.get("jsonrpc") != "2.0" or not isinstance(asked.get("id"), str):
            raise Failed(400, -32600, "Invalid Request")
        if asked.get("params", True) in ({}, []):
            raise Failed(400, -32600, "Invalid Request", "params must not be empty")
        if asked["method"] not in self.tools:
            raise Failed(404, -32601, "Method not found")
        return self.tools[asked["method"]], asked.get("params", {})

    def _invoke(self, asked: Any) -> Raw:
        if asked["name"] not in self.tools:
            told = {"code": "tool_not_found", "message": f"Tool '{asked['name']}' not found or access denied"}
            return as_json(404, {"error": told})
        try:
            return as_json(200, {"result": self.tools[asked["name"]].run(asked["arguments"])})
        except Failed as failed:
            message = f"Tool execution failed: {failed.error.get('data', failed.error['message'])}"
            return as_json(500, {"error": {"code": "execution_error", "message": message}})

    @staticmethod
    def _get(params: dict[str, Any]) -> Any:
        if not isinstance(params.get("id"), str):
            raise Failed(400, -32602, "Invalid Params", "The id parameter is required.")
        return {"id": params["id"], "title": "Hello"}

    @staticmethod
    def _create(params: dict[str, Any]) -> Any:
        if "title" not in params:
            raise Failed(400, -32602, "Invalid Params", "The title parameter is required.")
        return {"id": 1, "title": params["title"]}

    @staticmethod
    def _crash(params: dict[str, Any]) -> Any:
        raise Failed(500, -32603, "Internal Error", "The database is away.")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            answered = False

            def do_GET(self) -> None:
                [query] = parse_qs(urlsplit(self.path).query).get("query", [""])
                self._answer(json.loads(query) if query else None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, asked: Any) -> None:
                if site.hangs_up and self.answered:
                    # As if the connection had been closed while this request was on its way.
                    self.close_connection = True
                    return
                seen = Seen(self.command, self.path, dict(self.headers), asked)
                site.seen.append(seen)
                raw = site.respond(seen)
                if isinstance(raw, Trickle):
                    self._trickle(raw)
                if raw.status is None:
                    self.close_connection = True
                    return
                self.send_response(raw.status)
                for name, value in raw.headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in raw.headers:
                    self.send_header("Content-Length", str(len(raw.body)))
                self.end_headers()
                self.wfile.write(raw.body)
                self.answered = True
                self.close_connection = "Content-Length" in raw.headers  # which is a lie

            def _trickle(self, raw: Trickle) -> None:
                def send(part: bytes) -> None:
                    os.write(self.connection.fileno(), part) if raw.below_tls else self.wfile.write(part)

                send(raw.start)
                try:
                    for _ in range(200):
                        send(raw.part)
                        if site.stopped.wait(0.05):
                            return
                except OSError:
                    site.client_left.set()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: the tests look at what was seen."""

        return Handler


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client may leave whenever it likes."""


def as_json(status: int, value: Any) -> Raw:
    return Raw(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def reply(status: int, asked: Any, **outcome: Any) -> Raw:
    return as_json(status, {"jsonrpc": "2.0", "id": asked.get("id"), **outcome})
