"""Read functions, classes and their hints: the parameters, fields and keys they have, what a hint stands for, and the
notes in ``Annotated[...]``: texts, limits and keywords, of annotated_types, of pydantic, or as a dict.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import math
import operator
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from ..errors import InvalidParams
from ..problems import Problem
from ..strict_json import is_lazy, is_named_tuple, to_plain
from .shape import describe_limit

REQUIRED: Any = inspect.Parameter.empty
OPTIONAL: Any = object()
"""The default of a `Member` that may be missing, but has no default or a factory for it."""

# The limits of annotated_types and pydantic: the keyword, and the test of a Python value.
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "ge": ("minimum", operator.ge),
    "gt": ("exclusiveMinimum", operator.gt),
    "le": ("maximum", operator.le),
    "lt": ("exclusiveMaximum", operator.lt),
    "multiple_of": ("multipleOf", lambda value, limit: not value % limit),
    "min_length": ("minLength", lambda value, limit: len(value) >= limit),
    "max_length": ("maxLength", lambda value, limit: len(value) <= limit),
}
_NOUNS = {"string": "Length", "array": "Items", "object": "Properties"}

# Settings of pydantic.Field and StringConstraints that only pydantic itself can apply.
_PYDANTIC_ONLY = ("strip_whitespace", "to_upper", "to_lower", "max_digits", "decimal_places", "discriminator")


class Function:
    """The parameters and hints of a function that is registered as a method.

    :raises TypeError: for an unbound method, and for an async function if asgiref is missing.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.parameters = list(inspect.signature(func).parameters.values())
        self._innermost = innermost(func)
        self.is_generator = inspect.isgeneratorfunction(self._innermost) or inspect.isasyncgenfunction(self._innermost)
        """Whether a call returns a generator, so that its items arrive one by one."""
        while isinstance(func, functools.partial):
            func = func.func
        called = func if inspect.isroutine(func) else type(func).__call__
        self.is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        if self.is_async and importlib.util.find_spec("asgiref") is None:
            raise TypeError("async functions need asgiref; install flask-jsonrpc-mcp[async]")
        if self.parameters and inspect.isfunction(self.func):
            first = self.parameters[0]
            if first.name in ("self", "cls") and first.annotation is first.empty:
                raise TypeError(
                    f"its first parameter is {first.name!r}, which Python fills only on an object;"
                    " register the bound method: rpc.add_tool(obj.method)"
                )

    def hint_of(self, name: str) -> Any:
        """Evaluate the hint of one parameter, or of ``"return"``; ``Any`` if it has none.

        :raises TypeError: if it cannot be evaluated.
        """
        hint = getattr(self._innermost, "__annotations__", {}).get(name, Any)
        try:
            return _evaluate(hint, getattr(self._innermost, "__globals__", {}))
        except (NameError, SyntaxError, TypeError) as error:
            raise _explain(error) from error


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


class Member(NamedTuple):
    """A parameter of a function, a field of a class or a key of a TypedDict."""

    name: str
    hint: Any
    default: Any = REQUIRED


def parameters_as_members(function: Function) -> list[Member]:
    """List the parameters of a function that takes its arguments by name."""
    members = []
    for parameter in function.parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"parameter '{parameter}' cannot be passed by name; declare each parameter by name, or pass params="
            )
        try:
            hint = function.hint_of(parameter.name)
        except TypeError as error:
            raise TypeError(f"parameter {parameter.name!r}: {error}") from error
        members.append(Member(parameter.name, hint, parameter.default))
    return members


def members_of(kind: Any, *, output: bool) -> list[Member] | None:
    """List the parameters that create a dataclass, an attrs class, a NamedTuple or a TypedDict.

    :param output: List the attributes of an instance instead, also computed ones.
    :return: ``None`` for any other class.
    """
    if is_typed_dict(kind):
        # __required_keys__ misses qualifiers in hints that are strings.
        return [
            Member(name, hint, REQUIRED if _is_required(hint, otherwise=name in kind.__required_keys__) else OPTIONAL)
            for name, hint in _hints_of_class(kind).items()
        ]
    fields = _fields_of(kind) if isinstance(kind, type) else None
    if fields is None:
        return None
    hints = _hints_of_class(kind)
    if output:
        return [Member(field.parameter, hints.get(field.name, Any)) for field in fields]
    taken = [field for field in fields if field.in_constructor]
    _check_constructor(kind, {field.parameter for field in taken})
    return [Member(field.parameter, hints.get(field.name, Any), field.default) for field in taken]


def is_typed_dict(kind: Any) -> bool:
    """Recognise a TypedDict, also that of typing_extensions, which `typing.is_typeddict` does not know."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


class _Field(NamedTuple):
    name: str
    parameter: str
    default: Any
    in_constructor: bool = True


def _fields_of(kind: Any) -> list[_Field] | None:
    if dataclasses.is_dataclass(kind):
        return [_Field(field.name, field.name, _default_of(field), field.init) for field in dataclasses.fields(kind)]
    if hasattr(kind, "__attrs_attrs__"):
        from attrs import NOTHING, Factory  # imported already, because there is such a class

        def default_of(default: Any) -> Any:
            if default is NOTHING:
                return REQUIRED
            return OPTIONAL if isinstance(default, Factory) else default  # type: ignore[arg-type]

        return [_Field(each.name, each.alias, default_of(each.default), each.init) for each in kind.__attrs_attrs__]
    if is_named_tuple(kind):
        return [_Field(name, name, kind._field_defaults.get(name, REQUIRED)) for name in kind._fields]
    return None


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return REQUIRED if field.default_factory is dataclasses.MISSING else OPTIONAL


def _is_required(hint: Any, *, otherwise: bool) -> bool:
    qualifier = _qualifier_of(hint)
    if qualifier in ("Required", "NotRequired"):
        return qualifier == "Required"
    is_wrapper = qualifier is not None or get_origin(hint) is Annotated
    return _is_required(get_args(hint)[0], otherwise=otherwise) if is_wrapper else otherwise


def _check_constructor(kind: Any, fields: set[str]) -> None:
    """Reject a class with an InitVar, or with an ``__init__`` whose parameters are not its fields."""
    taken = set(inspect.signature(kind).parameters)
    for name in sorted(taken ^ fields):
        raise TypeError(
            f"{kind.__name__} cannot be created from its fields alone, because of {name!r};"
            " give it an __init__ that takes exactly its fields"
        )


def kind_of(hint: Any) -> Any:
    """Return the class of a hint, without its arguments and notes, or ``Union`` or ``Literal``."""
    hint = unwrap(hint)
    return kind_of(get_args(hint)[0]) if get_origin(hint) is Annotated else get_origin(hint) or hint


def kinds_of(hint: Any) -> list[Any]:
    """List the kinds of the alternatives of a hint."""
    kind = kind_of(hint)
    if kind not in (Union, types.UnionType):
        return [kind]
    inner = unwrap(hint)
    while get_origin(inner) is Annotated:
        inner = unwrap(get_args(inner)[0])
    return [kind for alternative in get_args(inner) for kind in kinds_of(alternative)]


def unwrap(hint: Any) -> Any:
    """Unwrap NewType, ``type X = ...`` and the qualifiers of TypedDict members."""
    while True:
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif _qualifier_of(hint) is not None:
            [hint] = get_args(hint)
        else:
            return hint


def name_of(hint: Any) -> str:
    """Format a hint as in source code."""
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _qualifier_of(hint: Any) -> str | None:
    """Name the TypedDict qualifier around a hint; by name, so that those of typing_extensions count too."""
    name = str(get_origin(hint)).rpartition(".")[2]
    return name if name in ("Required", "NotRequired", "ReadOnly") else None


def _hints_of_class(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise TypeError(f"{kind.__name__}: {_explain(error)}") from error


def _evaluate(hint: Any, names: dict[str, Any]) -> Any:
    if isinstance(hint, str):
        hint = eval(_compile(hint), names)  # noqa: S307 (the developer's own code, as typing evaluates it)
    if type(hint) is type or (type(hint) is types.GenericAlias and all(type(part) is type for part in get_args(hint))):
        return hint  # like most hints, such as int and list[int], it has no string in it to evaluate
    # Not the function itself: for a default of None, Python 3.10 would make `T` into `Optional[T]`, which it cannot
    # do with Annotated[T, {...}] because a dict has no hash.
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    return typing.get_type_hints(holder, names, include_extras=True)["hint"]


@functools.lru_cache(maxsize=1024)
def _compile(hint: str) -> types.CodeType:
    """Compile a hint once: most functions of an app have the same few."""
    return compile(hint, "<hint>", "eval")


def _explain(error: Exception) -> TypeError:
    """Explain why a hint cannot be evaluated."""
    if isinstance(error, NameError):
        return TypeError(f"the hint {error.name!r} is not a name of its module; define it there")
    if isinstance(error, SyntaxError):
        return TypeError(f"the hint is not a Python expression: {error}")
    if "unhashable" in str(error):
        return TypeError(
            "this Python cannot put Annotated[..., {...}] into a union;"
            " write the union inside, as in Annotated[int | None, {...}]"
        )
    return TypeError(str(error))


def is_pydantic_field(note: object) -> bool:
    """Whether this is what ``pydantic.Field()`` returns."""
    # pydantic imports its modules lazily, so pydantic alone may be there.
    fields: Any = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(note, fields.FieldInfo)


def flatten(notes: Iterable[Any]) -> Iterator[Any]:
    """Yield all notes, and those inside of a pydantic Field."""
    for note in notes:
        yield note
        if is_pydantic_field(note):
            yield from note.metadata


def is_left_to_pydantic(note: Any) -> bool:
    """Whether only pydantic can apply a note, such as ``AfterValidator(...)``."""
    return hasattr(note, "__get_pydantic_core_schema__") or any(getattr(note, name, None) for name in _PYDANTIC_ONLY)


def keywords_of(note: Any) -> dict[str, Any]:
    """Return the keywords of a note: a text, a dict, a ``Doc`` or a pydantic Field."""
    if isinstance(note, str) or is_lazy(note):
        return {"description": note}
    if isinstance(note, dict):
        return dict(to_plain(note))
    if is_pydantic_field(note):
        texts = {name: getattr(note, name) for name in ("title", "description", "examples", "deprecated")}
        extra = note.json_schema_extra if isinstance(note.json_schema_extra, dict) else {}
        return dict(to_plain({**{name: text for name, text in texts.items() if text is not None}, **extra}))
    documentation = getattr(note, "documentation", None)
    return {"description": documentation} if isinstance(documentation, str) else {}


def limits_of(note: Any) -> dict[str, Any]:
    """Return the limits of a note of annotated_types or pydantic, by the names in these libraries."""
    limits = {name: getattr(note, name, None) for name in (*_LIMITS, "pattern")}
    return {name: limit for name, limit in limits.items() if limit is not None and not callable(limit)}


def rules_of(limits: dict[str, Any], allowed: Collection[str], *, parsed: bool) -> dict[str, Any]:
    """Convert limits to keywords of JSON Schema.

    :param allowed: The types that the schema allows.
    :param parsed: The Python value is parsed from text, such as a date; limits do not apply to the text.
    :raises TypeError: for a limit that applies to none of these types.
    """
    rules = {}
    for name, limit in limits.items():
        keyword, _ = _LIMITS.get(name, (name, None))
        found: dict[str, Any] = {}
        if keyword == "pattern":
            found = {"pattern": getattr(limit, "pattern", limit)} if "string" in allowed else {}
        elif not keyword.endswith("Length"):
            if {"integer", "number"} & set(allowed) and not (parsed and keyword == "multipleOf"):
                found = {keyword: limit if isinstance(limit, int) else float(limit)}
        elif not parsed:
            found = {keyword.replace("Length", noun): limit for kind, noun in _NOUNS.items() if kind in allowed}
        if not found and not parsed:
            raise TypeError(f"the limit {name}={limit!r} does not fit the type")
        # An infinite limit, such as float(Decimal("1e400")), cannot be serialised, and no JSON number exceeds it.
        rules.update({keyword: rule for keyword, rule in found.items() if rule not in (math.inf, -math.inf)})
    return rules


def check_limits(load: Callable[[Any], Any], limits: dict[str, Any]) -> Callable[[Any], Any]:
    """Wrap a loader to check limits of the Python value, which JSON Schema cannot express."""

    def load_within(value: Any) -> Any:
        loaded = load(value)
        broken = [name for name, limit in limits.items() if name in _LIMITS and not _holds(name, loaded, limit)]
        if broken and loaded is not None:
            messages = [describe_limit(_LIMITS[name][0], to_plain(limits[name])) for name in broken]
            raise InvalidParams([Problem("", message.replace("character", "byte")) for message in messages])
        return loaded

    return load_within


def _holds(name: str, value: Any, limit: Any) -> bool:
    try:
        return bool(_LIMITS[name][1](value, limit))
    except (TypeError, ArithmeticError):  # such as a time with an offset and one without
        return False
