"""One call, as each face takes it: requests that are made but not sent, for test clients and real servers alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from tests.conftest import asking
from tests.support.mcp_messages import modern_headers, modern_meta


@dataclass(frozen=True)
class Asked:
    """A request: a GET when it has no payload, else a POST of it as JSON."""

    path: str
    payload: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def send(self, client: FlaskClient, headers: Mapping[str, str] | None = None) -> TestResponse:
        sent = {**self.headers, **(headers or {})}
        if self.payload is None:
            return client.get(self.path, headers=sent)
        return client.post(self.path, json=self.payload, headers=sent)


Face = Callable[[str, Any], Asked]
"""Makes the request that calls a method by name with arguments."""


def rest(name: str, arguments: Any) -> Asked:
    return Asked("/mcp/tools/invoke", {"name": name, "arguments": arguments})


def jsonrpc(name: str, arguments: Any) -> Asked:
    return Asked("/jsonrpc", asking(name, arguments))


def jsonrpc_get(name: str, arguments: Any) -> Asked:
    return Asked(by_query("/jsonrpc", asking(name, arguments)))


def batch(name: str, arguments: Any) -> Asked:
    return Asked("/jsonrpc", [asking(name, arguments)])


def notification(name: str, arguments: Any) -> Asked:
    return Asked("/jsonrpc", asking(name, arguments, id=...))


def own_url(name: str, arguments: Any) -> Asked:
    return Asked(f"/mcp/tools/{name}", asking(name, arguments))


def own_url_get(name: str, arguments: Any) -> Asked:
    return Asked(by_query(f"/mcp/tools/{name}", asking(name, arguments)))


def mcp_modern(name: str, arguments: Any) -> Asked:
    params = {"name": name, "arguments": arguments}
    payload = asking("tools/call", {**params, "_meta": modern_meta()})
    return Asked("/mcp", payload, modern_headers("tools/call", params))


def mcp_legacy(name: str, arguments: Any) -> Asked:
    """For apps without a key, which serve clients of this era without sessions."""
    payload = asking("tools/call", {"name": name, "arguments": arguments})
    return Asked("/mcp", payload, {"MCP-Protocol-Version": LEGACY[0]})


def by_query(path: str, payload: Any) -> str:
    return f"{path}?query={quote(json.dumps(payload))}"
