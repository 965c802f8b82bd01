"""Completers: methods that suggest values for an argument of a prompt or a variable of a resource's URI."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from .calls import Call, Result
from .declarations import naming, spell
from .methods import CommonOptions, Method, check_options, common_members
from .rate_limits import RateLimits
from .schema import Function
from .schema.texts import read_texts
from .strict_json import to_plain

if TYPE_CHECKING:
    from typing_extensions import Unpack


def name_of(completed: str, argument: str) -> str:
    """Name the completer of an argument; a space is in no name of a prompt and in no URI."""
    return f"{completed} {argument}"


class Completer(Method):
    """A method that suggests values. It gets what was typed so far, and the other arguments it has parameters for."""

    @property
    def listed(self) -> bool:
        return True

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        value, others = cast("tuple[str, dict[str, str]]", call.arguments)
        properties = self.params.schema["properties"]
        first = next(iter(properties))
        known = {name: text for name, text in others.items() if name in properties and name != first}
        return self.params.bind(read_texts(self.params.schema, {first: value, **known}))

    def dump(self, returned: Any, call: Call) -> Result:
        suggestions = list(returned) if isinstance(returned, Iterable) and not isinstance(returned, str) else [returned]
        if not all(isinstance(suggestion, str) for suggestion in suggestions):
            raise TypeError("a completer returns a list of texts")
        return Result(to_plain(suggestions))

    def collect(self, items: list[Any]) -> Any:
        return items


def make_completer(
    func: Callable[..., Any],
    completed: Method,
    argument: str,
    rate_limits: RateLimits,
    **options: Unpack[CommonOptions],
) -> Completer:
    """Make the completer of an argument; who may use what it completes may use it too.

    :raises TypeError, ValueError: naming the function, what is wrong with it and the fix.
    """
    with naming(func):
        check_options("completer", options, CommonOptions)
        properties = completed.params.schema["properties"]
        if argument not in properties:
            known = ", ".join(properties) or "none"
            raise ValueError(f"{spell(completed.func)} has no argument {argument!r}; it has {known}")
        name = name_of(completed.name, argument)
        members = common_members(Function(func), name, rate_limits, options)
        completer = Completer(name=name, **{**members, "access": completed.access | members["access"]})
        taken = completer.params.schema
        if not taken["properties"]:
            raise TypeError("a completer takes what was typed so far; give it a parameter: def complete(value: str)")
        for other in list(taken["properties"])[1:]:
            if other in taken.get("required", ()):
                raise TypeError(f"parameter {other!r} may not be known yet; give it a default")
    return completer
