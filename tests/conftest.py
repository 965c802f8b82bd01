"""Shared by all tests: a small app around the methods a test declares, and a client that knows our wire."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from flask_httpauth import HTTPBasicAuth, HTTPTokenAuth
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint, RpcError, mcp_tool

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PERMISSIONS = {
    "reader": [],
    "writer": ["write"],
    "admin": ["write", "administer"],
}


def basic(username: str, password: str | None = None) -> dict[str, str]:
    """The header of a sign-in; the test users have their name as password."""
    credentials = f"{username}:{username if password is None else password}".encode()
    return {"Authorization": "Basic " + b64encode(credentials).decode()}


def make_auth() -> HTTPBasicAuth:
    """Basic auth that knows ``reader``, ``writer`` and ``admin``."""
    auth = HTTPBasicAuth()

    @auth.verify_password
    def verify(username: str, password: str) -> str | None:
        return username if username in PERMISSIONS and password == username else None

    @auth.get_user_roles
    def permissions(user: str) -> list[str]:
        return PERMISSIONS[user]

    return auth


def make_token_auth(**options: Any) -> HTTPTokenAuth:
    """Token auth that knows the tokens of ``writer`` and ``admin``."""
    auth = HTTPTokenAuth(**options)

    @auth.verify_token
    def verify(token: str) -> str | None:
        return {"writer-token": "writer", "admin-token": "admin"}.get(token)

    @auth.get_user_roles
    def permissions(user: str) -> list[str]:
        return PERMISSIONS[user]

    return auth


_ABSENT: Any = object()


def asking(method: str, params: Any = _ABSENT, id: Any = 1) -> dict[str, Any]:
    """A JSON-RPC request; without params unless some are given, a notification when the id is ``...``."""
    asked: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not _ABSENT:
        asked["params"] = params
    if id is not ...:
        asked["id"] = id
    return asked


def make_app(*blueprints: McpBlueprint, **config: Any) -> Flask:
    app = Flask("site")
    app.config.update(config)
    for blueprint in blueprints:
        app.register_blueprint(blueprint)
    return app


class Site:
    """An app around one blueprint, and what curl would do to it."""

    def __init__(self, rpc: McpBlueprint, app: Flask | None = None, **config: Any) -> None:
        self.rpc = rpc
        self.app = make_app(rpc, **config) if app is None else app
        self.client: FlaskClient = self.app.test_client()

    def tool(self, func: Callable[..., Any], **options: Any) -> None:
        self.rpc.add_method(options.pop("name", None), mcp_tool(func), **options)

    def list_tools(self, query: str = "", **kwargs: Any) -> TestResponse:
        return self.client.get("/mcp/tools/list" + query, **kwargs)

    def describe(self, name: str, **kwargs: Any) -> TestResponse:
        return self.client.get("/mcp/tools/describe", query_string={"name": name}, **kwargs)

    def invoke(self, name: str, arguments: object, **kwargs: Any) -> TestResponse:
        return self.client.post("/mcp/tools/invoke", json={"name": name, "arguments": arguments}, **kwargs)

    def rpc_post(self, payload: object, path: str = "/jsonrpc", **kwargs: Any) -> TestResponse:
        body = payload if isinstance(payload, (str, bytes)) else json.dumps(payload)
        return self.client.post(path, data=body, content_type="application/json", **kwargs)

    def rpc_get(self, payload: object, path: str = "/jsonrpc", **kwargs: Any) -> TestResponse:
        query = payload if isinstance(payload, str) else json.dumps(payload)
        return self.client.get(path, query_string={"query": query}, **kwargs)

    def names(self, **kwargs: Any) -> list[str]:
        return [tool["name"] for tool in self.list_tools(**kwargs).get_json()["tools"]]


@pytest.fixture
def site() -> Site:
    """A site without sign-in."""
    return Site(McpBlueprint())


@pytest.fixture
def guarded_site() -> Site:
    """A site with a public tool, one for writers and one that takes two permissions."""
    site = Site(McpBlueprint(auth=make_auth()))
    site.tool(lambda: "hello", name="public")
    site.tool(lambda: "written", name="write", access=["write"])
    site.tool(lambda: "administered", name="administer", access=["write", "administer"])
    return site


class Taking:
    """One tool that takes the arguments under test."""

    def __init__(self, func: Callable[..., Any], **options: Any) -> None:
        self.site = Site(McpBlueprint())
        self.site.tool(func, name="under-test", **options)
        self.tool: dict[str, Any] = self.site.describe("under-test").get_json()["tool"]

    @property
    def schema(self) -> dict[str, Any]:
        return dict(self.tool["inputSchema"])

    def __call__(self, /, **arguments: Any) -> Any:
        """The result, or the paths of what is wrong with the arguments, or the status of another failure."""
        response = self.site.invoke("under-test", arguments)
        body = response.get_json()
        if response.status_code == 200:
            return body["result"]
        if response.status_code == 400:
            return {problem["path"] for problem in body["error"]["errors"]}
        return response.status_code


@pytest.fixture
def shop() -> Site:
    """A site with two tools, for MCP clients."""
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_SERVER_NAME="shop", JSONRPC_MCP_SERVER_VERSION="2.1")

    @site.rpc.method("price")
    @mcp_tool(title="Price", annotations={"readOnlyHint": True, "shelf": 7})
    def price(item: Annotated[str, {"maxLength": 5}], count: int = 1) -> dict[str, Any]:
        """Tell a price."""
        if item == "gold":
            raise RpcError("gold is not for sale")
        if item == "bug":
            raise ValueError("secret")
        return {"price": len(item) * count}

    @site.rpc.method("items")
    @mcp_tool
    def items() -> list[str]:
        """List what there is."""
        return ["egg", "ham"]

    return site


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A real browser."""
    # Not at the top, because the apps of the tests import this module, and selenium takes long to import.
    from tests.support.browser import chromium

    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running
