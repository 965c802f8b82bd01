"""Members: the parameters of a function, the fields of a dataclass, the keys of a TypedDict, seen alike."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from .reading import Function, hints_of_class

NO_DEFAULT: Any = inspect.Parameter.empty


class Member(NamedTuple):
    """One member; ``default`` is ``NO_DEFAULT`` when there is none to tell of."""

    name: str
    hint: Any
    required: bool = True
    default: Any = NO_DEFAULT


def parameters_as_members(function: Function) -> list[Member]:
    """List the parameters of a function that takes its arguments by name."""
    members = []
    for parameter in function.parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"parameter '{parameter}' has no name a caller could use;"
                " declare each parameter by name, or pass params="
            )
        try:
            hint = function.hint_of(parameter.name)
        except TypeError as error:
            raise TypeError(f"parameter {parameter.name!r}: {error}") from error
        members.append(Member(parameter.name, hint, parameter.default is NO_DEFAULT, parameter.default))
    return members


def dataclass_members(kind: Any, *, output: bool) -> list[Member]:
    """List what makes a dataclass; as a result every field is there, also those it computes itself."""
    fields = [field for field in dataclasses.fields(kind) if output or field.init]
    if not output:
        _check_constructor(kind, {field.name for field in fields})
    hints = hints_of_class(kind)
    members = []
    for field in fields:
        has_default = field.default is not dataclasses.MISSING
        required = output or not (has_default or field.default_factory is not dataclasses.MISSING)
        default = field.default if has_default and not output else NO_DEFAULT
        members.append(Member(field.name, hints[field.name], required, default))
    return members


def is_typed_dict(kind: Any) -> bool:
    """Recognise a TypedDict, also that of typing_extensions, which `typing.is_typeddict` does not know."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def typed_dict_members(kind: Any) -> list[Member]:
    """List the keys of a TypedDict."""
    members = []
    for name, hint in hints_of_class(kind).items():
        marked = _required_by_mark(hint)
        # The keys as the class knows them say nothing of marks in hints that were text when it was made.
        members.append(Member(name, hint, name in kind.__required_keys__ if marked is None else marked))
    return members


def qualifier_of(hint: Any) -> str | None:
    """Name the TypedDict qualifier around a hint; by name, so that those of typing_extensions count too."""
    name = getattr(get_origin(hint), "_name", None)
    return name if name in ("Required", "NotRequired", "ReadOnly") else None


def _required_by_mark(hint: Any) -> bool | None:
    while True:
        qualifier = qualifier_of(hint)
        if qualifier in ("Required", "NotRequired"):
            return qualifier == "Required"
        if qualifier is None and get_origin(hint) is not Annotated:
            return None
        hint = get_args(hint)[0]


def _check_constructor(kind: Any, fields: set[str]) -> None:
    """Refuse an InitVar, or an ``__init__`` of the class's own that takes something else than its fields."""
    taken = set(inspect.signature(kind).parameters)
    for name in sorted(taken ^ fields):
        raise TypeError(
            f"{kind.__name__} cannot be made from its fields alone, because of {name!r};"
            " give it an __init__ that takes exactly its fields"
        )
