"""`Method`: a registered function with its options and schemas, and `mcp_tool`, which marks it as a tool."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, overload
from weakref import WeakSet

from .call import Call, Result
from .checks import (
    check_options,
    checked_age,
    checked_annotations,
    checked_description,
    checked_flag,
    checked_name,
    checked_permissions,
    checked_scopes,
    checked_text,
    checked_timeout,
    name_of,
    naming,
)
from .content import ContentBlock, ToolResult, as_tool_result, blocks_of, meta_of
from .schema import (
    MIRROR_KEYWORD,
    Function,
    Params,
    SchemaSpec,
    Shape,
    compile_output,
    compile_params,
    mirrored_arguments,
)
from .strict_json import to_plain, write
from .task_options import TaskOption, TaskOptions, checked_task

if TYPE_CHECKING:
    from typing_extensions import Unpack


F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="Method")

_MAYBE_CONTENT = (ContentBlock, ToolResult, list, tuple)

HINT_OPTIONS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
"""The options of a tool that become hints in MCP's ``annotations``."""

HINTS = tuple(HINT_OPTIONS.values())
CLIENT_FEATURES = ("elicitation", "elicitation.url", "roots", "sampling")
"""The client capabilities that a tool can require; the part after a dot is a capability within another."""

MARK = "__mcp_tool__"

CONFIRM_META = "flask-jsonrpc-mcp/confirm"
"""The key of ``_meta`` for tools with ``confirm=``: the client itself need not ask for confirmation."""


@dataclass(frozen=True)
class McpTool:
    """The mark that `mcp_tool` leaves on a function."""

    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    icons: tuple[Mapping[str, Any], ...] = ()
    requires: frozenset[str] = frozenset()
    confirm: str | None = None
    confirm_required: bool = True
    task: TaskOptions | None = None

    @property
    def repeatable(self) -> bool:
        """Whether it may run again after a run of which the end is not known."""
        return self.annotations.get("readOnlyHint") is True or self.annotations.get("idempotentHint") is True


_PLAIN_TOOL = McpTool()


class marks:  # noqa: N801 (a namespace)
    """The number of marks, because a new one invalidates cached lists, and the unregistered functions with a mark."""

    count = 0
    unregistered: ClassVar[WeakSet[Callable[..., Any]]] = WeakSet()


class MarkOptions(TypedDict, total=False):
    """The options of `mcp_tool`."""

    title: str | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    annotations: Mapping[str, Any] | None
    icons: Iterable[str | Mapping[str, Any]]
    requires: Iterable[str]
    confirm: str | None
    confirm_required: bool
    task: TaskOption


@overload
def mcp_tool(func: F, /) -> F: ...


@overload
def mcp_tool(**options: Unpack[MarkOptions]) -> Callable[[F], F]: ...


def mcp_tool(func: Any = None, /, **options: Any) -> Any:
    """Mark a method as an MCP tool, which the REST face serves too.

    Goes above or below ``@rpc.method(...)``, with or without parentheses, and returns the function unchanged.
    :meth:`.McpBlueprint.tool` is both decorators in one, and takes the same options.

    :param title: A name for people to read.
    :param read_only: Whether the tool changes nothing. Only such tools can be called by GET.
    :param destructive: Whether it may delete or overwrite something.
    :param idempotent: Whether calling it again with the same arguments changes nothing more.
    :param open_world: Whether it reaches beyond the app, such as to the web.
    :param annotations: More hints for clients, sent as they are. The four above become ``readOnlyHint``,
        ``destructiveHint``, ``idempotentHint`` and ``openWorldHint`` here.
    :param icons: URLs of icons, or dicts with ``src``, ``mimeType``, ``sizes`` and ``theme``.
    :param requires: The client capabilities that the tool needs: ``sampling``, ``elicitation``, ``roots``.
    :param confirm: A question to the user before the method runs, such as ``"Delete article {id}?"`` with arguments in
        braces. MCP clients that cannot ask are refused. By REST, JSON-RPC and without a terminal it does not ask.
    :param confirm_required: With ``False``, MCP clients that cannot ask run it without the question.
    :param task: Run it in a worker, and give clients that support tasks a handle at once. ``"required"`` refuses other
        clients; :class:`.TaskOptions` has more.
    """
    if func is not None and not callable(func):
        raise TypeError(f"@mcp_tool takes its options by name; write @mcp_tool(title={func!r})")

    def mark(func: F) -> F:
        tool = make_mark(func, options)
        try:
            # The attributes of a bound method are those of its function.
            marked = func.__func__ if inspect.ismethod(func) else func
            setattr(marked, MARK, tool)
        except AttributeError as error:
            raise TypeError(f"{name_of(func)} cannot be marked; register it with rpc.add_tool") from error
        marks.count += 1
        if inspect.isfunction(marked):
            marks.unregistered.add(marked)
        return func

    return mark if func is None else mark(func)


def make_mark(func: Callable[..., Any], options: Mapping[str, Any]) -> McpTool:
    """Build the mark of a function from the options of `mcp_tool`.

    :raises TypeError, ValueError: naming the function and the fix.
    """
    if not options:
        return _PLAIN_TOOL
    with naming(func):
        check_options("tool", options, MarkOptions)
        title, confirm, required = options.get("title"), options.get("confirm"), options.get("confirm_required", True)
        if not checked_flag("confirm_required", required) and confirm is None:
            raise ValueError("confirm_required=False needs confirm, the question that is not required")
        return McpTool(
            title=None if title is None else checked_text("title", title),
            annotations=_checked_hints(options),
            icons=tuple(map(_checked_icon, options.get("icons", ()))),
            requires=_checked_features(options.get("requires", ())),
            confirm=None if confirm is None else checked_text("confirm", confirm),
            confirm_required=required,
            task=checked_task(options.get("task")),
        )


def _checked_hints(options: Mapping[str, Any]) -> dict[str, Any]:
    """Join the four options with ``annotations``.

    :raises TypeError, ValueError: if a hint is set twice, or a member of ``annotations`` looks like a misspelt hint.
    """
    annotations = checked_annotations(options.get("annotations"))
    for name, value in annotations.items():
        if name in HINTS and not isinstance(value, bool):
            raise TypeError(f"annotation {name!r} must be True or False, not {value!r}")
        close = difflib.get_close_matches(name.lower().replace("_", ""), [hint.lower() for hint in HINTS], cutoff=0.9)
        if name not in HINTS and close:
            meant = next(hint for hint in HINTS if hint.lower() == close[0])
            raise ValueError(f"annotation {name!r} looks like {meant!r}; correct it")
    for option, hint in HINT_OPTIONS.items():
        value = options.get(option)
        if value is None:
            continue
        if hint in annotations:
            raise ValueError(f"{option}={value!r} and annotation {hint!r} say the same; keep one of them")
        annotations[hint] = checked_flag(option, value)
    return annotations


def _checked_icon(icon: str | Mapping[str, Any]) -> Mapping[str, Any]:
    members = {"src": icon} if isinstance(icon, str) else icon
    if not isinstance(members, Mapping) or not isinstance(members.get("src"), str):
        raise TypeError(f"an icon must be a URL or a dict with 'src', not {icon!r}")
    plain: dict[str, Any] = to_plain(members)
    return plain


def _checked_features(requires: Iterable[str]) -> frozenset[str]:
    features = frozenset([requires] if isinstance(requires, str) else requires)
    if isinstance(requires, str) or not features.issubset(CLIENT_FEATURES):
        raise ValueError(f"requires must be a list of {', '.join(CLIENT_FEATURES)}, not {requires!r}")
    return features


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


class EndpointOptions(TypedDict, total=False):
    """The options of `McpBlueprint.add_openapi` for each tool."""

    access: Iterable[str]
    scopes: Iterable[str]
    timeout: float | None
    rate_limit: str | None


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
        return self.mark is not None or hasattr(self.func, MARK)

    @property
    def read_only(self) -> bool:
        """Whether it is a tool with ``readOnlyHint``."""
        tool = self.tool
        return tool is not None and tool.annotations.get("readOnlyHint") is True

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

        :raises Exception: of any class, if it does not match the output schema or cannot be serialised.
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
    """Build a method, prompt, resource or completer from a function and the options of its decorator.

    :param mark: The mark of a tool, if the decorator makes one.
    :raises TypeError, ValueError: naming the function and the fix.
    """
    with naming(func):
        check_options(kind.kind, options, kind.options)
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
        # A value that cannot be serialised, or a wrong x-mcp-header, must fail now and not when tools are listed.
        if MIRROR_KEYWORD.encode() in write(method.descriptor):
            mirrored = mirrored_arguments(method.params.schema)
            method = replace(method, params=replace(method.params, mirrored=mirrored))
    if inspect.isfunction(func):
        marks.unregistered.discard(func)
    return method
