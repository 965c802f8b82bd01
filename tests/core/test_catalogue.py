"""Pages and cursors."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.errors import InvalidCursor
from flask_jsonrpc_mcp.registry import EXTENSION, MAX_LISTINGS, decode_cursor, encode_cursor
from tests.conftest import Site, basic, make_auth


def site_with(count: int, **config: Any) -> Site:
    site = Site(McpBlueprint(), **config)
    for number in range(count):
        site.tool(lambda: None, name=f"tool-{number}")
    return site


def pages(site: Site) -> list[tuple[int, str | None]]:
    """The size of each page and the cursor it ends with."""
    seen: list[tuple[int, str | None]] = []
    cursor: str | None = ""
    while cursor is not None:
        body = site.list_tools(f"?cursor={cursor}" if cursor else "").get_json()
        cursor = body["nextCursor"]
        seen.append((len(body["tools"]), cursor))
    return seen


def test_120_tools_are_three_pages() -> None:
    assert pages(site_with(120)) == [(50, "NTA="), (50, "MTAw"), (20, None)]


@pytest.mark.parametrize("count", [0, 1, 50])
def test_what_fits_is_one_page(count: int) -> None:
    assert pages(site_with(count)) == [(count, None)]


def test_the_page_size_is_a_setting() -> None:
    assert pages(site_with(5, JSONRPC_MCP_PAGE_SIZE=2)) == [(2, "Mg=="), (2, "NA=="), (1, None)]


def test_pages_keep_the_order_in_which_tools_were_added() -> None:
    site = site_with(120)
    names = [name for cursor in ("", "?cursor=NTA=", "?cursor=MTAw") for name in _names(site, cursor)]
    assert names == [f"tool-{number}" for number in range(120)]


def _names(site: Site, query: str) -> list[str]:
    return [tool["name"] for tool in site.list_tools(query).get_json()["tools"]]


@pytest.mark.parametrize("cursor", ["NTA=", "NTA", "NTA%3D"])
def test_a_cursor_may_come_without_its_padding(cursor: str) -> None:
    assert _names(site_with(60), f"?cursor={cursor}")[0] == "tool-50"


def test_a_cursor_past_the_end_is_an_empty_page() -> None:
    assert site_with(3).list_tools("?cursor=" + encode_cursor(10**17)).get_json() == {"tools": [], "nextCursor": None}


def test_any_offset_is_a_cursor() -> None:
    assert _names(site_with(60), "?cursor=" + encode_cursor(7))[0] == "tool-7"


@pytest.mark.parametrize(
    "cursor",
    [
        "!!!",
        "",
        "=",
        "50",
        "NTA==",
        "NTA=x",
        "N TA=",
        "NTB=",
        "KzUw",  # +50
        "IDUw",  # a space before 50
        "NV8w",  # 5_0
        "LTE=",  # -1
        "2aXZoA==",  # Arabic digits
        "MDUw",  # 050
        "MS41",  # 1.5
        "NTA\n",
        "é",
        "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5",  # more digits than any offset has
    ],
)
def test_anything_else_is_no_cursor(cursor: str) -> None:
    response = site_with(60).client.get("/mcp/tools/list", query_string={"cursor": cursor})
    assert response.status_code == 400
    assert response.get_json()["error"]["code"] == "invalid_cursor"


@given(st.integers(0, 10**18 - 1))
def test_a_cursor_leads_back_to_its_offset(offset: int) -> None:
    assert decode_cursor(encode_cursor(offset)) == offset
    assert decode_cursor(encode_cursor(offset).rstrip("=")) == offset


@given(st.text(max_size=30))
@example("NTA")
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        offset = decode_cursor(text)
    except InvalidCursor:
        return
    assert encode_cursor(offset).rstrip("=") == text.rstrip("=")


def test_a_tool_added_later_appears() -> None:
    site = site_with(1)
    assert site.names() == ["tool-0"]
    site.tool(lambda: None, name="late")
    assert site.names() == ["tool-0", "late"]


def test_a_function_marked_later_appears() -> None:
    site = site_with(0)

    @site.rpc.method
    def late() -> None: ...

    assert site.names() == []
    mcp_tool(late)
    assert site.names() == ["late"]


def listings(site: Site) -> set[int]:
    """The cached lists of tools, by identity."""
    methods = site.app.extensions[EXTENSION]["mcp"].methods
    return {id(listing) for listing in methods._snapshot.listings.values()}


def test_what_is_remembered_is_bounded() -> None:
    """Every caller has permissions of their own here; what is kept of them must not grow for ever."""
    site = Site(McpBlueprint(auth=make_auth()))
    for number in range(MAX_LISTINGS + 40):
        site.tool(lambda: None, name=f"t{number}", access=[f"p{number}"])
    granted: list[str] = []
    site.rpc.permissions_loader(lambda user: granted)
    for number in range(MAX_LISTINGS + 40):
        granted[:] = [f"p{number}"]
        assert site.names(headers=basic("reader")) == [f"t{number}"]
    assert len(listings(site)) == MAX_LISTINGS


def test_permissions_nobody_asked_for_do_not_make_another_list() -> None:
    site = Site(McpBlueprint())
    site.tool(lambda: None, name="t", access=["write"])
    numbers = iter(range(100))
    site.rpc.permissions_loader(lambda user: ["write", f"noise-{next(numbers)}"])
    assert [site.names() for _ in range(5)] == [["t"]] * 5
    assert len(listings(site)) == 1


def test_tools_added_while_others_list_are_never_lost() -> None:
    """A list made from the old registry must not be remembered for the new one."""
    for _ in range(20):
        site = Site(McpBlueprint())
        done = threading.Event()

        def look(site: Site = site, done: threading.Event = done) -> None:
            while not done.is_set():
                site.names()

        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(look)
            for number in range(20):
                site.tool(lambda: None, name=f"t{number}")
            done.set()
        assert len(site.names()) == 20
