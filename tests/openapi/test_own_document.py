"""``/mcp/openapi.json``: the tools of a caller as an OpenAPI 3.1 document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from flask_httpauth import MultiAuth

from flask_jsonrpc_mcp import McpBlueprint
from tests.conftest import Site, basic, make_auth, make_token_auth


@dataclass
class Node:
    """A tree."""

    name: str
    children: list[Node]


@pytest.fixture
def site() -> Site:
    site = Site(
        McpBlueprint(auth=MultiAuth(make_auth(), make_token_auth(header="X-Key"))), JSONRPC_MCP_SERVER_NAME="shop"
    )

    @site.rpc.tool("items.price", title="Price", read_only=True)
    def price(
        item: Annotated[str, "What"], sizes: list[int] | None = None, options: dict[str, int] | None = None
    ) -> float:
        """Look a price up."""
        return 1.5

    @site.rpc.tool(access=["write"])
    def grow(tree: Node) -> Node:
        """Grow a tree."""
        return tree

    @site.rpc.tool(requires=["sampling"])
    def ask() -> str:
        """Ask the model."""
        return ""

    return site


def document(site: Site, **options: Any) -> Any:
    return site.client.get("/mcp/openapi.json", **options).get_json()


def test_it_describes_the_plain_endpoints(site: Site) -> None:
    found = document(site)
    assert found["openapi"] == "3.1.0"
    assert found["info"] == {"title": "shop", "version": "0.0.0"}
    assert found["servers"] == [{"url": "http://localhost/mcp"}]
    assert list(found["paths"]) == ["/tools/items.price"]
    post, get = (found["paths"]["/tools/items.price"][verb] for verb in ("post", "get"))
    assert (post["operationId"], get["operationId"]) == ("items.price", "get_items.price")
    assert (post["summary"], post["description"], post["tags"]) == ("Price", "Look a price up.", ["items"])
    assert post["security"] == [{}, {"basic": []}, {"X-Key": []}]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    assert schema == site.describe("items.price").get_json()["tool"]["inputSchema"]
    result = {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}
    assert post["responses"]["200"]["content"]["application/json"]["schema"] == result
    assert list(post["responses"]) == ["200", "400", "401", "default"]
    item = schema["properties"]["item"]
    assert get["parameters"] == [
        {"name": "item", "in": "query", "description": "What", "required": True, "schema": item},
        {"name": "sizes", "in": "query", "schema": {"type": "array", "items": {"type": "integer"}}},
        {
            "name": "options",
            "in": "query",
            "content": {
                "application/json": {"schema": {"type": "object", "additionalProperties": {"type": "integer"}}}
            },
        },
    ]
    assert found["components"]["securitySchemes"] == {
        "basic": {"type": "http", "scheme": "basic"},
        "X-Key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    }


def test_a_caller_sees_what_it_may_call_and_references_stay_valid(site: Site) -> None:
    found = document(site, headers=basic("writer"))
    assert list(found["paths"]) == ["/tools/items.price", "/tools/grow"]
    grow = found["paths"]["/tools/grow"]["post"]
    assert grow["security"] == [{"basic": []}, {"X-Key": []}]
    reference = grow["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert reference == "#/components/schemas/grow.arguments"
    component = found["components"]["schemas"]["grow.arguments"]
    node = component["properties"]["tree"]["$ref"]
    assert node.startswith("#/components/schemas/grow.arguments/$defs/")
    assert component["$defs"][node.rpartition("/")[2]]["type"] == "object"


def test_a_parameter_with_a_reference_is_found_whatever_its_name(site: Site) -> None:
    params = {"properties": {"a/b~c": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": {"items": {"$ref": "#/$defs/Tree"}}}}
    site.rpc.add_tool(lambda **values: values, "find", params=params, read_only=True, description="Find a tree")
    [parameter] = document(site)["paths"]["/tools/find"]["get"]["parameters"]
    [content] = parameter["content"].values()
    assert content["schema"]["$ref"] == "#/components/schemas/find.arguments/properties/a~1b~0c"


@pytest.mark.parametrize(("setting", "verbs"), [("read-only", ["post", "get"]), ("none", ["post"])])
def test_it_follows_the_setting_for_get(site: Site, setting: str, verbs: list[str]) -> None:
    site.app.config["JSONRPC_MCP_GET_METHODS"] = setting
    assert list(document(site)["paths"]["/tools/items.price"]) == verbs


def test_a_tool_with_tasks_may_answer_with_one_by_post(site: Site) -> None:
    site.rpc.add_tool(lambda: 1, "build", task=True, read_only=True, description="Build it")
    site.rpc.add_tool(lambda: 1, "archive", task="required", read_only=True, description="Archive it")
    build, archive = (document(site)["paths"][f"/tools/{name}"] for name in ("build", "archive"))
    assert {verb: list(each["responses"]) for verb, each in build.items()} == {
        "post": ["200", "202", "400", "401", "default"],
        "get": ["200", "400", "401", "default"],
    }
    assert list(archive) == ["post"]


def test_with_all_methods_by_get_ids_stay_unique(site: Site) -> None:
    site.app.config["JSONRPC_MCP_GET_METHODS"] = "all"
    site.tool(lambda: 1, name="get_items.price")
    paths = document(site)["paths"].values()
    ids = [operation["operationId"] for path in paths for operation in path.values()]
    assert len(ids) == len(set(ids)) == 4


def test_it_is_revalidated_like_the_list(site: Site) -> None:
    response = site.client.get("/mcp/openapi.json")
    assert response.headers["Cache-Control"] == "public, no-cache"
    assert response.headers["Vary"] == "Authorization, X-Key, Origin"
    again = site.client.get("/mcp/openapi.json", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    signed_in = site.client.get("/mcp/openapi.json", headers=basic("writer"))
    assert signed_in.headers["Cache-Control"] == "private, no-cache"
    assert signed_in.headers["ETag"] != response.headers["ETag"]
    site.tool(lambda: 1, name="new")
    assert "/tools/new" in document(site)["paths"]


def test_it_needs_the_permissions_of_the_list() -> None:
    site = Site(McpBlueprint(auth=make_auth(), discover_access=["administer"]))
    assert site.client.get("/mcp/openapi.json").status_code == 401
    assert site.client.get("/mcp/openapi.json", headers=basic("writer")).status_code == 403
    assert site.client.get("/mcp/openapi.json", headers=basic("admin")).status_code == 200


def test_without_apispec_it_says_what_to_install(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flask_jsonrpc_mcp.http.rest.find_spec", lambda name: None)
    response = site.client.get("/mcp/openapi.json")
    message = "The OpenAPI document needs apispec: install flask-jsonrpc-mcp[openapi]"
    assert (response.status_code, response.get_json()) == (404, {"error": {"code": "not_found", "message": message}})
    [server] = site.client.get("/.well-known/mcp.json").get_json()["servers"]
    assert "openapi" not in server["endpoints"]
    assert "openapi.json" not in site.client.get("/mcp/explorer").get_data(as_text=True)
