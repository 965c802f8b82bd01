"""Where a blueprint keeps its methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from .declarations import spell
from .marks import McpTool, remember_registration
from .methods import Method

# These are paths of their own below /mcp/tools/.
RESERVED_TOOL_NAMES = ("list", "describe", "invoke")


def alias_of(name: str) -> str:
    """Name a tool for clients that refuse dots in names."""
    return name.replace(".", "_")


class Registry:
    """The methods of one blueprint, in the order in which they were added."""

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}
        self._aliases: dict[str, str] | None = None
        self._versions = itertools.count(1)
        self.version = 0

    def __iter__(self) -> Iterator[Method]:
        # A copy: methods may be added while another thread lists them.
        return iter(list(self._methods.values()))

    def get(self, name: str) -> Method | None:
        return self._methods.get(name)

    def add(self, method: Method) -> None:
        """Add a method.

        :raises ValueError: when its name is taken.
        """
        taken = self._methods.get(method.name)
        if taken is not None:
            raise ValueError(
                f"{spell(method.func)}: the name {method.name!r} already belongs to {spell(taken.func)};"
                " give one of them another name"
            )
        self._set(method)
        if method.tool is None:
            remember_registration(method.func, self, method.name)

    def use_aliases(self) -> None:
        """Let every tool also be known by its alias, from now on.

        :raises ValueError: when two tools would have the same.
        """
        self._aliases = {}
        for method in self:
            self._add_alias(method)

    def name_of(self, alias: str) -> str:
        """Find the name behind an alias; a name is its own."""
        return alias if self._aliases is None else self._aliases.get(alias, alias)

    def _add_alias(self, method: Method) -> None:
        if self._aliases is None or method.tool is None:
            return
        alias = alias_of(method.name)
        taken = self._aliases.setdefault(alias, method.name)
        if taken != method.name:
            raise ValueError(
                f"{spell(method.func)}: without dots, {method.name!r} and {taken!r} are both {alias!r};"
                " rename one of them, or leave JSONRPC_MCP_TOOL_NAME_STYLE as it is"
            )

    def mark(self, name: str, tool: McpTool) -> None:
        """Make a tool of a method."""
        self._set(replace(self._methods[name], tool=tool))

    def _set(self, method: Method) -> None:
        if method.tool is not None and method.name in RESERVED_TOOL_NAMES:
            raise ValueError(
                f"{spell(method.func)}: a tool cannot be called {method.name!r}, because /mcp/tools/{method.name}"
                " is a path of its own; give the method another name"
            )
        self._add_alias(method)
        self._methods[method.name] = method
        # After the method is there: whoever sees the new version sees it too.
        self.version = next(self._versions)
