"""MCP clients in a few lines, for tests: one of each era, talking to a Flask test client."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN
from tests.conftest import asking

META = "io.modelcontextprotocol/"
SERVER_INFO = META + "serverInfo"
ACCEPT = {"Accept": "application/json, text/event-stream"}
"""What every client must accept."""


def modern_meta(version: str = MODERN, **capabilities: Any) -> dict[str, Any]:
    return {
        META + "protocolVersion": version,
        META + "clientInfo": {"name": "test", "version": "1"},
        META + "clientCapabilities": capabilities,
    }


def modern_headers(method: str, params: dict[str, Any], version: str = MODERN) -> dict[str, str]:
    name = params.get("uri", params.get("name", params.get("taskId")))
    named = {} if name is None else {"Mcp-Name": str(name)}
    return {**ACCEPT, "MCP-Protocol-Version": version, "Mcp-Method": method, **named}


@dataclass
class ModernClient:
    """Speaks 2026-07-28: everything with every request."""

    client: FlaskClient
    headers: dict[str, str] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)
    version: str = MODERN
    path: str = "/mcp"

    def post(self, method: str, params: dict[str, Any] | None = None, **headers: str | None) -> TestResponse:
        """Send a request; headers given by name replace the right ones, or leave them out when ``None``."""
        params = {} if params is None else params
        sent = {**modern_headers(method, params), **self.headers}
        for name, value in headers.items():
            header = name.replace("_", "-")
            sent = {other: sent[other] for other in sent if other.lower() != header.lower()}
            if value is not None:
                sent[header] = value
        meta = {**modern_meta(**self.capabilities), **params.get("_meta", {})}
        return self.client.post(self.path, json=asking(method, {**params, "_meta": meta}), headers=sent)

    def call(self, name: str, arguments: Any = None, **headers: str | None) -> TestResponse:
        return self.post("tools/call", {"name": name, "arguments": arguments or {}}, **headers)

    def list(self, **params: Any) -> TestResponse:
        return self.post("tools/list", params)


@dataclass
class LegacyClient:
    """Speaks an older version: a handshake first, and its session with everything after."""

    client: FlaskClient
    version: str = LEGACY[0]
    headers: dict[str, str] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=dict)
    session: str | None = None

    def initialize(self) -> TestResponse:
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        response = self.client.post("/mcp", json=asking("initialize", params), headers=self.headers)
        self.session = response.headers.get("Mcp-Session-Id")
        return response

    def send(self, payload: Any, **headers: str) -> TestResponse:
        sent = {**ACCEPT, **self.headers}
        if self.session is not None:
            sent["Mcp-Session-Id"] = self.session
        if self.version >= "2025-06-18":
            sent["MCP-Protocol-Version"] = self.version
        return self.client.post("/mcp", json=payload, headers={**sent, **headers})

    def post(self, method: str, params: dict[str, Any] | None = None) -> TestResponse:
        if self.session is None:
            self.initialize()
        return self.send(asking(method) if params is None else asking(method, params))

    def call(self, name: str, arguments: Any = None) -> TestResponse:
        return self.post("tools/call", {"name": name, "arguments": arguments or {}})

    def list(self, **params: Any) -> TestResponse:
        return self.post("tools/list", params)


def client_of(version: str, client: FlaskClient, **options: Any) -> ModernClient | LegacyClient:
    if version == MODERN:
        return ModernClient(client, **options)
    return LegacyClient(client, version, **options)


def result(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.get_json()["result"]


def events(response: Any) -> list[Any]:
    """The messages of an event stream, without the comments."""
    assert (response.status_code, response.mimetype) == (200, "text/event-stream"), response.text
    lines = response.text.split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines if line != ":"]


def error(response: Any) -> tuple[int, int, str]:
    body = response.get_json()
    assert set(body) <= {"jsonrpc", "id", "error"}
    return response.status_code, body["error"]["code"], body["error"]["message"]
