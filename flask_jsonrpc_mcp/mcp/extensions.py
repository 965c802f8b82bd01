"""MCP extensions: announced in the server's ``capabilities.extensions``, with methods for clients that declare them.

``Registry.extensions`` has the extensions of a blueprint. They need 2026-07-28, where a client declares the extensions
that it supports with every request: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import MethodNotFound, MissingCapability
from ..registry import Registry

if TYPE_CHECKING:
    from .protocol import RequestContext

FEATURE = "extensions."
"""The prefix of an extension's id in ``RequestContext.capabilities`` and in `MissingCapability`."""


class Watcher(Protocol):
    """Finds the changes that a client listens for with ``subscriptions/listen``.

    :param accepted: The part of the client's filter that the server supports.
    """

    accepted: Mapping[str, Any]

    def is_allowed(self, context: RequestContext) -> bool:
        """Return whether the caller may still listen."""

    def changes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield notifications, each without ``notifications/`` in its name, with its params."""


class ExtensionMethod(NamedTuple):
    """A method of an extension.

    :param handler: Takes the context and the params, and returns the result.
    :param name_param: The param that the header ``Mcp-Name`` must repeat.
    """

    handler: Callable[[RequestContext, Mapping[str, Any]], Any]
    name_param: str | None = None


@dataclass(frozen=True)
class Extension:
    """An extension that a blueprint uses.

    :param settings: The value under its id in ``capabilities.extensions``.
    :param methods: Its methods by name. A client that does not declare the extension gets -32021.
    :param listen: Reads the extension's part of the filter of ``subscriptions/listen``. It returns ``None`` if the
        filter has no such part.
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
    """Return the extensions that both the client and the blueprint have, each with the prefix `FEATURE`."""
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
