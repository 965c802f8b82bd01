"""MCP clients that talk to a real server, message by message, each request on a connection of its own."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN
from tests.conftest import asking
from tests.support.load import PATIENCE
from tests.support.mcp_messages import ACCEPT, modern_headers, modern_meta
from tests.support.servers import Place, Server

COMMENT = ":"


class Exchange:
    """One request, and what comes back on its connection."""

    def __init__(
        self, place: Server | Place, payload: Any, headers: dict[str, str], receive_buffer: int | None = None
    ) -> None:
        self._connection = http.client.HTTPConnection(place.host, place.port, timeout=PATIENCE)
        self._connection.sock = connected = socket.socket()
        if receive_buffer is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connected.settimeout(PATIENCE)
        connected.connect((place.host, place.port))
        self._socket = connected
        sent = {"Content-Type": "application/json", "Connection": "close", **headers}
        self._connection.request("POST", "/mcp", json.dumps(payload), sent)
        self._response: http.client.HTTPResponse | None = None

    @property
    def response(self) -> http.client.HTTPResponse:
        """The head of the answer; waits for it."""
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    @property
    def status(self) -> int:
        return self.response.status

    def json(self) -> Any:
        """The whole answer, when it is no stream."""
        with self.response as response:
            assert response.headers["Content-Type"] == "application/json", response.read()
            return json.loads(response.read())

    def __iter__(self) -> Iterator[Any]:
        """The messages of a stream as they come, comments among them."""
        assert self.response.headers["Content-Type"].startswith("text/event-stream"), self.response.read()
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if text == COMMENT:
                yield COMMENT
            elif text:
                yield json.loads(text.removeprefix("data: "))
        self.response.close()

    def messages(self) -> Iterator[Any]:
        """The messages without the comments."""
        return (message for message in self if message != COMMENT)

    def vanish(self, *, reset: bool = False) -> None:
        """Go away in the middle: by FIN, or by RST."""
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()
        if self._response is not None:
            self._response.close()
        self._socket.close()


@dataclass
class Conversation:
    """A client of either era.

    :param session: Of an older one; it is agreed on with the first request.
    """

    server: Server | Place
    version: str = LEGACY[0]
    capabilities: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    session: str | None = None

    def open(self, method: str, params: dict[str, Any] | None = None, id: Any = 1, **options: Any) -> Exchange:
        """Send a request, and wait for nothing."""
        params = {} if params is None else params
        if self.version == MODERN:
            headers = {**modern_headers(method, params), **self.headers}
            meta = {**modern_meta(**self.capabilities), **params.get("_meta", {})}
            return Exchange(self.server, asking(method, {**params, "_meta": meta}, id), headers, **options)
        return self.send(asking(method, params, id), **options)

    def send(self, payload: Any, **options: Any) -> Exchange:
        """Send something of an older client."""
        if self.session is None:
            self.initialize()
        headers = {**ACCEPT, "MCP-Protocol-Version": self.version, "Mcp-Session-Id": str(self.session), **self.headers}
        return Exchange(self.server, payload, headers, **options)

    def call(self, name: str, arguments: Any = None, *, id: Any = 1, token: Any = None, **options: Any) -> Exchange:
        params = {"name": name, "arguments": arguments or {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.open("tools/call", params, id, **options)

    def answer(self, question: dict[str, Any], **answer: Any) -> int:
        """Answer what the server has asked, on another connection; returns the status."""
        return self.send({"jsonrpc": "2.0", "id": question["id"], **answer}).status

    def initialize(self) -> None:
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        exchange = Exchange(self.server, asking("initialize", params), {**ACCEPT, **self.headers})
        assert exchange.status == 200, exchange.response.read()
        self.session = exchange.response.headers["Mcp-Session-Id"]
        exchange.json()


def text_of(reply: Any) -> str:
    """The text of a tool's answer."""
    text: str = reply["result"]["content"][0]["text"]
    return text
