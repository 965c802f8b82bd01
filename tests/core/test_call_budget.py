"""What a call costs, counted in calls of our own functions: the same on every machine, so that it cannot creep up.

A change that needs more raises a budget here, in view of its reader. The counts are those of the current dependencies;
other versions call us in other ways, so ``make test-oldest`` leaves this file out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.schema import validator
from tests.conftest import Site, make_auth
from tests.schema.test_speed import without_extra
from tests.support import faces
from tests.support.counting import OURS, calls_during
from tests.support.faces import Asked
from tests.support.mcp_messages import modern_headers, modern_meta

NUMBERS = {"a": 1, "b": 2}
LIST_MODERN = Asked(
    "/mcp",
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}},
    modern_headers("tools/list", {}),
)

# One call of a small tool, without and with the speed extra; about a tenth more than it took when this was written.
BUDGETS = {
    "rest": (faces.rest("tool-0", NUMBERS), 77, 52),
    "jsonrpc": (faces.jsonrpc("tool-0", NUMBERS), 82, 58),
    "jsonrpc by GET": (faces.jsonrpc_get("tool-0", NUMBERS), 86, 62),
    "own URL": (faces.own_url("tool-0", NUMBERS), 84, 59),
    "MCP 2026-07-28": (faces.mcp_modern("tool-0", NUMBERS), 123, 99),
    "MCP 2025-11-25": (faces.mcp_legacy("tool-0", NUMBERS), 108, 84),
    "list by REST": (Asked("/mcp/tools/list"), 28, 28),
    "list by MCP": (LIST_MODERN, 67, 67),
    "describe": (Asked("/mcp/tools/describe?name=tool-0"), 37, 37),
}


def make_site(tools: int) -> Site:
    site = Site(McpBlueprint(auth=make_auth()))
    for number in range(tools):

        @mcp_tool(annotations={"readOnlyHint": True})
        def add(a: int, b: int) -> dict[str, int]:
            """Add two numbers."""
            return {"sum": a + b}

        site.rpc.add_method(f"tool-{number}", add, access=["write"] if number % 3 == 2 else [])
    return site


def sending(site: Site, asked: Asked) -> Callable[[], None]:
    """What sends a request, after what happens only the first times has happened."""

    def send() -> None:
        assert asked.send(site.client).status_code == 200

    for _ in range(3):
        send()
    return send


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_call_stays_within_its_budget(kind: str) -> None:
    asked, plain, quick = BUDGETS[kind]
    assert validator.jsonschema_rs is not None
    assert calls_during(sending(make_site(1), asked), within=OURS) <= quick
    with without_extra():
        assert calls_during(sending(make_site(1), asked), within=OURS) <= plain


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_call_does_not_depend_on_the_number_of_tools(kind: str) -> None:
    asked, _, _ = BUDGETS[kind]
    # A page of both sizes is full, so that they differ in nothing else.
    few, many = (make_site(tools) for tools in (60, 1000))
    for site in (few, many):
        site.app.config["JSONRPC_MCP_PAGE_SIZE"] = 10
    assert calls_during(sending(many, asked), within=OURS) == calls_during(sending(few, asked), within=OURS)


@pytest.mark.parametrize("name", ["add_listed", "add_named"])
def test_a_refusal_does_not_depend_on_how_much_is_wrong(name: str) -> None:
    """Errors are found one by one, up to a limit: all of them might not fit into the memory."""
    site = Site(McpBlueprint())

    @site.rpc.method
    @mcp_tool
    def add_listed(numbers: list[int]) -> None: ...

    @site.rpc.method
    @mcp_tool
    def add_named(numbers: dict[str, int]) -> None: ...

    def refusing(size: int) -> Callable[[], None]:
        listed = ["x"] * size
        numbers = listed if name == "add_listed" else {f"number {n}": x for n, x in enumerate(listed)}

        def send() -> None:
            assert site.invoke(name, {"numbers": numbers}).status_code == 400

        return send

    with without_extra():
        refusing(100)()
        assert calls_during(refusing(5000), within=OURS) == calls_during(refusing(100), within=OURS)
