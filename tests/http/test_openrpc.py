"""``rpc.discover``: an OpenRPC document of what the caller may call."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from flask_jsonrpc_mcp import Call, McpBlueprint, mcp_tool, method_called
from tests.conftest import Site, asking, basic, make_auth
from tests.support.counting import OURS, calls_during

_EXTENSION = {"patternProperties": {"^x-": True}, "additionalProperties": False}
_REFERENCE = {"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref"], **_EXTENSION}

# The rules of OpenRPC 1.3 for the parts of a document that we write, in our own words.
OPENRPC: dict[str, Any] = {
    "type": "object",
    "required": ["openrpc", "info", "methods"],
    "properties": {
        "openrpc": {"type": "string", "pattern": r"^1\.3\.[0-2]$"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "properties": {
                "title": {"type": "string"},
                "version": {"type": "string"},
                "description": {"type": "string"},
            },
            **_EXTENSION,
        },
        "servers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["url"],
                "properties": {"url": {"type": "string", "format": "uri"}, "name": {"type": "string"}},
                **_EXTENSION,
            },
        },
        "methods": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "params"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "summary": {"type": "string"},
                    "description": {"type": "string"},
                    "paramStructure": {"enum": ["by-position", "by-name", "either"]},
                    "params": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/descriptor"}, _REFERENCE]}},
                    "result": {"anyOf": [{"$ref": "#/$defs/descriptor"}, _REFERENCE]},
                },
                **_EXTENSION,
            },
        },
        "components": {
            "type": "object",
            "properties": {"schemas": {"type": "object", "additionalProperties": {"$ref": "#/$defs/schema"}}},
        },
    },
    **_EXTENSION,
    "$defs": {
        "schema": {"type": ["object", "boolean"]},
        "descriptor": {
            "type": "object",
            "required": ["name", "schema"],
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "description": {"type": "string"},
                "required": {"type": "boolean"},
                "schema": {"$ref": "#/$defs/schema"},
            },
            **_EXTENSION,
        },
    },
}


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for inner in value.values() for found in references(inner)]
    return [found for inner in value for found in references(inner)] if isinstance(value, list) else []


def check(document: dict[str, Any]) -> None:
    """Check a document against the rules, and that each of its references leads somewhere in it."""
    jsonschema.validate(document, OPENRPC)
    names = [method["name"] for method in document["methods"]]
    assert len(names) == len(set(names))
    for method in document["methods"]:
        params = [param["name"] for param in method["params"]]
        assert len(params) == len(set(params))
    for reference in references(document):
        target: Any = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
        assert isinstance(target, dict)


@dataclass
class Node:
    value: int
    children: list[Node] = field(default_factory=list)


def site_with_methods(**config: Any) -> Site:
    site = Site(McpBlueprint(auth=make_auth()), **config)

    @site.rpc.method("tree.sum")
    @mcp_tool(title="Sum of a tree")
    def total(tree: Node, start: int = 0) -> Node:
        """Add up a tree."""
        return tree

    site.rpc.add_method("plain", lambda: None)
    site.rpc.add_method("write", lambda: None, access=["write"])
    return site


def discover(site: Site, **kwargs: Any) -> dict[str, Any]:
    return dict(site.rpc_post(asking("rpc.discover"), **kwargs).get_json()["result"])


def test_the_document_is_valid_and_complete() -> None:
    site = site_with_methods(JSONRPC_MCP_SERVER_NAME="shop", JSONRPC_MCP_INSTRUCTIONS="Sells.")
    document = discover(site)
    check(document)
    assert document["info"] == {"title": "shop", "version": "0.0.0", "description": "Sells."}
    assert document["servers"] == [{"name": "shop", "url": "http://localhost/jsonrpc"}]
    [tree, plain] = document["methods"]
    reference = {"$ref": "#/components/schemas/tree.sum:params/$defs/Node"}
    assert tree == {
        "name": "tree.sum",
        "summary": "Sum of a tree",
        "description": "Add up a tree.",
        "params": [
            {"name": "tree", "required": True, "schema": reference},
            {"name": "start", "required": False, "schema": {"type": "integer", "default": 0}},
        ],
        "result": {"name": "result", "schema": document["components"]["schemas"]["tree.sum:result"]},
    }
    assert plain == {"name": "plain", "description": "plain", "params": [], "result": {"name": "result", "schema": {}}}


def test_it_lists_what_the_caller_may_call() -> None:
    site = site_with_methods()
    assert [method["name"] for method in discover(site)["methods"]] == ["tree.sum", "plain"]
    signed_in = discover(site, headers=basic("writer"))
    check(signed_in)
    assert [method["name"] for method in signed_in["methods"]] == ["tree.sum", "plain", "write"]


def test_it_can_be_had_by_get_and_in_a_batch() -> None:
    site = site_with_methods()
    assert site.rpc_get(asking("rpc.discover")).get_json()["result"] == discover(site)
    assert site.rpc_post([asking("rpc.discover")]).get_json()[0]["result"] == discover(site)


def test_it_is_a_call_in_the_log_and_for_receivers(caplog: pytest.LogCaptureFixture) -> None:
    site = site_with_methods()
    site.app.logger.setLevel(logging.INFO)
    seen: list[tuple[str, Any, str]] = []

    def receive(app: object, call: Call, method: object, outcome: str, **rest: Any) -> None:
        seen.append((call.name, method, outcome))

    with method_called.connected_to(receive, site.app):
        discover(site, headers=basic("writer"))
    assert seen == [("rpc.discover", None, "ok")]
    [record] = caplog.records
    assert record.getMessage().startswith("call face=jsonrpc name='rpc.discover' caller='writer' outcome=ok ms=")


def test_its_cost_does_not_depend_on_the_number_of_methods() -> None:
    """The methods are described once for each set of permissions."""
    costs = []
    for number in (10, 100):
        site = Site(McpBlueprint())
        for method in range(number):
            site.rpc.add_method(f"method-{method}", lambda a, b=1: a)
        first = discover(site)
        assert len(first["methods"]) == number
        costs.append(calls_during(lambda: discover(site), within=OURS))  # noqa: B023
        assert discover(site) == first
    assert costs[0] == costs[1]


def test_it_is_current() -> None:
    """Whatever was described before, and at whatever host."""
    site = site_with_methods()
    before = discover(site)
    site.rpc.add_method("late", lambda: None)
    site.app.config["JSONRPC_MCP_SERVER_NAME"] = "other"
    after = discover(site, base_url="http://127.0.0.1")
    check(after)
    assert after["info"]["title"] == "other"
    assert [server["url"] for server in (*before["servers"], *after["servers"])] == [
        "http://localhost/jsonrpc",
        "http://127.0.0.1/jsonrpc",
    ]
    assert [method["name"] for method in after["methods"]] == ["tree.sum", "plain", "late"]


def test_a_batch_of_documents_is_bounded() -> None:
    site = site_with_methods(JSONRPC_MCP_MAX_BATCH_BYTES=10_000)
    response = site.rpc_post([asking("rpc.discover", id=number) for number in range(100)])
    codes = Counter(reply.get("error", {}).get("code") for reply in response.get_json())
    assert codes[None] + codes[-32004] == 100
    assert codes[None] <= 10


def test_it_has_no_url_of_its_own() -> None:
    site = site_with_methods()
    assert site.rpc_post(asking("rpc.discover"), "/mcp/tools/rpc.discover").status_code == 401


def test_discover_access_guards_it_too() -> None:
    site = Site(McpBlueprint(auth=make_auth(), discover_access=["administer"]))
    statuses = [
        site.rpc_post(asking("rpc.discover"), headers=basic(name) if name else {}).status_code
        for name in (None, "writer", "admin")
    ]
    assert statuses == [401, 403, 200]


def test_the_rules_refuse_what_is_no_openrpc() -> None:
    """Else the checks above would prove nothing."""
    document = discover(site_with_methods())
    for broken in (
        {**document, "openrpc": "2.0"},
        {**document, "extra": 1},
        {**document, "methods": [{"name": "x"}]},
        {**document, "methods": [{"name": "x", "params": [{"name": "a"}]}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check(broken)
    with pytest.raises(KeyError):
        check({**document, "components": {"schemas": {}}})


def test_references_of_every_kind_lead_to_their_own_schema() -> None:
    site = Site(McpBlueprint())
    nested = {"type": "array", "items": {"$ref": "#/$defs/T"}, "$defs": {"T": {"type": "integer"}}}
    site.rpc.add_method("a", lambda: [1], output=nested)
    site.rpc.add_method(
        "a.result",
        lambda x: x,
        params={"properties": {"x": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"type": "string"}}, "required": ["x"]},
    )
    site.rpc.add_method("self", lambda: [], output={"type": "array", "items": {"$ref": "#"}})
    document = discover(site)
    check(document)
    schemas = document["components"]["schemas"]
    assert schemas["a:result"]["$defs"]["T"] == {"type": "integer"}
    assert schemas["a.result:params"]["$defs"]["T"] == {"type": "string"}
    assert schemas["self:result"]["items"] == {"$ref": "#/components/schemas/self:result"}
