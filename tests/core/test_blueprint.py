"""`McpBlueprint` as a blueprint: prefixes, several apps, several instances, settings."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Blueprint, Flask, request
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import VERSIONS
from tests.conftest import Site, asking, make_app, make_auth


def blueprint(name: str = "mcp", **options: Any) -> McpBlueprint:
    rpc = McpBlueprint(name, **options)

    @rpc.method(f"{name}.hello")
    @mcp_tool
    def hello() -> str:
        return name

    return rpc


def names(app: Flask, prefix: str = "") -> list[str]:
    response = app.test_client().get(f"{prefix}/mcp/tools/list")
    return [tool["name"] for tool in response.get_json()["tools"]]


def test_it_is_a_blueprint() -> None:
    rpc = blueprint()
    assert isinstance(rpc, Blueprint)

    @rpc.route("/extra")
    def extra() -> str:
        return "mine"

    app = make_app(rpc)
    assert app.test_client().get("/extra").text == "mine"
    assert app.test_client().post("/extra").status_code == 405


def test_a_prefix_by_constructor_and_by_registration() -> None:
    assert names(make_app(blueprint(url_prefix="/api")), "/api") == ["mcp.hello"]
    app = Flask("site")
    app.register_blueprint(blueprint(), url_prefix="/v1")
    assert names(app, "/v1") == ["mcp.hello"]
    assert app.test_client().get("/mcp/tools/list").status_code == 404


def test_one_blueprint_on_several_apps() -> None:
    rpc = blueprint()
    small, large = make_app(rpc, JSONRPC_MCP_PAGE_SIZE=1), make_app(rpc)
    rpc.add_method("late", mcp_tool(lambda: None))
    assert names(small) == ["mcp.hello"]
    assert names(large) == ["mcp.hello", "late"]


def test_several_blueprints_in_one_app() -> None:
    app = make_app(blueprint("a", url_prefix="/a"), blueprint("b", url_prefix="/b", auth=make_auth()))
    assert (names(app, "/a"), names(app, "/b")) == (["a.hello"], ["b.hello"])
    invoke = {"name": "a.hello", "arguments": {}}
    assert app.test_client().post("/a/mcp/tools/invoke", json=invoke).get_json() == {"result": "a"}
    assert app.test_client().post("/b/mcp/tools/invoke", json=invoke).status_code == 401


def test_the_same_blueprint_twice_in_one_app() -> None:
    app, rpc = Flask("site"), blueprint()
    app.register_blueprint(rpc)
    app.register_blueprint(rpc, name="again", url_prefix="/again")
    assert names(app) == names(app, "/again") == ["mcp.hello"]


def test_two_blueprints_cannot_be_in_one_place() -> None:
    with pytest.raises(ValueError, match=r"blueprints 'a' and 'b' are both at /.*; give one of them a url_prefix"):
        make_app(blueprint("a"), blueprint("b"))


def test_a_prefix_may_have_variables() -> None:
    rpc = McpBlueprint(url_prefix="/<tenant>")
    rpc.add_method("whose", mcp_tool(lambda: (request.view_args or {})["tenant"]))
    app = make_app(rpc)
    invoke = {"name": "whose", "arguments": {}}
    assert app.test_client().post("/acme/mcp/tools/invoke", json=invoke).get_json() == {"result": "acme"}
    assert well_known(app)["servers"] == []


def test_inside_another_blueprint() -> None:
    app, parent = Flask("site"), Blueprint("parent", __name__, url_prefix="/parent")
    parent.register_blueprint(blueprint())
    app.register_blueprint(parent)
    assert names(app, "/parent") == ["mcp.hello"]
    [server] = app.test_client().get("/.well-known/mcp.json").get_json()["servers"]
    assert server["endpoints"]["list"] == "http://localhost/parent/mcp/tools/list"


def test_methods_may_be_added_after_registration() -> None:
    site = Site(McpBlueprint())
    assert site.names() == []
    site.tool(lambda: None, name="late")
    assert site.names() == ["late"]


def test_an_app_factory() -> None:
    rpc = blueprint()

    def create_app() -> Flask:
        app = Flask("site")
        app.register_blueprint(rpc)
        return app

    assert names(create_app()) == names(create_app()) == ["mcp.hello"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("PAGE_SIZE", 0),
        ("PAGE_SIZE", "50"),
        ("PAGE_SIZE", True),
        ("MAX_DEPTH", 1),
        ("LIST_MAX_AGE", -1),
        ("MAX_BATCH", -1),
        ("MAX_BATCH_BYTES", 0),
        ("BATCH_TIMEOUT", 0),
        ("GET_METHODS", "some"),
        ("ALLOWED_ORIGINS", "https://a.example"),
        ("ALLOWED_ORIGINS", ["a.example"]),
        ("ALLOWED_ORIGINS", ["*"]),
        ("ALLOWED_ORIGINS", ["https://a.example/path"]),
        ("TOOL_NAME_STYLE", "pretty"),
        ("SESSION_MAX_AGE", 0),
        ("ALLOWED_HOSTS", "a.example"),
    ],
)
def test_a_setting_that_cannot_work_raises_at_registration(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"JSONRPC_MCP_{setting} must be"):
        make_app(blueprint(), **{f"JSONRPC_MCP_{setting}": value})


def test_the_depth_of_json_is_a_setting() -> None:
    site = Site(McpBlueprint(), JSONRPC_MCP_MAX_DEPTH=3)
    site.tool(lambda a: a, name="f", params={"properties": {"a": {}}, "required": ["a"]})
    assert site.invoke("f", {"a": []}).get_json() == {"result": []}
    assert site.invoke("f", {"a": [[]]}).get_json()["error"]["code"] == "invalid_json"


def well_known(app: Flask, **kwargs: Any) -> dict[str, Any]:
    response = app.test_client().get("/.well-known/mcp.json", **kwargs)
    assert response.status_code == 200
    return dict(response.get_json())


def test_well_known_tells_who_where_and_how() -> None:
    app = make_app(
        blueprint(auth=make_auth(), require_auth=True),
        JSONRPC_MCP_SERVER_NAME="shop",
        JSONRPC_MCP_SERVER_VERSION="2.1",
        JSONRPC_MCP_INSTRUCTIONS="Sell things.",
    )
    assert well_known(app) == {
        "name": "shop",
        "version": "2.1",
        "instructions": "Sell things.",
        "servers": [
            {
                "name": "mcp",
                "protocolVersions": list(VERSIONS),
                "capabilities": {"tools": {}, "logging": {}},
                "endpoints": {
                    "mcp": "http://localhost/mcp",
                    "jsonrpc": "http://localhost/jsonrpc",
                    "list": "http://localhost/mcp/tools/list",
                    "describe": "http://localhost/mcp/tools/describe",
                    "invoke": "http://localhost/mcp/tools/invoke",
                    "serverCard": "http://localhost/mcp/server-card",
                    "explorer": "http://localhost/mcp/explorer",
                    "openapi": "http://localhost/mcp/openapi.json",
                    "tool": "http://localhost/mcp/tools/{name}",
                },
                "authentication": {"required": True, "schemes": ["Basic"]},
            }
        ],
    }


def test_well_known_lists_every_blueprint_and_stays_at_the_root() -> None:
    app = make_app(blueprint("a", url_prefix="/a"), blueprint("b", url_prefix="/b"))
    lists = [server["endpoints"]["list"] for server in well_known(app)["servers"]]
    assert lists == ["http://localhost/a/mcp/tools/list", "http://localhost/b/mcp/tools/list"]
    assert app.test_client().get("/a/.well-known/mcp.json").status_code == 404


def test_well_known_respects_script_name_and_proxies() -> None:
    app = make_app(blueprint(url_prefix="/api"))
    server = well_known(app, base_url="http://localhost/under/here")["servers"][0]
    assert server["endpoints"]["invoke"] == "http://localhost/under/here/api/mcp/tools/invoke"
    app.wsgi_app = ProxyFix(app.wsgi_app, x_proto=1, x_host=1, x_prefix=1)  # type: ignore[method-assign]
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "site.example", "X-Forwarded-Prefix": "/p"}
    server = well_known(app, headers=forwarded)["servers"][0]
    assert server["endpoints"]["invoke"] == "https://site.example/p/api/mcp/tools/invoke"


def test_the_server_card_of_an_address() -> None:
    card = make_app(blueprint()).test_client().get("/mcp/server-card", headers={"Host": "[::1]:8000"}).get_json()
    assert card["name"] == "::1/site"


def test_the_server_card() -> None:
    app = make_app(blueprint(), JSONRPC_MCP_SERVER_NAME="shop", JSONRPC_MCP_ALLOWED_HOSTS=["www.site.example"])
    response = app.test_client().get("/mcp/server-card", headers={"Host": "www.site.example:8443"})
    assert response.content_type == "application/mcp-server-card+json"
    assert response.get_json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "example.site.www/shop",
        "version": "0.0.0",
        "title": "shop",
        "description": "Tools of shop",
        "remotes": [
            {
                "type": "streamable-http",
                "url": "http://www.site.example:8443/mcp",
                "supportedProtocolVersions": list(VERSIONS),
            }
        ],
    }


def test_a_prefix_with_variables_keeps_their_values_in_urls() -> None:
    rpc = McpBlueprint(url_prefix="/<team>")
    client = make_app(rpc).test_client()
    [remote] = client.get("/red/mcp/server-card").get_json()["remotes"]
    assert remote["url"] == "http://localhost/red/mcp"
    document = client.post("/red/jsonrpc", json=asking("rpc.discover")).get_json()["result"]
    assert document["servers"][0]["url"] == "http://localhost/red/jsonrpc"
    assert "/red/mcp/tools/list" in client.get("/red/mcp/explorer").text
