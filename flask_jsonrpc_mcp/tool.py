"""`mcp_tool`, and the mark it leaves on a function: what MCP shows of a tool besides its schemas."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, overload
from weakref import WeakSet

from .checks import check_options, checked_annotations, checked_flag, checked_text, name_of, naming
from .strict_json import to_plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])

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
"""The key of ``_meta`` for tools with ``confirm=``, about which a client need not ask by itself."""


@dataclass(frozen=True)
class McpTool:
    """The mark that `mcp_tool` leaves on a function."""

    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    icons: tuple[Mapping[str, Any], ...] = ()
    requires: frozenset[str] = frozenset()
    confirm: str | None = None
    confirm_required: bool = True


class marks:  # noqa: N801 (a namespace)
    """All marks: their count, because cached lists are stale after a new one, and those on unregistered functions."""

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
        braces. MCP clients that cannot ask are refused. By REST, JSON-RPC and without a terminal it runs unasked.
    :param confirm_required: With ``False``, MCP clients that cannot ask run it without the question.
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
        )


def _checked_hints(options: Mapping[str, Any]) -> dict[str, Any]:
    """Join the four options with ``annotations``.

    :raises TypeError, ValueError: if a hint is given twice, or a member of ``annotations`` looks like a misspelt hint.
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
