"""A bridge to a site shaped like Drupal's, and a client of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flask_jsonrpc_mcp.bridge.remote_server import Bridge
from flask_jsonrpc_mcp.bridge.site import Site
from tests.support.stdio_client import Connection, modern

from .drupal_site import DrupalSite

Bridged = Connection[Bridge]
Connect = Callable[..., Bridged]


@pytest.fixture
def drupal() -> Iterator[DrupalSite]:
    with DrupalSite() as site:
        yield site


@pytest.fixture
def connect(drupal: DrupalSite) -> Iterator[Connect]:
    """Start a bridge with settings of the test's own."""
    opened: list[Bridged] = []

    def connect(**settings: Any) -> Bridged:
        opened.append(Connection(Bridge(Site(**{"url": drupal.url, "timeout": 30, **settings}))))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.rest()
        connection.server.close()
        connection.close()


@pytest.fixture
def bridge(connect: Connect) -> Bridged:
    return connect()


def call(bridge: Bridged, name: str, arguments: Any = None, id: Any = 1) -> Any:
    """Call a tool as a modern client; the result without what every result has."""
    reply = bridge.ask(modern("tools/call", id, name=name, arguments=arguments or {}))
    if "error" in reply:
        return reply["error"]
    return {key: value for key, value in reply["result"].items() if key not in ("_meta", "resultType")}


def text_of(result: Any) -> str:
    [block] = result["content"]
    found: str = block["text"]
    return found


def success(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return {"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": False}


def failure(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def listed(bridge: Bridged) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = bridge.ask(modern("tools/list"))["result"]["tools"]
    return tools
