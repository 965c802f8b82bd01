"""Methods and tools: what the two decorators make of a function, and where a blueprint keeps them."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import itertools
import re
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, overload

from .schema import Params, Shape, compile_output, compile_params
from .schema.shape import SchemaSpec
from .strict_json import to_plain, write

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
CLIENT_FEATURES = ("elicitation", "roots", "sampling")
"""What an MCP client can do for a method, as it says in its capabilities."""

# These are paths of their own below /mcp/tools/.
RESERVED_TOOL_NAMES = ("list", "describe", "invoke")

_MARK = "__mcp_tool__"
_PLACES = "__jsonrpc_methods__"


@dataclass(frozen=True)
class McpTool:
    """What `mcp_tool` adds to a method."""

    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    requires: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Method:
    """A function made callable from outside."""

    name: str
    func: Callable[..., Any]
    description: str
    params: Params
    output: Shape | None
    access: frozenset[str]
    max_age: int | None = None
    tool: McpTool | None = None

    @property
    def requires(self) -> frozenset[str]:
        return frozenset() if self.tool is None else self.tool.requires

    @property
    def read_only(self) -> bool:
        return self.tool is not None and self.tool.annotations.get("readOnlyHint") is True

    @cached_property
    def descriptor(self) -> dict[str, Any]:
        """The method as an MCP tool: members that are not set are left out, never null."""
        tool = self.tool or McpTool()
        described: dict[str, Any] = {"name": self.name}
        if tool.title is not None:
            described["title"] = tool.title
        described["description"] = self.description
        described["inputSchema"] = self.params.schema
        if self.output is not None:
            described["outputSchema"] = self.output.schema
        if tool.annotations:
            described["annotations"] = dict(tool.annotations)
        return described

    @cached_property
    def descriptor_json(self) -> bytes:
        """The descriptor as it goes over the wire, spelled once."""
        return write(self.descriptor)


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
                f"{_spell(method.func)}: the name {method.name!r} already belongs to {_spell(taken.func)};"
                " give one of them another name"
            )
        self._set(method)
        _remember_registration(method.func, self, method.name)

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
                f"{_spell(method.func)}: without dots, {method.name!r} and {taken!r} are both {alias!r};"
                " rename one of them, or leave JSONRPC_MCP_TOOL_NAME_STYLE as it is"
            )

    def mark(self, name: str, tool: McpTool) -> None:
        """Make a tool of a method."""
        self._set(replace(self._methods[name], tool=tool))

    def _set(self, method: Method) -> None:
        if method.tool is not None and method.name in RESERVED_TOOL_NAMES:
            raise ValueError(
                f"{_spell(method.func)}: a tool cannot be called {method.name!r}, because /mcp/tools/{method.name}"
                " is a path of its own; give the method another name"
            )
        self._add_alias(method)
        self._methods[method.name] = method
        # After the method is there: whoever sees the new version sees it too.
        self.version = next(self._versions)


class MethodOptions(TypedDict, total=False):
    """What can be said of a method besides its name; see `McpBlueprint.method`."""

    description: str | None
    params: SchemaSpec | None
    output: SchemaSpec | None
    access: Iterable[str]
    max_age: int | None


def make_method(func: Callable[..., Any], name: str | None = None, **options: Unpack[MethodOptions]) -> Method:
    """Read everything a call will need off a function, once.

    :raises TypeError, ValueError: naming the function, what is wrong with it and the fix.
    """
    try:
        unknown = set(options) - set(MethodOptions.__annotations__)
        if unknown:
            raise TypeError(
                f"a method has no option {unknown.pop()!r}; it has {', '.join(MethodOptions.__annotations__)}"
            )
        name = _checked_name(func, name)
        _check_async(func)
        method = Method(
            name=name,
            func=func,
            description=_checked_text("description", options.get("description") or _docstring(func) or name),
            params=compile_params(func, options.get("params")),
            output=compile_output(func, options.get("output")),
            access=checked_permissions("access", options.get("access", ())),
            max_age=_checked_age(options.get("max_age")),
            tool=getattr(func, _MARK, None),
        )
        # What cannot be spelled must fail now, not when all tools are listed.
        _ = method.descriptor_json, method.params.mirrored
        return method
    except (TypeError, ValueError) as error:
        raise type(error)(f"{_spell(func)}: {error}") from error


@overload
def mcp_tool(func: F, /) -> F: ...


@overload
def mcp_tool(
    *, title: str | None = None, annotations: Mapping[str, Any] | None = None, requires: Iterable[str] = ()
) -> Callable[[F], F]: ...


def mcp_tool(
    func: F | None = None,
    /,
    *,
    title: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    requires: Iterable[str] = (),
) -> F | Callable[[F], F]:
    """Mark a method for MCP: it is listed as a tool, and the REST face serves it too.

    Goes above or below ``@rpc.method(...)``, with or without parentheses, and returns the very function it got.

    :param title: A name for people to read.
    :param annotations: Hints for clients, sent as they are; ``readOnlyHint``, ``destructiveHint``,
        ``idempotentHint`` and ``openWorldHint`` are true or false.
    :param requires: What the tool cannot do without in a client: ``sampling``, ``elicitation``, ``roots``.
    """

    if func is not None and not callable(func):
        raise TypeError(f"@mcp_tool takes its options by name; write @mcp_tool(title={func!r})")

    def mark(func: F) -> F:
        try:
            tool = McpTool(
                title=None if title is None else _checked_text("title", title),
                annotations=_checked_annotations(annotations),
                requires=_checked_features(requires),
            )
            setattr(func, _MARK, tool)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{_spell(func)}: {error}") from error
        except AttributeError as error:
            raise TypeError(f"{_spell(func)} cannot be marked; write a function that calls it") from error
        for registry, name in _registrations_of(func):
            registry.mark(name, tool)
        return func

    return mark if func is None else mark(func)


@dataclass(frozen=True)
class _Registrations:
    """Where a function was registered, to hear of an `@mcp_tool` that stands above `@rpc.method`.

    :param func: Whose they are: ``functools.wraps`` copies attributes to other functions.
    :param places: Registries and names; weakly, because an app factory may register a function many times.
    """

    func: Callable[..., Any]
    places: list[tuple[weakref.ref[Registry], str]]


def _registrations_of(func: Callable[..., Any]) -> list[tuple[Registry, str]]:
    known: _Registrations | None = getattr(func, _PLACES, None)
    if known is None or known.func is not func:
        return []
    places = [(reference(), name) for reference, name in known.places]
    return [(registry, name) for registry, name in places if registry is not None]


def _remember_registration(func: Callable[..., Any], registry: Registry, name: str) -> None:
    places = [*_registrations_of(func), (registry, name)]
    try:
        setattr(func, _PLACES, _Registrations(func, [(weakref.ref(r), n) for r, n in places]))
    except AttributeError:
        pass  # a bound method or a built-in, which no decorator can mark later either


def _checked_name(func: Callable[..., Any], name: str | None) -> str:
    if name is None:
        name = getattr(func, "__name__", None)
        if name is None:
            raise TypeError("has no name of its own; pass one")
    if not isinstance(name, str):
        raise TypeError(f"a method's name must be a str, not {type(name).__name__}")
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a method's name; use 1 to 128 of the letters A-Z and a-z, digits, '.', '_' and '-'"
        )
    if name.startswith("rpc."):
        raise ValueError(f"{name!r} cannot be a method's name; JSON-RPC keeps names that begin with 'rpc.' for itself")
    return name


def _check_async(func: Callable[..., Any]) -> None:
    called = func if inspect.isroutine(func) else getattr(func, "__call__", func)  # noqa: B004
    is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
    if is_async and importlib.util.find_spec("asgiref") is None:
        raise TypeError("async functions need asgiref; install flask-jsonrpc-mcp[async]")


def _docstring(func: Callable[..., Any]) -> str | None:
    while isinstance(func, functools.partial):
        func = func.func
    return inspect.getdoc(func)


def checked_permissions(role: str, permissions: Iterable[str]) -> frozenset[str]:
    """Read a list of permissions.

    :raises TypeError: for anything else, above all for one permission that is not in a list.
    """
    if isinstance(permissions, str):
        raise TypeError(f"{role} must be a list of permissions; write {role}=[{permissions!r}]")
    if not isinstance(permissions, Iterable) or not all(isinstance(p, str) and p for p in permissions):
        raise TypeError(f"{role} must be a list of permissions, each a non-empty str")
    return frozenset(permissions)


def _checked_age(max_age: int | None) -> int | None:
    if max_age is not None and (not isinstance(max_age, int) or isinstance(max_age, bool) or max_age < 0):
        raise ValueError(f"max_age must be a number of whole seconds, not {max_age!r}")
    return max_age


def _checked_annotations(annotations: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if annotations is None:
        return {}
    if not isinstance(annotations, Mapping):
        raise TypeError(
            f"annotations must be a dict such as {{'readOnlyHint': True}}, not {type(annotations).__name__}"
        )
    for hint in HINTS:
        if not isinstance(annotations.get(hint, False), bool):
            raise TypeError(f"annotation {hint!r} must be True or False, not {annotations[hint]!r}")
    try:
        return dict(to_plain(annotations))
    except (TypeError, ValueError) as error:
        raise type(error)(f"annotations: {error}") from error


def _checked_features(requires: Iterable[str]) -> frozenset[str]:
    if isinstance(requires, str) or not set(requires) <= set(CLIENT_FEATURES):
        raise ValueError(f"requires must be a list of {', '.join(CLIENT_FEATURES)}, not {requires!r}")
    return frozenset(requires)


def _checked_text(role: str, text: str) -> str:
    """Refuse characters a model would read and a person would not see."""
    if not isinstance(text, str):
        raise TypeError(f"{role} must be a str, not {type(text).__name__}")
    hidden = next((c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t\u200d"), None)
    if hidden is not None:
        raise ValueError(f"{role} has the invisible character U+{ord(hidden):04X}; remove it")
    return text


def _spell(func: Callable[..., Any]) -> str:
    return f"{getattr(func, '__qualname__', None) or repr(func)}()"
