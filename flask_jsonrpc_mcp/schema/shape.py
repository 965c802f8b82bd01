"""The shape of a value: the JSON Schema that is shown, and the validator made of that very dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jsonschema.protocols import Validator

from ..content import is_content_hint
from ..errors import Problem
from ..strict_json import to_plain
from .hints import HintConverter
from .marshmallow_fields import MarshmallowSpec, as_schema, to_json_schema
from .problems import find_problems
from .quick import Fits, quick_check
from .reading import hint_of, is_generator
from .validator import check_schema, compile_validator

SchemaSpec = MarshmallowSpec | Mapping[str, Any]
"""What ``params=`` and ``output=`` take: a JSON Schema, a marshmallow schema, or a dict of marshmallow fields."""


class ResultError(Exception):
    """What a method returned is not what it declared. The caller never sees why; the log does."""


@dataclass(frozen=True)
class Shape:
    """A JSON Schema that is shown and enforced.

    :param dump: What turns a method's result into the value that is validated and sent.
    :param enforced: Whether results are validated; otherwise the schema is only shown.
    """

    schema: dict[str, Any]
    dump: Callable[[Any], Any] = to_plain
    enforced: bool = True

    # Made when they are first needed: of a thousand methods a process may never run more than a few.
    @cached_property
    def validator(self) -> Validator:
        return compile_validator(self.schema)

    @cached_property
    def fits(self) -> Fits:
        return quick_check(self.schema)

    def problems(self, value: Any) -> list[Problem]:
        try:
            if self.fits(value):
                return []
        except (ValueError, RecursionError, OverflowError):
            pass  # too deep, too large, or of no form in JSON
        return find_problems(self.validator, value)

    def dump_result(self, result: Any) -> Any:
        """Turn a result into plain JSON.

        :raises ResultError: when it breaks the declared schema.
        """
        plain = self.dump(result)
        problems = self.problems(plain) if self.enforced else []
        if problems:
            raise ResultError("the result breaks the output schema: " + "; ".join(map(str, problems)))
        return plain


def compile_output(func: Callable[..., Any], spec: SchemaSpec | None, *, enforced: bool = True) -> Shape | None:
    """Make the shape of what a function gives; ``None`` when nothing is declared.

    :raises TypeError, ValueError: when the declaration cannot be spelled as JSON Schema.
    """
    shape = _declared_shape(func, spec)
    return shape if shape is None or enforced else replace(shape, enforced=False)


def _declared_shape(func: Callable[..., Any], spec: SchemaSpec | None) -> Shape | None:
    if spec is None:
        return _shape_of_return_hint(func)
    schema = as_schema(spec)
    if schema is not None:
        spelled = to_json_schema(schema, output=True)
        dump = schema.dump
        return Shape(spelled, lambda result: to_plain(dump(result)))
    if not isinstance(spec, Mapping):
        raise TypeError("output must be a JSON Schema dict, a marshmallow schema or a dict of marshmallow fields")
    spelled = to_plain(spec)
    check_schema(spelled)
    return Shape(spelled)


def _shape_of_return_hint(func: Callable[..., Any]) -> Shape | None:
    converter = HintConverter(output=True)
    try:
        hint = hint_of(func, "return")
        if is_content_hint(hint):
            return None
        converted = converter.stream(hint, joined=is_generator(func)) or converter.convert(hint)
    except TypeError as error:
        raise TypeError(f"the return hint: {error}; change it, or describe the result with output=") from error
    if not converted.schema:
        return None
    spelled = converter.complete(converted.schema)
    return Shape(spelled)
