"""`Method`: a function with everything that a call needs, and `mcp_tool`, which marks one as a tool.

Everything is checked when the function is registered, usually at import. An error names the function and the fix.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypedDict, TypeVar, overload

from .call import Call, Result
from .content import ContentBlock, ToolResult, as_tool_result, blocks_of, meta_of
from .schema import MIRROR_KEYWORD, Function, Params, SchemaSpec, Shape, compile_output, compile_params
from .strict_json import to_plain, write

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="Method")

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
CLIENT_FEATURES = ("elicitation", "elicitation.url", "roots", "sampling")
"""The client capabilities that a tool can require; the part after a dot is a capability within another."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_MARK = "__mcp_tool__"
_MAYBE_CONTENT = (ContentBlock, ToolResult, list, tuple)


@dataclass(frozen=True)
class McpTool:
    """The mark that `mcp_tool` leaves on a function."""

    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    requires: frozenset[str] = frozenset()
    confirm: str | None = None


class marks:  # noqa: N801 (a namespace)
    """Counts the marks, because cached lists are stale after a new one."""

    count = 0


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
    """Mark a method as an MCP tool, which the REST face serves too.

    Goes above or below ``@rpc.method(...)``, with or without parentheses, and returns the function unchanged.

    :param title: A name for people to read.
    :param annotations: Hints for clients, sent as they are; ``readOnlyHint``, ``destructiveHint``,
        ``idempotentHint`` and ``openWorldHint`` must be booleans.
    :param requires: The client capabilities that the tool needs: ``sampling``, ``elicitation``, ``roots``.
    :param confirm: A question to the user before the method runs, such as ``"Delete article {id}?"`` with arguments in
        braces. Clients that cannot ask run the method without it, unless it also ``requires`` elicitation. Without a
        ``SECRET_KEY`` the app refuses such calls of MCP clients.
    """
    if func is not None and not callable(func):
        raise TypeError(f"@mcp_tool takes its options by name; write @mcp_tool(title={func!r})")

    def mark(func: F) -> F:
        with naming(func):
            tool = McpTool(
                title=None if title is None else checked_text("title", title),
                annotations=checked_annotations(annotations),
                requires=_checked_features(requires),
                confirm=None if confirm is None else checked_text("confirm", confirm),
            )
        try:
            setattr(func, _MARK, tool)
        except AttributeError as error:
            raise TypeError(f"{name_of(func)} cannot be marked; write a function that calls it") from error
        marks.count += 1
        return func

    return mark if func is None else mark(func)


class CommonOptions(TypedDict, total=False):
    """The options of every kind of method."""

    description: str | None
    params: SchemaSpec | None
    access: Iterable[str]
    timeout: float | None
    rate_limit: str | None


class MethodOptions(CommonOptions, total=False):
    """The options of `McpBlueprint.method`."""

    output: SchemaSpec | None
    validate_output: bool
    max_age: int | None
    streams: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Method:
    """A registered function. Prompts, resources and completers are subclasses.

    :param mark: The mark of `mcp_tool` at registration; one that is added later is read from the function.
    """

    kind: ClassVar[str] = "method"
    options: ClassVar[type] = MethodOptions

    name: str
    func: Callable[..., Any]
    description: str
    params: Params
    access: frozenset[str]
    timeout: float | None = None
    rate_limit: tuple[Any, ...] = ()
    streams: bool = False
    output: Shape | None = None
    max_age: int | None = None
    mark: McpTool | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @classmethod
    def fields_from(cls, function: Function, name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """Read the fields that this kind of method has besides the common ones."""
        enforced = checked_flag("validate_output", options.get("validate_output", True))
        return {
            "name": checked_name(function.func, name),
            "output": compile_output(function, options.get("output"), enforced=enforced),
            "max_age": checked_age(options.get("max_age")),
            "mark": getattr(function.func, _MARK, None),
        }

    @property
    def tool(self) -> McpTool | None:
        """The mark of `mcp_tool`, which may stand above ``rpc.method`` and so come after registration."""
        return self.mark or getattr(self.func, _MARK, None)

    @property
    def listed(self) -> bool:
        """Whether it appears in the list of its kind. A method that is not a tool can only be called."""
        return self.tool is not None

    @property
    def read_only(self) -> bool:
        """Whether it is a tool with ``readOnlyHint``."""
        return self.tool is not None and self.tool.annotations.get("readOnlyHint") is True

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.func)

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Validate the arguments of a call and convert them to those of the function.

        :raises InvalidParams: with every problem.
        """
        return self.params.bind(call.arguments)

    def dump(self, returned: Any, call: Call) -> Result:
        """Convert what the function returned to plain JSON values, and validate it.

        :raises Exception: of any class, if it does not match the output schema or has no form in JSON.
        """
        output = self.output
        dump, schema = (to_plain, None) if output is None else (output.dump_result, output.schema)
        shown = as_tool_result(returned) if isinstance(returned, _MAYBE_CONTENT) else None
        if shown is None:
            return Result(dump(returned), schema=schema)
        content = blocks_of(shown) or None
        # With an output schema the value is required, with or without content blocks.
        only_content = output is None and shown.value is None and content is not None
        return Result(None if only_content else dump(shown.value), content, meta_of(shown), schema)

    def collect(self, items: list[Any]) -> Any:
        """Join the items of a generator: one string if they are strings, else a list."""
        if self.output is not None:
            is_text = self.output.schema.get("type") == "string"
        else:
            is_text = bool(items) and all(isinstance(item, str) for item in items)
        return "".join(items) if is_text else items

    @property
    def descriptor(self) -> dict[str, Any]:
        """The MCP tool as 2026-07-28 lists it, without members that are not set."""
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


def make_method(
    kind: type[M],
    func: Callable[..., Any],
    name: str | None,
    options: Mapping[str, Any],
    parse_limits: Callable[[str | None], tuple[Any, ...]],
) -> M:
    """Build a method of some kind from a function and the options of its decorator.

    :raises TypeError, ValueError: naming the function and the fix.
    """
    with naming(func):
        known = kind.options.__annotations__
        if not options.keys() <= known.keys():
            unknown = min(options.keys() - known.keys())
            raise TypeError(f"a {kind.kind} has no option {unknown!r}; it has {', '.join(known)}")
        _check_async(func)
        function = Function(func)
        fields = kind.fields_from(function, name, options)
        method = kind(
            func=func,
            description=_checked_description(func, options.get("description"), fields.get("label", fields["name"])),
            params=compile_params(function, options.get("params")),
            access=checked_permissions("access", options.get("access", ())),
            timeout=_checked_timeout(options.get("timeout")),
            rate_limit=parse_limits(options.get("rate_limit")),
            streams=checked_flag("streams", options.get("streams", False)) or function.is_generator,
            **fields,
        )
        # What cannot be serialised, or has a wrong x-mcp-header, must fail now rather than when it is listed.
        if MIRROR_KEYWORD.encode() in write(method.descriptor):
            _ = method.params.mirrored
    return method


class naming:  # noqa: N801 (used as a function)
    """Put the name of a function before the message of a TypeError or ValueError about it."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (TypeError, ValueError)):
            named = TypeError if isinstance(error, TypeError) else ValueError
            raise named(f"{name_of(self._func)}: {error}") from error


def name_of(func: Callable[..., Any]) -> str:
    """Name a function in an error message."""
    return f"{getattr(func, '__qualname__', None) or repr(func)}()"


def checked_name(func: Callable[..., Any], name: str | None) -> str:
    if name is None:
        name = getattr(func, "__name__", None)
        if name is None:
            raise TypeError("has no name of its own; pass one")
    if not isinstance(name, str):
        raise TypeError(f"a method's name must be a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a method's name; use 1 to 128 of the letters A-Z and a-z, digits, '.', '_' and '-'"
        )
    if name.startswith("rpc."):
        raise ValueError(f"{name!r} cannot be a method's name; JSON-RPC reserves names that begin with 'rpc.'")
    return name


def checked_text(role: str, text: str) -> str:
    """Reject characters that a model would read and a person would not see."""
    if not isinstance(text, str):
        raise TypeError(f"{role} must be a str, not {type(text).__name__}")
    if text.isprintable():
        return text
    hidden = next((c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t\u200d"), None)
    if hidden is not None:
        raise ValueError(f"{role} has the invisible character U+{ord(hidden):04X}; remove it")
    return text


def checked_permissions(role: str, permissions: Iterable[str]) -> frozenset[str]:
    if isinstance(permissions, str):
        raise TypeError(f"{role} must be a list of permissions; write {role}=[{permissions!r}]")
    listed = list(permissions) if isinstance(permissions, Iterable) else [None]
    if not all(isinstance(permission, str) and permission for permission in listed):
        raise TypeError(f"{role} must be a list of permissions, each a non-empty str")
    return frozenset(listed)


def checked_flag(role: str, flag: bool) -> bool:
    if not isinstance(flag, bool):
        raise TypeError(f"{role} must be True or False, not {flag!r}")
    return flag


def checked_age(max_age: int | None) -> int | None:
    if max_age is not None and (not isinstance(max_age, int) or isinstance(max_age, bool) or max_age < 0):
        raise ValueError(f"max_age must be a whole number of seconds, 0 or more, not {max_age!r}")
    return max_age


def checked_annotations(annotations: Mapping[str, Any] | None) -> dict[str, Any]:
    if annotations is None:
        return {}
    if not isinstance(annotations, Mapping):
        kind = type(annotations).__name__
        raise TypeError(f"annotations must be a dict such as {{'readOnlyHint': True}}, not {kind}")
    for hint in HINTS:
        if not isinstance(annotations.get(hint, False), bool):
            raise TypeError(f"annotation {hint!r} must be True or False, not {annotations[hint]!r}")
    try:
        return dict(to_plain(annotations))
    except (TypeError, ValueError) as error:
        raise TypeError(f"annotations: {error}") from error


def check_placeholders(text: str, names: Iterable[str]) -> None:
    """Check that a text has only ``{name}`` placeholders, each for one of some names.

    :raises ValueError: for any other placeholder.
    """
    for _, name, format_spec, conversion in string.Formatter().parse(text):
        if name is None:
            continue
        if name not in names:
            raise ValueError(
                f"{text!r} uses {{{name}}}, but the function has no parameter {name!r}"
                f" (it has: {', '.join(names) or 'none'})"
            )
        if format_spec or conversion:
            raise ValueError(f"{text!r} can use {{{name}}} only without a format or conversion")


def _checked_features(requires: Iterable[str]) -> frozenset[str]:
    features = frozenset([requires] if isinstance(requires, str) else requires)
    if isinstance(requires, str) or not features.issubset(CLIENT_FEATURES):
        raise ValueError(f"requires must be a list of {', '.join(CLIENT_FEATURES)}, not {requires!r}")
    return features


def _checked_description(func: Callable[..., Any], description: str | None, name: str) -> str:
    """Return the description, else the docstring, else the name."""
    described = _unwrapped(func)
    return checked_text("description", description or inspect.getdoc(described) or name)


def _checked_timeout(timeout: float | None) -> float | None:
    if timeout is not None and (
        not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not 0 < timeout < math.inf
    ):
        raise ValueError(f"timeout must be a number of seconds greater than 0, not {timeout!r}")
    return timeout


def _check_async(func: Callable[..., Any]) -> None:
    called = func if inspect.isroutine(func) else type(func).__call__
    is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
    if is_async and importlib.util.find_spec("asgiref") is None:
        raise TypeError("async functions need asgiref; install flask-jsonrpc-mcp[async]")


def _unwrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(func, functools.partial):
        func = func.func
    return func
