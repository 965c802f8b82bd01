"""A method: everything a call will need, read off a function once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from .calls import Call, Result
from .content import as_tool_result, blocks_of, meta_of
from .declarations import (
    check_async,
    checked_age,
    checked_description,
    checked_flag,
    checked_name,
    checked_permissions,
    checked_timeout,
    naming,
)
from .marks import McpTool, mark_of
from .rate_limits import RateLimits
from .schema import Function, Params, Shape, compile_output, compile_params, mirrored
from .schema.shape import SchemaSpec
from .strict_json import to_plain, write

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(eq=False, repr=False)
class Method:
    """A function made callable from outside. Prompts and resources are kinds of it."""

    name: str
    func: Callable[..., Any]
    description: str
    params: Params
    access: frozenset[str]
    output: Shape | None = None
    max_age: int | None = None
    timeout: float | None = None
    rate_limit: tuple[Any, ...] = ()
    tool: McpTool | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def listed(self) -> bool:
        """Whether it is in the list of its kind. A method that is no tool can be called, but is in none."""
        return self.tool is not None

    # Read with every call, so looked up once.
    @cached_property
    def requires(self) -> frozenset[str]:
        return frozenset() if self.tool is None else self.tool.requires

    @cached_property
    def read_only(self) -> bool:
        return self.tool is not None and self.tool.annotations.get("readOnlyHint") is True

    @cached_property
    def confirm(self) -> str | None:
        return None if self.tool is None else self.tool.confirm

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.func)

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make the arguments of the function from those of a call.

        :raises InvalidParams: listing everything that is wrong with them.
        """
        return self.params.bind(call.arguments)

    def dump(self, returned: Any, call: Call) -> Result:
        """Make plain JSON of what the function returned.

        :raises Exception: of any kind, when it is not what was declared or has no form in JSON.
        """
        output = self.output
        dump, schema = (to_plain, None) if output is None else (output.dump_result, output.schema)
        shown = as_tool_result(returned)
        if shown is None:
            return Result(dump(returned), None, None, schema)
        content = blocks_of(shown) or None
        # What declares its output must give it, with content beside it or without.
        undeclared = output is None and shown.value is None and content is not None
        value = None if undeclared else dump(shown.value)
        return Result(value, content, meta_of(shown), schema)

    def collect(self, items: list[Any]) -> Any:
        """Make one result of a generator's items: one text when it gives text, else a list."""
        if self.output is not None:
            is_text = self.output.schema.get("type") == "string"
        else:
            is_text = bool(items) and all(isinstance(item, str) for item in items)
        return "".join(items) if is_text else items

    @property
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
        # A copy, because orjson leaves 4 kB of room behind what it wrote, and this is kept for every tool.
        return bytes(memoryview(write(self.descriptor)))


class CommonOptions(TypedDict, total=False):
    """What can be said of a method of any kind."""

    description: str | None
    params: SchemaSpec | None
    access: Iterable[str]
    timeout: float | None
    rate_limit: str | None


class MethodOptions(CommonOptions, total=False):
    """What can be said of a method besides its name; see `McpBlueprint.method`."""

    output: SchemaSpec | None
    validate_output: bool
    max_age: int | None


def make_method(
    func: Callable[..., Any], name: str | None, rate_limits: RateLimits, **options: Unpack[MethodOptions]
) -> Method:
    """Read everything a call will need off a function, once.

    :raises TypeError, ValueError: naming the function, what is wrong with it and the fix.
    """
    with naming(func):
        check_options("method", options, MethodOptions)
        name, function = checked_name(func, name), Function(func)
        method = Method(
            name=name,
            **common_members(function, name, rate_limits, options),
            output=compile_output(
                function,
                options.get("output"),
                enforced=checked_flag("validate_output", options.get("validate_output", True)),
            ),
            max_age=checked_age(options.get("max_age")),
            tool=mark_of(func),
        )
        # What cannot be spelled must fail now, not when all tools are listed; and so must a wrong mark of a header.
        if mirrored.KEYWORD.encode() in method.descriptor_json:
            _ = method.params.mirrored
    return method


def common_members(function: Function, name: str, rate_limits: RateLimits, options: CommonOptions) -> dict[str, Any]:
    """Read off a function what methods of every kind have."""
    func = function.func
    check_async(func)
    return {
        "func": func,
        "description": checked_description(func, options.get("description"), name),
        "params": compile_params(function, options.get("params")),
        "access": checked_permissions("access", options.get("access", ())),
        "timeout": checked_timeout(options.get("timeout")),
        "rate_limit": rate_limits.parse(options.get("rate_limit")),
    }


def check_options(kind: str, options: Mapping[str, Any], known: type) -> None:
    """Refuse options that a kind of method does not have.

    :raises TypeError: naming those it has.
    """
    names = known.__annotations__
    if not options.keys() <= names.keys():
        unknown = min(options.keys() - names.keys())
        raise TypeError(f"a {kind} has no option {unknown!r}; it has {', '.join(names)}")
