"""Lists of tools, prompts and resources, one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..catalogue import Catalogue, Page, decode_cursor
from ..envelope import Prepared
from ..errors import InvalidCursor, MalformedParams
from ..registry import M
from ..settings import setting
from ..strict_json import write
from .session import FACE, Session


def list_page(
    session: Session,
    params: Mapping[str, Any],
    catalogue: Catalogue[M],
    member: str,
    spell: Callable[[M, str], dict[str, Any]],
    style: str = "",
) -> Prepared:
    """List what a caller may use, one page.

    :param member: What the list is called in the result.
    :param spell: Describes one item to a client of a version.
    :param style: What else the spelling depends on.
    """
    session.core.require_discovery(session.caller)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise MalformedParams("cursor must be a string")
    try:
        offset = 0 if cursor is None else decode_cursor(cursor)
    except InvalidCursor as error:
        raise MalformedParams(error.message) from error

    def make(items: tuple[M, ...], next_cursor: str | None) -> Page:
        page: dict[str, Any] = {member: [spell(item, session.version) for item in items]}
        if next_cursor is not None:
            page["nextCursor"] = next_cursor  # left out at the end: clients take null for a cursor
        return Page(write(page))

    listing = catalogue.listing_for(session.caller)
    return Prepared(listing.page(f"{FACE} {session.version} {style}", offset, setting("PAGE_SIZE"), make).body)


def text_in(params: Mapping[str, Any], member: str) -> str:
    """Read a member of the params that must be a text."""
    text = params.get(member)
    if not isinstance(text, str):
        raise MalformedParams(f"params.{member} must be a string")
    return text


def arguments_in(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the arguments of a call, which may be left out when there are none."""
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict):
        raise MalformedParams("params.arguments must be an object")
    return arguments
