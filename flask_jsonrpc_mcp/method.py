"""`Method`: a registered function with everything that a call of it needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar

from .call import Call, Result
from .checks import (
    check_async,
    check_options,
    checked_age,
    checked_description,
    checked_flag,
    checked_name,
    checked_permissions,
    checked_scopes,
    checked_timeout,
    naming,
)
from .content import ContentBlock, ToolResult, as_tool_result, blocks_of, meta_of
from .schema import MIRROR_KEYWORD, Function, Params, SchemaSpec, Shape, compile_output, compile_params
from .strict_json import to_plain, write
from .tool import CONFIRM_META, MARK, MarkOptions, McpTool, marks

if TYPE_CHECKING:
    pass

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="Method")

_MAYBE_CONTENT = (ContentBlock, ToolResult, list, tuple)


class CommonOptions(TypedDict, total=False):
    """The options of every kind of method."""

    description: str | None
    params: SchemaSpec | None
    access: Iterable[str]
    scopes: Iterable[str]
    timeout: float | None
    rate_limit: str | None


class MethodOptions(CommonOptions, total=False):
    """The options of `McpBlueprint.method`."""

    output: SchemaSpec | None
    validate_output: bool
    max_age: int | None
    streams: bool


class ToolOptions(MethodOptions, MarkOptions, total=False):
    """The options of `McpBlueprint.tool`."""


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
    scopes: frozenset[str] = frozenset()
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
            "mark": getattr(function.func, MARK, None),
        }

    def check(self) -> None:
        """Check what this kind of method demands of its function.

        :raises TypeError: naming the parameter and the fix.
        """

    @property
    def tool(self) -> McpTool | None:
        """The mark of `mcp_tool`, which may stand above ``rpc.method`` and so come after registration."""
        return self.mark or getattr(self.func, MARK, None)

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
        auth = {"auth": {"level": "required", "scopes": sorted(self.scopes)}} if self.scopes else {}
        if tool.annotations or auth:
            described["annotations"] = {**auth, **tool.annotations}
        if tool.icons:
            described["icons"] = list(tool.icons)
        if tool.confirm is not None:
            described["_meta"] = {CONFIRM_META: True}
        return described


def make_method(
    kind: type[M],
    func: Callable[..., Any],
    name: str | None,
    options: Mapping[str, Any],
    parse_limits: Callable[[str | None], tuple[Any, ...]],
    mark: McpTool | None = None,
) -> M:
    """Build a method of some kind from a function and the options of its decorator.

    :param mark: The mark of a tool, if the decorator makes one.
    :raises TypeError, ValueError: naming the function and the fix.
    """
    with naming(func):
        check_options(kind.kind, options, kind.options)
        check_async(func)
        function = Function(func)
        fields = kind.fields_from(function, name, options)
        if mark is not None:
            if fields["mark"] is not None:
                raise TypeError("is marked with @mcp_tool and registered as a tool; remove the mark")
            fields["mark"] = mark
        method = kind(
            func=func,
            description=checked_description(func, options.get("description"), fields.get("label", fields["name"])),
            params=compile_params(function, options.get("params")),
            access=checked_permissions("access", options.get("access", ())),
            scopes=checked_scopes("scopes", options.get("scopes", ())),
            timeout=checked_timeout(options.get("timeout")),
            rate_limit=parse_limits(options.get("rate_limit")),
            streams=checked_flag("streams", options.get("streams", False)) or function.is_generator,
            **fields,
        )
        method.check()
        # What cannot be serialised, or has a wrong x-mcp-header, must fail now rather than when it is listed.
        if MIRROR_KEYWORD.encode() in write(method.descriptor):
            _ = method.params.mirrored
    if inspect.isfunction(func):
        marks.unregistered.discard(func)
    return method
