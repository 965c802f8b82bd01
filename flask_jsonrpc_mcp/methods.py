"""A method: everything a call will need, read off a function once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

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
from .schema import Params, Shape, compile_output, compile_params
from .schema.shape import SchemaSpec
from .strict_json import write

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    timeout: float | None = None
    rate_limit: tuple[Any, ...] = ()
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


class MethodOptions(TypedDict, total=False):
    """What can be said of a method besides its name; see `McpBlueprint.method`."""

    description: str | None
    params: SchemaSpec | None
    output: SchemaSpec | None
    validate_output: bool
    access: Iterable[str]
    max_age: int | None
    timeout: float | None
    rate_limit: str | None


def make_method(
    func: Callable[..., Any], name: str | None, rate_limits: RateLimits, **options: Unpack[MethodOptions]
) -> Method:
    """Read everything a call will need off a function, once.

    :raises TypeError, ValueError: naming the function, what is wrong with it and the fix.
    """
    with naming(func):
        known = MethodOptions.__annotations__
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise TypeError(f"a method has no option {unknown[0]!r}; it has {', '.join(known)}")
        name = checked_name(func, name)
        check_async(func)
        method = Method(
            name=name,
            func=func,
            description=checked_description(func, options.get("description"), name),
            params=compile_params(func, options.get("params")),
            output=compile_output(
                func,
                options.get("output"),
                enforced=checked_flag("validate_output", options.get("validate_output", True)),
            ),
            access=checked_permissions("access", options.get("access", ())),
            max_age=checked_age(options.get("max_age")),
            timeout=checked_timeout(options.get("timeout")),
            rate_limit=rate_limits.parse(options.get("rate_limit")),
            tool=mark_of(func),
        )
        # What cannot be spelled must fail now, not when all tools are listed.
        _ = method.descriptor_json, method.params.mirrored
    return method
