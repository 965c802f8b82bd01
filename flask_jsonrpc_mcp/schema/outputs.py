"""What a method gives: the shape that its ``output=`` or its return hint declares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..content import is_content_hint
from ..strict_json import to_plain
from .hints import HintConverter
from .late import as_marshmallow
from .quick import check_schema
from .reading import Function
from .shape import SchemaSpec, Shape


def compile_output(function: Function, spec: SchemaSpec | None, *, enforced: bool = True) -> Shape | None:
    """Make the shape of what a function gives; ``None`` when nothing is declared.

    :raises TypeError, ValueError: when the declaration cannot be spelled as JSON Schema.
    """
    shape = _declared_shape(function, spec)
    return shape if shape is None or enforced else Shape(shape.schema, shape.dump, enforced=False)


def _declared_shape(function: Function, spec: SchemaSpec | None) -> Shape | None:
    if spec is None:
        return _shape_of_return_hint(function)
    declared = as_marshmallow(spec)
    if declared is not None:
        return Shape(declared.to_json_schema(output=True), declared.dump)
    if not isinstance(spec, Mapping):
        raise TypeError("output must be a JSON Schema dict, a marshmallow schema or a dict of marshmallow fields")
    spelled = to_plain(spec)
    check_schema(spelled)
    return Shape(spelled)


def _shape_of_return_hint(function: Function) -> Shape | None:
    try:
        hint = function.hint_of("return")
        if not _has_hash(hint):
            return _shape_of_hint(hint, function.is_generator)
        return shared_shape(hint, repr(hint), function.is_generator)
    except TypeError as error:
        raise TypeError(f"the return hint: {error}; change it, or describe the result with output=") from error


def _shape_of_hint(hint: Any, joined: bool) -> Shape | None:
    if is_content_hint(hint):
        return None
    converter = HintConverter(output=True)
    converted = converter.stream(hint, joined=joined) or converter.convert(hint)
    return Shape(converter.complete(converted.schema)) if converted.schema else None


@lru_cache(maxsize=1024)
def shared_shape(hint: Any, spelled: str, joined: bool) -> Shape | None:
    """Make one shape, and all that is compiled of it, for all methods that return the same.

    :param spelled: The hint as it is written: equal ones can differ in the order of their alternatives.
    """
    return _shape_of_hint(hint, joined)


def _has_hash(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:  # Annotated[T, {...}]
        return False
    return True
