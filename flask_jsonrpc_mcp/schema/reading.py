"""What Python tells of a function or a class: its parameters, and its hints as types rather than as text."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any


class Function:
    """A function while a method is made of it: the parameters that a caller has to fill, and its hints.

    :raises TypeError: for a method that was not bound to its object.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.parameters = list(inspect.signature(func).parameters.values())
        self._described = innermost(func)
        if self.parameters and inspect.isfunction(func):
            first = self.parameters[0]
            if first.name in ("self", "cls") and first.annotation is first.empty:
                raise TypeError(
                    f"its first parameter is {first.name!r}, which Python fills only on an object;"
                    " register the bound method: rpc.add_method(name, obj.method)"
                )

    @property
    def is_generator(self) -> bool:
        """Whether a call gives a generator, so that its items arrive one by one."""
        code = getattr(self._described, "__code__", None)
        return code is not None and bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))

    def hint_of(self, name: str) -> Any:
        """Evaluate the hint of one parameter, or of ``"return"``; ``Any`` when there is none.

        :raises TypeError: when it cannot be evaluated.
        """
        described = self._described
        try:
            hint = getattr(described, "__annotations__", {}).get(name, Any)
            return _evaluated(hint, getattr(described, "__globals__", {}))
        except (NameError, SyntaxError, TypeError) as error:
            raise _explained(error) from error


def hints_of_class(kind: type) -> dict[str, Any]:
    """Evaluate the hints of a class's members.

    :raises TypeError: when one cannot be evaluated.
    """
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise TypeError(f"{kind.__name__}: {_explained(error)}") from error


def innermost(func: Callable[..., Any]) -> Callable[..., Any]:
    """Find the function behind decorators, partials and callable objects, as `inspect.signature` does."""
    while True:
        if isinstance(func, functools.partial):
            func = func.func
        elif hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        elif inspect.isroutine(func):
            return func
        else:
            func = type(func).__call__


def _evaluated(hint: Any, names: dict[str, Any]) -> Any:
    if isinstance(hint, str):
        hint = _read(hint, names)
    if hint is not None and not _has_text(hint):
        return hint
    # Not the function itself: for a default of None, Python 3.10 would make `T` into `Optional[T]`, which it cannot
    # do with Annotated[T, {...}] because a dict has no hash.
    described_alone = types.SimpleNamespace(__annotations__={"hint": hint})
    return typing.get_type_hints(described_alone, names, include_extras=True)["hint"]


def _read(text: str, names: dict[str, Any]) -> Any:
    """Read a hint that is text, as `typing` does, which compiles the same few texts again for each function.

    What is no hint stays text, for `typing` to say what is wrong with it.
    """
    try:
        hint = eval(_compiled(text), names)  # noqa: S307 (the developer's own code)
    except SyntaxError:
        return text
    return hint if hint is None or isinstance(hint, type) or typing.get_origin(hint) is not None else text


def _has_text(hint: Any) -> bool:
    """Tell whether a hint is text, or has some inside that stands for a class, as ``list["Node"]`` has."""
    if type(hint) is type:
        return False
    if isinstance(hint, (str, typing.ForwardRef)):
        return True
    origin = typing.get_origin(hint)
    if origin is None or origin is typing.Literal:
        return False
    inside = typing.get_args(hint)
    return any(map(_has_text, inside[:1] if origin is typing.Annotated else inside))


@functools.lru_cache(maxsize=1024)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "<hint>", "eval")


def _explained(error: Exception) -> TypeError:
    """Say what is wrong with a hint that cannot be evaluated."""
    if isinstance(error, NameError):
        return TypeError(f"the hint {error.name!r} is not a name of its module; define it there")
    if isinstance(error, SyntaxError):
        return TypeError(f"the hint is no hint: {error}")
    if "unhashable" in str(error):
        return TypeError(
            "this Python cannot put Annotated[..., {...}] into a union;"
            " write the union inside, as in Annotated[int | None, {...}]"
        )
    return TypeError(str(error))
