"""A result of a thousand rows."""

from __future__ import annotations

from typing import TypedDict


class Row(TypedDict):
    """A row as a database gives it."""

    id: int
    name: str
    price: float
    tags: list[str]


def make_rows() -> list[Row]:
    """Make the same thousand rows every time."""
    return [{"id": n, "name": f"name {n}", "price": n / 7, "tags": ["new", "sale"]} for n in range(1000)]
