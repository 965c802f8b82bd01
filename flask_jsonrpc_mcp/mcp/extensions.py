"""MCP extensions of this server: announced in ``capabilities.extensions``, with methods for clients that declare them.

A blueprint has those that it uses in ``Registry.extensions``. They are for 2026-07-28, where a client declares its own
with every request: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import MethodNotFound, MissingCapability
from ..registry import Registry

if TYPE_CHECKING:
    from .protocol import RequestContext

FEATURE = "extensions."
"""Before the id of an extension in the capabilities of a client; see `MissingCapability`."""


class Watcher(Protocol):
    """What a client listens to by an extension.

    :param accepted: The part of the client's filter that is supported.
    """

    accepted: Mapping[str, Any]

    def is_allowed(self, context: RequestContext) -> bool:
        """Return whether the caller may still listen."""

    def changes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield notifications, each without ``notifications/`` in its name, with its params."""


@dataclass(frozen=True)
class ExtensionMethod:
    """A method of an extension.

    :param handler: Takes the context and the params, and returns the result.
    :param name_param: The param that the header ``Mcp-Name`` repeats.
    """

    handler: Callable[[RequestContext, Mapping[str, Any]], Any]
    name_param: str | None = None


@dataclass(frozen=True)
class Extension:
    """An extension that a blueprint uses.

    :param settings: What the server announces under its id.
    :param methods: By name; a client that does not declare the extension gets -32021.
    :param listen: Reads the extension's part of a ``subscriptions/listen``; ``None`` if the client has not asked.
    """

    id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, ExtensionMethod] = field(default_factory=dict)
    listen: Callable[[RequestContext, Mapping[str, Any]], Watcher | None] | None = None

    def require(self, context: RequestContext) -> None:
        """Check that the client has declared the extension.

        :raises MissingCapability: if it has not.
        """
        if FEATURE + self.id not in context.capabilities:
            raise MissingCapability([FEATURE + self.id])


def announced(registry: Registry) -> dict[str, Any]:
    """Return the extensions of a blueprint for the server's capabilities."""
    return {name: dict(extension.settings) for name, extension in registry.extensions.items()}


def declared(capabilities: Mapping[str, Any], registry: Registry) -> frozenset[str]:
    """Return the extensions that both the client and the blueprint have, as features."""
    named = capabilities.get("extensions")
    if not isinstance(named, dict):
        return frozenset()
    return frozenset(FEATURE + name for name in registry.extensions if isinstance(named.get(name), dict))


def find_method(method: str, registry: Registry) -> tuple[Extension, ExtensionMethod] | None:
    """Find a method of the extensions of a blueprint."""
    for extension in registry.extensions.values():
        if method in extension.methods:
            return extension, extension.methods[method]
    return None


def find_handler(method: str, context: RequestContext) -> Callable[[RequestContext, Mapping[str, Any]], Any]:
    """Find the handler of a method for a client that has declared its extension.

    :raises MethodNotFound: if there is no such method.
    :raises MissingCapability: if the client has not declared the extension.
    """
    found = find_method(method, context.registry)
    if found is None:
        raise MethodNotFound(method)
    extension, row = found
    extension.require(context)
    return row.handler
