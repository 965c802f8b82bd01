"""Whether a function can take what its ``params=`` lets through, and how it wants it: by name, or in one piece."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from .hints import is_class_hint, is_object_hint
from .reading import Function


def takes_whole(function: Function, names: Iterable[str], *, of_a_class: bool) -> bool:
    """Tell whether the only parameter of a function is meant for all arguments in one piece.

    :param names: What the arguments are called.
    :param of_a_class: They may have been made into an object of some class.
    :raises TypeError: when it looks more like a slip in the parameter's name or hint.
    """
    parameters = function.parameters
    if len(parameters) != 1:
        return False
    [only] = parameters
    if only.name in names or only.default is not only.empty or only.kind in (only.VAR_POSITIONAL, only.VAR_KEYWORD):
        return False
    if only.kind is only.KEYWORD_ONLY:
        raise TypeError(
            f"parameter {only.name!r} is none of params; to take all arguments in one piece, remove the '*'"
        )
    hint = function.hint_of(only.name)
    if hint in (Any, object):
        likely = difflib.get_close_matches(only.name, names, n=1, cutoff=0.8)
        if likely:
            raise TypeError(
                f"parameter {only.name!r} is none of params; did you mean {likely[0]!r}?"
                " To take all arguments in one piece, hint it as dict"
            )
    elif not is_object_hint(hint) and not (of_a_class and is_class_hint(hint)):
        raise TypeError(
            f"parameter {only.name!r} is none of params; give it the name of one,"
            " or hint it as dict to take all arguments in one piece"
        )
    return True


def check_fit(function: Function, taken: Mapping[str, bool], *, passes_unknown: bool) -> None:
    """Check a function that takes its arguments by name.

    :param taken: The names the arguments come under after loading, and whether each is always there.
    :raises TypeError: naming the parameter and the fix.
    """
    check_reserved(function, taken)
    parameters = [p for p in function.parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"parameter {name!r} cannot be given by name; remove the '/'")
        if parameter.default is parameter.empty and not taken.get(name):
            fix = "require it there, or give it a default" if name in taken else "add it there, or give it a default"
            raise TypeError(f"parameter {name!r} may be missing from what params lets through; {fix}")
    if not takes_any_name(function):
        untaken = [name for name in taken if name not in {p.name for p in parameters}]
        if untaken:
            raise TypeError(f"params has {untaken[0]!r}, which the function does not take; add a parameter or **kwargs")
        if passes_unknown:
            raise TypeError("params lets unknown arguments through, which the function does not take; add **kwargs")


def takes_any_name(function: Function) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in function.parameters)


def reserved_names(function: Function) -> frozenset[str]:
    """List the names that would collide in the call itself, such as the ``self`` of a bound method."""
    func = function.func
    while isinstance(func, functools.partial):
        func = func.func
    reserved = set()
    if inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func):
        reserved.add("self")  # of what makes it callable from Flask
    if inspect.isfunction(func):
        return frozenset(reserved)
    called: Callable[..., Any] = func.__func__ if inspect.ismethod(func) else type(func).__call__
    [first, *_] = inspect.signature(called).parameters.values()
    if first.kind is first.POSITIONAL_OR_KEYWORD:
        reserved.add(first.name)
    return frozenset(reserved)


def check_reserved(function: Function, names: Collection[str]) -> None:
    if inspect.isfunction(function.func) and "self" not in names:
        return  # nothing else is taken in the call of a plain function
    for name in reserved_names(function).intersection(names):
        raise TypeError(f"an argument cannot be called {name!r}, which the call itself uses; rename it")
