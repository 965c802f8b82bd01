"""`mcp_tool`, which marks a function and leaves it as it is, and how a registry hears of marks that come late."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from .declarations import checked_annotations, checked_features, checked_text, naming, spell

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__mcp_tool__"
_PLACES = "__jsonrpc_methods__"


class McpTool(NamedTuple):
    """What `mcp_tool` adds to a method."""

    title: str | None = None
    annotations: Mapping[str, Any] = MappingProxyType({})
    requires: frozenset[str] = frozenset()
    confirm: str | None = None


class Markable(Protocol):
    """Where functions are registered by name, and can become tools later."""

    def mark(self, name: str, tool: McpTool) -> None: ...


@overload
def mcp_tool(func: F, /) -> F: ...


@overload
def mcp_tool(
    *,
    title: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    requires: Iterable[str] = (),
    confirm: str | None = None,
) -> Callable[[F], F]: ...


def mcp_tool(
    func: F | None = None,
    /,
    *,
    title: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    requires: Iterable[str] = (),
    confirm: str | None = None,
) -> F | Callable[[F], F]:
    """Mark a method for MCP: it is listed as a tool, and the REST face serves it too.

    Goes above or below ``@rpc.method(...)``, with or without parentheses, and returns the very function it got.

    :param title: A name for people to read.
    :param annotations: Hints for clients, sent as they are; ``readOnlyHint``, ``destructiveHint``,
        ``idempotentHint`` and ``openWorldHint`` are true or false.
    :param requires: What the tool cannot do without in a client: ``sampling``, ``elicitation``, ``roots``.
    :param confirm: What to ask the person at the client before the method runs, such as ``"Delete article {id}?"``
        with arguments in braces. Clients that cannot ask run it unasked, unless it also ``requires`` elicitation.
    """
    if func is not None and not callable(func):
        raise TypeError(f"@mcp_tool takes its options by name; write @mcp_tool(title={func!r})")

    def mark(func: F) -> F:
        with naming(func):
            tool = McpTool(
                title=None if title is None else checked_text("title", title),
                annotations=checked_annotations(annotations),
                requires=checked_features(requires),
                confirm=None if confirm is None else checked_text("confirm", confirm),
            )
        try:
            setattr(func, _MARK, tool)
        except AttributeError as error:
            raise TypeError(f"{spell(func)} cannot be marked; write a function that calls it") from error
        for registry, name in _take_registrations(func):
            registry.mark(name, tool)
        return func

    return mark if func is None else mark(func)


def mark_of(func: Callable[..., Any]) -> McpTool | None:
    """Read the mark of a function, or of the one that it wraps."""
    mark: McpTool | None = getattr(func, _MARK, None)
    return mark


def remember_registration(func: Callable[..., Any], registry: Markable, name: str) -> None:
    """Let a registry hear of an `@mcp_tool` that stands above `@rpc.method`, and so is applied after it.

    Of the first one only: whoever marks the function again for another blueprint means that one.
    """
    known: _Registrations | None = getattr(func, _PLACES, None)
    if known is None or known.func is not func:
        known = _Registrations(func)
        try:
            setattr(func, _PLACES, known)
        except AttributeError:
            return  # a bound method or a built-in, which no decorator can mark later either
    known.places.setdefault(registry, []).append(name)


class _Registrations:
    """Where a function was registered."""

    def __init__(self, func: Callable[..., Any]) -> None:
        # Whose they are: functools.wraps copies attributes to other functions.
        self.func = func
        # Names by registry; weakly, because an app factory may register a function many times.
        self.places: weakref.WeakKeyDictionary[Markable, list[str]] = weakref.WeakKeyDictionary()


def _take_registrations(func: Callable[..., Any]) -> list[tuple[Markable, str]]:
    known: _Registrations | None = getattr(func, _PLACES, None)
    if known is None or known.func is not func:
        return []
    taken = [(registry, name) for registry, names in known.places.items() for name in names]
    known.places.clear()
    return taken
