"""What the doctor finds about tools from an API: a missing endpoint, and how much a model has to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flask import Flask

from ..strict_json import to_plain, write
from .tools import endpoint_of

MAX_BYTES = 100 * 1024
"""Maximum size of all descriptions, about 25,000 tokens before a conversation has begun."""


def missing_endpoint(func: Callable[..., Any], app: Flask) -> Iterator[tuple[str, str]]:
    """Find a tool whose endpoint the app does not have."""
    endpoint = endpoint_of(func)
    try:
        if endpoint is not None:
            endpoint.find(app)
    except LookupError as error:
        yield "no-endpoint", f"{error}, so every call fails"


def size_of_tools(descriptors: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Find that the tools of a blueprint are too much to read."""
    sizes = [len(write(to_plain(descriptor))) for descriptor in descriptors]
    total = sum(sizes)
    if total > MAX_BYTES:
        tokens = f"about {total // 4:,} tokens"
        yield "tools-huge", f"a model reads {total:,} bytes, {tokens}, of {len(sizes)} tools before each conversation"
