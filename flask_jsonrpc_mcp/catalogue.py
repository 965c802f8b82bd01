"""What a caller may see of the registry: one name, or the tools page by page.

Nothing here grows with the number of tools once a set of permissions has been seen: which tools it makes visible is
remembered, for the last few hundred sets, and so is every page made of them.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from .access import Caller
from .errors import InvalidCursor, MethodNotFound, SignInRequired
from .methods import Method
from .registry import Registry

MAX_LISTINGS = 256

_OFFSET = re.compile(rb"[0-9]{1,18}")


@dataclass(frozen=True)
class Page:
    """A page as it goes over the wire, and its ETag where it is served with one."""

    body: bytes
    etag: str = ""


MakePage = Callable[[tuple[Method, ...], str | None], Page]
"""Spells a slice of the tools, given the cursor of the next page or ``None`` at the end."""


@dataclass(frozen=True)
class Listing:
    """The tools that one set of permissions makes visible, in the order in which they were added."""

    tools: tuple[Method, ...]
    _pages: dict[tuple[str, int, int], Page] = field(default_factory=dict)

    def page(self, spelling: str, offset: int, size: int, make: MakePage) -> Page:
        """Return a page, made by ``make(tools, next_cursor)`` unless it was made before in the same spelling."""
        key = (spelling, offset, size)
        page = self._pages.get(key)
        if page is None:
            end = offset + size
            page = make(self.tools[offset:end], encode_cursor(end) if end < len(self.tools) else None)
            if offset % size == 0 and offset < len(self.tools):
                # Other offsets are a client's own invention; remembering them would fill the memory.
                self._pages[key] = page
        return page


@dataclass(frozen=True)
class _Snapshot:
    """What is remembered of one version of the registry, by the permissions that some method asks for."""

    version: int
    permissions: frozenset[str]
    listings: dict[frozenset[str], Listing] = field(default_factory=dict)


class Catalogue:
    """The registry as callers see it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._snapshot = _Snapshot(-1, frozenset())

    def find(self, name: str, caller: Caller, *, tools_only: bool) -> Method:
        """Find a method by name.

        :raises MethodNotFound: when there is none, or none this caller may know of.
        """
        method = self._registry.get(name)
        if method is None or (tools_only and method.tool is None) or not caller.has(method.access):
            raise SignInRequired(name) if caller.may_sign_in else MethodNotFound(name)
        return method

    def methods_for(self, caller: Caller) -> list[Method]:
        """List all methods that a caller may call, tools or not."""
        return [method for method in self._registry if caller.has(method.access)]

    def tools_for(self, caller: Caller) -> Listing:
        """List the tools that a caller may use."""
        snapshot = self._current_snapshot()
        permissions = caller.permissions & snapshot.permissions
        listing = snapshot.listings.get(permissions)
        if listing is None:
            visible = (m for m in self._registry if m.tool is not None and m.access <= permissions)
            listing = Listing(tuple(visible))
            with self._lock:
                if len(snapshot.listings) >= MAX_LISTINGS:
                    del snapshot.listings[next(iter(snapshot.listings))]
                snapshot.listings[permissions] = listing
        return listing

    def _current_snapshot(self) -> _Snapshot:
        snapshot, version = self._snapshot, self._registry.version
        if snapshot.version != version:
            # The version was read first: what is added from now on makes the next look begin again.
            permissions = frozenset().union(*(method.access for method in self._registry))
            snapshot = self._snapshot = _Snapshot(version, permissions)
        return snapshot


def encode_cursor(offset: int) -> str:
    """Spell an offset as a cursor: its decimal digits in base64."""
    return base64.b64encode(str(offset).encode("ascii")).decode("ascii")


def decode_cursor(cursor: str) -> int:
    """Read a cursor, with or without its padding.

    :raises InvalidCursor: for anything but what :func:`encode_cursor` makes.
    """
    bare = cursor.rstrip("=")
    try:
        digits = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor() from error
    if not _OFFSET.fullmatch(digits) or encode_cursor(int(digits)) not in (cursor, cursor + "=" * (-len(cursor) % 4)):
        raise InvalidCursor()
    return int(digits)
