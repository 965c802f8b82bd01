"""MCP extensions: announced in the server's ``capabilities.extensions``, with methods for clients that declare them.

``Registry.extensions`` has the extensions of a blueprint. They need 2026-07-28, where a client declares the extensions
that it supports with every request: https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import MethodNotFound, MissingCapability
from ..registry import Registry

if TYPE_CHECKING:
    from .protocol import RequestContext

MethodHandler: TypeAlias = "Callable[[RequestContext, Mapping[str, Any]], Any]"
"""Takes the context and the params, and returns the result."""

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


@dataclass(frozen=True)
class Extension:
    """An extension that a blueprint uses.

    :param methods: The handlers of its methods by name. A client that does not declare the extension gets -32021.
    :param name_param: The param of these methods that the header ``Mcp-Name`` must repeat.
    :param listen: Reads the extension's part of the filter of ``subscriptions/listen``. It returns ``None`` if the
        filter has no such part.
    """

    id: str
    methods: Mapping[str, MethodHandler]
    name_param: str
    listen: Callable[[RequestContext, Mapping[str, Any]], Watcher | None]

    def require(self, context: RequestContext) -> None:
        """Check that the client has declared the extension.

        :raises MissingCapability: if it has not.
        """
        if FEATURE + self.id not in context.capabilities:
            raise MissingCapability([FEATURE + self.id])


def announced(registry: Registry) -> dict[str, Any]:
    """Return the extensions of a blueprint for the server's capabilities."""
    return {name: {} for name in registry.extensions}


def declared(capabilities: Mapping[str, Any], registry: Registry) -> frozenset[str]:
    """Return the extensions that both the client and the blueprint have, each with the prefix `FEATURE`."""
    named = capabilities.get("extensions")
    if not isinstance(named, dict):
        return frozenset()
    return frozenset(FEATURE + name for name in registry.extensions if isinstance(named.get(name), dict))


def find(method: str, registry: Registry) -> Extension | None:
    """Find the extension of a blueprint that has a method."""
    return next((each for each in registry.extensions.values() if method in each.methods), None)


def find_handler(method: str, context: RequestContext) -> MethodHandler:
    """Find the handler of a method for a client that has declared its extension.

    :raises MethodNotFound: if there is no such method.
    :raises MissingCapability: if the client has not declared the extension.
    """
    extension = find(method, context.registry)
    if extension is None:
        raise MethodNotFound(method)
    extension.require(context)
    return extension.methods[method]
