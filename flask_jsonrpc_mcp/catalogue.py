"""What a caller may see of a registry: one name, or what is listed of it, page by page.

Nothing here grows with the number of methods once a set of permissions has been seen: which of them it makes visible is
remembered, for the last few hundred sets, and so is every page made of them.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
from collections.abc import Callable
from typing import Generic, NamedTuple

from .access import Caller
from .errors import InvalidCursor, MethodNotFound, SignInRequired
from .registry import M, Registry

MAX_LISTINGS = 256

_OFFSET = re.compile(rb"[0-9]{1,18}")


class Page(NamedTuple):
    """A page as it goes over the wire, and its ETag where it is served with one."""

    body: bytes
    etag: str = ""


MakePage = Callable[[tuple[M, ...], str | None], Page]
"""Spells a slice of a list, given the cursor of the next page or ``None`` at the end."""


class Listing(Generic[M]):
    """What one set of permissions makes visible, in the order in which it was added."""

    def __init__(self, methods: tuple[M, ...]) -> None:
        self.methods = methods
        self._pages: dict[tuple[str, int, int], Page] = {}

    def page(self, spelling: str, offset: int, size: int, make: MakePage[M]) -> Page:
        """Return a page, made by ``make(methods, next_cursor)`` unless it was made before in the same spelling."""
        key = (spelling, offset, size)
        page = self._pages.get(key)
        if page is None:
            end = offset + size
            page = make(self.methods[offset:end], encode_cursor(end) if end < len(self.methods) else None)
            if offset % size == 0 and offset < len(self.methods):
                # Other offsets are a client's own invention; remembering them would fill the memory.
                self._pages[key] = page
        return page


class _Snapshot(Generic[M]):
    """What is remembered of one version of the registry, by the permissions that some method asks for."""

    def __init__(self, version: int, permissions: frozenset[str]) -> None:
        self.version = version
        self.permissions = permissions
        self.listings: dict[frozenset[str], Listing[M]] = {}


class Catalogue(Generic[M]):
    """A registry as callers see it."""

    def __init__(self, registry: Registry[M]) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._snapshot: _Snapshot[M] = _Snapshot(-1, frozenset())

    def find(self, name: str, caller: Caller, *, listed_only: bool = True) -> M:
        """Find a method by its name.

        :param listed_only: Methods that appear in no list, such as those that are no tools, do not exist here.
        :raises MethodNotFound: when there is none, or none this caller may know of.
        """
        for method in self._registry.named(name):
            if method.access <= caller.permissions and (method.listed or not listed_only):
                return method
        raise SignInRequired(name) if caller.may_sign_in else MethodNotFound(name)

    def methods_for(self, caller: Caller) -> list[M]:
        """List all methods that a caller may call, also those that appear in no list."""
        return [method for method in self._registry if caller.has(method.access)]

    def listing_for(self, caller: Caller) -> Listing[M]:
        """List what a caller may use."""
        snapshot = self._current_snapshot()
        permissions = caller.permissions & snapshot.permissions
        listing = snapshot.listings.get(permissions)
        if listing is None:
            visible = (method for method in self._registry if method.listed and method.access <= permissions)
            listing = Listing(tuple(visible))
            with self._lock:
                if len(snapshot.listings) >= MAX_LISTINGS:
                    del snapshot.listings[next(iter(snapshot.listings))]
                snapshot.listings[permissions] = listing
        return listing

    def _current_snapshot(self) -> _Snapshot[M]:
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
