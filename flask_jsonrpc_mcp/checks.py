"""Check the options of the decorators. Errors are raised at import, and name the function and the fix."""

from __future__ import annotations

import functools
import inspect
import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .strict_json import is_lazy, to_plain

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SCOPE = re.compile(r"[!#-\[\]-~]+")  # RFC 6749, section 3.3


def check_options(kind: str, options: Mapping[str, Any], known: type) -> None:
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"a {kind} has no option {name!r}; it has {', '.join(known.__annotations__)}")


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


def checked_name(func: Callable[..., Any] | None, name: str | None) -> str:
    if name is None and func is not None:
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
    if is_lazy(text):
        return text
    if not isinstance(text, str):
        raise TypeError(f"{role} must be a str, not {type(text).__name__}")
    if text.isprintable():
        return text
    hidden = next((c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t\u200d"), None)
    if hidden is not None:
        raise ValueError(f"{role} has the invisible character U+{ord(hidden):04X}; remove it")
    return text


def checked_permissions(role: str, permissions: Iterable[str], kind: str = "permissions") -> frozenset[str]:
    if isinstance(permissions, str):
        raise TypeError(f"{role} must be a list of {kind}; write {role}=[{permissions!r}]")
    listed = list(permissions) if isinstance(permissions, Iterable) else [None]
    if not all(isinstance(permission, str) and permission for permission in listed):
        raise TypeError(f"{role} must be a list of {kind}, each a non-empty str")
    return frozenset(listed)


def checked_scopes(role: str, scopes: Iterable[str]) -> frozenset[str]:
    checked = checked_permissions(role, scopes, "scopes")
    for scope in sorted(checked):
        if not _SCOPE.fullmatch(scope):
            raise ValueError(f"{role}: {scope!r} cannot be a scope; use ASCII without spaces, quotes and backslashes")
        if scope in ("offline_access", "openid"):
            raise ValueError(f"{role}: a client asks for {scope!r} by itself, and no method needs it; remove it")
    return checked


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
    try:
        return dict(to_plain(annotations))
    except (TypeError, ValueError) as error:
        raise TypeError(f"annotations: {error}") from error


def checked_description(func: Callable[..., Any], description: str | None, name: str) -> str:
    """Return the description, else the docstring, else the name."""
    if description is not None and is_lazy(description):
        return description
    while isinstance(func, functools.partial):
        func = func.func
    return checked_text("description", description or inspect.getdoc(func) or name)


def checked_timeout(timeout: float | None) -> float | None:
    if timeout is not None and (
        not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not 0 < timeout < math.inf
    ):
        raise ValueError(f"timeout must be a number of seconds greater than 0, not {timeout!r}")
    return timeout


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
