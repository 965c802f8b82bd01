"""Where a blueprint keeps its methods, each kind of them in a registry of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from .declarations import check_placeholders, naming, spell
from .marks import McpTool, remember_registration
from .methods import Method

# These are paths of their own below /mcp/tools/.
RESERVED_TOOL_NAMES = ("list", "describe", "invoke")

M = TypeVar("M", bound=Method)


def alias_of(name: str) -> str:
    """Name a tool for clients that refuse dots in names."""
    return name.replace(".", "_")


class Registry(Generic[M]):
    """Methods of one kind, in the order in which they were added."""

    def __init__(self) -> None:
        self._methods: dict[str, M] = {}
        self._versions = itertools.count(1)
        self.version = 0

    def __iter__(self) -> Iterator[M]:
        # A copy: methods may be added while another thread lists them.
        return iter(list(self._methods.values()))

    def __len__(self) -> int:
        return len(self._methods)

    def get(self, name: str) -> M | None:
        return self._methods.get(name)

    def named(self, name: str) -> tuple[M, ...]:
        """Find what a caller may mean by a name, the best first."""
        method = self._methods.get(name)
        return () if method is None else (method,)

    def add(self, method: M) -> None:
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

    def remove(self, name: str) -> M:
        """Remove a method, and return it.

        :raises KeyError: when there is none of this name.
        """
        removed = self._methods.pop(name)
        self.version = next(self._versions)
        return removed

    def _set(self, method: M) -> None:
        self._methods[method.name] = method
        # After the method is there: whoever sees the new version sees it too.
        self.version = next(self._versions)


class MethodRegistry(Registry[Method]):
    """The methods of a blueprint that are called, some of them tools."""

    def __init__(self) -> None:
        super().__init__()
        self._aliases: dict[str, str] = {}
        self.has_aliases = False

    def add(self, method: Method) -> None:
        super().add(method)
        if method.tool is None:
            remember_registration(method.func, self, method.name)

    def remove(self, name: str) -> Method:
        removed = super().remove(name)
        # A plain method may be called what is the alias of a tool.
        if self._aliases.get(alias_of(name)) == name:
            del self._aliases[alias_of(name)]
        return removed

    def mark(self, name: str, tool: McpTool) -> None:
        """Make a tool of a method."""
        self._set(replace(self._methods[name], tool=tool))

    def use_aliases(self) -> None:
        """Let every tool also be known by its alias, from now on.

        :raises ValueError: when two tools would have the same.
        """
        self._aliases, self.has_aliases = {}, True
        for method in self:
            self._add_alias(method)

    def name_of(self, alias: str) -> str:
        """Find the name behind an alias; a name is its own."""
        return self._aliases.get(alias, alias)

    def _set(self, method: Method) -> None:
        tool = method.tool
        if tool is not None and method.name in RESERVED_TOOL_NAMES:
            raise ValueError(
                f"{spell(method.func)}: a tool cannot be called {method.name!r}, because /mcp/tools/{method.name}"
                " is a path of its own; give the method another name"
            )
        if tool is not None and tool.confirm is not None:
            with naming(method.func):
                check_placeholders(tool.confirm, method.params.schema["properties"])
        self._add_alias(method)
        super()._set(method)

    def _add_alias(self, method: Method) -> None:
        if not self.has_aliases or method.tool is None:
            return
        alias = alias_of(method.name)
        taken = self._aliases.setdefault(alias, method.name)
        if taken != method.name:
            raise ValueError(
                f"{spell(method.func)}: without dots, {method.name!r} and {taken!r} are both {alias!r};"
                " rename one of them, or leave JSONRPC_MCP_TOOL_NAME_STYLE as it is"
            )
